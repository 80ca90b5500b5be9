"""RESIZE: an image at another resolution, nearest neighbour or bilinear (TOSA 1.0, image)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import I8, I16, I32, I48, Array, DType
from npusim.ops._base import Bound, TypeRow
from npusim.ops._elementwise import AXIS_NAMES
from npusim.ops._movement import Movement, output_axis

CHUNK_ELEMENTS = 1 << 22
"""Elements of one temporary of the bilinear step; it holds four of them, of 8 bytes at most."""


class Sampling(NamedTuple):
    """How one spatial axis is sampled: output index ``o`` looks at input position ``(o * d + offset) / n``."""

    n: int
    d: int
    offset: int
    border: int


@dataclass(frozen=True, slots=True)
class Resize(Movement):
    """Samples an [N, H, W, C] image at the positions ``(o * d + offset) / n`` along H and W, clamped to its edges.

    ``scale`` is [y_n, y_d, x_n, x_d], ``offset`` and ``border`` are [y, x] in units of 1/n input pixel, ``mode`` is
    ``nearest`` (a position half-way rounds up) or ``bilinear`` (the output is the interpolated value times y_n * x_n,
    so that no bit is lost). Output size: ``((size - 1) * n - offset + border) / d + 1``, where the division is exact.
    With n <= 2048, |bilinear| <= 2^7 * 2^22 for i8 and 2^15 * 2^22 for i16: int32 and int48 hold every value.
    """

    scale: tuple[int, ...]
    offset: tuple[int, ...]
    border: tuple[int, ...]
    mode: str

    name = "resize"
    rows = (
        TypeRow((I8,), I8, I8),
        TypeRow((I16,), I16, I16),
        TypeRow((I8,), I32, I32),
        TypeRow((I16,), I48, I48),
    )
    rules = {
        "mode": "mode must be nearest or bilinear",
        "rank": "the input must be [N, H, W, C]",
        "entries": "scale must have 4 entries (y_n, y_d, x_n, x_d), offset and border 2 each (y, x)",
        "scale_positive": "scale must be at least 1",
        "scale_limit": "the numerators of scale must be at most 2048",
        "downscale": "scale must not shrink to a sixteenth or less (d < 16 * n)",
        "offset": "offset must be from -n to 16 * n - 1",
        "border": "border must be from -16 * n to n - 1",
        "exact_size": "(size - 1) * n - offset + border must be a multiple of d and not negative",
        "size_limit": "height and width must be below 16384",
    }

    def select_row(self, dtypes: tuple[DType, ...]) -> TypeRow | None:
        if self.mode not in ("nearest", "bilinear"):
            self.refuse("mode", f"mode {self.mode!r}")
        rows = (r for r in self.rows if r.operands == dtypes)
        return next((r for r in rows if (r.output == dtypes[0]) == (self.mode == "nearest")), None)

    def samplings(self) -> tuple[Sampling, Sampling]:
        """The sampling of H and that of W."""
        (y_n, y_d, x_n, x_d), (y_offset, x_offset), (y_border, x_border) = self.scale, self.offset, self.border
        return Sampling(y_n, y_d, y_offset, y_border), Sampling(x_n, x_d, x_offset, x_border)

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        sizes = operands[0].shape
        if len(sizes) != 4:
            self.refuse("rank", f"input {list(sizes)}")
        if (len(self.scale), len(self.offset), len(self.border)) != (4, 2, 2):
            got = f"scale {list(self.scale)}, offset {list(self.offset)}, border {list(self.border)}"
            self.refuse("entries", got)
        height, width = (self._resized(s, n) for s, n in zip(self.samplings(), sizes[1:3], strict=True))
        if max(*sizes[1:3], height, width) >= 16384:
            self.refuse("size_limit", f"input {list(sizes)} and output {[sizes[0], height, width, sizes[3]]}")
        return sizes[0], height, width, sizes[3]

    def _resized(self, s: Sampling, size: int) -> int:
        """The output size along one axis, all its rules checked."""
        if min(s.n, s.d) < 1:
            self.refuse("scale_positive", f"scale {list(self.scale)}")
        if s.n > 2048:
            self.refuse("scale_limit", f"scale {list(self.scale)}")
        if s.d >= 16 * s.n:
            self.refuse("downscale", f"scale {list(self.scale)}")
        if not -s.n <= s.offset < 16 * s.n:
            self.refuse("offset", f"offset {list(self.offset)} with scale {list(self.scale)}")
        if not -16 * s.n <= s.border < s.n:
            self.refuse("border", f"border {list(self.border)} with scale {list(self.scale)}")
        span = (size - 1) * s.n - s.offset + s.border
        if span < 0 or span % s.d:
            got = f"({size} - 1) * {s.n} - {s.offset} + {s.border} = {span} with d = {s.d}"
            self.refuse("exact_size", f"{got} from scale {list(self.scale)}, offset {list(self.offset)}")
        return span // s.d + 1

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        # The pixel at or before the position and the one after it; either may be the one that clamping takes.
        y, x = (
            Axis(((AXIS_NAMES[k], s.d),), s.offset, divisor=s.n, extra=1)
            for k, s in zip((1, 2), self.samplings(), strict=True)
        )
        return (Access(0, (output_axis(0), y, x, output_axis(3))),)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        image, sizes = operands[0], bound.operands[0].shape
        have = bound.work.reads[0].footprint(bound.work.index, box)
        y, x = self.samplings()
        top, bottom, down = _neighbours(y, sizes[1], box.lo[1], box.hi[1], have.lo[1])
        left, right, across = _neighbours(x, sizes[2], box.lo[2], box.hi[2], have.lo[2])
        if self.mode == "nearest":
            rows, columns = np.where(2 * down >= y.n, bottom, top), np.where(2 * across >= x.n, right, left)
            return image[:, rows[:, None], columns]
        out = np.empty(box.shape, bound.output.dtype.storage)
        down, across = (f.astype(out.dtype)[:, None] for f in (down, across))
        row_elements = image.shape[0] * max(image.shape[2], out.shape[2]) * image.shape[3]
        rows_at_once = max(1, CHUNK_ELEMENTS // row_elements)
        for first in range(0, out.shape[1], rows_at_once):
            r = slice(first, first + rows_at_once)
            f = down[r, None]
            blend = image[:, top[r]] * (y.n - f) + image[:, bottom[r]] * f
            out[:, r] = blend[:, :, left] * (x.n - across) + blend[:, :, right] * across
        return out


def _neighbours(s: Sampling, size: int, lo: int, hi: int, origin: int) -> tuple[Array, Array, Array]:
    """For outputs ``lo..hi-1``: the pixels before and after each position (counted from ``origin``, clamped to the
    image) and how many n-ths the position lies behind the first. Division floors, for negative positions too."""
    index, fraction = np.divmod(np.arange(lo, hi, dtype=np.int64) * s.d + s.offset, s.n)
    return np.maximum(index, 0) - origin, np.minimum(index + 1, size - 1) - origin, fraction

"""Shared parts of the poolings: attributes, rules, iteration space, folding along a window's axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.gemm import BLOCK, blocks
from npusim.numerics.types import Array
from npusim.ops._base import Op
from npusim.ops._sliding import (
    WINDOW_RULES,
    check_at_least,
    check_dialect,
    check_lengths,
    check_ranks,
    reduction,
    window_positions,
)


@dataclass(frozen=True, slots=True)
class Pooling(Op):
    """One number per window and channel of input [N,IH,IW,C]; the output is [N,OH,OW,C].

    ``kernel`` and ``stride`` [y, x], ``pad`` [top, bottom, left, right], each less than the kernel, so that every
    window sees the image. OH = floor((IH + top + bottom - kernel_y) / stride_y) + 1, likewise for x.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]

    operands = ("input",)
    rules: ClassVar = {
        **WINDOW_RULES,
        "kernel_positive": "every kernel size must be at least 1",
        "pad_below_kernel": "every pad must be less than the kernel along its axis",
    }

    def window_shape(self, operands: Sequence[TensorType], dialect: str) -> tuple[int, ...]:
        """The output shape; refuses attributes that break a rule."""
        check_dialect(self, dialect)
        check_ranks(self, operands, ("N H W C",))
        check_lengths(self, {"kernel": (self.kernel, 2), "stride": (self.stride, 2), "pad": (self.pad, 4)})
        check_at_least(self, "kernel_positive", "kernel", self.kernel, 1)
        check_at_least(self, "stride_positive", "stride", self.stride, 1)
        check_at_least(self, "pad_not_negative", "pad", self.pad, 0)
        if any(p >= self.kernel[i // 2] for i, p in enumerate(self.pad)):
            self.refuse("pad_below_kernel", f"pad {list(self.pad)} for kernel {list(self.kernel)}")
        n, *size, c = operands[0].shape
        rows, columns = window_positions(self, dialect, tuple(size), self.kernel, self.pad, self.stride, (1, 1))
        return (n, rows, columns, c)

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        n, oh, ow, c = output.shape
        kernel = (Dim("ky", self.kernel[0], Loop.KERNEL_ROW), Dim("kx", self.kernel[1], Loop.KERNEL_COLUMN))
        dims = (
            Dim("n", n, Loop.BATCH),
            Dim("oy", oh, Loop.ROW),
            Dim("ox", ow, Loop.COLUMN),
            Dim("c", c, Loop.CHANNEL),
            *reduction(kernel, operands),
        )
        rows = Axis((("oy", self.stride[0]), ("ky", 1)), offset=-self.pad[0])
        columns = Axis((("ox", self.stride[1]), ("kx", 1)), offset=-self.pad[2])
        read = Access(0, (along("n"), rows, columns, along("c")))
        write = Access(-1, (along("n"), along("oy"), along("ox"), along("c")))
        return Work(UnitKind.VECTOR, dims, (read,), write)

    def taps_inside(self, axis: int, size: int, box: Box, whole: bool = True) -> Array:
        """Of each output position of ``box`` along spatial ``axis``, how many window taps lie in the image of ``size``.

        Counts the whole kernel, or the box's part of it.
        """
        first, last = (0, self.kernel[axis]) if whole else (box.lo[4 + axis], box.hi[4 + axis])
        start = np.arange(box.lo[1 + axis], box.hi[1 + axis]) * self.stride[axis] - self.pad[2 * axis]
        return np.asarray(np.minimum(start + last, size) - np.maximum(start + first, 0)).clip(0)


def fold_windows(
    fold: np.ufunc,
    x: Array,
    positions: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    kind: np.dtype[np.generic],
) -> Array:
    """``fold`` (commutative, associative: np.add, np.maximum) over the windows of x [N, H, W, C], in ``kind``.

    First along the rows of all windows, then along their columns: KH + KW passes instead of KH * KW. Returns
    [N, *positions, C].
    """
    n, _, width, channels = x.shape
    out = np.empty((n, *positions, channels), kind)
    for batch, rows, some in blocks((n, positions[0], channels), max(1, BLOCK // width)):
        part = x[batch, rows.start * stride[0] :, :, some]
        part = _fold_axis(fold, part, 1, rows.stop - rows.start, kernel[0], stride[0], kind)
        out[batch, rows, :, some] = _fold_axis(fold, part, 2, positions[1], kernel[1], stride[1], kind)
    return out


def _fold_axis(
    fold: np.ufunc, x: Array, axis: int, count: int, kernel: int, stride: int, kind: np.dtype[np.generic]
) -> Array:
    """``fold`` over ``kernel`` neighbours along ``axis``, for ``count`` positions ``stride`` apart; a new array."""
    span = (count - 1) * stride + 1
    before = (slice(None),) * axis
    out = x[(*before, slice(0, span, stride))].astype(kind)
    for k in range(1, kernel):
        fold(out, x[(*before, slice(k, k + span, stride))], out=out)
    return out

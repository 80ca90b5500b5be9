"""AVG_POOL2D: the rounded mean of each window (TOSA 1.0; the draft of 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.gemm import BLOCK, Factor, blocks, contract, magnitude
from npusim.numerics.overflow import Overflow
from npusim.numerics.rounding import apply_clip, apply_scale_32, reciprocal_scale
from npusim.numerics.types import F32, I8, I16, I32, Array
from npusim.ops._base import Bound, TypeRow
from npusim.ops._pooling import Pooling, fold_windows
from npusim.ops._sliding import ZERO_POINT_RULES, check_zero_point, output_index, windows


@dataclass(frozen=True, slots=True)
class AvgPool2d(Pooling):
    """clip(apply_scale_32(sum of (x - input_zp), reciprocal_scale(n)) + output_zp), n the number of taps in the image.

    The effect of the scaling is a division that rounds a half away from zero. Sums are kept in int32, every partial sum
    checked in the order kernel row, kernel column. Floats: sum / n.
    """

    input_zp: int = 0
    output_zp: int = 0
    dialect: str = "tosa"

    name = "avg_pool2d"
    rows = (TypeRow((I8,), I8, I32), TypeRow((I16,), I16, I32), TypeRow((F32,), F32, F32))
    rules: ClassVar = {**Pooling.rules, **ZERO_POINT_RULES}

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        check_zero_point(self, "input_zp", self.input_zp, operands[0].dtype)
        check_zero_point(self, "output_zp", self.output_zp, operands[0].dtype)
        return self.window_shape(operands, self.dialect)

    def outside_value(self, bound: Bound, operand: int) -> int:
        return self.input_zp

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        x, dtype = operands[0], bound.accumulator
        positions, kernel = box.shape[1:3], box.shape[4:]
        taps = Factor.of(x, bound.operands[0].dtype, self.input_zp)
        if not dtype.is_integer:
            return _float_sums(acc, windows(x, positions, kernel, self.stride, (1, 1)))
        rows, columns = (self.taps_inside(i, bound.operands[0].shape[1 + i], box, whole=False).max() for i in (0, 1))
        start = 0 if acc is None else magnitude(acc)
        if start + int(rows * columns) * taps.magnitude > dtype.maximum:
            return self._checked_sums(bound, acc, x, box, overflow)
        # Padding reads as the zero point: raw sums may exceed int32 where the sums less the zero point do not.
        raw = kernel[0] * kernel[1] * taps.magnitude
        kind = np.dtype(np.int32 if raw < 1 << 31 else np.int64)
        sums = fold_windows(np.add, x, positions, kernel, self.stride, kind)
        sums -= kind.type(kernel[0] * kernel[1] * self.input_zp)
        return np.add(sums, 0 if acc is None else acc, dtype=dtype.storage, casting="unsafe")

    def _checked_sums(self, bound: Bound, acc: Array | None, x: Array, box: Box, overflow: Overflow) -> Array:
        """Channel by channel through :func:`contract`, which looks at every partial sum that might overflow."""
        out = np.empty(box.shape[:4], bound.accumulator.storage)
        ones = Factor(np.ones((1, *box.shape[4:]), np.int8), 0, 1)
        taps = windows(x, box.shape[1:3], box.shape[4:], self.stride, (1, 1))
        for c in range(box.shape[3]):
            lo = (*box.lo[:3], box.lo[3] + c, *box.lo[4:])
            locate = output_index(bound, Box(lo, (*box.hi[:3], lo[3] + 1, *box.hi[4:])))
            window = Factor.of(taps[..., c], bound.operands[0].dtype, self.input_zp)
            before = None if acc is None else acc[..., c : c + 1]
            sums = contract(before, window, ones, bound.accumulator, overflow, locate, "pooling sum")
            out[..., c : c + 1] = sums
        return out

    def finish(self, bound: Bound, acc: Array, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        rows, columns = (self.taps_inside(i, bound.operands[0].shape[1 + i], box) for i in (0, 1))
        count = (rows[:, None] * columns)[..., None]
        dtype = bound.output.dtype
        if not dtype.is_integer:
            return np.divide(acc, count.astype(np.float32), dtype=np.float32)
        multiplier, shift = reciprocal_scale(count)
        out = np.empty(acc.shape, dtype.storage)
        for at in blocks(acc.shape, BLOCK):
            here = (*at[1:3], slice(None))
            mean = apply_scale_32(acc[at], multiplier[here], shift[here], False) + self.output_zp
            out[at] = apply_clip(mean, dtype.minimum, dtype.maximum)
        return out


def _float_sums(acc: Array | None, taps: Array) -> Array:
    """``acc`` + the taps [N, OH, OW, KH, KW, C] one after another, as the loops add floats."""
    n, oh, ow, *kernel, c = taps.shape
    out = np.zeros((n, oh, ow, c), np.float32) if acc is None else acc.astype(np.float32)
    for tap in np.ndindex(*kernel):
        out += taps[(slice(None),) * 3 + tap]
    return out

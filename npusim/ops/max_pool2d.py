"""MAX_POOL2D: the largest value of each window (TOSA 1.0; the draft of 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import F32, I8, I16, Array
from npusim.ops._base import Bound, TypeRow
from npusim.ops._pooling import Pooling, fold_windows


@dataclass(frozen=True, slots=True)
class MaxPool2d(Pooling):
    """The maximum over the taps inside the image; padded taps are ignored. Attributes as for every pooling."""

    dialect: str = "tosa"

    name = "max_pool2d"
    rows = (TypeRow((I8,), I8, I8), TypeRow((I16,), I16, I16), TypeRow((F32,), F32, F32))

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        return self.window_shape(operands, self.dialect)

    def outside_value(self, bound: Bound, operand: int) -> int:
        return bound.accumulator.minimum

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        x = operands[0]
        if not bound.accumulator.is_integer:
            x = _without_padding(bound, x, box)
        kind = bound.accumulator.storage
        new = fold_windows(np.maximum, x, box.shape[1:3], box.shape[4:], self.stride, kind)
        return new if acc is None else np.maximum(acc, new)


def _without_padding(bound: Bound, x: Array, box: Box) -> Array:
    """A float footprint with -infinity, which is no integer, for every tap outside the image."""
    footprint = bound.work.reads[0].footprint(bound.work.index, box)
    inside = footprint.clip(bound.operands[0].shape)
    out = np.full(x.shape, -np.inf, x.dtype)
    at = inside.relative_to(footprint.lo).slices
    out[at] = x[at]
    return out

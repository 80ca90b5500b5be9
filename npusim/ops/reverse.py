"""REVERSE: one axis in opposite order (TOSA 1.0, data layout)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._movement import Movement, output_axis


@dataclass(frozen=True, slots=True)
class Reverse(Movement):
    """The input with ``axis`` reversed; 0 <= ``axis`` < rank."""

    axis: int

    name = "reverse"
    rules = {"axis": "axis must name an axis of the input, counted from 0"}

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        self.require_axis(self.axis, operands[0])
        return operands[0].shape

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        sizes = enumerate(operands[0].shape)
        return (Access(0, tuple(output_axis(k, -1, n - 1) if k == self.axis else output_axis(k) for k, n in sizes)),)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        return np.flip(operands[0], self.axis)

"""RESHAPE: the same elements in row-major order under another shape (TOSA 1.0, data layout)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._movement import Movement


@dataclass(frozen=True, slots=True)
class Reshape(Movement):
    """The input under ``new_shape``; every size is written out (there is no -1), ``()`` is a scalar.

    No affine access describes a reshape, so each box reads the whole input; graphs fold reshapes away before mapping.
    """

    new_shape: tuple[int, ...]

    name = "reshape"
    rules = {
        "new_shape_positive": "every size in new_shape must be at least 1 (-1 is not inferred)",
        "same_size": "new_shape must have as many elements as the input",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        if any(n < 1 for n in self.new_shape):
            self.refuse("new_shape_positive", f"new_shape {list(self.new_shape)}")
        size = operands[0].size
        if prod(self.new_shape) != size:
            got = f"new_shape {list(self.new_shape)} ({prod(self.new_shape)} elements)"
            self.refuse("same_size", f"{got} for input {list(operands[0].shape)} ({size} elements)")
        return self.new_shape

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        return (Access(0, tuple(Axis(whole=n) for n in operands[0].shape)),)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        return operands[0].reshape(self.new_shape)[box.slices]

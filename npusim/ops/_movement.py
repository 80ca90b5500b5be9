"""Shared parts of the operators that move elements and compute none: type rows, spaces that are the output."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from npusim.errors import UnpredictableError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, UnitKind, Work, along
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import BOOL, I2, I3, I4, I8, I16, I32, I48, U1, U2, U3, U4, U8, U16, Array
from npusim.ops._base import Bound, Op
from npusim.ops._elementwise import AXIS_NAMES, output_access, output_dims, same_type_rows

MOVED = (BOOL, U1, U2, U3, U4, I2, I3, I4, U8, I8, U16, I16, I32, I48)
"""Element types that can be moved: every integer type and bool."""


class Movement(Op):
    """An operator whose output elements are copies; its iteration space is its output.

    A footprint that already is the output (:class:`Pad`, :class:`Slice`) needs no step of its own.
    """

    operands: ClassVar[tuple[str, ...]] = ("input",)
    rows = same_type_rows(1, *MOVED)

    @abstractmethod
    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        """Which part of each operand an output box needs."""

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        rank = len(output.shape)
        return Work(UnitKind.VECTOR, output_dims(output.shape), self.reads(operands), output_access(rank))

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        return operands[0]

    def require_axes(self, operand: TensorType) -> None:
        """Refuse a tensor of rank 0, by the rule ``rank``."""
        if not operand.shape:
            self.refuse("rank", "input []")

    def require_axis(self, axis: int, operand: TensorType) -> None:
        """Refuse an axis that the operand does not have, by the rule ``axis``."""
        if not 0 <= axis < len(operand.shape):
            self.refuse("axis", f"axis {axis} for input {list(operand.shape)}")


def output_axis(k: int, coefficient: int = 1, offset: int = 0) -> Axis:
    """The operand axis ``offset + coefficient * (index along output axis k)``."""
    return along(AXIS_NAMES[k], coefficient, offset)


def require_indices(where: str, indices: Array, size: int, origin: tuple[int, int]) -> None:
    """UnpredictableError naming the first of ``indices`` outside ``0..size-1``; ``origin`` is that of their tile."""
    bad = (indices < 0) | (indices >= size)
    if bad.any():
        n, w = (int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
        raise UnpredictableError(
            f"{where}: indices must lie in 0..{size - 1}, got {int(indices[n, w])} at index "
            f"{[n + origin[0], w + origin[1]]}; TOSA leaves the result unpredictable"
        )

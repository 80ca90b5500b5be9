"""PAD: a constant around a tensor (TOSA 1.0, data layout)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npusim.ir.tensor import TensorType
from npusim.ir.work import Access
from npusim.ops._base import Bound
from npusim.ops._movement import Movement, output_axis


@dataclass(frozen=True, slots=True)
class Pad(Movement):
    """The input with ``pad_const`` around it.

    ``padding`` is ``[before, after]`` of every axis in turn, all of them 0 or more. ``pad_const`` is a value of the
    input's type (0 or 1 for bool).
    """

    padding: tuple[int, ...]
    pad_const: int

    name = "pad"
    rules = {
        "rank": "the input must have at least one axis",
        "two_entries_an_axis": "padding must have two entries, before and after, per axis of the input",
        "padding": "padding must not be negative",
        "pad_const": "pad_const must be a value of the input's type",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        self.require_axes(operands[0])
        sizes, dtype = operands[0].shape, operands[0].dtype
        if len(self.padding) != 2 * len(sizes):
            self.refuse("two_entries_an_axis", f"padding {list(self.padding)} for input {list(sizes)}")
        if min(self.padding) < 0:
            self.refuse("padding", f"padding {list(self.padding)}")
        if not dtype.minimum <= self.pad_const <= dtype.maximum:
            self.refuse("pad_const", f"pad_const {self.pad_const} for {dtype} ({dtype.minimum}..{dtype.maximum})")
        return tuple(n + sum(self.padding[2 * k : 2 * k + 2]) for k, n in enumerate(sizes))

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        return (Access(0, tuple(output_axis(k, offset=-before) for k, before in enumerate(self.padding[::2]))),)

    def outside_value(self, bound: Bound, operand: int) -> int:
        return self.pad_const

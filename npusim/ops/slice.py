"""SLICE: a box of a tensor (TOSA 1.0, data layout)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npusim.ir.tensor import TensorType
from npusim.ir.work import Access
from npusim.ops._movement import Movement, output_axis


@dataclass(frozen=True, slots=True)
class Slice(Movement):
    """The ``size[k]`` elements from ``start[k]`` on along every axis ``k``; the box lies inside the input."""

    start: tuple[int, ...]
    size: tuple[int, ...]

    name = "slice"
    rules = {
        "rank": "the input must have at least one axis",
        "one_entry_an_axis": "start and size must have one entry per axis of the input",
        "start": "start must not be negative",
        "size": "size must be at least 1",
        "inside": "start + size must not exceed the input",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        self.require_axes(operands[0])
        sizes = operands[0].shape
        got = f"start {list(self.start)}, size {list(self.size)} for input {list(sizes)}"
        if not len(self.start) == len(self.size) == len(sizes):
            self.refuse("one_entry_an_axis", got)
        if min(self.start) < 0:
            self.refuse("start", f"start {list(self.start)}")
        if min(self.size) < 1:
            self.refuse("size", f"size {list(self.size)}")
        if any(a + n > m for a, n, m in zip(self.start, self.size, sizes, strict=True)):
            self.refuse("inside", got)
        return self.size

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        return (Access(0, tuple(output_axis(k, offset=a) for k, a in enumerate(self.start))),)

"""CONCAT: tensors one after the other along an axis (TOSA 1.0, data layout)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array, DType
from npusim.ops._base import Bound, TypeRow
from npusim.ops._movement import Movement, output_axis


@dataclass(frozen=True, slots=True)
class Concat(Movement):
    """One or more inputs of one type, joined along ``axis``; their other sizes agree.

    Each input is read at the output's index less its own start. Of a box that reaches over the end of an input, only
    the part inside counts.
    """

    axis: int

    name = "concat"
    variadic = True
    rules = {
        "axis": "axis must name an axis of the input, counted from 0",
        "same_sizes": "inputs must have the same rank and the same sizes along every axis but the joined one",
    }

    def select_row(self, dtypes: tuple[DType, ...]) -> TypeRow | None:
        row = next((r for r in self.rows if set(r.operands) == set(dtypes)), None)
        return row and TypeRow(dtypes, row.output, row.accumulator)

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        a, first = self.axis, operands[0]
        self.require_axis(a, first)
        for i, t in enumerate(operands):
            others = t.shape[:a] + t.shape[a + 1 :]
            if len(t.shape) != len(first.shape) or others != first.shape[:a] + first.shape[a + 1 :]:
                got = f"input {list(first.shape)}, {self.operand_name(i)} {list(t.shape)}"
                self.refuse("same_sizes", f"{got} with axis {a}")
        return (*first.shape[:a], sum(t.shape[a] for t in operands), *first.shape[a + 1 :])

    def starts(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        """Index along the joined axis at which each input begins, and the end of the last one."""
        return tuple(accumulate((t.shape[self.axis] for t in operands), initial=0))

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        axes = range(len(operands[0].shape))
        starts = self.starts(operands)[:-1]
        return tuple(
            Access(i, tuple(output_axis(k, offset=-start if k == self.axis else 0) for k in axes))
            for i, start in enumerate(starts)
        )

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        out = np.empty(box.shape, bound.output.dtype.storage)
        origin, extent = box.lo[self.axis], box.shape[self.axis]
        for x, (start, end) in zip(operands, pairwise(self.starts(bound.operands)), strict=True):
            own = (slice(None),) * self.axis + (slice(max(start - origin, 0), max(min(end - origin, extent), 0)),)
            out[own] = x[own]
        return out

"""GATHER: rows of a tensor picked by index (TOSA 1.0, scatter and gather)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import I32, Array
from npusim.ops._base import Bound, TypeRow
from npusim.ops._movement import MOVED, Movement, output_axis, require_indices


@dataclass(frozen=True, slots=True)
class Gather(Movement):
    """``output[n, w, c] = values[n, indices[n, w], c]`` for values [N, K, C] and indices [N, W].

    An index outside 0..K-1 is unpredictable and refused.
    """

    name = "gather"
    operands = ("values", "indices")
    rows = tuple(TypeRow((t, I32), t, t) for t in MOVED)
    rules = {
        "ranks": "values must be [N, K, C] and indices [N, W]",
        "same_batch": "values and indices must have the same batch size",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        values, indices = (t.shape for t in operands)
        got = f"values {list(values)}, indices {list(indices)}"
        if len(values) != 3 or len(indices) != 2:
            self.refuse("ranks", got)
        if values[0] != indices[0]:
            self.refuse("same_batch", got)
        return (*indices, values[2])

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        rows = Axis(whole=operands[0].shape[1])
        return (
            Access(0, (output_axis(0), rows, output_axis(2))),
            Access(1, (output_axis(0), output_axis(1))),
        )

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        values, indices = operands
        require_indices(overflow.where or self.name, indices, values.shape[1], (box.lo[0], box.lo[1]))
        return values[np.arange(len(values))[:, None], indices]

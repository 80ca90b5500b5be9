"""SCATTER: rows of a tensor replaced by index (TOSA 1.0, scatter and gather)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.errors import UnpredictableError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import I32, Array
from npusim.ops._base import Bound, TypeRow
from npusim.ops._movement import MOVED, Movement, output_axis, require_indices


@dataclass(frozen=True, slots=True)
class Scatter(Movement):
    """A copy of values_in [N, K, C] in which row ``indices[n, w]`` of batch ``n`` is ``input[n, w]``.

    indices are [N, W], input is [N, W, C]. An index outside 0..K-1, or one that occurs twice in a batch, is
    unpredictable and refused (so W > K always is).
    """

    name = "scatter"
    operands = ("values_in", "indices", "input")
    rows = tuple(TypeRow((t, I32, t), t, t) for t in MOVED)
    rules = {
        "ranks": "values_in must be [N, K, C], indices [N, W] and input [N, W, C]",
        "same_sizes": "values_in, indices and input must agree in N, W and C",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        values, indices, rows = (t.shape for t in operands)
        got = f"values_in {list(values)}, indices {list(indices)}, input {list(rows)}"
        if (len(values), len(indices), len(rows)) != (3, 2, 3):
            self.refuse("ranks", got)
        if rows != (values[0], indices[1], values[2]) or indices[0] != values[0]:
            self.refuse("same_sizes", got)
        return values

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        n, c, w = output_axis(0), output_axis(2), Axis(whole=operands[1].shape[1])
        return Access(0, (n, output_axis(1), c)), Access(1, (n, w)), Access(2, (n, w, c))

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        values, indices, rows = operands
        where = overflow.where or self.name
        require_indices(where, indices, bound.operands[0].shape[1], (box.lo[0], 0))
        _require_distinct(where, indices, box.lo[0])
        n, w = np.nonzero((indices >= box.lo[1]) & (indices < box.hi[1]))
        out = values.copy()
        out[n, indices[n, w] - box.lo[1]] = rows[n, w]
        return out


def _require_distinct(where: str, indices: Array, batch: int) -> None:
    """UnpredictableError naming the first row that occurs twice; ``batch`` is the first one of the tile."""
    ordered = np.sort(indices, axis=1)
    again = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if len(again):
        n, i = (int(v) for v in again[0])
        row = int(ordered[n, i])
        at = np.flatnonzero(indices[n] == row).tolist()
        raise UnpredictableError(
            f"{where}: indices must name a row at most once, got row {row} of batch {n + batch} at {at}; TOSA leaves "
            "the result unpredictable"
        )

"""REDUCE_SUM: sum of int32 elements along one axis (TOSA 1.0, reduction operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.ir.box import Box
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import I32, Array, DType
from npusim.ops._base import Bound
from npusim.ops._elementwise import CHUNK, pieces, same_type_rows
from npusim.ops._reduction import Reduction


@dataclass(frozen=True, slots=True)
class ReduceSum(Reduction):
    """The sum along ``axis``, which stays with size 1.

    Every partial sum, in index order and starting from 0, must fit int32; the overflow policy says what happens if not.
    """

    name = "reduce_sum"
    rows = same_type_rows(1, I32)
    ufunc = np.add

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        (x,) = operands
        dtype = bound.accumulator
        count = x.shape[self.axis]
        low = (0 if acc is None else int(acc.min())) + count * min(int(x.min()), 0)
        high = (0 if acc is None else int(acc.max())) + count * max(int(x.max()), 0)
        if dtype.minimum <= low and high <= dtype.maximum:  # then every partial sum fits
            part = np.sum(x, axis=self.axis, keepdims=True, dtype=dtype.storage)
            return np.asarray(part if acc is None else acc + part)
        lanes = np.moveaxis(x, self.axis, 0)
        out = np.zeros(lanes.shape[1:], np.int64) if acc is None else acc.astype(np.int64).squeeze(self.axis)
        origin = (*box.lo[: self.axis], *box.lo[self.axis + 1 :])
        for piece in pieces(Box.whole(out.shape), CHUNK):
            rows = max(1, CHUNK // piece.size)
            for first in range(0, count, rows):
                terms = lanes[(slice(first, first + rows), *piece.slices)]
                at = tuple(o + p for o, p in zip(origin, piece.lo, strict=True))
                out[piece.slices] = self._add_in_order(out[piece.slices], terms, dtype, overflow, at)
        return np.expand_dims(out, self.axis).astype(dtype.storage)

    def _add_in_order(
        self, start: Array, terms: Array, dtype: DType, overflow: Overflow, origin: tuple[int, ...]
    ) -> Array:
        """``start`` plus the ``terms`` along their first axis, one after the other, under the overflow policy.

        At most CHUNK terms of 32 bits, so that int64 holds every exact partial sum. ``origin`` is the index of
        ``start`` in the output without the reduced axis.
        """
        partial = np.cumsum(terms, axis=0, dtype=np.int64)
        partial += start
        outside = (partial < dtype.minimum) | (partial > dtype.maximum)
        if not outside.any():
            return np.asarray(partial[-1])
        lane = tuple(int(i) for i in np.unravel_index(int(np.argmax(outside.any(axis=0))), start.shape))
        index = [o + i for o, i in zip(origin, lane, strict=True)]
        index.insert(self.axis, 0)
        sums = np.moveaxis(partial, 0, -1)[lane]
        first = int(sums[(sums < dtype.minimum) | (sums > dtype.maximum)][0])
        if overflow.policy == "saturate":
            total, events = start, 0
            for term in terms:
                exact = total + term
                total = np.clip(exact, dtype.minimum, dtype.maximum)
                events += int(np.count_nonzero(total != exact))
        else:
            # Wrapping subtracts a multiple of 2**bits; an event is a sum at which that multiple changes.
            turns = (partial - dtype.minimum) >> dtype.bits
            events = int(np.count_nonzero(np.diff(turns, axis=0, prepend=0)))
            total = partial[-1] - (turns[-1] << dtype.bits)
        overflow.record(events, "partial sum", tuple(index), first, dtype)
        return total

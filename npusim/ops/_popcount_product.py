"""Products of matrices of few-bit numbers on the popcount unit: rules, iteration space, sums by counting ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.overflow import Overflow
from npusim.numerics.planes import Planes, plane_matmul
from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._popcount import PopcountOp
from npusim.ops._thresholds import THRESHOLD_OPERANDS


@dataclass(frozen=True, slots=True, kw_only=True)
class PopcountProduct(PopcountOp):
    """a [M,K] times b [K,N] -> [M,N], or batches of them: [B,M,K] times [B or 1,K,N] -> [B,M,N].

    With ``transpose_b`` b is [N,K] or [B or 1,N,K], so that the elements of a sum lie side by side in memory. The
    output channels of thresholds are the N columns.
    """

    transpose_b: bool = False

    operands = ("a", "b", *THRESHOLD_OPERANDS)
    rules: ClassVar[Mapping[str, str]] = {
        **PopcountOp.rules,
        "rank": "a and b must both be matrices, or both batches of matrices",
        "common_axis": "the common axis of a and b must have one size",
        "batch": "b must have the batch of a, or one matrix for all",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        a, b = operands[0].shape, operands[1].shape
        got = f"a {list(a)}, b {list(b)}"
        if len(a) != len(b) or len(a) not in (2, 3):
            self.refuse("rank", got)
        columns, common = b[-2:] if self.transpose_b else b[:-3:-1]
        if a[-1] != common:
            self.refuse("common_axis", got)
        if b[:-2] not in (a[:-2], (1,)):
            self.refuse("batch", got)
        self.check_sums(operands, columns, common)
        return (*a[:-1], columns)

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        a, b = operands[0].shape, operands[1].shape
        batched = len(a) == 3
        dims = (
            *([Dim("n", a[0], Loop.BATCH)] if batched else []),
            Dim("h", a[-2], Loop.ROW),
            Dim("w", output.shape[-1], Loop.OUT_CHANNEL),
            Dim("c", a[-1], Loop.IN_CHANNEL, reduce=True),
            *self.plane_dims(operands),
        )
        batch = (along("n"),) if batched else ()
        shared = (Axis(),) if batched and b[0] != a[0] else batch
        matrix = (along("w"), along("c")) if self.transpose_b else (along("c"), along("w"))
        reads = (
            Access(0, (*batch, along("h"), along("c"))),
            Access(1, (*shared, *matrix)),
            *self.stage_reads(operands, "w"),
        )
        return Work(UnitKind.POPCOUNT, dims, reads, Access(-1, (*batch, along("h"), along("w"))), macs=True)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        a, b = (self.elements(bound, i, operands[i], box, overflow) for i in (0, 1))
        rows = b if self.transpose_b else np.swapaxes(b, -1, -2)
        x, y = self.encodings([t.dtype for t in bound.operands])
        if a.ndim == 2:
            out = plane_matmul(Planes.of(a, x), Planes.of(rows, y), a.shape[-1])
        else:
            out = np.stack(
                [
                    plane_matmul(Planes.of(m, x), Planes.of(rows[i if len(rows) > 1 else 0], y), a.shape[-1])
                    for i, m in enumerate(a)
                ]
            )
        if acc is not None:
            out += acc
        return out

    def finish(self, bound: Bound, acc: Array, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        return self.finish_sums(bound, acc, operands, acc.ndim - 1, overflow)

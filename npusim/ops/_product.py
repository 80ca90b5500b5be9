"""Shared parts of the products of two activations: rules, iteration space, the sum of products."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.gemm import Factor, contract
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import F32, I8, I16, I32, I48, Array
from npusim.ops._base import Bound, Op, TypeRow
from npusim.ops._sliding import RANK_RULE, ZERO_POINT_RULES, check_ranks, check_zero_point, output_index, reduction


@dataclass(frozen=True, slots=True)
class MatrixProduct(Op):
    """A product of matrices or of batches of them, raw accumulators out; the common axis is added in ascending order.

    The space is batch n (if there is one), row h and column w of the output, and the common axis c.
    """

    a_zp: int = 0
    b_zp: int = 0

    operands = ("a", "b")
    rows = (
        TypeRow((I8, I8), I32, I32),
        TypeRow((I16, I16), I48, I48),
        TypeRow((F32, F32), F32, F32),
    )
    rules: ClassVar = {
        **RANK_RULE,
        **ZERO_POINT_RULES,
        "common_axis": "the common axis of a and b must have one size",
        "batch": "a and b must have the same batch",
    }

    transposed: ClassVar[bool] = False
    """Whether ``b`` has the common axis last."""

    @abstractmethod
    def layouts(self) -> tuple[str, str]:
        """Axis names of a and b; refuses a dialect that does not exist."""

    def batches_match(self, a: int, b: int) -> bool:
        """Whether batches of these sizes can be multiplied."""
        return a == b

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        check_ranks(self, operands, self.layouts())
        a, b = operands
        check_zero_point(self, "a_zp", self.a_zp, a.dtype)
        check_zero_point(self, "b_zp", self.b_zp, b.dtype)
        columns, common = b.shape[-2:] if self.transposed else b.shape[:-3:-1]
        got = f"a {list(a.shape)}, b {list(b.shape)}"
        if a.shape[-1] != common:
            self.refuse("common_axis", got)
        if len(a.shape) == 3 and not self.batches_match(a.shape[0], b.shape[0]):
            self.refuse("batch", got)
        return (*a.shape[:-1], columns)

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        a, b = operands
        batched = len(a.shape) == 3
        dims = (
            *([Dim("n", a.shape[0], Loop.BATCH)] if batched else []),
            Dim("h", output.shape[-2], Loop.ROW),
            Dim("w", output.shape[-1], Loop.OUT_CHANNEL),
            *reduction((Dim("c", a.shape[-1], Loop.IN_CHANNEL),), operands),
        )
        batch = (along("n"),) if batched else ()
        # One matrix b may serve the whole batch of a.
        shared = (Axis(),) if batched and b.shape[0] != a.shape[0] else batch
        matrix = (along("w"), along("c")) if self.transposed else (along("c"), along("w"))
        reads = (Access(0, (*batch, along("h"), along("c"))), Access(1, (*shared, *matrix)))
        return Work(UnitKind.MAC, dims, reads, Access(-1, (*batch, along("h"), along("w"))), macs=True)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        a, b = operands
        columns = b if self.transposed else np.swapaxes(b, -1, -2)
        left, right = bound.operands
        locate = output_index(bound, box)

        def product(acc: Array | None, a: Array, b: Array, batch: tuple[int, ...]) -> Array:
            x, y = Factor.of(a, left.dtype, self.a_zp), Factor.of(b, right.dtype, self.b_zp)
            return contract(acc, x, y, bound.accumulator, overflow, lambda index: locate((*batch, *index)))

        if a.ndim == 2:
            return product(acc, a, columns, ())
        shared = len(b) == 1
        return np.stack(
            [product(None if acc is None else acc[n], a[n], columns[0 if shared else n], (n,)) for n in range(len(a))]
        )

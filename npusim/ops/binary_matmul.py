"""A product of matrices of -1 and +1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from npusim.ir.tensor import TensorType
from npusim.ops._popcount import BinaryOp, type_rows
from npusim.ops._popcount_product import PopcountProduct


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryMatmul(BinaryOp, PopcountProduct):
    """2 P - K per output: P of the K bits of a row of ``a`` and a column of ``b`` agree.

    Bits, or 0 and 1 in a wider type, or what ``binarize`` makes bits of (in both operands, where they are not u1).
    """

    binarize: str = "none"

    name = "binary_matmul"
    weight_types = BinaryOp.input_types
    rows = type_rows(weight_types, weight_types)
    rules: ClassVar[Mapping[str, str]] = {**BinaryOp.rules, **PopcountProduct.rules}

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        self.check_binarize(operands[:2])
        return PopcountProduct.shape(self, operands)

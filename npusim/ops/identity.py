"""IDENTITY: a tensor as it is (TOSA 1.0, data nodes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npusim.ir.tensor import TensorType
from npusim.ir.work import Access
from npusim.ops._movement import Movement, output_axis


@dataclass(frozen=True, slots=True)
class Identity(Movement):
    """The input, unchanged, of any rank."""

    name = "identity"

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        return operands[0].shape

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        return (Access(0, tuple(output_axis(k) for k in range(len(operands[0].shape)))),)

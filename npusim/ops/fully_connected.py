"""FULLY_CONNECTED: a layer of weighted sums (the draft of 2021; TOSA 1.0 writes it as a 1x1 CONV2D)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Dim, Loop, UnitKind, Work, along
from npusim.numerics.gemm import Factor, contract
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._convolution import WeightedOp, bias_access
from npusim.ops._sliding import output_index, reduction


@dataclass(frozen=True, slots=True)
class FullyConnected(WeightedOp):
    """Input [N,IC], weight [OC,IC], bias [OC] or [1] -> the raw accumulators [N,OC], products added by channel."""

    input_zp: int = 0
    weight_zp: int = 0

    name = "fully_connected"

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        self.check_operands(operands, ("N IC", "OC IC", "OC"))
        x, weight, bias = operands
        self.check_bias(bias, weight.shape[0])
        return (x.shape[0], weight.shape[0])

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        x, _, bias = operands
        dims = (
            Dim("n", output.shape[0], Loop.BATCH),
            Dim("oc", output.shape[1], Loop.OUT_CHANNEL),
            *reduction((Dim("ic", x.shape[1], Loop.IN_CHANNEL),), operands),
        )
        reads = (
            Access(0, (along("n"), along("ic"))),
            Access(1, (along("oc"), along("ic"))),
            bias_access(bias, "oc"),
        )
        return Work(UnitKind.MAC, dims, reads, Access(-1, (along("n"), along("oc"))), macs=True)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        left = Factor.of(operands[0], bound.operands[0].dtype, self.input_zp)
        right = Factor.of(operands[1], bound.operands[1].dtype, self.weight_zp)
        return contract(acc, left, right, bound.accumulator, overflow, output_index(bound, box))

"""A fully connected layer of -1 and +1: every output sums over all inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Dim, Loop, UnitKind, Work, along
from npusim.numerics.overflow import Overflow
from npusim.numerics.planes import Planes, plane_matmul
from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._popcount import BIPOLAR, BinaryOp
from npusim.ops._sliding import check_ranks
from npusim.ops._thresholds import THRESHOLD_OPERANDS


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryFullyConnected(BinaryOp):
    """Input [N,C], weight [O,C] -> [N,O]: 2 P - C per output, P of the C bits agree.

    Bits, or 0 and 1 in a wider input, or what ``binarize`` makes bits of; thresholds per output as for every binary
    operator.
    """

    binarize: str = "none"

    name = "binary_fully_connected"
    operands = ("input", "weight", *THRESHOLD_OPERANDS)
    rules: ClassVar[Mapping[str, str]] = {
        **BinaryOp.rules,
        "channels_match": "the weight's input channels must equal the channels of the input",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        check_ranks(self, operands[:2], ("N C", "O C"))
        self.check_binarize(operands[:1])
        x, weight = operands[0].shape, operands[1].shape
        if x[1] != weight[1]:
            self.refuse("channels_match", f"weight {list(weight)} for input {list(x)}")
        self.check_sums(operands, weight[0], x[1])
        return (x[0], weight[0])

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        dims = (
            Dim("n", output.shape[0], Loop.BATCH),
            Dim("oc", output.shape[1], Loop.OUT_CHANNEL),
            Dim("ic", operands[0].shape[1], Loop.IN_CHANNEL, reduce=True),
        )
        reads = (
            Access(0, (along("n"), along("ic"))),
            Access(1, (along("oc"), along("ic"))),
            *self.stage_reads(operands, "oc"),
        )
        return Work(UnitKind.POPCOUNT, dims, reads, Access(-1, (along("n"), along("oc"))), macs=True)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        x, weight = (self.elements(bound, i, operands[i], box, overflow) for i in (0, 1))
        out = plane_matmul(Planes.of(x, BIPOLAR), Planes.of(weight, BIPOLAR), x.shape[1])
        return out if acc is None else np.add(acc, out)

    def finish(self, bound: Bound, acc: Array, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        return self.finish_sums(bound, acc, operands, 1, overflow)

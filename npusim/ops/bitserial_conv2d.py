"""Bit-serial convolution: numbers of 1 to 8 bits, ternary or bipolar ones, multiplied plane by plane on single bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from npusim.ir.tensor import TensorType
from npusim.ops._popcount import BitserialOp
from npusim.ops._popcount_convolution import PADS, PopcountConvolution


@dataclass(frozen=True, slots=True, kw_only=True)
class BitserialConv2d(BitserialOp, PopcountConvolution):
    """Exact sums of products of input and weight, from ones counted in pairs of bit planes (BISMO, arXiv:1806.08862).

    Encodings, output types and thresholds as for every bit-serial operator, geometry and layouts as for every
    convolution of the popcount unit. ``pad_value`` is the number that padding stands for.
    """

    input_kind: str = "integer"
    weight_kind: str = "integer"
    input_bits: int | None = None
    weight_bits: int | None = None

    name = "bitserial_conv2d"
    rules: ClassVar[Mapping[str, str]] = {
        **PopcountConvolution.rules,
        **BitserialOp.rules,
        "pad_range": "pad_value must be a number of the input's kind and bits",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        shape = PopcountConvolution.shape(self, operands)
        encoding, _ = self.encodings([t.dtype for t in operands])
        low, high = encoding.range
        if not low <= PADS[self.pad_value] <= high:
            self.refuse("pad_range", f"pad_value {self.pad_value} for numbers in {low}..{high}")
        return shape

    def padding_element(self) -> int:
        number = PADS[self.pad_value]
        return max(0, number) if self.input_kind == "bipolar" else number

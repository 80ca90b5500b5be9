"""Binary convolution: sums of products of -1 and +1 (OpenVINO, BinaryConvolution-1, its holes closed)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from npusim.ir.tensor import TensorType
from npusim.ops._popcount import BinaryOp
from npusim.ops._popcount_convolution import PopcountConvolution


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryConv2d(BinaryOp, PopcountConvolution):
    """Y = 2 P - B per output: P of the B bits that count agree; all taps count, or with pad ``zero`` those inside.

    Input bits (or 0 and 1 in a wider type, or what ``binarize`` makes bits of) and u1 weights stand for -1 and +1;
    geometry and layouts as for every convolution of the popcount unit. Writes the sums, or through thresholds per
    output channel bits or numbers of a few bits. ``mode`` is xnor-popcount, the only one there is.
    """

    binarize: str = "none"
    mode: str = "xnor-popcount"

    name = "binary_conv2d"
    rules: ClassVar[Mapping[str, str]] = {
        **PopcountConvolution.rules,
        **BinaryOp.rules,
        "mode": "mode must be xnor-popcount",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        if self.mode != "xnor-popcount":
            self.refuse("mode", f"mode {self.mode!r}")
        self.check_binarize(operands[:1])
        return PopcountConvolution.shape(self, operands)

    def padding_element(self) -> int:
        return self.unbinarized(1 if self.pad_value == "plus_one" else 0)

"""CONV2D: two-dimensional convolution (TOSA 1.0; the draft of 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from npusim.ops._convolution import DenseConvolution


@dataclass(frozen=True, slots=True)
class Conv2d(DenseConvolution):
    """Input [N,IH,IW,IC], weight [OC,KH,KW,IC], bias [OC] or [1] -> the raw accumulators [N,OH,OW,OC].

    ``pad`` [top, bottom, left, right], ``stride`` and ``dilation`` [y, x]. OH = floor((IH - 1 + top + bottom -
    (KH - 1) * dilation_y) / stride_y) + 1, and likewise for x. The products of one output are added in the order of
    kernel row, kernel column, channel; then the bias.
    """

    name = "conv2d"

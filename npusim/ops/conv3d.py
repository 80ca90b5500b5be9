"""CONV3D: three-dimensional convolution (TOSA 1.0; the draft of 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from npusim.ops._convolution import DenseConvolution


@dataclass(frozen=True, slots=True)
class Conv3d(DenseConvolution):
    """Input [N,ID,IH,IW,IC], weight [OC,KD,KH,KW,IC], bias [OC] or [1] -> the raw accumulators [N,OD,OH,OW,OC].

    ``pad`` [front, back, top, bottom, left, right], ``stride`` and ``dilation`` [d, y, x]; sizes as for CONV2D.
    """

    name = "conv3d"
    spatial = "dyx"
    layouts = ("N D H W C", "OC KD KH KW IC", "OC")

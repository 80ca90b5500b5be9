"""A small convolution chain and a chip that must tile it: fixed material for mutation and timing tests."""

from __future__ import annotations

import dataclasses

import numpy as np

from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I32
from npusim.ops import op_class


def convolution_chain(seed: int, layers: int = 2, size: int = 12, channels: int = 16) -> Graph:
    """``layers`` 3x3 convolutions with rescales on a [1, size, size, channels] int8 image."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder("chain")
    b.input("x", TensorType((1, size, size, channels), I8))
    v, c = "x", channels
    for i in range(layers):
        b.constant(f"w{i}", TensorType((c, 3, 3, c), I8), rng.integers(-128, 128, (c, 3, 3, c), np.int8))
        b.constant(f"b{i}", TensorType((c,), I32), rng.integers(-1000, 1000, (c,), np.int32))
        b.constant(f"m{i}", TensorType((c,), I32), rng.integers(2**30, 2**31 - 1, (c,), np.int32))
        b.constant(f"s{i}", TensorType((c,), I8), np.full((c,), 41, np.int8))
        convolution = op_class("conv2d")(pad=(1, 1, 1, 1), stride=(1, 1), dilation=(1, 1), input_zp=3, weight_zp=0)
        rescale = op_class("rescale")(
            scale32=True, rounding="double", per_channel=True, input_unsigned=False, output_unsigned=False, input_zp=0,
            output_zp=3, out_type="i8",
        )  # fmt: skip
        b.node(f"conv{i}", convolution, (v, f"w{i}", f"b{i}"), f"c{i}")
        b.node(f"rescale{i}", rescale, (f"c{i}", f"m{i}", f"s{i}"), f"y{i}")
        v = f"y{i}"
    return b.finish((v,))


def small_chip(sram_bytes: int = 4096) -> Chip:
    """``micro`` with an SRAM that forces tiles."""
    base = load_chip("micro", [])
    return dataclasses.replace(base, sram=dataclasses.replace(base.sram, size_bytes=sram_bytes))

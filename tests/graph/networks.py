"""A short way to write graphs in tests: every call appends one operator and returns the value it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from npusim.graph import Graph, GraphBuilder
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I32, Array, DType
from npusim.ops import make_op


class Network:
    """A graph being written. The value that a node makes bears the node's name."""

    def __init__(self) -> None:
        self.builder = GraphBuilder("net")
        self.rng = np.random.default_rng(1)
        self.constants = 0

    def input(self, value: str, *shape: int, dtype: DType = I8) -> str:
        self.builder.input(value, TensorType(shape, dtype))
        return value

    def constant(self, *shape: int, dtype: DType = I8, lo: int = -50, hi: int = 50) -> str:
        """A constant of random values in ``lo..hi``, under a name of its own (``k1``, ``k2``, ...)."""
        self.constants += 1
        value = f"k{self.constants}"
        array = self.rng.integers(lo, hi, shape, dtype.storage, endpoint=True)
        self.builder.constant(value, TensorType(shape, dtype), np.asarray(array))
        return value

    def apply(self, node: str, op: str, *inputs: str, **attributes: Any) -> str:
        self.builder.node(node, make_op(op, attributes), inputs, node)
        assert not self.builder.problems, self.builder.problems
        return node

    def shape(self, value: str) -> tuple[int, ...]:
        tensor = self.builder.type_of(value)
        assert tensor is not None
        return tensor.shape

    def conv(self, node: str, x: str, channels: int = 4, kernel: int = 1) -> str:
        """A convolution with padding that keeps the image's size (``kernel`` is odd): int8 to int32."""
        weight = self.constant(channels, kernel, kernel, self.shape(x)[-1])
        bias = self.constant(channels, dtype=I32)
        pad = (kernel // 2,) * 4
        return self.apply(node, "conv2d", x, weight, bias, pad=pad, stride=(1, 1), dilation=(1, 1), input_zp=3)

    def rescale(self, node: str, x: str, to: str = "i8", per_channel: bool = False) -> str:
        """A rescale of ``x`` by about 1/64, or by 64 where it widens to int32."""
        size = self.shape(x)[-1] if per_channel else 1
        shift = 24 if to == "i32" else 36
        multiplier = self.constant(size, dtype=I32, lo=1 << 30, hi=1 << 30)
        shifts = self.constant(size, lo=shift, hi=shift)
        return self.apply(
            node, "rescale", x, multiplier, shifts, scale32=True, rounding="single", per_channel=per_channel,
            input_unsigned=False, output_unsigned=False, out_type=to,
        )  # fmt: skip

    def clamp(self, node: str, x: str) -> str:
        return self.apply(node, "clamp", x, min_val=-90, max_val=80)

    def table(self, node: str, x: str) -> str:
        return self.apply(node, "table", x, self.constant(256))

    def finish(self, *outputs: str) -> Graph:
        return self.builder.finish(outputs)


def random_inputs(types: Mapping[str, TensorType], values: tuple[str, ...], seed: int = 0) -> dict[str, Array]:
    """An array for each of ``values``, over the full range of 8-bit types and -1000..1000 of wider ones."""
    rng = np.random.default_rng(seed)
    found = {}
    for v in values:
        dtype = types[v].dtype
        lo, hi = max(dtype.minimum, -1000), min(dtype.maximum, 1000)
        found[v] = np.asarray(rng.integers(lo, hi, types[v].shape, dtype.storage, endpoint=True))
    return found

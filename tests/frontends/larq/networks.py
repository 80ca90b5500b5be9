"""Small Larq networks for the tests, with what Larq's operators make of their constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.numerics.types import Array
from tests.frontends.larq.files import (
    POOL,
    RELU,
    SAME,
    VALID,
    Network,
    bipolar,
    convolution_options,
    packed,
    sums,
    windows,
)

F = np.float32

ONE, ZERO = np.ones(8, F), np.zeros(8, F)
SHAPE = (1, 4, 4, 8)


def larq_bits(x: Array, weight: Array, thresholds: Array, **geometry: Any) -> Array:
    """LceBconv2d as its kernels do it: -1 where more bits differ than the threshold says."""
    different = (weight[0].size - sums(x, weight, **geometry)) // 2
    return np.where(different > thresholds, -1, 1)


def two_layers(rng: np.random.Generator, channels: int, middle: int, **geometry: Any) -> tuple[Network, Array, Any]:
    """Float input, signs, a layer to bits, pooling, a layer to floats with activation; its constants."""
    net = Network()
    w1, w2 = bipolar(rng, middle, 3, 2, channels), bipolar(rng, 5, 2, 2, middle)
    length = w1[0].size
    thresholds = rng.integers(length // 2 - 4, length // 2 + 4, middle).astype(np.int32)
    thresholds[:2] = [-(2**31), 2**31 - 1]  # a channel that is always -1, one that is always +1
    multiplier, bias = rng.normal(size=5).astype(F), rng.normal(size=5).astype(F)
    x = net.quantize(net.given("x", (2, 9, 8, channels)), "bits")
    parts = [net.constant("w1", packed(w1)), None, None, net.constant("t", thresholds)]
    stride, dilation = geometry.get("stride", (1, 1)), geometry.get("dilation", (1, 1))
    options = convolution_options(
        channels,
        stride_height=stride[0],
        stride_width=stride[1],
        dilation_height_factor=dilation[0],
        dilation_width_factor=dilation[1],
        padding=SAME if geometry.get("same", True) else VALID,
    )
    words = -(-middle // 32)
    first = sums(np.ones((2, 9, 8, channels), int), w1, **geometry).shape
    net.operator("LceBconv2d", [x, *parts], "b1", (*first[:3], words), "INT32", **options)
    pooled = (2, first[1] // 2, first[2] // 2, words)
    net.operator("LceBMaxPool2d", ["b1"], "b2", pooled, "INT32", **POOL)
    parts = [net.constant("w2", packed(w2)), net.constant("m", multiplier), net.constant("b", bias), None]
    options = convolution_options(middle, padding=SAME, pad_values=1, fused_activation_function=RELU)
    net.outputs = [net.operator("LceBconv2d", ["b2", *parts], "y", (*pooled[:3], 5), **options)]

    def expected(x: Array) -> tuple[Array, Array, Array]:
        bits = larq_bits(np.where(x < 0, -1, 1), w1, thresholds, **geometry)
        bits = windows(bits, (2, 2), (2, 2), (1, 1), False, 0).max((3, 4))
        y = sums(bits, w2)
        return bits, y, np.maximum(y, 0).astype(F) * multiplier + bias

    return net, rng.normal(size=(2, 9, 8, channels)).astype(F), expected


def scaled_layer(
    net: Network, rng: np.random.Generator, multiplier: Array, bias: Array, **others: Any
) -> tuple[str, Array]:
    """Float input of 20 channels, signs and a layer with float output ``y``; its weight."""
    if "bits" not in net.tensors:
        net.quantize(net.given("x", (1, 4, 4, 20)), "bits")
    weight = bipolar(rng, len(multiplier), 3, 3, 20)
    parts = [net.constant("w", packed(weight)), net.constant("m", multiplier), net.constant("b", bias)]
    shape = (1, 4, 4, len(multiplier))
    return net.operator("LceBconv2d", ["bits", *parts, None], "y", shape, **convolution_options(20, **others)), weight


def last_layer(net: Network, bits: str, shape: tuple[int, ...], output: str = "z") -> None:
    """One more layer, to floats that are its sums: the sum of the signs of a pixel."""
    parts = [
        net.constant(f"{output}.w", packed(np.ones((1, 1, 1, shape[-1]), int))),
        net.constant(f"{output}.m", np.ones(1, F)),
        net.constant(f"{output}.b", np.zeros(1, F)),
    ]
    options = convolution_options(shape[-1])
    net.outputs.append(net.operator("LceBconv2d", [bits, *parts], output, (*shape[:3], 1), **options))


def layers(multiplier: Array = ONE, bias: Array = ZERO, **others: Any) -> Network:
    """Signs, a layer to floats ``y``, their signs, a last layer."""
    net = Network()
    y, _ = scaled_layer(net, np.random.default_rng(1), multiplier, bias, **others)
    net.quantize(y, "b2")
    last_layer(net, "b2", SHAPE)
    return net

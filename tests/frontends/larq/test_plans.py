"""Builtin float operators on the host against plain loops in float64, their shapes, and every refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the optional package tflite is not installed")

from npusim.errors import InvalidGraphError
from npusim.frontends.larq.plans import plan
from npusim.frontends.larq.reader import read_larq
from npusim.numerics.types import Array
from tests.frontends.larq.files import NONE, RELU, RELU6, RELU_N1_TO_1, SAME, TANH, VALID, Network, windows

F = np.float32


def host(
    kind: str, x: Array, constants: list[Array | None], shape: tuple[int, ...], first: bool = False, **options: Any
) -> Array:
    """The operator on ``x`` (and constants behind it, or with ``first`` before it) through a file."""
    net = Network()
    read: list[str | None] = [net.given("x", x.shape)]
    given = [None if c is None else net.constant(f"c{i}", c) for i, c in enumerate(constants)]
    net.operator(kind, [*given, *read] if first else [*read, *given], "y", shape, **options)
    file = read_larq(net.data(), "net.tflite")
    found = plan(file.operators[0], file.tensors)
    y = found.function(*(x for _ in found.inputs))
    assert y.shape == found.shape == shape
    assert y.dtype == np.float32
    return y


def numbers(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(F)


def close(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * max(1.0, float(abs(wanted).max())))


WINDOWS = [
    (SAME, (1, 1), (1, 1), (1, 6, 5)),
    (SAME, (2, 3), (1, 1), (2, 7, 8)),
    (VALID, (2, 1), (1, 2), (1, 7, 9)),
    (SAME, (1, 2), (2, 1), (1, 5, 6)),
]


@pytest.mark.parametrize(("padding", "stride", "dilation", "size"), WINDOWS)
@pytest.mark.parametrize("activation", [NONE, RELU6])
def test_convolutions(
    padding: int, stride: tuple[int, int], dilation: tuple[int, int], size: tuple[int, ...], activation: int
) -> None:
    rng = np.random.default_rng(3)
    x, weight, bias = numbers(rng, *size, 3), numbers(rng, 4, 3, 2, 3), numbers(rng, 4)
    options = {
        "Padding": padding,
        "StrideH": stride[0],
        "StrideW": stride[1],
        "DilationHFactor": dilation[0],
        "DilationWFactor": dilation[1],
        "FusedActivationFunction": activation,
    }
    taps = windows(x.astype(float), (3, 2), stride, dilation, padding == SAME, 0)
    wanted = np.einsum("nyxijc,oijc->nyxo", taps, weight.astype(float)) + bias
    clip = (0, 6) if activation else (-np.inf, np.inf)
    close(host("CONV_2D", x, [weight, bias], wanted.shape, **options), wanted.clip(*clip))
    close(host("CONV_2D", x, [weight, None], wanted.shape, **options), (wanted - bias).clip(*clip))

    depth, shift = numbers(rng, 1, 3, 2, 6), numbers(rng, 6)
    wanted = np.stack([np.einsum("nyxij,ij->nyx", taps[..., o // 2], depth[0, :, :, o]) for o in range(6)], -1) + shift
    found = host("DEPTHWISE_CONV_2D", x, [depth, shift], wanted.shape, DepthMultiplier=2, **options)
    close(found, wanted.clip(*clip))


@pytest.mark.parametrize(("padding", "stride", "dilation", "size"), WINDOWS)
def test_pools(padding: int, stride: tuple[int, int], dilation: tuple[int, int], size: tuple[int, ...]) -> None:
    x = numbers(np.random.default_rng(4), *size, 3) - 3  # below 0: padding of 0 would be the largest
    options = {"Padding": padding, "StrideH": stride[0], "StrideW": stride[1], "FilterHeight": 3, "FilterWidth": 2}
    taps = windows(x.astype(float), (3, 2), stride, (1, 1), padding == SAME, np.nan)
    largest = np.nanmax(taps, (3, 4))
    np.testing.assert_array_equal(host("MAX_POOL_2D", x, [], largest.shape, **options), largest.astype(F))
    close(host("AVERAGE_POOL_2D", x, [], largest.shape, **options), np.nanmean(taps, (3, 4)))


def test_elementwise_operators() -> None:
    rng = np.random.default_rng(5)
    x, c = numbers(rng, 2, 3, 4), numbers(rng, 3, 1)
    np.testing.assert_array_equal(host("ADD", x, [c], x.shape), x + c)
    np.testing.assert_array_equal(host("MUL", x, [c], x.shape, FusedActivationFunction=RELU), np.maximum(x * c, 0))
    np.testing.assert_array_equal(host("SUB", x, [c], x.shape), x - c)
    np.testing.assert_array_equal(host("SUB", x, [c], x.shape, first=True), c - x)
    np.testing.assert_array_equal(host("RELU", x, [], x.shape), np.maximum(x, 0))
    np.testing.assert_array_equal(host("RELU6", 9 * x, [], x.shape), np.clip(9 * x, F(0), F(6)))
    fused = host("ADD", x, [c], x.shape, FusedActivationFunction=RELU_N1_TO_1)
    np.testing.assert_array_equal(fused, np.clip(x + c, F(-1), F(1)))
    net = Network(tensors={})
    net.given("x", (2,))
    net.operator("MUL", ["x", "x"], "y", (2,))
    file = read_larq(net.data(), "net.tflite")
    found = plan(file.operators[0], file.tensors)
    assert found.inputs == ("x", "x")
    np.testing.assert_array_equal(found.function(F([2, 3]), F([5, 7])), F([10, 21]))


def test_operators_of_the_tail() -> None:
    rng = np.random.default_rng(6)
    x = numbers(rng, 2, 3, 4)
    close(host("MEAN", x, [np.array([1, -1], np.int32)], (2,)), x.astype(float).mean((1, 2)))
    close(host("MEAN", x, [np.array(1, np.int32)], (2, 1, 4), KeepDims=True), x.astype(float).mean(1, keepdims=True))
    weight, bias = numbers(rng, 5, 4), numbers(rng, 5)
    wanted = x.astype(float) @ weight.T + bias
    close(host("FULLY_CONNECTED", x, [weight, bias], (6, 5)), wanted.reshape(6, 5))
    relu = host("FULLY_CONNECTED", x, [weight], (2, 3, 5), KeepNumDims=True, FusedActivationFunction=RELU)
    close(relu, np.maximum(wanted - bias, 0))
    powers = np.exp(0.5 * x.astype(float))
    close(host("SOFTMAX", x, [], x.shape, Beta=0.5), powers / powers.sum(-1, keepdims=True))
    close(host("SOFTMAX", 1000 * x, [], x.shape, Beta=1.0).sum(-1), np.ones((2, 3)))
    np.testing.assert_array_equal(host("RESHAPE", x, [np.array([-1, 2], np.int32)], (12, 2)), x.reshape(12, 2))
    np.testing.assert_array_equal(host("RESHAPE", x, [], (4, 6), NewShape=(4, -1)), x.reshape(4, 6))
    around = np.array([[0, 0], [1, 2], [3, 0]], np.int32)
    np.testing.assert_array_equal(host("PAD", x, [around], (2, 6, 7)), np.pad(x, around))


W = np.zeros((2, 1, 1, 3), F)
WINDOW: Mapping[str, Any] = {"StrideH": 1, "StrideW": 1}
AXES = np.array([1], np.int32)

REFUSED: dict[str, tuple[str, tuple[int, ...], list[Array | None], tuple[int, ...], dict[str, Any]]] = {
    r"gives shape \[1, 4, 4, 2\], the file declares \[1, 4, 4, 3\]": (
        "CONV_2D",
        (1, 4, 4, 3),
        [W],
        (1, 4, 4, 3),
        {**WINDOW},
    ),
    r"input 'x' has shape \[4, 3\]; it must have rank 4": ("CONV_2D", (4, 3), [W], (4, 2), {**WINDOW}),
    r"constant 'c0' has shape \[2, 1, 1, 3\]; it must be \['any', 'any', 'any', 4\]": (
        "CONV_2D",
        (1, 4, 4, 4),
        [W],
        (1, 4, 4, 2),
        {**WINDOW},
    ),
    r"constant 'c1' has shape \[3\]; it must be \[2\]": (
        "CONV_2D",
        (1, 4, 4, 3),
        [W, np.zeros(3, F)],
        (1, 4, 4, 2),
        {**WINDOW},
    ),
    r"input 1 must be a constant of FLOAT32, got none": ("CONV_2D", (1, 4, 4, 3), [None], (1, 4, 4, 2), {**WINDOW}),
    r"input 1 must be a constant of FLOAT32, got 'c0'": (
        "CONV_2D",
        (1, 4, 4, 3),
        [W.astype(np.int32)],
        (1, 4, 4, 2),
        {**WINDOW},
    ),
    r"has 1 inputs, which are too few": ("CONV_2D", (1, 4, 4, 3), [], (1, 4, 4, 2), {**WINDOW}),
    r"stride \(0, 1\) and dilation \(1, 1\) must be at least 1": (
        "CONV_2D",
        (1, 4, 4, 3),
        [W],
        (1, 4, 4, 2),
        {"StrideW": 1},
    ),
    r"padding number 5; it must be SAME or VALID": (
        "CONV_2D",
        (1, 4, 4, 3),
        [W],
        (1, 4, 4, 2),
        {"Padding": 5, **WINDOW},
    ),
    r"fused activation TANH; npusim has NONE, RELU": (
        "CONV_2D",
        (1, 4, 4, 3),
        [W],
        (1, 4, 4, 2),
        {"FusedActivationFunction": TANH, **WINDOW},
    ),
    r"a window of \[9, 1\] does not fit the image of \[4, 4\]": (
        "MAX_POOL_2D",
        (1, 4, 4, 3),
        [],
        (1, 1, 4, 3),
        {"FilterHeight": 9, "FilterWidth": 1, "Padding": VALID, **WINDOW},
    ),
    r"has 5 filters for 3 channels; they must be a multiple": (
        "DEPTHWISE_CONV_2D",
        (1, 4, 4, 3),
        [np.zeros((1, 1, 1, 5), F)],
        (1, 4, 4, 5),
        {**WINDOW},
    ),
    r"has shuffled weights": ("FULLY_CONNECTED", (2, 3), [np.zeros((4, 3), F)], (2, 4), {"WeightsFormat": 1}),
    r"has 5 weights an output for input \[2, 3\]": ("FULLY_CONNECTED", (2, 3), [np.zeros((4, 5), F)], (2, 4), {}),
    r"has axes \[2\] for shape \[2, 3\]": ("MEAN", (2, 3), [2 * AXES], (2,), {}),
    r"input 1 must be a constant of INT32, got 'c0'": ("MEAN", (2, 3), [np.ones(1, F)], (2,), {}),
    r"shapes \[2, 3\] and \[4\] do not go together": ("ADD", (2, 3), [np.ones(4, F)], (2, 3), {}),
    r"must have two operands, one of them computed at least": ("ADD", (2, 3), [None], (2, 3), {}),
    r"has shape \[4, 2\] for input \[2, 3\]": ("RESHAPE", (2, 3), [np.array([4, 2], np.int32)], (4, 2), {}),
    r"has shape \[3, 1\] for input \[2, 3\]": ("RESHAPE", (2, 3), [np.array([3, 1], np.int32)], (3, 1), {}),
    r"has shape \[-1, -1\] for input \[2, 3\]": ("RESHAPE", (2, 3), [np.array([-1, -1], np.int32)], (2, 3), {}),
    r"has paddings \(\(0, 0\), \(-1, 0\)\); they must not be negative": (
        "PAD",
        (2, 3),
        [np.array([[0, 0], [-1, 0]], np.int32)],
        (2, 2),
        {},
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message: str) -> None:
    kind, x, constants, shape, options = REFUSED[message]
    with pytest.raises(InvalidGraphError, match=message):
        host(kind, np.zeros(x, F), constants, shape, **options)


def test_only_float32_is_computed() -> None:
    net = Network()
    net.operator("RELU", [net.given("x", (2,), "INT8")], "y", (2,), "INT8")
    file = read_larq(net.data(), "net.tflite")
    with pytest.raises(
        InvalidGraphError, match=r"has 'x' \(INT8\), 'y' \(INT8\); npusim reads Larq networks of float32"
    ):
        plan(file.operators[0], file.tensors)
    net = Network()
    net.operator("RELU", [net.constant("c", np.ones(2, F))], "y", (2,))
    file = read_larq(net.data(), "net.tflite")
    with pytest.raises(InvalidGraphError, match=r"input 0 must be computed float32, got 'c'"):
        plan(file.operators[0], file.tensors)
    net = Network()
    net.operator("RELU", [net.given("x", (2,))], "y", (2,))
    net.operators[0][2].append(net.tensor("z", (2,)))
    file = read_larq(net.data(), "net.tflite")
    with pytest.raises(InvalidGraphError, match="has several outputs"):
        plan(file.operators[0], file.tensors)

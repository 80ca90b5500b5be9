"""Every refusal of Larq networks, and damaged files."""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the optional package tflite is not installed")

from npusim.errors import InvalidGraphError, UserError
from npusim.frontends.larq import load_larq
from npusim.numerics.types import Array
from tests.frontends.larq.files import POOL, RELU, TANH, Network, convolution_options
from tests.frontends.larq.networks import ONE, SHAPE, F, layers, scaled_layer, two_layers


def between(kind: str, inputs: list[str], net: Network | None = None, **options: Any) -> Network:
    """As ``layers``, with an operator between the floats and their signs."""
    net = net or layers()
    last = net.operators[2:]
    del net.operators[2:]
    net.operator(kind, list(inputs), "v", SHAPE, **options)
    net.operators += [(k, ["v" if v == "y" else v for v in i], *rest) for k, i, *rest in last]  # type: ignore[misc]
    return net


def changed(tensor: str, **replaced: Any) -> Network:
    """``layers`` with another shape, dtype or data of a tensor."""
    net = layers()
    old = dict(zip(("shape", "dtype", "data"), net.tensors[tensor], strict=True))
    net.tensors[tensor] = tuple({**old, **replaced}.values())  # type: ignore[assignment]
    return net


def with_constant(name: str, array: Array) -> Network:
    net = layers()
    net.constant(name, array)
    return net


def residual() -> Network:
    """The signs of the sum of two layers' floats."""
    net = layers()
    y2 = net.tensor("y2", SHAPE)
    net.operators.insert(2, ("LceBconv2d", ["bits", "w", "m", "b"], [y2], convolution_options(20), ""))
    net.operators.insert(3, ("ADD", ["y", y2], [net.tensor("v", SHAPE)], {}, ""))
    net.operators[4][1][0] = "v"
    return net


def across() -> Network:
    """The head's floats added to those behind the integer graph."""
    net = Network()
    y, _ = scaled_layer(net, np.random.default_rng(1), np.ones(20, F), np.zeros(20, F))
    net.outputs = [net.operator("ADD", [y, "x"], "v", (1, 4, 4, 20))]
    return net


def ending_in(*outputs: str) -> Network:
    net = layers()
    net.outputs = list(outputs)
    return net


def swapped() -> Network:
    net = layers()
    net.operators[:2] = net.operators[1::-1]
    return net


def repeated() -> Network:
    net = layers()
    net.operators.insert(1, net.operators[0])
    return net


def grouped(words: int, filters: int) -> Network:
    """70 channels, filters of ``words`` words."""
    net = Network()
    net.quantize(net.given("x", (1, 4, 4, 70)), "bits")
    parts = [net.constant("w", np.zeros((filters, 1, 1, words), np.int32)), None, None]
    parts.append(net.constant("t", np.zeros(filters, np.int32)))
    net.operator("LceBconv2d", ["bits", *parts], "y", (1, 4, 4, 1), "INT32", **convolution_options(70))
    return net


def to_bits(**options: Any) -> Network:
    net = layers()
    net.operators = net.operators[:1]
    parts = ["bits", "w", None, None, net.constant("t", np.zeros(8, np.int32))]
    net.operator("LceBconv2d", parts, "b2", (1, 4, 4, 1), "INT32", **convolution_options(20, **options))
    return net


def five_channels(**options: Any) -> Network:
    net = Network()
    net.quantize(net.given("x", (1, 4, 4, 5)), "bits")
    parts = [
        "bits",
        net.constant("w", np.zeros((8, 3, 3, 1), np.int32)),
        net.constant("m", ONE),
        net.constant("b", ONE),
    ]
    net.outputs = [net.operator("LceBconv2d", parts, "y", SHAPE, **convolution_options(5, **options))]
    return net


def pool(**options: Any) -> Network:
    net = to_bits()
    net.operator("LceBMaxPool2d", ["b2"], "p", (1, 2, 2, 1), "INT32", **{**POOL, **options})
    return net


def only_signs() -> Network:
    net = Network()
    net.quantize(net.given("x", (1, 4, 4, 20)), "bits")
    net.outputs = [net.operator("LceDequantize", ["bits"], "y", (1, 4, 4, 20))]
    return net


def plain(kind: str) -> Network:
    net = Network()
    net.outputs = [net.operator(kind, [net.given("x", (1, 4))], "y", (1, 4))]
    return net


def with_between(kind: str, constant: Array, **options: Any) -> Network:
    net = layers(**options)
    net.constant("c", constant)
    return between(kind, ["y", "c"], net)


def relu_of_bits() -> Network:
    net = layers()
    net.outputs.append(net.operator("RELU", ["b2"], "v", (1, 4, 4, 1)))
    return net


def int8_output() -> Network:
    net = layers()
    net.operators = net.operators[:2]
    net.tensors["y"] = (SHAPE, "INT8", b"")
    net.outputs = ["y"]
    return net


def no_thresholds() -> Network:
    net = to_bits()
    net.operators[1][1].pop()
    return net


def misread(kind: str, value: str, **options: Any) -> Network:
    net = layers()
    net.operator(kind, [value], "p", (1, 2, 2, 1), "INT32", **options)
    return net


REFUSED = {
    "no operator of Larq Compute Engine .* convert it to a .tosa file first": lambda: plain("RELU"),
    r"operator HARD_SWISH is not known .* \(1 in the file, the first makes 'v'\)": lambda: between("HARD_SWISH", ["y"]),
    r"ADD 'v' cannot be folded .*: it joins 'y' and 'y2', a sum of scaled sums": residual,
    r"MUL 'v' cannot be folded .* constant of shape \[4, 1\]; one number for each of 8": lambda: with_between(
        "MUL", np.ones((4, 1), F)
    ),
    r"MUL 'v' cannot be folded .*: a constant of it is not finite": lambda: with_between("MUL", np.array(np.inf, F)),
    r"LceQuantize 'b2' cannot be folded .*: a constant of it is not finite": lambda: layers(np.full(8, np.nan, F)),
    r"LceQuantize 'b2' takes signs of floats from MAX_POOL_2D 'v', which cannot be folded": lambda: between(
        "MAX_POOL_2D", ["y"], FilterHeight=1, FilterWidth=1, StrideH=1, StrideW=1
    ),
    r"LceQuantize 'b2' cannot be folded .*: in channel 0 the sum 2 gives level": lambda: layers(
        np.full(8, 0.1, F), np.full(8, -np.float32(0.1) * 2, F)
    ),
    r"MUL 'v' cannot be folded .* padded with zeros only its own": lambda: with_between("MUL", ONE, pad_values=0),
    r"in channel 0 the sum 2 is scaled to 5.*e-05, which rounding of the correction": lambda: layers(
        np.full(8, 1 / 3, F), np.full(8, 5e-5 - 2 / 3, F), pad_values=0
    ),
    r"ADD 'v': reads 'x', a float from before the binary layers, together with": across,
    r"RELU 'v': reads the packed bits 'b2'; put an LceDequantize before it": relu_of_bits,
    r"output 'b2' is packed bits; end the network with float operators": lambda: ending_in("b2"),
    r"output 'x' is not computed from any bits": lambda: ending_in("x"),
    "the graph has no outputs; name at least one": lambda: ending_in(),
    r"LceBconv2d 'y': reads 'bits', which no operator before it makes": swapped,
    r"LceQuantize 'bits': makes 'bits', which is there already": repeated,
    r"input 'x' is INT32; npusim reads Larq networks whose inputs are float32": lambda: changed("x", dtype="INT32"),
    r"LceQuantize 'bits': 'bits' must have shape \[1, 4, 4, 1\], the file declares \[1, 4, 4, 2\]": lambda: changed(
        "bits", shape=(1, 4, 4, 2)
    ),
    r"LceBconv2d 'y': 'y' is INT8, it must be FLOAT32: .* open how ties round to int8": int8_output,
    r"LceQuantize 'bits': reads 'x' of shape \[4, 20\]; it must have rank 4": lambda: changed("x", shape=(4, 20)),
    r"LceBconv2d 'y': has channels_in 21 for an input of 20 channels": lambda: layers(channels_in=21),
    r"LceBconv2d 'y': has filters of 2 words and 8 outputs for 20 channels": lambda: with_constant(
        "w", np.zeros((8, 3, 3, 2), np.int32)
    ),
    r"LceBconv2d 'y': has filters of 1 words and 6 outputs for 70 channels": lambda: grouped(1, 6),
    r"LceBconv2d 'y': has filters of shape \[8, 3\]": lambda: with_constant("w", np.zeros((8, 3), np.int32)),
    r"LceBconv2d 'y': has filters with bits behind their 20 channels": lambda: with_constant(
        "w", np.full((8, 3, 3, 1), -1, np.int32)
    ),
    r"LceBconv2d 'y': input 1 must be a constant of INT32 \(packed filters\), got 'w' \(FLOAT32\)": lambda: (
        with_constant("w", np.zeros((8, 3, 3, 1), F))
    ),
    r"has post-activation multiplier of shape \[7\]; they must be \[8\]": lambda: with_constant("m", np.ones(7, F)),
    r"input 4 must be a constant of INT32 \(output thresholds\), got none": no_thresholds,
    r"LceBconv2d 'y': has stride_height 0 and stride_width 1": lambda: layers(stride_height=0),
    r"LceBconv2d 'y': has dilation_height_factor 1 and dilation_width_factor -1": lambda: layers(
        dilation_width_factor=-1
    ),
    r"LceBconv2d 'y': has pad_values 2; they must be 0 or 1": lambda: layers(pad_values=2),
    r"LceBconv2d 'y': padding number 7; it must be SAME or VALID": lambda: layers(padding=7),
    r"LceBconv2d 'y': fused activation TANH; npusim has NONE, RELU": lambda: layers(fused_activation_function=TANH),
    r"LceBconv2d 'y': pads with zeros and has a fused activation of 5 channels, which is odd": lambda: five_channels(
        pad_values=0, fused_activation_function=RELU
    ),
    r"LceBconv2d 'b2': pads with zeros and has bits, for which Larq has no kernel": lambda: to_bits(pad_values=0),
    r"LceBMaxPool2d 'p': padding number 3": lambda: pool(padding=3),
    r"LceBMaxPool2d 'p': has filter_height 0 and filter_width 2": lambda: pool(filter_height=0),
    r"LceBMaxPool2d 'p': .* kernel": lambda: pool(filter_height=9),
    r"LceBMaxPool2d 'p': reads 'x', which are not bits": lambda: misread("LceBMaxPool2d", "x", **POOL),
    r"LceQuantize 'p': reads 'w', which are no computed floats": lambda: misread("LceQuantize", "w"),
    r"has no integer operator between its bits; it needs an LceBconv2d": only_signs,
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals_name_the_operator_and_the_reason(message: str, tmp_path: Path) -> None:
    path = REFUSED[message]().write(tmp_path)
    with pytest.raises(UserError, match=message) as error:
        load_larq(path)
    assert all(p.startswith(f"{path}: ") for p in error.value.problems)


def test_all_problems_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    net = layers(padding=7)
    axes = net.constant("axes", np.array([5], np.int32))
    net.outputs.append(net.operator("MEAN", ["v", axes], "mean", (1, 4, 4)))
    net.operators.insert(0, ("MEAN", ["x", axes], [net.tensor("v", SHAPE)], {}, ""))
    with pytest.raises(InvalidGraphError) as error:
        load_larq(net.write(tmp_path))
    shown = [p.removeprefix(f"{tmp_path / 'net.tflite'}: ") for p in error.value.problems]
    assert shown == [
        "MEAN 'v': has axes [5] for shape [1, 4, 4, 20]",
        "LceBconv2d 'y': padding number 7; it must be SAME or VALID",
    ]


# -- damaged files ---------------------------------------------------------------------------------------------------

INTERESTING = (0, 1, 2, 4, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)


def mutate(data: bytes, generator: random.Random) -> bytes:
    """``data`` cut off, or with bits flipped, or bytes or words replaced."""
    kind, damaged = generator.randrange(4), bytearray(data)
    if kind == 0:
        return data[: generator.randrange(len(data))]
    for _ in range(generator.randint(1, 3)):
        at = generator.randrange(len(data) - 8)
        if kind == 1:
            damaged[at] ^= 1 << generator.randrange(8)
        elif kind == 2:
            damaged[at : at + 4] = generator.randbytes(4)
        else:
            damaged[at & ~3 : (at & ~3) + 4] = struct.pack("<I", generator.choice(INTERESTING))
    return bytes(damaged)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_files_load_or_are_refused(seed: int, tmp_path: Path) -> None:
    if seed:
        net, _, _ = two_layers(np.random.default_rng(0), 3, 4)
    else:
        net = with_between("MUL", ONE)
        net.constant("axes", np.array([1, 2], np.int32))
        net.outputs = [net.operator("MEAN", ["z", "axes"], "mean", (1, 1), KeepDims=False)]
    data, generator, outcomes = net.data(), random.Random(seed), Counter[str]()
    path = tmp_path / "net.tflite"
    for _ in range(600):
        path.write_bytes(mutate(data, generator))
        try:
            load_larq(path)
        except UserError as error:
            assert str(error).startswith(str(path))
            outcomes[type(error).__name__] += 1
        else:
            outcomes["loaded"] += 1
    assert min(outcomes[k] for k in ("loaded", "FileFormatError", "InvalidGraphError")) > 20, outcomes

"""Larq networks against Larq's own outputs, against its operators in plain numpy, and every refusal."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the optional package tflite is not installed")

from npusim.frontends.chip import load_chip
from npusim.frontends.larq import load_larq
from npusim.frontends.model import Model, load_model
from npusim.functional.whole import evaluate_graph
from npusim.numerics.types import Array
from npusim.session import Job, run
from tests.frontends.larq.files import (
    RELU,
    RELU6,
    SHARED,
    Network,
    bipolar,
    convolution_options,
    packed,
    sums,
    unpacked,
    windows,
)
from tests.frontends.larq.networks import F, larq_bits, last_layer, layers, scaled_layer, two_layers


def outputs(model: Model, x: Array, tiles: bool = False) -> dict[str, Array]:
    """All that the model gives for its one input, its graph evaluated whole, or in tiles on the preset ``binary``."""
    assert model.host is not None
    (name,) = model.host.inputs
    inputs = model.host.prepare(model.graph, {name: x})
    if tiles:
        found = dict(run(Job(graph=model.graph, chip=load_chip("binary"), inputs=inputs, host=model.host)).outputs)
    else:
        found = dict(evaluate_graph(model.graph, inputs))
    return {**found, **model.host.complete(found)}


# -- the shared network ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared() -> Path:
    folder = SHARED / "models" / "bnn" / "bnn_small_32_rand_lce"
    if not folder.is_dir():
        pytest.skip("the reference data beside the repository is absent")
    return folder


def raw(path: Path) -> dict[int, Array]:
    """The constants of a file by number, read with the ``tflite`` package alone."""
    import tflite

    file = tflite.Model.GetRootAsModel(path.read_bytes(), 0)
    graph = file.Subgraphs(0)
    found = {}
    for i in range(graph.TensorsLength()):
        t = graph.Tensors(i)
        data = file.Buffers(t.Buffer()).DataAsNumpy()
        if not isinstance(data, int):
            dtype = "<i4" if t.Type() == tflite.TensorType.INT32 else "<f4"
            found[i] = np.frombuffer(data.tobytes(), dtype).reshape(t.ShapeAsNumpy())
    return found


def test_larq_network_gives_its_golden_output_through_tiles(shared: Path) -> None:
    """Sums equal an evaluation of the raw file; floats are so near Larq's that one sum, one step off, would show."""
    path, x, golden = shared / "model.tflite", *(np.load(shared / f"golden_lce.{v}.npy") for v in ("in0", "out0"))
    model, constant = load_larq(path), raw(path)
    assert model.host is not None
    assert [s.name.split()[0] for s in model.host.before] == ["CONV_2D", "LceQuantize"]
    assert [s.name.split()[0] for s in model.host.after] == ["LceBconv2d", "MEAN", "FULLY_CONNECTED"]
    assert [n.op.name for n in model.graph.nodes] == [
        "binary_conv2d",
        "binary_max_pool2d",
        *["binary_conv2d"] * 3,
    ]
    found = outputs(model, x, tiles=True)

    wide = windows(x.astype(float), (3, 3), (1, 1), (1, 1), True, 0)
    head = np.einsum("nyxijc,oijc->nyxo", wide, constant[12].astype(float)) + constant[13]
    # 27 products and a bias in float32, in any order, err by less than 29 roundings of the sum of their magnitudes
    error = 29 * 2.0**-24 * (np.einsum("nyxijc,oijc->nyxo", abs(wide), abs(constant[12])) + abs(constant[13]))
    assert (abs(head) > error).all(), "a sign of the first layer would depend on the order of its sum"
    bits = np.where(head < 0, -1, 1)
    bits = larq_bits(bits, unpacked(constant[4], 32), constant[7])
    bits = windows(bits, (2, 2), (2, 2), (1, 1), False, 0).max((3, 4))
    bits = larq_bits(bits, unpacked(constant[3], 64), constant[6], stride=(2, 2))
    bits = larq_bits(bits, unpacked(constant[2], 64), constant[5], same=False)
    wanted = sums(bits, unpacked(constant[1], 128), same=False)
    (name,) = model.graph.outputs
    np.testing.assert_array_equal(found[name], wanted)

    (output,) = model.host.outputs
    scale = abs(golden).max()
    assert abs(found[output] - golden).max() <= 1e-5 * scale
    # one sum changed by its smallest step, 2, moves a logit by multiplier * weight * 2 / positions: in every channel by
    # more than twice the tolerance in the logit that it moves most
    positions = wanted.shape[1] * wanted.shape[2]
    step = 2 * abs(constant[9] * constant[10]).max(0) / positions
    assert step.min() > 2e-5 * scale
    changed = wanted.copy()
    changed[0, 3, 4, int(step.argmin())] += 2
    assert model.host is not None
    moved = model.host.complete({name: changed.astype(np.int32)})[output]
    assert abs(moved - golden).max() > 1e-5 * scale


def test_model_files_are_recognised_by_their_suffix(shared: Path) -> None:
    assert load_model(shared / "model.tflite").graph.name == "model"


# -- small networks against plain numpy ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channels", "middle", "geometry"),
    [
        (3, 40, {}),
        (32, 7, {"stride": (2, 1)}),
        (70, 33, {"dilation": (2, 3)}),
        (64, 64, {"same": False}),
        (1, 2, {"stride": (1, 2), "dilation": (1, 2), "same": False}),
    ],
)
def test_layers_equal_larqs_operators(channels: int, middle: int, geometry: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(channels)
    net, x, expected = two_layers(rng, channels, middle, **geometry)
    x[0, 0, 0, 0], x[0, 0, 1, 0], x[1, 0, 0, 0] = 0.0, -0.0, -1e-45  # only the last is below 0
    model = load_larq(net.write(tmp_path))
    found = outputs(model, x)
    _, integers, floats = expected(x)
    np.testing.assert_array_equal(found["y.sums"], integers)
    np.testing.assert_array_equal(found["y"], floats)
    assert model.host is not None and not model.host.exact
    assert pickle.loads(pickle.dumps(model.host)).operators == model.host.operators


@pytest.mark.parametrize(("pad", "groups"), [(0, 1), (1, 1), (0, 2), (1, 2)])
def test_padding_of_zeros_and_groups(pad: int, groups: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weight = bipolar(rng, 6, 3, 3, 64 // groups)
    net = Network()
    net.quantize(net.given("x", (1, 5, 4, 64)), "bits")
    one, zero = np.ones(6, F), np.zeros(6, F)
    parts = [net.constant("w", packed(weight)), net.constant("m", one), net.constant("b", zero)]
    options = convolution_options(64, pad_values=pad, stride_height=2)
    net.outputs = [net.operator("LceBconv2d", ["bits", *parts], "y", (1, 3, 4, 6), **options)]
    x = rng.normal(size=(1, 5, 4, 64)).astype(F)
    found = outputs(load_larq(net.write(tmp_path)), x)
    wanted = sums(np.where(x < 0, -1, 1), weight, stride=(2, 1), pad=pad, groups=groups)
    np.testing.assert_array_equal(found["y.sums"], wanted)
    np.testing.assert_array_equal(found["y"], wanted.astype(F))


MULTIPLIERS = np.array([0.37, -1.25, 0.0, -0.0, 0.0, 1.0, 3e-4, -2.5], F)
BIASES = np.array([1.3, 2.1, 0.5, -0.5, 0.0, 0.0, -1e-3, 7.5], F)


@pytest.mark.parametrize("activation", [0, RELU, RELU6])
@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("shared_sums", [False, True])
def test_scales_between_layers_become_thresholds(
    activation: int, chained: bool, shared_sums: bool, tmp_path: Path
) -> None:
    """Also multipliers below, at and near 0; with another reader of the floats thresholds are a node of their own."""
    rng = np.random.default_rng(activation)
    net = Network()
    y, weight = scaled_layer(net, rng, MULTIPLIERS, BIASES, fused_activation_function=activation)
    shape = (1, 4, 4, 8)
    factor, shift = rng.normal(size=(1, 1, 1, 8)).astype(F), rng.normal(size=8).astype(F)
    if chained:
        y = net.operator("MUL", [net.constant("f", factor), y], "scaled", shape, FusedActivationFunction=RELU6)
        y = net.operator("SUB", [net.constant("s", shift), y], "turned", shape)
        y = net.operator("RELU_N1_TO_1", [y], "clipped", shape)
        y = net.operator("ADD", [y, net.constant("half", np.array(0.25, F))], "shifted", shape)
    net.quantize(y, "b2")
    last_layer(net, "b2", shape)
    if shared_sums:
        net.outputs.append(y)
    model = load_larq(net.write(tmp_path))
    made = ["binary_conv2d", "threshold", "binary_conv2d"] if shared_sums else ["binary_conv2d"] * 2
    assert [n.op.name for n in model.graph.nodes] == made

    x = rng.normal(size=(1, 4, 4, 20)).astype(F)
    floats = sums(np.where(x < 0, -1, 1), weight)
    clip = {0: (-np.inf, np.inf), RELU: (0, np.inf), RELU6: (0, 6)}[activation]
    wanted = np.clip(floats, *clip).astype(F) * MULTIPLIERS + BIASES
    if chained:
        wanted = np.clip(wanted * factor, F(0), F(6))
        wanted = np.clip(shift - wanted, F(-1), F(1)) + F(0.25)
    found = outputs(model, x)
    np.testing.assert_array_equal(found["z"][..., 0], np.where(wanted < 0, -1, 1).sum(-1))
    if shared_sums:
        np.testing.assert_array_equal(found[y], wanted)


def test_bits_may_be_made_floats_at_the_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    net, x, expected = two_layers(rng, 5, 9)
    shape = (*net.tensors["b2"][0][:3], 9)
    net.operators.pop()
    net.outputs = [net.operator("LceDequantize", ["b2"], "signs", shape)]
    model = load_larq(net.write(tmp_path))
    assert model.host is not None and model.host.exact
    np.testing.assert_array_equal(outputs(model, x, tiles=True)["signs"], expected(x)[0])


def test_head_and_tail_run_on_the_host_and_unneeded_operators_do_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    net = Network()
    wide = net.given("image", (1, 4, 4, 20))
    shift = rng.normal(size=20).astype(F)
    net.operator("ADD", [wide, net.constant("shift", shift)], "x", (1, 4, 4, 20))
    net.operator("RELU", ["x"], "nobody", (1, 4, 4, 20))
    net.quantize("x", "bits")
    y, weight = scaled_layer(net, rng, MULTIPLIERS, BIASES)
    net.operator("RELU", [y], "nobody2", (1, 4, 4, 8))
    axes = net.constant("axes", np.array([1, 2], np.int32))
    net.outputs = [net.operator("MEAN", [y, axes], "mean", (1, 8), KeepDims=False)]
    model = load_larq(net.write(tmp_path))
    assert model.host is not None
    assert model.host.operators == ("ADD 'x'", "LceQuantize 'bits'", "LceBconv2d 'y'", "MEAN 'mean'")
    x = rng.normal(size=(1, 4, 4, 20)).astype(F)
    scaled = sums(np.where(x + shift < 0, -1, 1), weight) * MULTIPLIERS.astype(float) + BIASES
    np.testing.assert_allclose(outputs(model, x)["mean"], scaled.mean((1, 2)), rtol=0, atol=1e-5 * abs(scaled).max())


def test_zero_padding_folds_where_floats_are_exact_or_far_from_zero(tmp_path: Path) -> None:
    """Halves are exact, so that even a sum that is scaled to 0 has a sure sign; 1/3 with 1/4 keeps its distance."""
    multiplier = np.array([0.5, -0.5, 1 / 3, -1 / 3, 1, 1, 1, 0.5], F)
    bias = np.array([-1, 1.5, 0.25, 0.25, 0, 0.5, -7, 2], F)
    x = np.random.default_rng(2).normal(size=(1, 4, 4, 20)).astype(F)
    net = layers(multiplier, bias, pad_values=0)
    found = outputs(load_larq(net.write(tmp_path)), x)
    weight = unpacked(np.frombuffer(net.tensors["w"][2], "<i4").reshape(8, 3, 3, 1), 20)
    wanted = sums(np.where(x < 0, -1, 1), weight, pad=0) * multiplier + bias
    assert (wanted == 0).any()
    np.testing.assert_array_equal(found["z"][..., 0], np.where(wanted < 0, -1, 1).sum(-1))


def test_zero_padding_with_an_activation(tmp_path: Path) -> None:
    """Of an even number of channels: sums to which padded taps add nothing are clipped, also in folded ones."""
    multiplier, bias = np.array([0.5, -0.5, 1, -1, 2, 1, 1, 0.5], F), np.array([-2, 2, -1, 3, -4, 0, -7, 2], F)
    x = np.random.default_rng(2).normal(size=(1, 4, 4, 20)).astype(F)
    options = {"pad_values": 0, "fused_activation_function": RELU6}
    net = layers(multiplier, bias, **options)
    weight = unpacked(np.frombuffer(net.tensors["w"][2], "<i4").reshape(8, 3, 3, 1), 20)
    wanted = np.clip(sums(np.where(x < 0, -1, 1), weight, pad=0), 0, 6) * multiplier + bias
    found = outputs(load_larq(net.write(tmp_path)), x)
    np.testing.assert_array_equal(found["z"][..., 0], np.where(wanted < 0, -1, 1).sum(-1))
    net.outputs.append("y")
    np.testing.assert_array_equal(outputs(load_larq(net.write(tmp_path)), x)["y"], wanted)

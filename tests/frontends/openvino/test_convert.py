"""Networks in an IR against plain loops, and what their graphs are made of."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.errors import InputError, InvalidGraphError, UnpredictableError
from npusim.frontends.chip import load_chip
from npusim.frontends.model import Model
from npusim.numerics.types import DTYPES, Array
from npusim.session import Job
from npusim.session import run as run_job
from tests.frontends.openvino.ir import STORAGE, Ir, run, sums


def bits(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(0, 2, shape)


def channels(values: Any) -> Array:
    return np.asarray(values, np.float64).reshape(1, -1, 1, 1)


def operators(model: Model) -> list[str]:
    return [node.op.name for node in model.graph.nodes]


def maxima(x: Array, kernel: int, stride: int) -> Array:
    rows, columns = ((n - kernel) // stride + 1 for n in x.shape[2:])
    out = np.empty((*x.shape[:2], rows, columns), x.dtype)
    for p, q in np.ndindex(rows, columns):
        out[:, :, p, q] = x[:, :, p * stride : p * stride + kernel, q * stride : q * stride + kernel].max((2, 3))
    return out


PADS = {-1: -1, 0: 0, 1: 1}


@pytest.mark.parametrize("pad_value", [-1, 0, 1])
@pytest.mark.parametrize("flips", ["none", "all", "some"])
@pytest.mark.parametrize("pool_at", ["sums", "bits", "nowhere"])
def test_chains_with_thresholds_and_poolings(tmp_path: Path, pad_value: int, flips: str, pool_at: str) -> None:
    rng = np.random.default_rng(pad_value + 5)
    w1, w2 = bits(rng, 6, 5, 3, 3), bits(rng, 4, 6, 2, 2)
    limits = channels(rng.integers(-8, 8, 6) + 0.25 * rng.integers(0, 2, 6))
    flip = channels({"none": [0] * 6, "all": [1] * 6, "some": [0, 1, 1, 0, 0, 1]}[flips])
    g = Ir()
    x = g.convolution(
        g.parameter((2, 5, 7, 7)), w1, (2, 6, 7, 7), "c1", pads_begin=[1, 1], pads_end=[1, 1], pad_value=pad_value
    )
    if pool_at == "sums":
        x = g.pool(x, (2, 6, 3, 3))
    x = g.quantize(x, [limits, limits, flip, 1 - flip])
    if pool_at == "bits":
        x = g.pool(x, (2, 6, 3, 3))
    size = 6 if pool_at == "nowhere" else 2
    g.result(g.convolution(x, w2, (2, 4, size, size), "c2"))
    model = g.load(tmp_path)

    image = bits(rng, 2, 5, 7, 7)
    y = sums(image, w1, (1, 1, 1, 1), pad_value)
    y = maxima(y, 2, 2) if pool_at == "sums" else y
    y = (y > limits) != flip
    y = maxima(y, 2, 2) if pool_at == "bits" else y
    found = run(model, x=image.astype(np.float32))["y"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, sums(y, w2))
    pool = [] if pool_at == "nowhere" else ["binary_max_pool2d"]
    again = ["binary_conv2d"] if (pool_at, flips) == ("sums", "some") else []
    assert operators(model) == ["binary_conv2d", *pool, *again, "binary_conv2d"]
    if pool:
        combine = "and" if (pool_at, flips) == ("sums", "all") else "or"
        assert model.graph.nodes[1].op.attributes()["combine"] == combine


def test_a_network_of_every_operator_through_tiles(tmp_path: Path) -> None:
    """A float input pooled and binarised on the host, a residual, a constant, a pooling of sums; three outputs."""
    rng = np.random.default_rng(3)
    w = [bits(rng, 8, 8, 3, 3) for _ in range(3)]
    limits, flip = channels(rng.integers(-9, 9, 8)), channels([0, 1] * 4)
    bias = channels(rng.integers(-5, 5, 8) + 0.25)
    same = {"pads_begin": [9, 9], "auto_pad": "SAME_UPPER"}
    g = Ir()
    x = g.pool(g.parameter((1, 8, 12, 12)), (1, 8, 6, 6), "first", auto_pad="valid")
    x = g.add(x, g.constant("eighth", channels([0.125])), "shifted")
    first = g.quantize(x, [channels([0.5])] * 2 + [channels([0]), channels([1])], "first_bits")
    a = g.convolution(first, w[0], (1, 8, 6, 6), "a", **same)
    b = g.convolution(first, w[1], (1, 8, 6, 6), "b", **same, pad_value=-1)
    residual = g.add(a, b, "residual")
    shifted = g.add(g.constant("bias", bias), residual, "biased")
    pooled = g.pool(shifted, (1, 8, 3, 3), "pooled")
    second = g.quantize(pooled, [limits, limits, flip, 1 - flip], "second_bits")
    g.result(g.convolution(second, w[2], (1, 8, 3, 3), "c", **same), "sums")
    g.result(pooled, "before_thresholds")
    g.result(second, "bits")
    model = g.load(tmp_path)
    assert model.host is not None
    assert model.host.operators == (
        "MaxPool 'first'", "Add 'shifted'", "FakeQuantize 'first_bits'",
        "Result 'sums'", "Add 'biased'", "MaxPool 'pooled'", "Result 'before_thresholds'", "Result 'bits'",
    )  # fmt: skip

    image = rng.standard_normal((1, 8, 12, 12)).astype(np.float32)
    y0 = (maxima(image, 2, 2) + np.float32(0.125)) > 0.5
    r = (sums(y0, w[0], (1, 1, 1, 1), 0) + sums(y0, w[1], (1, 1, 1, 1), -1)).astype(np.float32)
    before = maxima(r + bias.astype(np.float32), 2, 2)
    y1 = (before > limits) != flip
    expected = {"sums": sums(y1, w[2], (1, 1, 1, 1), 0), "before_thresholds": before, "bits": y1}
    inputs = model.host.prepare(model.graph, {"x": image})
    job = Job(graph=model.graph, chip=load_chip("binary"), inputs=inputs, host=pickle.loads(pickle.dumps(model.host)))
    outputs = run_job(job).outputs
    whole = run(model, x=image)
    for name, values in expected.items():
        for found in (outputs[name], whole[name]):
            np.testing.assert_array_equal(found, values)
            assert found.dtype == np.float32


def test_thresholds_are_fused_unless_the_sums_have_other_readers(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    w = bits(rng, 3, 4, 1, 1)
    limits = [channels([-1, 0, 1])] * 2 + [channels([0]), channels([1])]
    image = bits(rng, 1, 4, 5, 5)
    for readers in (1, 2):
        g = Ir()
        c = g.convolution(g.parameter((1, 4, 5, 5)), w, (1, 3, 5, 5))
        g.result(g.quantize(c, limits), "bits")
        if readers == 2:
            g.result(c, "sums")
        model = g.load(tmp_path)
        assert operators(model) == (["binary_conv2d"] if readers == 1 else ["binary_conv2d", "threshold"])
        found = run(model, x=image.astype(np.float32))
        np.testing.assert_array_equal(found["bits"], sums(image, w) > channels([-1, 0, 1]))


@pytest.mark.parametrize("levels", [(0, 1), (-1, 1), (2.5, -3)])
def test_levels_that_only_a_result_reads_may_be_any(tmp_path: Path, levels: tuple[float, float]) -> None:
    rng = np.random.default_rng(5)
    w = bits(rng, 3, 4, 1, 1)
    g = Ir()
    c = g.convolution(g.parameter((1, 4, 6, 6)), w, (1, 3, 6, 6))
    q = g.quantize(c, [[-1.0], [2.0], [levels[0]], [levels[1]]])
    g.result(g.pool(q, (1, 3, 3, 3)))
    image = bits(rng, 1, 4, 6, 6)
    y = np.where(sums(image, w) >= 1, levels[1], levels[0])
    np.testing.assert_array_equal(run(g.load(tmp_path), x=image.astype(np.float32))["y"], maxima(y, 2, 2))


def test_bits_of_bits_and_constant_channels(tmp_path: Path) -> None:
    """A second FakeQuantize gives each channel's bits as they are, inverted, always 0 and always 1."""
    rng = np.random.default_rng(6)
    w1, w2 = bits(rng, 4, 4, 1, 1), bits(rng, 2, 4, 3, 3)
    g = Ir()
    c = g.convolution(g.parameter((1, 4, 5, 5)), w1, (1, 4, 5, 5), "c1")
    q = g.quantize(c, [[0.0], [0.0], [-1.0], [1.0]], "q1")
    low, high = channels([0, 1, 0, 1]), channels([1, 0, 0, 1])
    q = g.quantize(q, [[0.5], [0.5], low, high], "q2")
    g.result(g.convolution(q, w2, (1, 2, 5, 5), "c2", auto_pad="same_lower", pad_value=1))
    image = bits(rng, 1, 4, 5, 5)
    y = np.where(sums(image, w1) > 0, high, low)
    found = run(g.load(tmp_path), x=image.astype(np.float32))["y"]
    np.testing.assert_array_equal(found, sums(y, w2, (1, 1, 1, 1), 1))


def test_bits_of_minus_one_and_one_may_be_added_to_sums(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    w = bits(rng, 4, 4, 1, 1)
    g = Ir()
    x = g.parameter((1, 4, 5, 5))
    c = g.add(g.convolution(x, w, (1, 4, 5, 5)), g.constant("two", [2.0]), "plus_two")
    q = g.quantize(g.add(c, g.quantize(c, [[0.0], [0.0], [-1.0], [1.0]], "sign"), "skip"), [[0.0], [0.0], [0.0], [1.0]])
    g.result(q)
    image = bits(rng, 1, 4, 5, 5)
    y = sums(image, w) + 2
    np.testing.assert_array_equal(
        run(g.load(tmp_path), x=image.astype(np.float32))["y"], y + np.where(y > 0, 1, -1) > 0
    )


@pytest.mark.parametrize("element", ["f32", "f16", "i32", "i16", "i8", "u8", "boolean", "u1"])
def test_element_types(tmp_path: Path, element: str) -> None:
    """The output has the input's type; bits and booleans, which hold no sums, give i32; u8 is refused."""
    rng = np.random.default_rng(8)
    w = bits(rng, 2, 3, 3, 3)
    result = "i32" if element in ("boolean", "u1") else element
    g = Ir()
    g.result(g.convolution(g.parameter((1, 3, 4, 4), element), w, (1, 2, 2, 2), element=result))
    if element == "u8":
        with pytest.raises(InvalidGraphError, match="layer 'conv' .* out_type must be one of .* got out_type 'u8'"):
            g.load(tmp_path)
        return
    model = g.load(tmp_path)
    image = bits(rng, 1, 3, 4, 4)
    found = run(model, x=image.astype("bool" if element == "boolean" else STORAGE.get(element, "u1")))["y"]
    assert model.host is not None
    assert found.dtype == DTYPES[result].storage
    assert model.host.outputs["y"].dtype is DTYPES[result]
    np.testing.assert_array_equal(found, sums(image, w))
    assert len(model.host.before) == (0 if element == "u1" else 1)


@pytest.mark.parametrize(("rule", "value"), [("gt0", -0.5), ("ge0", 0.0), ("lt0", -2.0), ("gt0", 3.0)])
@pytest.mark.parametrize("element", ["f32", "i32"])
def test_inputs_other_than_bits(tmp_path: Path, rule: str, value: float, element: str) -> None:
    w = np.array([[[[1]]], [[[0]]]])
    g = Ir()
    g.result(g.convolution(g.parameter((1, 1, 1, 2), element), w, (1, 2, 1, 2)))
    x = np.array([[[[1, value]]]]).astype(STORAGE[element])
    bit = {"gt0": x > 0, "ge0": x >= 0, "lt0": x < 0}[rule]
    model = g.load(tmp_path, binarize=rule)
    assert model.host is not None
    assert any(r.startswith(f"binarize {rule}: elements ") for r in model.host.remarks)
    np.testing.assert_array_equal(run(model, x=x)["y"], sums(bit, w))
    if x[0, 0, 0, 1] not in (0, 1):
        with pytest.raises(InputError, match=r"input 'x' holds -?\d.* at index \[0, 0, 0, 1\], .* state binarize gt0"):
            run(g.load(tmp_path), x=x)


def test_a_convolution_may_binarise_sums_and_levels(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    w1, w2 = bits(rng, 3, 4, 1, 1), bits(rng, 2, 3, 3, 3)
    image = bits(rng, 1, 4, 5, 5)
    expected = sums(sums(image, w1) > 0, w2, (1, 1, 1, 1), 0)
    for sign in (False, True):
        g = Ir()
        c = g.convolution(g.parameter((1, 4, 5, 5)), w1, (1, 3, 5, 5), "c1")
        c = g.quantize(c, [[0.0], [0.0], [-1.0], [1.0]]) if sign else c
        g.result(g.convolution(c, w2, (1, 2, 5, 5), "c2", auto_pad="same_upper"))
        found = run(g.load(tmp_path, binarize="gt0"), x=image.astype(np.float32))["y"]
        np.testing.assert_array_equal(found, expected)
        if sign:
            with pytest.raises(
                InvalidGraphError, match="layer 'c2' .* levels -1 and 1 of 'fq' in channel 0, its input must"
            ):
                g.load(tmp_path)
        else:
            model = g.load(tmp_path)
            with pytest.raises(UnpredictableError, match="elements must be 0 or 1"):
                run(model, x=image.astype(np.float32))


def test_windows_that_see_no_row_of_the_image_give_what_the_definition_says(tmp_path: Path) -> None:
    """Padding worth zero gives sums of 0 there (OpenVINO's CPU plugin is known to give others)."""
    w = np.ones((8, 8, 1, 1), np.uint8)
    g = Ir()
    c = g.convolution(g.parameter((1, 8, 2, 2)), w, (1, 8, 4, 4), pads_begin=[1, 1], pads_end=[1, 1])
    g.result(c)
    expected = np.zeros((1, 8, 4, 4))
    expected[:, :, 1:3, 1:3] = 8
    found = run(g.load(tmp_path), x=np.ones((1, 8, 2, 2), np.float32))["y"]
    np.testing.assert_array_equal(found, expected)


def test_remarks_say_how_the_file_was_read(tmp_path: Path) -> None:
    g = Ir()
    x = g.parameter((1, 1, 3, 3))
    w = np.ones((1, 1, 3, 3))
    for i, value in enumerate((0, 1, 1.0)):
        g.result(g.convolution(x, w, (1, 1, 3, 3), f"c{i}", auto_pad="same_upper", pad_value=value), f"y{i}")
    for rule, meaning in (("plugin", "adds nothing"), ("literal", "counts as -1")):
        host = g.load(tmp_path, pad_rule=rule, bit_order="msb").host
        assert host is not None
        assert host.remarks == (
            f"pad_rule {rule}: pad_value 0 {meaning}",
            "bit_order msb: the first element of u1 constants is the most significant bit",
            f"pad_rule {rule}: pad_value 1 counts as +1",
        )


def test_a_rule_for_inputs_that_none_needs_is_not_remarked(tmp_path: Path) -> None:
    g = Ir()
    q = g.quantize(g.parameter((1, 1, 3, 3)), [[0.0], [0.0], [0.0], [1.0]])
    g.result(g.convolution(q, np.ones((1, 1, 1, 1)), (1, 1, 3, 3)))
    host = g.load(tmp_path, binarize="ge0").host
    assert host is not None
    assert [r.split()[0] for r in host.remarks] == ["bit_order"]


def test_names_of_layers_stay_apart_from_what_comes_between(tmp_path: Path) -> None:
    g = Ir()
    x = g.parameter((1, 1, 2, 2))
    for name in ("x.bits", "x.bits_", "x.bits.weight"):
        g.result(g.convolution(x, np.ones((1, 1, 1, 1)), (1, 1, 2, 2), name), f"y of {name}")
    found = run(g.load(tmp_path), x=np.float32([[[[0, 1], [1, 0]]]]))
    assert [v.tolist() for v in found.values()] == [[[[[-1, 1], [1, -1]]]]] * 3

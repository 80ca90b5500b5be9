"""QONNX networks through tiles, against an evaluation of the same file in plain numpy."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.errors import InputError
from npusim.frontends.qonnx import load_qonnx
from npusim.frontends.qonnx.quantisers import ROUNDING
from tests.frontends.qonnx.networks import QONNX, Network, check, evaluate, onnx, operators, through_tiles

GOLDEN = Path(__file__).parents[3].parent / "shared" / "models" / "bnn"


def noise(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def signs(*shape: int, seed: int = 1) -> Any:
    return np.where(noise(*shape, seed=seed) >= 0, 1.0, -1.0)


def norms(n: int, seed: int = 2, slope: float | None = None) -> tuple[Any, ...]:
    """Scale (of both signs unless ``slope`` says which), bias, mean and variance of n channels."""
    r = np.random.default_rng(seed)
    scale = r.normal(size=n) if slope is None else slope * r.uniform(0.5, 2, n)
    return scale, r.normal(size=n), r.normal(size=n) * 2, r.uniform(1, 30, n)


@pytest.mark.parametrize("name", ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A"])
def test_shared_networks_give_their_golden_outputs(name: str) -> None:
    folder = GOLDEN / name
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    model = load_qonnx(folder / "model.onnx")
    assert model.host is not None
    x, y = np.load(folder / "golden_qonnx.in0.npy"), np.load(folder / "golden_qonnx.out0.npy")
    (source,), (target,) = model.host.inputs, model.host.outputs
    results, outputs = through_tiles(model, x, source)
    np.testing.assert_array_equal(outputs[target], y, strict=True)
    tensors = evaluate(onnx.load(folder / "model.onnx"), {source: x})
    (last,) = results
    np.testing.assert_array_equal(results[last], tensors[last])
    assert results[last].dtype == np.int32
    kind = "binary_matmul" if name == "TFC_1W1A" else "bitserial_matmul"
    assert operators(model) == [kind] * 4
    assert model.host.exact and not model.host.remarks


def test_binary_convolutions_with_pads_groups_strides_and_dilations(tmp_path: Path) -> None:
    net = Network(2, 4, 9, 8)
    x = net.bipolar(net.op("Sub", "x", np.float32(0.1)))
    conv = net.op("Conv", x, net.bipolar(noise(6, 4, 3, 3, seed=3)), pads=[1, 1, 1, 1])
    x = net.bipolar(net.norm(conv, *norms(6)))
    conv = net.op("Conv", x, net.bipolar(noise(4, 3, 3, 2, seed=4)), pads=[0, 1, 2, 1], group=2, strides=[2, 1])
    x = net.bipolar(net.norm(conv, *norms(4, 5)))
    conv = net.op("Conv", x, net.bipolar(noise(5, 4, 2, 3, seed=6)), dilations=[2, 3])
    x = net.op("Flatten", net.bipolar(net.norm(conv, *norms(5, 7))))
    width = evaluate(net.model(x), {"x": noise(2, 4, 9, 8)})[x].shape[1]
    x = net.op("MatMul", x, net.op("Transpose", net.bipolar(noise(3, width, seed=8)), perm=[1, 0]))
    out = net.op("Mul", net.op("Add", x, noise(3)), 0.3)
    model = check(net, tmp_path, out, x=noise(2, 4, 9, 8))
    assert operators(model) == ["binary_conv2d"] * 3 + ["reshape", "binary_matmul"]
    assert model.host is not None and model.host.exact
    assert model.host.operators[:2] == ("Sub 'n0'", "BipolarQuant 'n1'")
    assert [n.name for n in model.graph.nodes][:1] == ["n3"], "an operator is called after the node that sums"


@pytest.mark.parametrize("mode", sorted(ROUNDING))
@pytest.mark.parametrize(("signed", "narrow", "zero"), [(1, 0, 0), (1, 1, 1), (0, 0, 3), (0, 1, 0)])
def test_rounding_modes_and_zero_points(mode: str, signed: int, narrow: int, zero: int, tmp_path: Path) -> None:
    net = Network(3, 24)
    x = net.quant(net.op("Mul", "x", 2.0), 3, 0.5, zero, signed, narrow, rounding_mode=mode)
    x = net.op("MatMul", x, signs(24, 10))
    x = net.quant(net.op("Add", x, 0.25), 3, 4.0, zero, signed, narrow, rounding_mode=mode)
    out = net.op("MatMul", x, signs(10, 4, seed=5))
    model = check(net, tmp_path, out, x=noise(3, 24), tiles=False)
    assert operators(model) == ["bitserial_matmul"] * 2


def test_scales_by_output_channel(tmp_path: Path) -> None:
    """Those of weights go into the thresholds, and behind the last layer into the floats of the host."""
    net = Network(1, 3, 6, 6)
    scale = 2.0 ** np.arange(-3, 2).reshape(5, 1, 1, 1)
    x = net.quant("x", 8, 1 / 64)
    w = net.quant(noise(5, 3, 3, 3) * 4, 4, scale, narrow=1)
    x = net.quant(net.op("Relu", net.norm(net.op("Conv", x, w, pads=[1, 1, 1, 1]), *norms(5))), 2, 0.5, signed=0)
    w = net.op("Transpose", net.quant(noise(7, 180), 3, 2.0 ** np.arange(-3, 4).reshape(7, 1)), perm=[1, 0])
    out = net.op("MatMul", net.op("Flatten", x), w)
    model = check(net, tmp_path, out, x=noise(1, 3, 6, 6))
    assert operators(model) == ["bitserial_conv2d", "reshape", "bitserial_matmul"]
    weights = [str(n.bound.operands[1]) for n in model.graph.nodes if n.op.name != "reshape"]
    assert weights == ["5x3x3x3xi4", "7x180xi3"], "as narrow as what they were quantised to"


def test_scales_of_inputs_by_channel_where_each_sum_has_one(tmp_path: Path) -> None:
    net = Network(2, 3, 5, 5)
    x = net.quant("x", 4, np.array([0.25, 0.5, 1]).reshape(3, 1, 1))
    out = net.op("Conv", x, signs(6, 1, 3, 3), group=3)
    model = check(net, tmp_path, out, x=noise(2, 3, 5, 5))
    assert operators(model) == ["bitserial_conv2d"]


def test_scales_that_are_no_powers_of_two_are_remarked(tmp_path: Path) -> None:
    net = Network(2, 30)
    x = net.quant("x", 3, 0.3)
    total = net.op("MatMul", x, net.quant(noise(30, 8), 3, 0.7))
    out = net.op("MatMul", net.bipolar(net.norm(total, *norms(8))), signs(8, 3))
    model = check(net, tmp_path, out, x=noise(2, 30))
    assert model.host is not None and model.host.exact
    assert "floats round in the sums of MatMul 'n2'" in model.host.remarks[0]
    model = load_qonnx(net.save(tmp_path, total))
    assert model.host is not None and not model.host.exact
    x = noise(2, 30)
    _, got = through_tiles(model, x)
    np.testing.assert_allclose(got[total], evaluate(net.model(total), {"x": x})[total], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("scale", "bias", "exact"),
    [(0.25, -3.375, True), (0.3, 0.0, False), (1.0, 0.1, False), (4.0, 2.0**20, True), (0.5, 2.0**23 + 1, False)],
)
def test_sums_are_exact_where_no_order_of_adding_rounds(scale: float, bias: float, exact: bool, tmp_path: Path) -> None:
    net = Network(3, 24)
    total = net.op("Gemm", net.quant("x", 3, scale), signs(24, 2), [0, bias])
    model = load_qonnx(net.save(tmp_path, total))
    assert model.host is not None and model.host.exact == exact
    assert ("floats round" in "".join(model.host.remarks)) != exact
    x = noise(3, 24)
    got, want = through_tiles(model, x)[1], evaluate(net.model(total), {"x": x})
    np.testing.assert_allclose(got[total], want[total], rtol=0 if exact else 1e-6, atol=0 if exact else 1e-6)


@pytest.mark.parametrize("slope", [1, -1, None])
def test_relu_and_clip_bound_the_levels(slope: float | None, tmp_path: Path) -> None:
    """A clip before a batch norm of either sign: levels stay within those of its two limits."""
    net = Network(40, 16)
    x = net.op("MatMul", net.bipolar("x"), signs(16, 12))
    x = net.op("Relu", net.norm(x, *norms(12, 3)))
    x = net.op("Clip", net.norm(x, *norms(12, 4, slope)), -1.5, 2.25)
    x = net.quant(net.op("Add", x, noise(12)), 3, 0.5)
    out = net.op("MatMul", x, signs(12, 5))
    model = check(net, tmp_path, out, x=noise(40, 16))
    assert operators(model) == ["binary_matmul", "bitserial_matmul"]


def test_float_operators_between_layers(tmp_path: Path) -> None:
    net = Network(20, 16)
    x = net.op("Identity", net.op("MatMul", net.bipolar("x"), signs(16, 12)))
    x = net.op("Sub", noise(12), net.op("Neg", net.op("Div", x, np.linspace(-2, 3, 12))))
    x = net.op("Mul", net.op("Sub", x, 0.3), net.op("Pow", net.constant([2.5]), 0.5))
    out = net.op("MatMul", net.bipolar(x), signs(12, 5))
    assert operators(check(net, tmp_path, out, x=noise(20, 16))) == ["binary_matmul"] * 2


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("u2", {"out_dtype": "UINT2"}),
        ("i2", {"out_dtype": "INT2", "out_bias": -1.0}),
        ("i3", {"out_dtype": "INT3", "out_bias": -1.5, "out_scale": 0.5}),
    ],
)
def test_multi_threshold(kind: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    steps = 2 if kind == "i2" else 3
    net = Network(2, 4, 5, 5)
    levels = np.sort(noise(4, steps, seed=9), 1)
    x = net.op("MultiThreshold", "x", levels, domain=QONNX, **attributes)
    x = net.op("Conv", x, signs(6, 4, 3, 3))
    x = net.norm(x, *norms(6))
    x = net.op("MultiThreshold", x, np.sort(noise(6, steps), 1), domain="finn.custom_op.general", **attributes)
    out = net.op("Conv", x, signs(3, 6, 1, 1))
    model = check(net, tmp_path, out, x=noise(2, 4, 5, 5))
    assert operators(model) == ["bitserial_conv2d"] * 2
    assert [model.graph.types[v].dtype.name for v in ("t0", "t3")] == [kind] * 2


def test_multi_threshold_of_signs_and_of_channels_last(tmp_path: Path) -> None:
    net = Network(4, 3, 2, 6)
    sign = {"domain": QONNX, "out_dtype": "BIPOLAR", "out_scale": 2.0, "out_bias": -1.0}
    x = net.op("MultiThreshold", "x", noise(6, 1), data_layout="NHWC", **sign)
    x = net.op("MatMul", net.op("Reshape", x, net.constant([4, 36], np.int64)), signs(36, 8))
    x = net.op("MultiThreshold", x, [[1.5]], **sign)
    model = check(net, tmp_path, net.op("MatMul", x, signs(8, 3)), x=noise(4, 3, 2, 6))
    assert operators(model) == ["reshape", "binary_matmul", "binary_matmul"]


def test_max_pool_of_bits_and_of_numbers(tmp_path: Path) -> None:
    net = Network(1, 3, 9, 9)
    x = net.op("MaxPool", net.bipolar("x"), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    x = net.quant(net.norm(net.op("Conv", x, signs(4, 3, 3, 3), pads=[1, 1, 1, 1]), *norms(4)), 2, narrow=1)
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    model = check(net, tmp_path, net.op("Conv", x, signs(5, 4, 2, 2)), x=noise(1, 3, 9, 9))
    assert operators(model) == [
        *("binary_max_pool2d", "binary_conv2d", "transpose", "max_pool2d", "transpose", "bitserial_conv2d")
    ]


@pytest.mark.parametrize("bits", [1, 3])
@pytest.mark.parametrize("pads", [[2, 0, 0, 1], [0, 0, 1, 1], [1, 0, 2, 1]])
def test_pads_of_max_pools_are_different_on_every_side(bits: int, pads: list[int], tmp_path: Path) -> None:
    net = Network(1, 3, 7, 6)
    x = net.bipolar("x") if bits == 1 else net.quant("x", bits, 0.5)
    x = net.op("MaxPool", x, kernel_shape=[3, 2], pads=pads, strides=[1, 2])
    check(net, tmp_path, net.op("Conv", x, signs(4, 3, 2, 2)), x=noise(1, 3, 7, 6))


@pytest.mark.parametrize(("slope", "combine"), [(1.0, "or"), (-1.0, "and")])
def test_max_pool_of_sums_is_moved_behind_their_signs(slope: float, combine: str, tmp_path: Path) -> None:
    net = Network(2, 3, 8, 8)
    conv = net.op("Conv", net.bipolar("x"), signs(4, 3, 3, 3))
    x = net.op("MaxPool", net.op("Add", conv, 0.5), kernel_shape=[2, 2], strides=[2, 2])
    out = net.op("Conv", net.bipolar(net.norm(x, *norms(4, 6, slope))), signs(5, 4, 2, 2))
    model = check(net, tmp_path, out, x=noise(2, 3, 8, 8))
    assert operators(model) == ["binary_conv2d", "binary_max_pool2d", "binary_conv2d"]
    assert getattr(model.graph.nodes[1].op, "combine") == combine  # noqa: B009


def test_max_pool_of_sums_is_moved_behind_their_numbers(tmp_path: Path) -> None:
    net = Network(2, 3, 8, 8)
    x = net.op("MaxPool", net.op("Conv", net.bipolar("x"), signs(4, 3, 3, 3)), kernel_shape=[3, 2])
    model = check(net, tmp_path, net.op("Conv", net.quant(x, 3, 2.0), signs(5, 4, 2, 2)), x=noise(2, 3, 8, 8))
    assert operators(model)[:4] == ["binary_conv2d", "transpose", "max_pool2d", "transpose"]


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_residual_connections(bits: int, tmp_path: Path) -> None:
    """A sum and a quantised tensor are added in i32; what is added is stored as i8, which layers read too."""
    net = Network(2, 4, 6, 6)
    pads = {"pads": [1, 1, 1, 1]}
    quantise = net.bipolar if bits == 1 else lambda x: net.quant(x, bits, 1.0, narrow=1)
    a = quantise(net.norm(net.op("Conv", net.bipolar("x"), signs(4, 4, 3, 3), **pads), *norms(4)))
    b = net.op("Conv", a, signs(4, 4, 3, 3, seed=8), **pads)
    c = quantise(net.norm(net.op("Add", b, a), *norms(4, 9)))
    d = net.op("Add", c, a)
    out = net.op("Conv", net.bipolar(d), signs(3, 4, 1, 1))
    model = check(net, tmp_path, out, d, x=noise(2, 4, 6, 6))
    assert operators(model).count("add") == 2 and "threshold" in operators(model)
    assert model.graph.types[a].dtype.name == "i8"


def test_a_sum_with_two_readers_is_written_and_thresholded_apart(tmp_path: Path) -> None:
    net = Network(3, 16)
    total = net.op("MatMul", net.bipolar("x"), signs(16, 8))
    out = net.op("MatMul", net.bipolar(net.norm(total, *norms(8))), signs(8, 3))
    model = check(net, tmp_path, out, total, x=noise(3, 16))
    assert operators(model) == ["binary_matmul", "threshold", "binary_matmul"]
    assert set(model.graph.outputs) == {f"{total}.integer", f"{out}.integer"}


def test_gemm_biases_and_batches_of_matrices(tmp_path: Path) -> None:
    net = Network(3, 16)
    x = net.op("Gemm", net.bipolar("x"), signs(8, 16), [3, -2, 1, 0, 2, 0.5, -7, 1.5], transB=1)
    out = net.op("Gemm", net.quant(x, 3), signs(8, 4), np.arange(4))
    model = check(net, tmp_path, out, x=noise(3, 16))
    assert operators(model) == ["binary_matmul", "bitserial_matmul"]
    net = Network(2, 3, 4, 4)
    x = net.op("Conv", net.bipolar("x"), signs(5, 3, 2, 2), [0.5, -0.5, 2, 4, -3])
    check(net, tmp_path, net.op("Conv", net.bipolar(x), signs(2, 5, 1, 1)), x=noise(2, 3, 4, 4))
    net = Network(2, 5, 16)
    x = net.bipolar(net.op("Add", net.op("MatMul", net.bipolar("x"), signs(16, 8)), noise(8)))
    check(net, tmp_path, net.op("MatMul", x, signs(8, 3)), x=noise(2, 5, 16))


def test_xnor_popcount_counts_agreeing_bits(tmp_path: Path) -> None:
    net = Network(3, 16)
    bits = (signs(16, 9) + 1) / 2
    x = net.op("MultiThreshold", "x", [[0.0]], domain=QONNX, out_dtype="BINARY")
    x = net.op("XnorPopcountMatMul", x, bits, domain=QONNX)
    x = net.op("MultiThreshold", x, [[7.5], [8]] * 4 + [[9]], domain=QONNX, out_dtype="BINARY")
    out = net.op("XnorPopcountMatMul", x, bits[:9], domain=QONNX)
    assert operators(check(net, tmp_path, out, x=noise(3, 16))) == ["binary_matmul"] * 2


def test_outputs_that_are_quantised_themselves(tmp_path: Path) -> None:
    """A quantised tensor, one that is an input of the graph too, and what follows from both."""
    net = Network(3, 16)
    first = net.bipolar("x", 0.5)
    second = net.bipolar(net.norm(net.op("MatMul", first, signs(16, 16)), *norms(16)))
    both = net.op("Mul", net.op("Add", first, 0.25), second)
    model = check(net, tmp_path, first, second, both, x=noise(3, 16))
    assert "identity" in operators(model)


def test_what_is_not_one_operation_an_element_is_not_exact(tmp_path: Path) -> None:
    net = Network("N", 16, opset=9)
    out = net.op("Softmax", net.op("MatMul", net.bipolar("x"), signs(16, 8)), axis=1)
    model = load_qonnx(net.save(tmp_path, out))
    assert model.host is not None and not model.host.exact
    assert model.host.remarks == ("the first dimension of input 'x', which the model leaves open, is taken as 1",)
    x = noise(1, 16)
    _, got = through_tiles(model, x)
    np.testing.assert_allclose(got[out], evaluate(net.model(out), {"x": x})[out], rtol=1e-6)


def test_shapes_are_computed_and_steps_can_be_sent_to_another_process(tmp_path: Path) -> None:
    net = Network(2, 3, 4, 4, opset=9)
    rows = net.op("Gather", net.op("Shape", "x"), net.constant(0, np.int64), axis=0)
    shape = net.op("Concat", net.op("Unsqueeze", rows, axes=[0]), net.constant([-1], np.int64), axis=0)
    x = net.bipolar(net.op("Reshape", "x", shape))
    out = net.op("Mul", net.op("MatMul", x, signs(48, 8)), 0.125)
    model = check(net, tmp_path, out, x=noise(2, 3, 4, 4))
    again = pickle.loads(pickle.dumps(model))
    x = noise(2, 3, 4, 4, seed=5)
    np.testing.assert_array_equal(through_tiles(again, x)[1][out], evaluate(net.model(out), {"x": x})[out])


def test_quantised_tensors_are_quantised_again(tmp_path: Path) -> None:
    net = Network(3, 6, 4, 4)
    x = net.quant("x", 4, 0.25)
    x = net.bipolar(net.norm(x, *norms(6)))
    out = net.op("Conv", x, signs(3, 6, 1, 1))
    assert operators(check(net, tmp_path, out, x=noise(3, 6, 4, 4))) == ["threshold", "binary_conv2d"]


def annotate(path: Path, data_type: str) -> Path:
    model = onnx.load(path)
    pair = onnx.StringStringEntryProto(key="finn_datatype", value=data_type)
    note = onnx.TensorAnnotation(tensor_name="x", quant_parameter_tensor_names=[pair])
    model.graph.quantization_annotation.append(note)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(("data_type", "kind"), [("UINT8", "u8"), ("BIPOLAR", "u1"), ("INT4", "i8"), ("TERNARY", "i2")])
def test_inputs_that_finn_annotates_as_integers(data_type: str, kind: str, tmp_path: Path) -> None:
    net = Network(2, 16)
    out = net.op("MatMul", "x", signs(16, 4))
    model = load_qonnx(annotate(net.save(tmp_path, out), data_type))
    assert [t.dtype.name for v, t in model.graph.types.items() if v in model.graph.inputs] == [kind]
    x = np.float32(signs(2, 16))
    x = {"UINT8": 100 + 100 * x, "INT4": 7 * x - 1, "TERNARY": np.where(x < 0, 0, x), "BIPOLAR": x}[data_type]
    _, got = through_tiles(model, x)
    np.testing.assert_array_equal(got[out], evaluate(net.model(out), {"x": x})[out], strict=True)
    with pytest.raises(InputError, match="input 'x' must be made of .*, as its FINN annotation says, got 0.5"):
        through_tiles(model, np.full((2, 16), 0.5, np.float32))


@pytest.mark.parametrize("bits", [1, 3])
def test_inputs_that_are_not_numbers(bits: int, tmp_path: Path) -> None:
    net = Network(2, 16)
    model = load_qonnx(net.save(tmp_path, net.op("MatMul", net.quant("x", bits), signs(16, 4))))
    with pytest.raises(InputError, match="Quant 'n0' is given values that are not numbers"):
        through_tiles(model, np.full((2, 16), np.nan, np.float32))


def test_layers_that_nothing_reads_are_left_out(tmp_path: Path) -> None:
    net = Network(2, 16)
    x = net.bipolar("x")
    net.op("MatMul", x, signs(16, 9))
    model = check(net, tmp_path, net.op("MatMul", x, signs(16, 4)), x=noise(2, 16))
    assert operators(model) == ["binary_matmul"] and len(model.graph.constants) == 1

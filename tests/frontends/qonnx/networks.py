"""Builds small QONNX networks, and evaluates any in plain numpy, node by node from the operators' definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.frontends.chip import load_chip
from npusim.frontends.model import Model
from npusim.frontends.qonnx import load_qonnx
from npusim.functional import evaluate_graph
from npusim.numerics.types import Array
from npusim.session import Job, run

onnx = pytest.importorskip("onnx", reason="reading ONNX files takes the extra npusim[onnx]")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

QONNX = "qonnx.custom_op.general"


class Network:
    """An ONNX model under construction, with the input ``x``; every method returns the name of the tensor it adds."""

    def __init__(self, *shape: int | str, opset: int = 13) -> None:
        self.shape, self.opset = shape, opset
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def op(self, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Inputs that are no names become constants."""
        output = f"t{len(self.nodes)}"
        names = [v if isinstance(v, str) else self.constant(v) for v in inputs]
        self.nodes.append(
            helper.make_node(operator, names, [output], f"n{len(self.nodes)}", domain=domain, **attributes)
        )
        return output

    def bipolar(self, x: Any, scale: Any = 1.0) -> str:
        return self.op("BipolarQuant", x, scale, domain=QONNX)

    def quant(
        self, x: Any, bits: int, scale: Any = 1.0, zero: float = 0, signed: int = 1, narrow: int = 0, **kw: Any
    ) -> str:
        return self.op("Quant", x, scale, zero, bits, domain=QONNX, signed=signed, narrow=narrow, **kw)

    def norm(self, x: str, scale: Any, bias: Any, mean: Any, variance: Any) -> str:
        return self.op("BatchNormalization", x, scale, bias, mean, variance, epsilon=1e-5)

    def model(self, *outputs: str) -> Any:
        x = helper.make_tensor_value_info("x", 1, self.shape)
        ends = [helper.make_tensor_value_info(v, 1, None) for v in outputs]
        graph = helper.make_graph(self.nodes, "net", [x], ends, self.constants)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(QONNX, 1)]
        return helper.make_model(graph, opset_imports=imports)

    def save(self, folder: Path, *outputs: str) -> Path:
        path = folder / "net.onnx"
        path.write_bytes(self.model(*outputs).SerializeToString())
        return path


def through_tiles(model: Model, x: Array, name: str = "x") -> tuple[dict[str, Array], dict[str, Array]]:
    """The outputs of the graph and of the model, run on the preset ``binary``."""
    assert model.host is not None
    job = Job(graph=model.graph, chip=load_chip("binary"), inputs=model.host.prepare(model.graph, {name: x}))
    results = dict(run(job).outputs)
    return results, model.host.complete(results)


def whole(model: Model, x: Array) -> tuple[dict[str, Array], dict[str, Array]]:
    """The same, operator by operator."""
    assert model.host is not None
    results = evaluate_graph(model.graph, model.host.prepare(model.graph, {"x": x}), {})
    return results, model.host.complete(results)


def check(network: Network, folder: Path, *outputs: str, x: Array, tiles: bool = True) -> Model:
    """Load, run (through tiles or whole), and compare every output of the model with the oracle; they must be equal."""
    path = network.save(folder, *outputs)
    model = load_qonnx(path)
    got = (through_tiles(model, x) if tiles else whole(model, x))[1]
    want = evaluate(onnx.load(path), {"x": x})
    for v in outputs:
        assert got[v].dtype == np.float32 and got[v].shape == want[v].shape
        np.testing.assert_array_equal(got[v], want[v], strict=True)
        assert len(np.unique(want[v])) > 1, "an output that is all the same shows nothing"
    return model


def operators(model: Model) -> list[str]:
    """The operators of the graph in order."""
    return [n.op.name for n in model.graph.nodes]


# -- the oracle --------------------------------------------------------------------------------------------------------


def evaluate(model: Any, given: dict[str, Array]) -> dict[str, Array]:
    """Every tensor of a model. Sums of products are taken in float64, which holds those of these networks exactly."""
    found = {**given, **{t.name: numpy_helper.to_array(t) for t in model.graph.initializer}}
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        operands = [found[v] if v else None for v in node.input]
        with np.errstate(all="ignore"):
            found[node.output[0]] = np.asarray(OPERATORS[node.op_type](attributes, *operands))
    return found


def _quant(a: dict[str, Any], x: Array, scale: Array, zero: Array, bits: Array) -> Array:
    signed, narrow, b = a.get("signed", 1), a.get("narrow", 1), int(bits)
    y = x / scale + zero
    if b == 1 and signed:
        return np.where(y >= 0, scale, -scale).astype(np.float32)
    low = -(2 ** (b - 1)) + narrow if signed else 0
    high = 2 ** (b - 1) - 1 if signed else 2**b - 1 - narrow
    y = np.minimum(np.maximum(y, low), high)
    mode = a.get("rounding_mode", b"ROUND").decode()
    half = np.float32(0.5)
    rounded = {
        "ROUND": np.round,
        "FLOOR": np.floor,
        "CEIL": np.ceil,
        "HALF_EVEN": np.round,
        "ROUND_TO_ZERO": np.trunc,
        "DOWN": np.trunc,
        "UP": lambda v: np.sign(v) * np.ceil(np.abs(v)),
        "HALF_UP": lambda v: np.sign(v) * np.floor(np.abs(v) + half),
        "HALF_DOWN": lambda v: np.sign(v) * np.ceil(np.abs(v) - half),
    }[mode](y)
    return ((rounded - zero) * scale).astype(np.float32)


def _multi_threshold(a: dict[str, Any], x: Array, thresholds: Array) -> Array:
    axis = 1 if a.get("data_layout", b"NCHW") == b"NCHW" else x.ndim - 1
    moved = np.moveaxis(x, axis, -1)
    count = (moved[..., None] >= thresholds).sum(-1)
    return np.moveaxis(a.get("out_scale", 1.0) * count + a.get("out_bias", 0.0), -1, axis).astype(np.float32)


def _windows(x: Array, a: dict[str, Any], kernel: tuple[int, int], fill: float) -> Any:
    top, left, bottom, right = a.get("pads", (0, 0, 0, 0))
    (sy, sx), (dy, dx) = a.get("strides", (1, 1)), a.get("dilations", (1, 1))
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    rows = (padded.shape[2] - (kernel[0] - 1) * dy - 1) // sy + 1
    columns = (padded.shape[3] - (kernel[1] - 1) * dx - 1) // sx + 1
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            y, z = i * dy, j * dx
            yield i, j, padded[:, :, y : y + (rows - 1) * sy + 1 : sy, z : z + (columns - 1) * sx + 1 : sx]


def _conv(a: dict[str, Any], x: Array, w: Array, bias: Array | None = None) -> Array:
    groups, out = a.get("group", 1), 0.0
    filters, depth = w.shape[:2]
    for i, j, part in _windows(x.astype(np.float64), a, w.shape[2:], 0):
        parts = [
            np.einsum("nchw,oc->nohw", part[:, g * depth : (g + 1) * depth], w[s, :, i, j].astype(np.float64))
            for g in range(groups)
            for s in [slice(g * filters // groups, (g + 1) * filters // groups)]
        ]
        out = out + np.concatenate(parts, 1)
    out = np.asarray(out, np.float32)
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def _max_pool(a: dict[str, Any], x: Array) -> Array:
    return np.max([part for *_, part in _windows(x, a, a["kernel_shape"], -np.inf)], 0)


def _norm(a: dict[str, Any], x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
    shape = (-1, *[1] * (x.ndim - 2))
    deviation = np.sqrt(variance + np.float32(a["epsilon"]))
    return (x - mean.reshape(shape)) / deviation.reshape(shape) * scale.reshape(shape) + bias.reshape(shape)


def _gemm(a: dict[str, Any], x: Array, w: Array, bias: Array | None = None) -> Array:
    w = w.T if a.get("transB", 0) else w
    out = (x.astype(np.float64) @ w.astype(np.float64)).astype(np.float32)
    return out if bias is None else out + bias


def _xnor(a: dict[str, Any], x: Array, w: Array) -> Array:
    return (x[:, :, None] == w[None]).sum(1).astype(np.float32)


def _softmax(a: dict[str, Any], x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


OPERATORS: dict[str, Any] = {
    "Quant": _quant,
    "BipolarQuant": lambda a, x, scale: np.where(x >= 0, scale, -scale).astype(np.float32),
    "MultiThreshold": _multi_threshold,
    "Conv": _conv,
    "MaxPool": _max_pool,
    "BatchNormalization": _norm,
    "Gemm": _gemm,
    "MatMul": _gemm,
    "XnorPopcountMatMul": _xnor,
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Pow": lambda a, x, y: x**y,
    "Neg": lambda a, x: -x,
    "Relu": lambda a, x: np.maximum(x, np.float32(0)),
    "Clip": lambda a, x, low=-np.inf, high=np.inf: np.clip(x, a.get("min", low), a.get("max", high)),
    "Identity": lambda a, x: x,
    "Softmax": _softmax,
    "Shape": lambda a, x: np.array(x.shape, np.int64),
    "Gather": lambda a, x, i: np.take(x, i, a.get("axis", 0)),
    "Unsqueeze": lambda a, x, axes=None: np.expand_dims(x, tuple(a.get("axes", axes))),
    "Concat": lambda a, *parts: np.concatenate(parts, a["axis"]),
    "Reshape": lambda a, x, shape: x.reshape(shape),
    "Flatten": lambda a, x: x.reshape(int(np.prod(x.shape[: a.get("axis", 1)])), -1),
    "Transpose": lambda a, x: np.transpose(x, a.get("perm")),
}

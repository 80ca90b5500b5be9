"""OpenVINO IRs for the tests, written layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import quoteattr

import numpy as np

from npusim.frontends.model import Model, ModelOptions
from npusim.frontends.openvino import load_openvino
from npusim.functional import evaluate_graph
from npusim.numerics.types import Array

PRECISIONS = {
    "f32": "FP32", "f16": "FP16", "i32": "I32", "i16": "I16", "i8": "I8", "u8": "U8", "boolean": "BOOL", "u1": "U1",
}  # fmt: skip
STORAGE = {"f32": "<f4", "f16": "<f2", "i32": "<i4", "i16": "<i2", "i8": "i1", "u8": "u1", "boolean": "u1"}


@dataclass(frozen=True)
class Output:
    """An output of a layer, as the layers behind it read it."""

    layer: str
    port: int
    shape: tuple[int, ...]
    element: str


@dataclass
class Ir:
    """An IR under way. Every method adds a layer and gives its (first) output."""

    bit_order: Literal["little", "big"] = "little"
    layers: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)

    def layer(
        self,
        kind: str,
        name: str,
        inputs: Sequence[Output],
        shape: Sequence[int] | None,
        element: str,
        attributes: Mapping[str, Any],
        version: str = "opset1",
        indices: bool = False,
    ) -> Output:
        """Any layer; an attribute of None is left out. ``indices``: a second output of i32 and the same shape."""
        number = str(len(self.layers))
        given = " ".join(f"{k}={quoteattr(spell(v))}" for k, v in attributes.items() if v is not None)
        taken = "".join(port(i, x.shape, x.element) for i, x in enumerate(inputs))
        made = "" if shape is None else port(len(inputs), shape, element)
        if indices and shape is not None:
            made += port(len(inputs) + 1, shape, "i32")
        self.layers.append(
            f'<layer id="{number}" name={quoteattr(name)} type="{kind}" version="{version}"><data {given}/>'
            + (f"<input>{taken}</input>" if inputs else "")
            + (f"<output>{made}</output>" if made else "")
            + "</layer>"
        )
        for i, x in enumerate(inputs):
            self.edges.append(f'<edge from-layer="{x.layer}" from-port="{x.port}" to-layer="{number}" to-port="{i}"/>')
        return Output(number, len(inputs), tuple(shape or ()), element)

    def parameter(self, shape: Sequence[int], element: str = "f32", name: str = "x", **over: Any) -> Output:
        attributes = {"shape": list(shape), "element_type": element}
        return self.layer("Parameter", name, (), shape, element, {**attributes, **over})

    def constant(
        self, name: str, array: Any, element: str = "f32", raw: bytes | None = None, kind: str = "Const", **over: Any
    ) -> Output:
        values = np.asarray(array)
        if raw is None and element == "u1":
            raw = np.packbits(values.reshape(-1).astype(np.uint8), bitorder=self.bit_order).tobytes()
        elif raw is None:
            raw = values.astype(STORAGE[element]).tobytes()
        stated = {"element_type": element, "shape": list(values.shape), "offset": len(self.data), "size": len(raw)}
        self.data += raw
        return self.layer(kind, name, (), values.shape, element, {**stated, **over})

    def convolution(
        self, x: Output, weight: Any, shape: Sequence[int], name: str = "conv", element: str | None = None, **over: Any
    ) -> Output:
        kernel = self.constant(f"{name}/kernel", weight, "u1")
        stated = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
        more = {"mode": "xnor-popcount", "pad_value": 0, "auto_pad": "explicit"}
        attributes = {**stated, **more, **over}
        return self.layer("BinaryConvolution", name, (x, kernel), shape, element or x.element, attributes)

    def quantize(self, x: Output, limits: Sequence[Any], name: str = "fq", **over: Any) -> Output:
        """FakeQuantize with input_low, input_high, output_low and output_high."""
        made = [self.constant(f"{name}/{i}", np.asarray(v, np.float64), x.element) for i, v in enumerate(limits)]
        return self.layer("FakeQuantize", name, (x, *made), x.shape, x.element, {"levels": 2, **over})

    def pool(
        self, x: Output, shape: Sequence[int], name: str = "pool", version: str = "opset1", indices: bool = False,
        **over: Any,
    ) -> Output:  # fmt: skip
        stated = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
        return self.layer("MaxPool", name, (x,), shape, x.element, {**stated, **over}, version, indices)

    def add(self, a: Output, b: Output, name: str = "add", **over: Any) -> Output:
        return self.layer("Add", name, (a, b), np.broadcast_shapes(a.shape, b.shape), a.element, over)

    def result(self, x: Output, name: str = "y") -> None:
        self.layer("Result", name, (x,), None, x.element, {})

    def xml(self) -> str:
        body = f"<layers>{''.join(self.layers)}</layers><edges>{''.join(self.edges)}</edges>"
        return f'<?xml version="1.0"?><net name="n" version="11">{body}</net>'

    def load(self, folder: Path, **options: Any) -> Model:
        """Write both files as ``net`` and read them."""
        (folder / "net.xml").write_text(self.xml())
        (folder / "net.bin").write_bytes(bytes(self.data))
        return load_openvino(folder / "net.xml", ModelOptions(**options))


def spell(value: Any) -> str:
    """An attribute as the format has it."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def port(number: int, shape: Sequence[int], element: str) -> str:
    dims = "".join(f"<dim>{n}</dim>" for n in shape)
    return f'<port id="{number}" precision="{PRECISIONS[element]}">{dims}</port>'


def run(model: Model, **inputs: Array) -> dict[str, Array]:
    """The model's outputs, operator by operator."""
    assert model.host is not None
    return model.host.complete(evaluate_graph(model.graph, model.host.prepare(model.graph, inputs)))


def sums(x: Array, w: Array, pad: tuple[int, int, int, int] = (0, 0, 0, 0), value: int = 0, stride: int = 1) -> Array:
    """A binary convolution by plain loops; ``pad`` [top, bottom, left, right]."""
    a, k = 2 * x.astype(np.int64) - 1, 2 * w.astype(np.int64) - 1
    a = np.pad(a, ((0, 0), (0, 0), pad[:2], pad[2:]), constant_values=value)
    rows, columns = ((a.shape[2 + i] - k.shape[2 + i]) // stride + 1 for i in (0, 1))
    out = np.zeros((len(a), len(k), rows, columns), np.int64)
    for n, o, p, q in np.ndindex(*out.shape):
        window = a[n, :, p * stride : p * stride + k.shape[2], q * stride : q * stride + k.shape[3]]
        out[n, o, p, q] = (window * k[o]).sum()
    return out

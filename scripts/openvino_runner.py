"""Runs binary networks on OpenVINO's CPU plugin: started by oracle_openvino.py, in the environment that has OpenVINO.

Usage: ``python openvino_runner.py CASES RESULTS``. CASES is a ``.npz`` file: ``networks`` holds JSON, a list of
networks as lists of layers, and the arrays that the layers name. RESULTS becomes a ``.npz`` file with the output of
each network, ``r0``, ``r1``, ..., and the bytes of the two files that were run, ``xml0`` and ``bin0``, ... Layers, each
of which reads the one before it, or the one of number ``from``:

* ``{"input": array}``: where a network starts, an array of float32.
* ``{"conv": weight, "strides", "dilations", "pads_begin", "pads_end", "auto_pad", "pad_value", "size"}``:
  BinaryConvolution with the bits of the array ``weight`` [O,C,KH,KW], packed as u1, least significant bit first;
  ``size`` are the rows and columns of the output.
* ``{"quantize": thresholds, "low", "high"}``: FakeQuantize of two levels, x > threshold ? high : low, per channel.
* ``{"pool": kernel, "strides", "pads_begin", "pads_end", "size"}``: MaxPool.
* ``{"bias": constant}``: Add of a constant per channel. ``{"plus": number}``: Add of that layer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np


class Model:
    """An intermediate representation under way: the XML of its layers and edges, and the bytes of its constants."""

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.edges: list[str] = []
        self.outputs: dict[int, int] = {}
        self.data = bytearray()

    def layer(self, kind: str, attributes: str, inputs: list[tuple[int, tuple[int, ...], str]],
              shape: tuple[int, ...] | None, precision: str) -> int:  # fmt: skip
        """Append a layer that reads ``inputs`` (number, shape, precision of the layer that makes each); its number."""
        number = len(self.layers)
        ports = "".join(port(k, s, p) for k, (_, s, p) in enumerate(inputs))
        made = "" if shape is None else f"<output>{port(len(inputs), shape, precision)}</output>"
        taken = f"<input>{ports}</input>" if inputs else ""
        named = f'id="{number}" name="l{number}" type="{kind}" version="opset1"'
        self.layers.append(f"<layer {named}><data {attributes}/>{taken}{made}</layer>")
        for k, (source, _, _) in enumerate(inputs):
            out = self.outputs[source]
            self.edges.append(f'<edge from-layer="{source}" from-port="{out}" to-layer="{number}" to-port="{k}"/>')
        self.outputs[number] = len(inputs)
        return number

    def constant(self, element: str, shape: tuple[int, ...], data: bytes) -> int:
        """Append a constant."""
        offset = len(self.data)
        self.data += data + bytes(-len(data) % 8)
        size = ",".join(map(str, shape))
        attributes = f'element_type="{element}" shape="{size}" offset="{offset}" size="{len(data)}"'
        return self.layer("Const", attributes, [], shape, {"u1": "U1", "f32": "FP32"}[element])

    def xml(self) -> str:
        """The whole model."""
        body = f"<layers>{''.join(self.layers)}</layers><edges>{''.join(self.edges)}</edges>"
        return f'<?xml version="1.0"?><net name="binary" version="11">{body}</net>'


def port(number: int, shape: tuple[int, ...], precision: str) -> str:
    """A port of a layer."""
    dims = "".join(f"<dim>{n}</dim>" for n in shape)
    return f'<port id="{number}" precision="{precision}">{dims}</port>'


def build(layers: list[dict[str, Any]], arrays: Mapping[str, Any]) -> Model:
    """The model of a network."""
    model = Model()
    shape = tuple(arrays[layers[0]["input"]].shape)
    size = ",".join(map(str, shape))
    value = model.layer("Parameter", f'shape="{size}" element_type="f32"', [], shape, "FP32")
    made = [(value, shape)]
    for layer in layers[1:]:
        value, shape = made[layer.get("from", -1)]
        if "conv" in layer:
            weight = arrays[layer["conv"]]
            packed = np.packbits(weight.reshape(-1), bitorder="little").tobytes()
            bits = model.constant("u1", weight.shape, packed)
            names = ("strides", "dilations", "pads_begin", "pads_end", "auto_pad", "pad_value")
            given = " ".join(f'{n}="{text(layer[n])}"' for n in names)
            inputs = [(value, shape, "FP32"), (bits, tuple(weight.shape), "U1")]
            shape = (shape[0], weight.shape[0], *layer["size"])
            value = model.layer("BinaryConvolution", f'{given} mode="xnor-popcount"', inputs, shape, "FP32")
        elif "pool" in layer:
            given = " ".join(f'{n}="{text(layer[n])}"' for n in ("strides", "pads_begin", "pads_end"))
            inputs = [(value, shape, "FP32")]
            shape = (*shape[:2], *layer["size"])
            value = model.layer("MaxPool", f'{given} kernel="{text(layer["pool"])}"', inputs, shape, "FP32")
        elif "plus" in layer:
            inputs = [(value, shape, "FP32"), (*made[layer["plus"]], "FP32")]
            value = model.layer("Add", 'auto_broadcast="numpy"', inputs, shape, "FP32")
        elif "bias" in layer:
            bias = per_channel(model, arrays[layer["bias"]])
            value = model.layer("Add", 'auto_broadcast="numpy"', [(value, shape, "FP32"), bias], shape, "FP32")
        else:
            names = (layer["quantize"], layer["quantize"], layer["low"], layer["high"])
            limits = [per_channel(model, arrays[name]) for name in names]
            value = model.layer("FakeQuantize", 'levels="2"', [(value, shape, "FP32"), *limits], shape, "FP32")
        made.append((value, shape))
    model.layer("Result", "", [(value, shape, "FP32")], None, "FP32")
    return model


def per_channel(model: Model, numbers: Any) -> tuple[int, tuple[int, ...], str]:
    """A constant with a number for each channel."""
    shape = (1, len(numbers), 1, 1)
    return model.constant("f32", shape, np.ascontiguousarray(numbers, np.float32).tobytes()), shape, "FP32"


def text(value: Any) -> str:
    """An attribute as the format spells it."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def main() -> None:
    """Run all networks."""
    import openvino  # here, as building a model needs numpy alone

    cases, results = sys.argv[1:]
    arrays = np.load(cases)
    core = openvino.Core()
    made = {}
    for k, layers in enumerate(json.loads(str(arrays["networks"]))):
        model = build(layers, arrays)
        data = openvino.Tensor(np.frombuffer(bytes(model.data), np.uint8).copy())
        compiled = core.compile_model(core.read_model(model.xml().encode(), data), "CPU")
        made[f"r{k}"] = compiled([arrays[layers[0]["input"]]])[0]
        made[f"xml{k}"] = np.frombuffer(model.xml().encode(), np.uint8)
        made[f"bin{k}"] = np.frombuffer(bytes(model.data), np.uint8)
    np.savez(results, **made)


if __name__ == "__main__":
    main()

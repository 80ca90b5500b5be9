"""GAP9 with NE16: the networks of MLPerf Tiny, end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]

from npusim.errors import InputError
from npusim.explore.validation import Case, Row
from npusim.frontends.chip import load_chip
from npusim.graph.graph import Graph, GraphBuilder
from npusim.ir.mapping_options import MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8, I32, DType, ceil_div
from npusim.ops import make_op, op_class
from npusim.timing import simulate

NETWORKS = Path(__file__).with_name("networks.yaml")
SCALE = {"scale32": True, "rounding": "single", "input_unsigned": False, "output_unsigned": False, "out_type": "i8"}


def read(path: Path) -> list[Row]:
    measured = yaml.safe_load(path.read_text(encoding="utf-8"))["measured"]
    return [
        Row(f"{name} {key.removeprefix('cycles_')} MHz", name, cycles, "cycles")
        for name, values in measured.items()
        for key, cycles in values.items()
        if key.startswith("cycles_")
    ]


class Network:
    """Builds a network layer by layer; results are requantised to int8 with a factor for each channel."""

    def __init__(self, name: str, shape: list[int]) -> None:
        self.graph = GraphBuilder(name)
        self.shapes = {"input": shape}
        self.graph.input("input", TensorType((1, *shape), I8))

    def node(self, name: str, op: str, inputs: tuple[str, ...], **attributes: Any) -> str:
        self.graph.node(name, make_op(op, attributes), inputs, name)
        return name

    def constant(self, name: str, shape: tuple[int, ...], dtype: DType) -> str:
        self.graph.constant(name, TensorType(shape, dtype), np.broadcast_to(np.ones((), dtype.storage), shape))
        return name

    def rescale(self, name: str, value: str, channels: int) -> str:
        constants = (
            self.constant(f"{name}.multiplier", (channels,), I32),
            self.constant(f"{name}.shift", (channels,), I8),
        )
        return self.node(name, "rescale", (value, *constants), per_channel=channels > 1, **SCALE)

    def layer(self, layer: dict[str, Any], inputs: list[str]) -> None:
        name, op, out, shape = layer["name"], layer["op"], layer["out"], self.shapes[inputs[0]]
        self.shapes[name] = out
        if op in ("conv", "depthwise"):
            depthwise, kernel = op == "depthwise", layer["kernel"]
            stride = [int(ceil_div(i, o)) for i, o in zip(shape, out[:2], strict=False)]
            total = [max(0, (o - 1) * s + k - i) for i, o, s, k in zip(shape, out, stride, kernel, strict=False)]
            pad = tuple(p for t in total for p in (t // 2, t - t // 2))
            of = (*kernel, shape[2], 1) if depthwise else (out[2], *kernel, shape[2])
            operands = (
                inputs[0],
                self.constant(f"{name}.weight", of, I8),
                self.constant(f"{name}.bias", (out[2],), I32),
            )
            kind = "depthwise_conv2d" if depthwise else "conv2d"
            op = op_class(kind)(pad=pad, stride=tuple(stride), dilation=(1, 1), dialect="seed")
            self.graph.node(f"{name}.sums", op, operands, f"{name}.sums")
            self.rescale(name, f"{name}.sums", out[2])
        elif op == "fc":
            flat = self.node(f"{name}.flat", "reshape", tuple(inputs), new_shape=[1, shape[-1]])
            weight = self.constant(f"{name}.weight", (out[0], shape[-1]), I8)
            sums = self.node(
                f"{name}.sums", "fully_connected", (flat, weight, self.constant(f"{name}.bias", (out[0],), I32))
            )
            self.rescale(name, sums, out[0])
        elif op == "add":
            wide = tuple(self.node(f"{name}.{i}", "cast", (v,), out_type="i32") for i, v in enumerate(inputs))
            self.rescale(name, self.node(f"{name}.sums", "add", wide), 1)
        elif op == "pool":
            self.node(name, "avg_pool2d", tuple(inputs), kernel=shape[:2], stride=[1, 1], pad=[0] * 4)
        elif op == "softmax":  # its exponentials
            self.node(name, "table", (inputs[0], self.constant(f"{name}.table", (256,), I8)))
        else:
            raise InputError(f"layer {name}: unknown op {op!r}; it is conv, depthwise, fc, add, pool or softmax")


def workload(name: str) -> Graph:
    networks = yaml.safe_load(NETWORKS.read_text(encoding="utf-8"))["networks"]
    if name not in networks:
        raise InputError(f"{name}: no such network; {NETWORKS.name} has {', '.join(networks)}")
    network, before = Network(name, networks[name]["input"]), "input"
    for layer in networks[name]["layers"]:
        network.layer(layer, layer.get("from", [before]))
        before = layer["name"]
    return network.graph.finish((before,))


def predict(row: Row) -> int:
    """Feature maps go through level 2 between layers, as in the code that AutoTiler makes; tiles are npusim's own."""
    chip = load_chip("gap9")
    return simulate(
        map_graph(workload(row.group), chip, MappingOptions(residency=False, overlap=False)).program, chip
    ).cycles


CASE = Case(
    name="gap9_ne16_mlperf_tiny",
    title="GAP9 with NE16, networks of MLPerf Tiny end to end",
    source="mlcommons/tiny_results_v1.0, closed/greenwaves-technologies",
    chips=("gap9",),
    rows_file=Path(__file__).with_name("measured.yaml"),
    read=read,
    predict=predict,
    measure="each",
    target=15,
    inferred=("control.layer_cycles",),
    peers=(
        ("GVSoC (no row of this variant)", "no error published"),
        ("MATCH's cost model of NE16", "no error published"),
    ),
)

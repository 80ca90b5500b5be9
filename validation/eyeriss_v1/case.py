"""Eyeriss: the convolutions of AlexNet on the chip, processing time layer by layer.

Processing times leave out what the chip waits for DRAM, during which it does not compute: they are predicted by the
cycles in which the array is busy. The groups of a layer are alike, so one is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]

from npusim.explore.validation import Case, Row
from npusim.frontends.chip import load_chip
from npusim.graph.graph import Graph, GraphBuilder
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8, I16, I48
from npusim.ops import make_op
from npusim.program import Compute
from npusim.timing import simulate

MAPPINGS = {
    "alexnet CONV1": (96, 1, 7, 1),
    "alexnet CONV2": (64, 1, 27, 2),
    "alexnet CONV3": (64, 4, 13, 4),
    "alexnet CONV4": (64, 4, 13, 6),
    "alexnet CONV5": (64, 4, 13, 6),
}
"""m filters, n images and e ofmap rows in the global buffer, and q * r channels a pass: the mappings that the paper
publishes of AlexNet. The mapping within the array (p, q, r, t) is npusim's own; other layers it maps by search."""


def read(path: Path) -> list[Row]:
    networks = yaml.safe_load(path.read_text(encoding="utf-8"))["networks"]
    return [
        Row(f"{name} {layer['name']}", name, layer["processing_cycles_at_200MHz"], "cycles",
            {**layer, "batch": network["batch"]})
        for name, network in networks.items()
        for layer in network["layers"]
    ]  # fmt: skip


def workload(layer: dict[str, Any]) -> Graph:
    """One group of a layer."""
    channels, filters = layer["C"] // layer["groups"], layer["K"] // layer["groups"]
    graph = GraphBuilder(layer["name"])
    graph.input("ifmap", TensorType((layer["batch"], layer["H"], layer["W"], channels), I16))
    constants = (
        ("filters", (filters, layer["R"], layer["S"], channels), I8), ("bias", (filters,), I48),
        ("multiplier", (1,), I16), ("shift", (1,), I8),
    )  # fmt: skip
    for name, shape, dtype in constants:
        graph.constant(name, TensorType(shape, dtype), np.broadcast_to(np.ones((), dtype.storage), shape))
    window = {"pad": [layer["pad"]] * 4, "stride": [layer["stride"]] * 2, "dilation": [1, 1]}
    graph.node("layer", make_op("conv2d", window), ("ifmap", "filters", "bias"), "sums")
    scale = {"scale32": False, "rounding": "single", "per_channel": False, "out_type": "i16"}
    flags = {"input_unsigned": False, "output_unsigned": False}
    graph.node("rescale", make_op("rescale", {**scale, **flags}), ("sums", "multiplier", "shift"), "ofmap")
    return graph.finish(("ofmap",))


def mapping(row: Row) -> MappingOptions:
    """The published mapping; one slot an operand, as the chip computes when its transfers are done."""
    tile = {}
    if row.id in MAPPINGS:
        m, n, e, channels = MAPPINGS[row.id]
        tile = {"n": n, "oy": e, "ox": 1 << 20, "oc": m, "ic": channels}
    return MappingOptions(layers={"layer": LayerOptions(tile=tile, buffers=1)})


def predict(row: Row) -> int:
    layer: dict[str, Any] = row.facts
    chip = load_chip("eyeriss_v1")
    program = map_graph(workload(layer), chip, mapping(row)).program
    spans = simulate(program, chip).spans
    busy = sum(s.busy for c, s in zip(program, spans, strict=True) if isinstance(c, Compute))
    return int(layer["groups"]) * busy


CASE = Case(
    name="eyeriss_v1",
    title="Eyeriss, chip, AlexNet per layer",
    source="Chen, Krishna, Emer, Sze, IEEE JSSC 52(1), 2017, table V",
    chips=("eyeriss_v1",),
    rows_file=Path(__file__).with_name("measured.yaml"),
    read=read,
    predict=predict,
    measure="each",
    target=10,
    inferred=(),
    peers=(("MAESTRO", "about 4 % on average, by its authors' account"),),
)

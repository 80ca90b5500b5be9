"""FINN: binary networks streaming through a pipeline of layers, time for one image and per image of a long batch."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]

from npusim.errors import InputError
from npusim.explore.validation import Case, Row
from npusim.frontends.chip import load_chip
from npusim.graph.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import DTYPES, I8, I32, U1
from npusim.ops import make_op
from npusim.timing import simulate

WHOLE = {"stride": [1, 1], "dilation": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "pad_value": "zero"}
POOL = {"kernel": [2, 2], "stride": [2, 2]}
MANY = 1 << 20
FIFO_ELEMENTS = {"LFC": 512}
"""Of networks whose queues are not those of the chip: BNN-PYNQ, bnn/src/network/lfcW1A1/hw/top.cpp, Lx_DEPTH."""
BATCH = 4
"""Images simulated in a row: the interval between two is the same from the second one on."""


def read(path: Path) -> list[Row]:
    rows = []
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for case in document["cases"]:
        facts = {**case, "topology": document["topology_cnv"]}
        one = case.get("cycles", case.get("single_image_us", 0) * case["clock_MHz"])
        for group, cycles in (("interval", case.get("cycles_per_image")), ("latency", one)):
            if cycles:
                rows.append(
                    Row(f"{case['name']} {group}", f"{case['name'].split('-')[0]} {group}", cycles, "cycles", facts)
                )
    return rows


def stages(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Layers with their folding, and pools, in the order of the pipeline; fully connected layers as 1x1 kernels."""
    shapes = {t["l"]: t for t in facts["topology"] if "R" in t}
    layers = [{"K": f["MH"], "C": f["MW"], "R": 1, **shapes.get(f["name"], {}), **f} for f in facts["layers"]]
    names = [f["name"] for f in layers]
    for i in reversed([i for i, t in enumerate(facts["topology"]) if t["l"] == "maxpool2"]):
        before = facts["topology"][i - 1]["l"]
        if before in names:
            layers.insert(names.index(before) + 1, {"name": f"pool_{before}", "K": shapes[before]["K"]})
    return layers


def workload(facts: dict[str, Any], images: int) -> Graph:
    """The network on so many images; its first layer reads 8-bit pixels, or bits if it is fully connected."""
    bits = re.search(r"W(\d)A(\d)", facts["name"])
    if bits is None:
        raise InputError(f"{facts['name']}: states no bits of weights and activations; name it like CNV-W1A1")
    weight_bits, activation_bits = map(int, bits.groups())
    layers = stages(facts)
    graph, value, size = GraphBuilder("network"), "image", layers[0].get("H", 1)
    pixels = "H" in layers[0]
    graph.input("image", TensorType((images, size, size, layers[0]["C"]), I8 if pixels else U1))
    kind: dict[str, Any] = {} if pixels else {"input_kind": "bipolar"}
    for k, layer in enumerate(layers):
        name, filters = layer["name"], layer["K"]
        if "pe" not in layer:
            op = make_op("max_pool2d", {**POOL, "pad": [0] * 4}) if activation_bits > 1 else make_op(
                "binary_max_pool2d", {**POOL, "pads_begin": [0, 0], "pads_end": [0, 0], "layout": "nhwc"})  # fmt: skip
            graph.node(name, op, (value,), name)
            value = name
            continue
        weight = (filters, layer["R"], layer["R"], layer["C"])
        constants = [("weight", weight, U1 if weight_bits == 1 else DTYPES[f"i{weight_bits}"])]
        attributes = {**WHOLE, **kind, "layout": "nhwc", "weight_kind": "bipolar" if weight_bits == 1 else "integer"}
        if k + 1 < len(layers):
            constants.append(("thresholds", (filters, (1 << activation_bits) - 1), I32))
            pooled = activation_bits > 1 and "pe" not in layers[k + 1]
            attributes["out_type"] = "i8" if pooled else f"u{activation_bits}"
        for what, shape, dtype in constants:
            zeros = np.broadcast_to(np.zeros((), dtype.storage), shape)
            graph.constant(f"{name}.{what}", TensorType(shape, dtype), zeros)
        operands = (value, *(f"{name}.{what}" for what, _, _ in constants))
        graph.node(name, make_op("bitserial_conv2d", attributes), operands, name)
        value, kind = name, {"input_bits": activation_bits} if activation_bits > 1 else {"input_kind": "bipolar"}
    return graph.finish((value,))


def chip_of(facts: dict[str, Any]) -> Chip:
    """A unit for each layer, of its folding; pools take a pixel at a time."""
    chip = load_chip("finn")
    mvau, pool = chip.units
    fifo = FIFO_ELEMENTS.get(facts["name"].split("-")[0], mvau.fifo_elements)
    mvau = replace(mvau, fifo_elements=fifo)  # type: ignore[call-arg]
    units = [
        replace(mvau, name=s["name"], lanes=s["pe"], word_bits=s["simd"]) if "pe" in s  # type: ignore[call-arg]
        else replace(pool, name=s["name"], lanes=s["K"])  # type: ignore[call-arg]
        for s in stages(facts)
    ]  # fmt: skip
    return replace(chip, units=tuple(units))


def cycles(facts: dict[str, Any], images: int) -> int:
    """Cycles for so many images, row by row through the pipeline."""
    chip, layers = chip_of(facts), {}
    for unit in chip.units:
        tile = {"n": 1, "oy": 1}
        if unit.kind == "popcount":
            tile |= {"ox": MANY, "oc": unit.fifo_elements if unit.label.startswith("fc") else MANY, "ic": MANY}
        stays = None if unit is chip.units[-1] else True
        layers[unit.label] = LayerOptions(tile=tile, order=("n", "oy"), buffers=2, unit=unit.label, resident=stays)
    return simulate(map_graph(workload(facts, images), chip, MappingOptions(layers=layers)).program, chip).cycles


def predict(row: Row) -> float:
    one = cycles(row.facts, 1)
    if row.group.endswith("latency"):
        return one
    return (cycles(row.facts, BATCH) - one) / (BATCH - 1)


CASE = Case(
    name="finn_cnv_binary",
    title="FINN, binary networks on FPGAs, interval and latency of the pipeline",
    source="mlcommons/tiny_results_v0.7, hls4ml-finn; Xilinx/BNN-PYNQ, recorded notebooks",
    chips=("finn",),
    rows_file=Path(__file__).with_name("measured.yaml"),
    read=read,
    predict=predict,
    measure="each",
    target=10,
    group_targets={"CNV interval": 1, "LFC interval": 1},
    inferred=(),
    peers=(("FINN's formula, interval", "CNV-W1A1 -0.06 %, CNV-W2A2 -0.9 %, LFC-W1A1 -39 %"),),
)

"""VTA on PYNQ boards: convolutions under the tilings that AutoTVM chose, and npusim on `vta_1x16` and `vta_4x8`.

How a tiling becomes options, as the schedule makes loops of it (apache/tvm, vta/python/vta/top/vta_conv2d.py and
vta_group_conv2d.py):

* ``tile_x: [outer, inner]``: the tile of batch (b), rows (h), columns (w), input (ci) and output channels (co) is the
  inner factor, of whole blocks where the GEMM core has some: 4 images and 8 channels, or 16 channels.
* The loops over tiles are b, h, co, w from outside to inside, and ci within; the kernel is never split.
* ``oc_nthread`` and ``h_nthread`` virtual threads share the buffers: as many slots for each operand, and without a
  second one no load runs beside the compute module. Every thread loads its operands itself (reload).
* A grouped convolution has one block of 16 channels a group, so its groups are so many layers of 16 channels.

What was tuned is the convolution with a shift and a clip to int8 behind it, here a rescale and a clamp.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from npusim.explore.validation import Case, Row
from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8, I32
from npusim.ops import make_op
from npusim.timing import simulate

SIZES = ("batch", "C", "H", "W", "K", "R", "S", "stride", "pad", "groups")
BLOCKS = {"vta_1x16": (1, 16), "vta_4x8": (4, 8)}


def read(path: Path) -> list[Row]:
    name = yaml.safe_load(path.read_text(encoding="utf-8"))["data"]
    lines = [s for s in path.with_name(name).read_text(encoding="utf-8").splitlines() if not s.startswith("#")]
    rows = []
    for i, facts in enumerate(csv.DictReader(lines)):
        if facts["suspect"] == "0":
            chip = "vta_4x8" if "_4x8_" in facts["target"] else "vta_1x16"
            shape = "{C}->{K} {H}x{W} {R}x{S}/{stride}".format(**facts)
            found = {"tile": json.loads(facts["tile"].replace(";", ",")), "chip": chip}
            found |= {k: int(facts[k] or k != "pad") for k in SIZES}
            rows.append(Row(f"{i} {facts['net']} {shape}", f"{facts['net']} {chip}", float(facts["cycles_100MHz"]),
                            "cycles", found))  # fmt: skip
    return rows


def add_layer(b: GraphBuilder, name: str, n: dict[str, Any], channels: int, filters: int) -> str:
    """One convolution, or one group of it, with the operators that follow; its output."""
    beyond = (n["H"] + 2 * n["pad"] - n["R"]) % n["stride"]  # rows and columns behind the last window: left out
    end, unread = max(0, n["pad"] - beyond), max(0, beyond - n["pad"])
    b.input(f"{name} in", TensorType((n["batch"], n["H"] - unread, n["W"] - unread, channels), I8))
    shape = (filters, n["R"], n["S"], channels)
    for value, dims, dtype in (("weights", shape, I8), ("bias", (1,), I32), ("scale", (1,), I32), ("shift", (1,), I8)):
        b.constant(f"{name} {value}", TensorType(dims, dtype), np.broadcast_to(np.ones((), dtype.storage), dims))
    window = {"pad": [n["pad"], end] * 2, "stride": [n["stride"]] * 2, "dilation": [1, 1]}
    b.node(name, make_op("conv2d", window), (f"{name} in", f"{name} weights", f"{name} bias"), f"{name} sums")
    flags = {"scale32": True, "rounding": "single", "per_channel": False, "out_type": "i8"}
    b.node(f"{name} shift right", make_op("rescale", {**flags, "input_unsigned": False, "output_unsigned": False}),
           (f"{name} sums", f"{name} scale", f"{name} shift"), f"{name} scaled")  # fmt: skip
    b.node(f"{name} clip", make_op("clamp", {"min_val": 0, "max_val": 127}), (f"{name} scaled",), f"{name} out")
    return f"{name} out"


def workload(n: dict[str, Any]) -> Graph:
    b = GraphBuilder("layer")
    groups = range(n["groups"])
    return b.finish(tuple(add_layer(b, f"layer{g}", n, n["C"] // len(groups), n["K"] // len(groups)) for g in groups))


def options(n: dict[str, Any]) -> LayerOptions:
    images, channels = BLOCKS[n["chip"]]
    inner = {name: n["tile"].get(f"tile_{name}", (1, 1))[1] for name in ("b", "h", "w", "ci", "co")}
    tile = {"n": images * inner["b"], "oy": inner["h"], "ox": inner["w"], "oc": channels * inner["co"],
            "ic": channels * inner["ci"], "ky": n["R"], "kx": n["S"]}  # fmt: skip
    threads = n["tile"].get("oc_nthread", 1) * n["tile"].get("h_nthread", 1)  # a product of matrices has no rows
    return LayerOptions(tile=tile, order=("n", "oy", "oc", "ox"), buffers=threads, reload=True)


def predict(row: Row) -> int:
    n: dict[str, Any] = row.facts
    chip, layer = load_chip(n["chip"]), options(n)
    mapping = MappingOptions(
        prefetch=(layer.buffers or 1) > 1, residency=False, layers={f"layer{g}": layer for g in range(n["groups"])}
    )
    return simulate(map_graph(workload(n), chip, mapping).program, chip).cycles


CASE = Case(
    name="vta_pynq",
    title="VTA, FPGA (PYNQ), given tilings",
    source="tlc-pack/tophub @f05376e, tophub/vta_v0.10.log",
    chips=("vta_1x16", "vta_4x8"),
    rows_file=Path(__file__).with_name("measured.yaml"),
    read=read,
    predict=predict,
    measure="mape",
    target=15,
    inferred=("dram.latency_cycles", "output_pipeline.latency_cycles", "micro_ops.fill_cycles"),
)

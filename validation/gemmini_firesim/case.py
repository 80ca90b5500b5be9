"""Gemmini on FireSim: layers of four networks under the mappings that DOSA found, and npusim on `gemmini`.

How a mapping string becomes options, as the authors' own scripts make calls of it (ucb-bar/gemmini-rocc-tests,
gemmini-data-collection/layers/extract_data_csv.py; include/gemmini.h, tiled_conv and tiled_matmul):

* The tile of a dimension is the product of its factors in L0, L1 and L2. P walks along a row of the ofmap and Q over
  its rows, R along a row of the kernel and S over its rows. A 1x1 layer of one row or column is a product of matrices;
  its tiles are rounded down to whole blocks of 16, as the calls are.
* The order is that of L3, outermost first. Dimensions that it does not name come before (their loops have one trip,
  but for the row and column that a kernel of 2 adds).
* Every call loads its operands anew (reload), while the call before computes (two buffers).
* Where L3 has a reduction outside parallel loops, sums of many tiles are open. If they exceed the accumulator memory
  (the measured program then adds up garbage in the same time) the reductions are moved inside.
* Convolutions are padded by half the kernel and keep the size (kernels of 2 give one row and column more).

The rows are timed with warm caches: the layer had just been run on the same arrays under the tiler's own tiling. That
run is the file's other column, which is not predicted: its cycles hold the tiler's search on the host CPU and the first
touch of the arrays as well (gemmini-data-collection/templates/conv_tilings.c).
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from npusim.errors import DoesNotFitError
from npusim.explore.validation import Case, Row
from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8, I32
from npusim.ops import make_op
from npusim.timing.costs import command_costs
from npusim.timing.simulator import simulate_costed

NAMES = {"Q": "oy", "P": "ox", "K": "oc", "S": "ky", "R": "kx", "C": "ic"}
MATRIX_NAMES = {"P": "h", "K": "w", "C": "c"}
LOOPS = "QPKSRC"
BLOCK = 16


def read(path: Path) -> list[Row]:
    (name,) = yaml.safe_load(path.read_text(encoding="utf-8"))["data"]
    lines = [s for s in path.with_name(name).read_text(encoding="utf-8").splitlines() if not s.startswith("#")]
    rows = []
    for i, facts in enumerate(csv.DictReader(lines)):
        shape = "{C}->{K} {P}x{Q} {R}x{S}/{stride}".format(**facts)
        rows.append(Row(f"{i} {facts['set']} {shape}", facts["set"], float(facts["rtl_cycles_dosa_mapping"]),
                        "cycles", dict(facts)))  # fmt: skip
    return rows


def sizes(facts: dict[str, Any]) -> dict[str, int]:
    """The sizes of the layer that was run."""
    n = {k: int(facts[k]) for k in ("C", "K", "P", "Q", "R", "S", "stride")}
    if n["R"] == n["S"] == 1 and 1 in (n["P"], n["Q"]):
        return {**n, "rows": n["P"] * n["Q"]}
    pad = n["R"] // 2
    beyond = (n["P"] * n["stride"] + 2 * pad - n["R"]) % n["stride"]  # rows and columns behind the last window
    return {**n, "size": n["P"] * n["stride"] - max(0, beyond - pad), "pad": pad, "pad_end": max(0, pad - beyond)}


def workload(n: dict[str, int]) -> Graph:
    b = GraphBuilder("layer")
    constants: list[tuple[str, tuple[int, ...], Any]] = [("scale", (1,), I32), ("shift", (1,), I8)]
    if "rows" in n:
        b.input("ifmap", TensorType((1, n["rows"], n["C"]), I8))
        constants.append(("weights", (1, n["C"], n["K"]), I8))
    else:
        b.input("ifmap", TensorType((1, n["size"], n["size"], n["C"]), I8))
        constants += [("weights", (n["K"], n["R"], n["S"], n["C"]), I8), ("bias", (1,), I32)]
    for name, shape, dtype in constants:
        b.constant(name, TensorType(shape, dtype), np.broadcast_to(np.ones((), dtype.storage), shape))
    if "rows" in n:
        b.node("layer", make_op("matmul", {}), ("ifmap", "weights"), "sums")
    else:
        window = {"pad": [n["pad"], n["pad_end"]] * 2, "stride": [n["stride"]] * 2, "dilation": [1, 1]}
        b.node("layer", make_op("conv2d", window), ("ifmap", "weights", "bias"), "sums")
    flags = {"scale32": True, "rounding": "single", "per_channel": False, "out_type": "i8"}
    b.node("rescale", make_op("rescale", {**flags, "input_unsigned": False, "output_unsigned": False}),
           ("sums", "scale", "shift"), "ofmap")  # fmt: skip
    return b.finish(("ofmap",))


def options(n: dict[str, int], mapping: str) -> LayerOptions:
    """The options that a mapping string states."""
    levels = {part[:2]: part.split("] ")[1].split() for part in mapping.split(" - ")}
    sizes: dict[str, int] = {}
    for factor in (f for level in ("L0", "L1", "L2") for f in levels[level]):
        sizes[factor[0]] = sizes.get(factor[0], 1) * int(factor[1:].rstrip("XY"))
    loops = [f[0] for f in levels["L3"]]
    names = MATRIX_NAMES if "rows" in n else NAMES
    order = tuple(names[d] for d in (*(d for d in LOOPS if d not in loops), *loops) if d in names)
    tile = {name: sizes.get(d, 1) for d, name in names.items()}
    if "rows" in n:
        tile = {name: max(BLOCK, size // BLOCK * BLOCK) for name, size in tile.items()}
    return LayerOptions(tile=tile, order=order, buffers=2, reload=True)


def predict(row: Row) -> int:
    n = sizes(row.facts)
    chip, graph, mapping = load_chip("gemmini"), workload(n), options(n, str(row.facts["mapping"]))
    try:
        program = map_graph(graph, chip, MappingOptions(layers={"layer": mapping})).program
    except DoesNotFitError:
        inside = tuple(sorted(mapping.order or (), key=lambda name: name in ("ky", "kx", "ic", "c")))
        program = map_graph(graph, chip, MappingOptions(layers={"layer": replace(mapping, order=inside)})).program
    return simulate_costed(program, chip, command_costs(program, chip, warm=True)).cycles


CASE = Case(
    name="gemmini_firesim",
    title="Gemmini 16x16, RTL on FireSim, given mappings",
    source="ucb-bar/dosa @a7a3239, data/firesim_test_data (Hong et al., MICRO 2023), mappings found by DOSA",
    chips=("gemmini",),
    rows_file=Path(__file__).with_name("measured.yaml"),
    read=read,
    predict=predict,
    measure="mape",
    target=12,
    inferred=("array.instruction_cycles", "caches[0].miss_cycles", "caches[1].miss_cycles"),
    peers=(
        ("Timeloop, run by DOSA's authors", "26 %"),
        ("ONNXim", "0.23 % on shapes that are not named (arXiv:2406.08051)"),
    ),
)

"""NVDLA nv_small: convolutions and products on its RTL, layer by layer, behind four memories."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]

from npusim.errors import InputError
from npusim.explore.validation import Case, Row
from npusim.frontends.chip import load_chip
from npusim.graph.graph import Graph, GraphBuilder
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8, I32
from npusim.ops import make_op
from npusim.timing import simulate

BANK_BYTES, BANKS, ATOM, BIAS_BYTES = 4096, 32, 8, 32


def read(path: Path) -> list[Row]:
    layers = yaml.safe_load(path.read_text(encoding="utf-8"))["layers"]
    return [
        Row(f"{layer['name']} {memory}", memory, cycles, "cycles", layer)
        for layer in layers
        for memory, cycles in layer["cycles"].items()
    ]


def workload(layer: dict[str, Any]) -> Graph:
    """The layer with its channels padded to atoms, as they lie in memory, and results converted to int8 by SDP."""
    (stride_x, stride_y), (left, top), (dilation_x, dilation_y) = (
        _pair(layer[key]) for key in ("stride", "pad_lt", "dilation")
    )
    w, h, k, r, s, out_w, out_h = (layer[key] for key in ("W", "H", "K", "R", "S", "out_W", "out_H"))
    channels = -(-layer["C"] // ATOM) * ATOM
    bottom = max(0, (out_h - 1) * stride_y + (r - 1) * dilation_y + 1 - h - top)
    right = max(0, (out_w - 1) * stride_x + (s - 1) * dilation_x + 1 - w - left)
    window = {
        "pad": [top, bottom, left, right],
        "stride": [stride_y, stride_x],
        "dilation": [dilation_y, dilation_x],
    }
    graph = GraphBuilder(layer["name"])
    graph.input("data", TensorType((1, h, w, channels), I8))
    for name, shape, dtype in (("weight", (k, r, s, channels), I8), ("bias", (1,), I32)):
        graph.constant(name, TensorType(shape, dtype), np.broadcast_to(np.zeros((), dtype.storage), shape))
    graph.node("layer", make_op("conv2d", window, "seed"), ("data", "weight", "bias"), "sums")
    graph.node("sdp", make_op("cast", {"out_type": "i8"}), ("sums",), "out", TensorType((1, out_h, out_w, k), I8))
    return graph.finish(("out",))


def mapping(layer: dict[str, Any]) -> MappingOptions:
    """What NVDLA always does: kernels in groups of an atom, each over all positions, groups filling their banks.

    Where the data do not fit their banks, bands of rows do, one that comes while one is used.
    """
    (_, stride), (_, dilation) = (_pair(layer[key]) for key in ("stride", "dilation"))
    row = layer["W"] * -(-layer["C"] // ATOM) * ATOM
    data, rows = row * layer["H"], layer["out_H"]
    group = min(ATOM, layer["K"]) * layer["R"] * layer["S"] * -(-layer["C"] // ATOM) * ATOM
    held = layer["cbuf_data_banks"] * BANK_BYTES
    order: tuple[str, ...] = ("oc",)
    if data <= held:
        groups, free = max(2, layer["cbuf_weight_banks"] * BANK_BYTES // group), BANKS * BANK_BYTES - data
    else:
        rows, order = max(1, (held // (2 * row) - (layer["R"] - 1) * dilation - 1) // stride + 1), ("oy", "oc")
        groups, free = 2, BANKS * BANK_BYTES - held
    groups = max(1, min(groups, 64, (free - BIAS_BYTES) // group))
    tile = {"n": 1, "oy": rows, "ox": layer["out_W"], "oc": ATOM, "ky": layer["R"], "kx": layer["S"], "ic": 1 << 20}
    return MappingOptions(layers={"layer": LayerOptions(tile=tile, order=order, buffers=groups)})


def _pair(value: int | list[int]) -> list[int]:
    """Values along x and y."""
    return value if isinstance(value, list) else [value, value]


def predict(row: Row) -> int:
    memory = re.fullmatch(r"lat(\d+)_(\d+)Bpc", row.group)
    if memory is None:
        raise InputError(
            f"{row.id}: {row.group!r} is no memory model; name it like lat32_4Bpc (latency, bytes a cycle)"
        )
    latency, rate = memory.groups()
    chip = load_chip("nv_small", [f"dram.latency_cycles={latency}", f"dram.bytes_per_cycle={rate}",
                                  f"dram.write_channel.bytes_per_cycle={rate}"])  # fmt: skip
    layer: dict[str, Any] = row.facts
    return simulate(map_graph(workload(layer), chip, mapping(layer)).program, chip).cycles


CASE = Case(
    name="nvdla_nv_small_rtl",
    title="NVDLA nv_small, RTL, per layer behind four memories",
    source="nvdla/hw (branch master, nv_small) simulated with Verilator",
    chips=("nv_small",),
    rows_file=Path(__file__).with_name("measured.yaml"),
    read=read,
    predict=predict,
    measure="mape",
    target=10,
    inferred=("control.run_cycles", "output_pipeline.window.round_trip_cycles"),
    peers=(
        ("bound by MACs and DRAM", "MAPE 24.6 %, mean -24.5 %, worst 93.1 %"),
        ("that, and 1.5 cycles per output", "MAPE 14.6 %, mean -14.4 %, worst 93.5 %"),
        ("NVDLA's performance spreadsheet (AlexNet, 2048 MACs)", "-57 %"),
    ),
)

"""N-EUREKA: single jobs on its RTL, cycles in which the engine is busy."""

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
from npusim.numerics.types import I4, I8, I32
from npusim.ops import make_op
from npusim.program import Compute
from npusim.timing import simulate

WHOLE = 1 << 20


def read(path: Path) -> list[Row]:
    rows = []
    for test in yaml.safe_load(path.read_text(encoding="utf-8"))["measured"]:
        job = {key: int(value) for key, value in test["params"].items()}
        kind = "depthwise" if job.get("DW") else f"{job['FS']}x{job['FS']}"
        rows.append(Row(test["test"], kind, test["cycles"], "cycles", {**job}))
    return rows


def workload(job: dict[str, Any]) -> Graph:
    """The job, requantised to int8. Weights of up to 4 bits are i4, others i8: npusim's types have no others."""
    kernel, channels, filters = job["FS"], job["K_IN"], job["K_OUT"]
    weight = I4 if job["QW"] <= 4 else I8
    depthwise = bool(job.get("DW"))
    shape = (kernel, kernel, channels, 1) if depthwise else (filters, kernel, kernel, channels)
    graph = GraphBuilder("job")
    graph.input("input", TensorType((1, job["H_IN"], job["W_IN"], channels), I8))
    for name, of, dtype in (("weight", shape, weight), ("bias", (1,), I32)):
        graph.constant(name, TensorType(of, dtype), np.broadcast_to(np.zeros((), dtype.storage), of))
    window = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
    name = "depthwise_conv2d" if depthwise else "conv2d"
    graph.node("job", make_op(name, window), ("input", "weight", "bias"), "sums")
    graph.node("quantise", make_op("cast", {"out_type": "i8"}), ("sums",), "output")
    return graph.finish(("output",))


def predict(row: Row) -> int:
    """The whole job is one command; how its operands came to the memory is not measured."""
    job: dict[str, Any] = row.facts
    chip = load_chip("neureka")
    tile = dict.fromkeys(("n", "oy", "ox", "c") if job.get("DW") else ("n", "oy", "ox", "oc", "ic"), WHOLE)
    program = map_graph(workload(job), chip, MappingOptions(layers={"job": LayerOptions(tile=tile)})).program
    spans = simulate(program, chip).spans
    return sum(s.busy for c, s in zip(program, spans, strict=True) if isinstance(c, Compute))


CASE = Case(
    name="neureka_rtl_ci",
    title="N-EUREKA, RTL, single jobs with weights of 2 to 8 bits",
    source="pulp-platform/neureka, gh-pages dev/bench/data.js and regr/basic.yml, ff7090e (2025-03-26)",
    chips=("neureka",),
    rows_file=Path(__file__).with_name("measured.yaml"),
    read=read,
    predict=predict,
    measure="each",
    target=15,
    inferred=("units.neureka.array.words_per_cycle",),
    peers=(("GVSoC's model of N-EUREKA", "no error published"),),
)

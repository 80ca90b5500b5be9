"""Ethos-U55-128: whole networks on Arm's fast model, as far as their layers are known here.

The measurements name networks without their shapes. Predicted are those that npusim has a layer list of; the others are
left out by ``read``.
"""

from __future__ import annotations

from pathlib import Path

import yaml  # type: ignore[import-untyped]

from npusim.explore.validation import Case, Row
from npusim.frontends.chip import load_chip
from npusim.frontends.workload import load_workload
from npusim.mapping.mapper import map_graph
from npusim.timing import simulate

WORKLOADS = {"mobilenet_v2_1.0_224_INT8": Path(__file__).parents[2] / "workloads" / "mobilenet_v2.yaml"}


def read(path: Path) -> list[Row]:
    return [
        Row(m["use_case"], "whole networks", m["active_cycles"], "cycles", m)
        for m in yaml.safe_load(path.read_text(encoding="utf-8"))["measured"]
        if m["model"] in WORKLOADS
    ]


def predict(row: Row) -> int:
    workload = load_workload(WORKLOADS[str(row.facts["model"])])
    chip = load_chip("ethos_u55_128")
    return simulate(map_graph(workload.graph, chip, workload.mapping).program, chip).cycles


CASE = Case(
    name="ethos_u55_fvp",
    title="Ethos-U55-128, vendor's fast model, MobileNetV2",
    source="Arm ML embedded evaluation kit, docs/use_cases",
    chips=("ethos_u55_128",),
    rows_file=Path(__file__).with_name("measured.yaml"),
    read=read,
    predict=predict,
    measure="each",
    target=25,
    inferred=(),
    peers=(("Vela", "no error published"),),
    reported_only=True,
)

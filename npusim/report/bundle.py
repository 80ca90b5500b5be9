"""The files of a run: report, table, outputs and plots, as bytes by relative name."""

from __future__ import annotations

from collections.abc import Mapping

from npusim.hardware import Chip
from npusim.mapping.plan import Plan
from npusim.numerics.types import Array
from npusim.program.program import TileProgram
from npusim.report.files import PICTURES, csv_text, npy_bytes, output_file
from npusim.report.plots import (
    latency_plot,
    occupancy_plot,
    roof_of,
    roofline_plot,
    timeline_plot,
    utilization_plot,
)
from npusim.report.result import Report
from npusim.timing.timeline import Timeline


def result_files(
    report: Report,
    outputs: Mapping[str, Array],
    program: TileProgram,
    plan: Plan,
    chip: Chip,
    timeline: Timeline,
    mapping: str,
    pictures: bool = True,
) -> dict[str, bytes]:
    """Every file of a run by its name in the report's directory; ``mapping`` is the text of ``mapping.yaml``."""
    drawn = {
        "latency.png": lambda: latency_plot(report),
        "utilization.png": lambda: utilization_plot(report),
        "timeline.png": lambda: timeline_plot(report, program, timeline),
        "roofline.png": lambda: roofline_plot(report, roof_of(plan, chip)),
        "sram.png": lambda: occupancy_plot(report, program, timeline),
    }
    return {
        "report.json": report.to_json().encode(),
        "layers.csv": csv_text(report).encode(),
        "mapping.yaml": mapping.encode(),
        **{output_file(v): npy_bytes(a) for v, a in outputs.items()},
        **{name: drawn[name]() for name in PICTURES if pictures},
    }

"""The timeline plot: the area of an activity in a lane is its cycles."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest

from npusim.graph.graph import GraphBuilder
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8
from npusim.program.program import Compute, Load, Queue, TileProgram
from npusim.report.plots.timeline import shares, timeline_figure, timeline_plot
from npusim.report.result import Report
from npusim.timing.timeline import Span, Timeline

LANE = 0.30  # height of a lane, in the units of the y axis


def run_of(layers: int, tiles: int, scale: int) -> tuple[TileProgram, Timeline]:
    """Loads and computations in turn, each computation after its load and each third load after a computation."""
    draw = random.Random(tiles)
    dma, mac = Queue("dma", 0), Queue("mac", 0)
    commands: list[Load | Compute] = []
    spans: list[Span] = []
    loaded = computed = 0
    for i in range(layers * tiles):
        layer, load = i // tiles, 2 * i
        start = max(loaded, computed) if i % 3 == 0 else loaded
        bus = draw.randrange(scale)
        release = start + bus + draw.randrange(1, 4 * scale)
        spans.append(Span(load, dma, layer, start, release, release, bus, 0, load - 1 if start > loaded else -1))
        loaded = release
        start = max(loaded, computed)
        port = draw.randrange(scale) // 4
        release = start + port + draw.randrange(1, 6 * scale)
        spans.append(Span(load + 1, mac, layer, start, release, release, 0, port, load if start > computed else -1))
        computed = release
        commands.append(Load(load, dma, layer, (), ()))
        commands.append(Compute(load + 1, mac, layer, (load,), Box((), ()), (), None, None, True, True))
    builder = GraphBuilder("net")
    builder.input("x", TensorType((1,), I8))
    program = TileProgram(builder.finish(("x",)), (), {}, 0, (), tuple(commands))
    return program, Timeline(tuple(spans), ())


def report_for(report: Report, timeline: Timeline, layers: int) -> Report:
    """``report`` with the cycles of the timeline and windows that end with each layer's last span."""
    ends = [max(s.finish for s in timeline.spans if s.layer == k) for k in range(layers)]
    cycles = [b - a for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    return dataclasses.replace(
        report,
        layers=tuple(dataclasses.replace(x, cycles=n) for x, n in zip(report.layers, cycles, strict=True)),
        totals=dataclasses.replace(report.totals, cycles=timeline.cycles),
    )


def areas(axes: Any) -> dict[str, float]:
    """Cycles times full lane height that each labelled patch covers, by the shoelace formula on its rings."""
    found: dict[str, float] = {}
    for patch in axes.get_children():
        if str(patch.get_label()).startswith(("dma", "mac")):
            total = 0.0
            for ring in patch.get_path().to_polygons(closed_only=False):
                x, y = np.asarray(ring).T
                total += abs(float(x[:-1] @ y[1:] - x[1:] @ y[:-1])) / 2
            found[str(patch.get_label())] = total / LANE
    return found


def expected(timeline: Timeline) -> dict[str, int]:
    """Cycles of each activity, from the spans alone."""
    found: dict[str, int] = {}
    last: dict[str, int] = {}
    for s in timeline.spans:
        queue = str(s.queue)
        gap = s.start - last.get(queue, 0)
        parity = ("even", "odd")[s.layer % 2]
        waits = {"compute" if queue == "dma0" else "load": gap, "dram_bus": s.bus_wait, "sram_port": s.port_wait}
        for name, cycles in ((parity, s.busy), *waits.items()):
            found[f"{queue} {name}"] = found.get(f"{queue} {name}", 0) + cycles
        last[queue] = s.release
    return {name: n for name, n in found.items() if n}


@pytest.mark.parametrize(("tiles", "scale", "tolerance"), [(3, 40, 0.03), (2000, 40, 0.002)])
def test_areas_are_cycles(make_report, tiles: int, scale: int, tolerance: float) -> None:  # type: ignore[no-untyped-def]
    """To a pixel an edge with a few commands, closely with thousands below the size of a pixel."""
    program, timeline = run_of(5, tiles, scale)
    figure = timeline_figure(report_for(make_report(5), timeline, 5), program, timeline)
    want = expected(timeline)
    found = areas(figure.axes[0])
    assert found.keys() == want.keys()
    for name, cycles in want.items():
        assert found[name] == pytest.approx(cycles, rel=0, abs=tolerance * timeline.cycles), name


def test_the_number_of_artists_does_not_grow_with_commands(make_report) -> None:  # type: ignore[no-untyped-def]
    figures = []
    for tiles in (300, 3000):
        program, timeline = run_of(5, tiles, 40)
        figures.append(timeline_figure(report_for(make_report(5), timeline, 5), program, timeline))
    few, many = (
        sum(len(p.get_path().vertices) for p in f.axes[0].get_children() if hasattr(p, "get_path")) for f in figures
    )
    assert len(figures[0].axes[0].get_children()) == len(figures[1].axes[0].get_children())
    assert many < 2 * few


def test_lanes_layers_and_units_are_named(make_report) -> None:  # type: ignore[no-untyped-def]
    program, timeline = run_of(5, 3, 40)
    report = report_for(make_report(5), timeline, 5)
    figure = timeline_figure(report, program, timeline)
    axes, top = figure.axes
    assert [t.get_text() for t in axes.get_yticklabels()] == ["layer", "dma0", "mac0"]
    assert [t.get_text() for t in axes.texts] == [x.name for x in report.layers]
    assert axes.get_xlabel() in ("cycles", "cycles (thousands)")
    assert top.get_xlabel().startswith("time (")
    legend = [t.get_text() for t in figure.legends[0].get_texts()]
    assert legend == [
        "works (shade: even and odd layers)",
        "waits for a load",
        "waits for a computation",
        "waits for the DRAM bus",
        "waits for an SRAM port",
        "has nothing left to do",
    ]


def test_shares_of_bins() -> None:
    edges = np.array([0.0, 10, 20, 30])
    assert shares([(0, 5), (5, 10), (15, 30)], edges).tolist() == [1, 0.5, 1]
    assert shares([(12, 13), (14, 18)], edges).tolist() == [0, 0.5, 0]
    assert shares([], edges).tolist() == [0, 0, 0]


def test_equal_runs_give_equal_bytes(make_report) -> None:  # type: ignore[no-untyped-def]
    program, timeline = run_of(5, 50, 40)
    report = report_for(make_report(5), timeline, 5)
    data = timeline_plot(report, program, timeline)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data == timeline_plot(report, program, timeline)


def test_an_empty_run_is_drawn(make_report) -> None:  # type: ignore[no-untyped-def]
    program, timeline = run_of(0, 0, 1)
    assert timeline_plot(make_report(0), program, timeline).startswith(b"\x89PNG\r\n\x1a\n")

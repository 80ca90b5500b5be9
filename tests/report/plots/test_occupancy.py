"""The occupancy plot: slots are in use from first write to last use; the areas are bytes times cycles."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.graph.graph import GraphBuilder
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8
from npusim.program.program import Compute, Load, Queue, Ref, Slot, Store, TileProgram
from npusim.report.plots.occupancy import KINDS, occupancy_figure, occupancy_plot, slots_in_use
from npusim.session import RunResult
from npusim.timing.timeline import Span, Timeline

WORKLOADS = Path(npusim.__file__).parents[1] / "workloads"
DMA, MAC = Queue("dma", 0), Queue("mac", 0)
BOX = Box((0,), (1,))


@pytest.fixture(scope="module")
def result() -> RunResult:
    return npusim.run(WORKLOADS / "residual_block.yaml", bits="off")


def slot(index: int, offset: int, nbytes: int, value: str, whole: bool = False, base: int | None = None) -> Slot:
    return Slot(index, offset, nbytes, value, I8, (nbytes,), (nbytes,), whole, index if base is None else base)


def program_of(slots: tuple[Slot, ...]) -> tuple[TileProgram, Timeline]:
    """Load x into slot 0, compute into slot 1 with sums in slot 4, read that through the view 2, store slot 3."""
    x, y, view, out, sums = (Ref(i, BOX) for i in range(5))
    commands = (
        Load(0, DMA, 0, (), (x,)),
        Compute(1, MAC, 0, (0,), BOX, (x,), sums, None, True, False),
        Compute(2, MAC, 0, (1,), BOX, (x,), sums, y, False, True),
        Compute(3, MAC, 1, (2,), BOX, (view,), None, out, True, True),
        Store(4, DMA, 1, (3,), out),
    )
    times = ((5, 20, 30), (30, 40, 40), (40, 60, 60), (60, 90, 95), (95, 110, 120))
    spans = tuple(Span(c.id, c.queue, c.layer, *t, 0, 0, -1) for c, t in zip(commands, times, strict=True))
    builder = GraphBuilder("net")
    builder.input("x", TensorType((1,), I8))
    return TileProgram(builder.finish(("x",)), (), {}, 2048, slots, commands), Timeline(spans, ())


SLOTS = (
    slot(0, 0, 100, "x"), slot(1, 128, 300, "y", whole=True), slot(2, 128, 300, "y2", whole=True, base=1),
    slot(3, 512, 50, "out"), slot(4, 1024, 70, "sums"),
)  # fmt: skip


def areas(axes: Any) -> dict[str, float]:
    """What each labelled patch covers, in bytes times cycles, by the shoelace formula."""
    worth = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[axes.get_ylabel().split("(")[1].rstrip(")")]
    found = {}
    for patch in axes.get_children():
        if patch.get_label() in KINDS:
            x, y = patch.get_path().vertices.T
            found[patch.get_label()] = worth * abs(float(x[:-1] @ y[1:] - x[1:] @ y[:-1])) / 2
    return found


def test_a_slot_is_in_use_from_its_first_write_to_its_last_use() -> None:
    program, timeline = program_of(SLOTS)
    found = [(s.index, start, end) for s, start, end in slots_in_use(program, timeline)]
    assert found == [(0, 5, 60), (1, 40, 95), (3, 60, 120), (4, 30, 60)]


def test_areas_are_bytes_times_cycles_without_memories_that_are_not_sram(make_report) -> None:  # type: ignore[no-untyped-def]
    program, timeline = program_of(SLOTS)
    report = make_report(2)
    report = dataclasses.replace(report, totals=dataclasses.replace(report.totals, sram_bytes=1024, cycles=120))
    figure = occupancy_figure(report, program, timeline)
    assert areas(figure.axes[0]) == pytest.approx({"stays": 300 * 55, "data": 100 * 55 + 50 * 60})
    legend = [t.get_text() for t in figure.legends[0].get_texts()]
    assert legend[-2:] == ["SRAM: 1.00 KiB", "most in use at once: 400 B, 39.1 %"]


def test_a_run_never_needs_more_than_its_sram_and_every_kind_is_its_own(result: RunResult) -> None:
    """The stack is as high as a count cycle by cycle says."""
    report, program, timeline = result.report, result.program, result.timeline
    held = np.zeros(timeline.cycles, dtype=np.int64)
    want = dict.fromkeys(KINDS, 0)
    for s, start, end in slots_in_use(program, timeline):
        held[start:end] += s.nbytes
        kind = "stays" if s.value in result.plan.residents else "data"
        want["constants" if s.value in program.graph.constants else kind] += s.nbytes * (end - start)
    assert 0 < held.max() <= report.totals.sram_bytes
    figure = occupancy_figure(report, program, timeline)
    assert areas(figure.axes[0]) == pytest.approx(want)
    capacity, most = (x.get_ydata()[0] for x in figure.axes[0].lines)
    assert capacity == report.totals.sram_bytes / 1024 and most == pytest.approx(held.max() / 1024)


def test_axes_layers_and_units_are_named(result: RunResult) -> None:
    figure = occupancy_figure(result.report, result.program, result.timeline)
    axes, top = figure.axes
    assert axes.get_ylabel() == "SRAM in use (KiB)" and axes.get_xlabel().startswith("cycles")
    assert top.get_xlabel().startswith("time (")
    assert axes.get_xlim() == (0, result.timeline.cycles) and axes.get_ylim()[0] == 0
    assert [t.get_text() for t in axes.get_yticklabels()] == ["0", "256", "512", "768", "1024"]
    shown = [t.get_text() for t in axes.texts]
    assert shown and set(shown) <= {x.name for x in result.report.layers}


def test_the_number_of_vertices_does_not_grow_with_slots(make_report) -> None:  # type: ignore[no-untyped-def]
    counts = []
    for copies in (1, 50):
        program, timeline = program_of(SLOTS)
        slots, commands, spans = list(program.slots), list(program.commands), list(timeline.spans)
        for i in range(copies):
            load = Load(5 + i, DMA, 0, (), (Ref(5 + i, BOX),))
            slots.append(slot(5 + i, 600, 1, "x"))
            commands.append(load)
            spans.append(Span(load.id, DMA, 0, i, i + 1, i + 1, 0, 0, -1))
        many = dataclasses.replace(program, slots=tuple(slots), commands=tuple(commands))
        axes = occupancy_figure(make_report(2), many, Timeline(tuple(spans), ())).axes[0]
        counts.append(sum(len(p.get_path().vertices) for p in axes.patches + axes.artists if p.get_label() in KINDS))
    assert counts[0] == counts[1]


def test_equal_runs_give_equal_bytes(result: RunResult) -> None:
    data = occupancy_plot(result.report, result.program, result.timeline)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data == occupancy_plot(result.report, result.program, result.timeline)


def test_an_empty_run_is_drawn(make_report) -> None:  # type: ignore[no-untyped-def]
    program, timeline = program_of(SLOTS)
    nothing = dataclasses.replace(program, slots=(), commands=())
    assert occupancy_plot(make_report(0), nothing, Timeline((), ())).startswith(b"\x89PNG\r\n\x1a\n")

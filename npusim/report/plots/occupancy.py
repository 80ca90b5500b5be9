"""The occupancy plot: the bytes of SRAM in use over the run, by what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.program.program import TileProgram
from npusim.report.occupancy import most_at_once, slots_in_use
from npusim.report.plots.canvas import (
    DPI,
    INK,
    WIDTH,
    Floats,
    LayerLabels,
    Paint,
    add_axes,
    cycle_axis,
    fill,
    legend,
    look,
    new_figure,
    png,
    time_axis,
)
from npusim.report.result import Report
from npusim.report.text import percent, size, windows_of
from npusim.timing.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEFT, _RIGHT, _BOTTOM, _BODY = 0.75, 0.2, 0.55, 2.9  # inches

KINDS: dict[str, tuple[str, Paint]] = {
    "stays": ("values that stay for later layers", Paint("#08519c")),
    "constants": ("working set: tiles of weights and other constants", Paint("#fdae6b", "////", "#8c3d00")),
    "data": ("working set: tiles of inputs, results and partial sums", Paint("#c6dbef")),
}
"""What a slot holds, from the bottom of the plot upwards."""


def occupancy_plot(report: Report, program: TileProgram, timeline: Timeline) -> bytes:
    """PNG: over the run's cycles the bytes of SRAM in use, stacked by what they hold, below the SRAM's size.

    A slot is in use, all of it, from the start of the first command that writes it to the finish of the last one that
    uses it. Slots in memories of the units' own are not SRAM and not shown. A column of pixels is as high as the mean
    over its cycles; the line of the most bytes in use is exact.
    """
    with look():
        return png(occupancy_figure(report, program, timeline))


def occupancy_figure(report: Report, program: TileProgram, timeline: Timeline) -> Figure:
    """The figure of :func:`occupancy_plot`; its first axes hold a patch for each kind that occurs."""
    from matplotlib.patches import Patch
    from matplotlib.patheffects import withStroke

    end = max(1, timeline.cycles)
    capacity = report.totals.sram_bytes
    steps = _steps(program, timeline, capacity)
    most = most_at_once([s for held in steps.values() for s in held])
    worth, unit = _unit(max(capacity, most))
    spans = [(layer.name, *w) for layer, w in zip(report.layers, windows_of(report.layers), strict=True)]
    labels = LayerLabels(spans, (WIDTH - _LEFT - _RIGHT) / end)
    top = 0.62 + 0.19 * 2 + 0.42
    figure = new_figure(top + labels.height + _BODY + _BOTTOM, report, "SRAM in use over the run")
    axes = add_axes(figure, _LEFT, _BOTTOM, _RIGHT, top)

    edges = np.linspace(0, end, round((WIDTH - _LEFT - _RIGHT) * DPI) + 1)
    low = np.zeros(len(edges) - 1)
    entries: list[tuple[Any, str]] = []
    for kind, (label, paint) in KINDS.items():
        held = steps[kind]
        if not held:
            continue
        high = low + _mean(held, edges) / worth
        fill(axes, [_area(edges, low, high)], paint, kind)
        entries.append((Patch(**paint.options()), label))
        low = high
    starts = [start for _, start, cycles in spans if start and cycles > end / 250]
    axes.vlines(starts, 0, capacity / worth, color="#969696", linewidth=0.5)
    line = axes.axhline(capacity / worth, color=INK, linewidth=1.4)
    entries.append((line, f"SRAM: {size(capacity)}"))
    peak = axes.axhline(most / worth, color=INK, linewidth=1.0, linestyle=(0, (5, 3)))
    peak.set_path_effects([withStroke(linewidth=2.4, foreground="white")])
    entries.append((peak, f"most in use at once: {size(most)}, {percent(most, capacity)} %"))

    full = max(capacity, most, 1) / worth
    labels.draw(axes, full * 1.015)
    axes.set_ylim(0, full * (1.02 + labels.height / _BODY))
    axes.spines["left"].set_bounds(0, full)
    quarters = [capacity / worth * k / 4 for k in range(5)]
    axes.set_yticks(quarters, [f"{q:g}" for q in quarters])
    axes.set_ylabel(f"SRAM in use ({unit})", y=0.5 * _BODY / (_BODY + labels.height))
    axes.grid(axis="y")
    cycle_axis(axes, end)
    time_axis(axes, end, report.totals.clock_hz)
    legend(figure, entries, 0.62, 3)
    return figure


def _steps(program: TileProgram, timeline: Timeline, sram_bytes: int) -> dict[str, list[tuple[int, int]]]:
    """By kind the (cycle, change in bytes) at which slots come into use and go out of it."""
    constants = program.graph.constants
    steps: dict[str, list[tuple[int, int]]] = {kind: [] for kind in KINDS}
    for slot, start, end in slots_in_use(program, timeline):
        if slot.offset < sram_bytes:
            kind = "stays" if slot.whole else "constants" if slot.value in constants else "data"
            steps[kind] += [(start, slot.nbytes), (end, -slot.nbytes)]
    return steps


def _mean(steps: list[tuple[int, int]], edges: Floats) -> Floats:
    """The mean of the running sum of the changes in each bin between ``edges``."""
    cycles, changes = np.array(sorted(steps), dtype=np.float64).T
    level = np.cumsum(changes)
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(cycles))])
    mean: Floats = np.diff(np.interp(edges, cycles, area)) / np.diff(edges)
    return mean


def _area(edges: Floats, low: Floats, high: Floats) -> Floats:
    """The outline of the step area between ``low`` and ``high``."""
    x = np.repeat(edges, 2)[1:-1]
    up, down = np.repeat(high, 2), np.repeat(low, 2)
    return np.stack([np.concatenate([x, x[::-1]]), np.concatenate([up, down[::-1]])], axis=1)


def _unit(nbytes: int) -> tuple[int, str]:
    return next(
        ((w, n) for w, n in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")) if nbytes >= 2 * w), (1, "B")
    )

"""The timeline plot: what every engine did over the run, one lane each, exact to a pixel for any number of commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.program.program import TileProgram
from npusim.report.plots.canvas import (
    DPI,
    WIDTH,
    Floats,
    LayerLabels,
    Paint,
    add_axes,
    boxes,
    cycle_axis,
    fill,
    legend,
    look,
    new_figure,
    png,
    time_axis,
)
from npusim.report.result import Report
from npusim.report.text import windows_of
from npusim.timing.accounting import STALLS, Segment, segments
from npusim.timing.costs import ComputeCost
from npusim.timing.timeline import Span, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PARITY = ("even", "odd")
_BUSY = (Paint("#08519c"), Paint("#6baed6"))  # even and odd layers
_STALLED = {
    "load": ("a load", Paint("#fdd9b5", "////", "#d95f02")),
    "store": ("a store", Paint("#fdd9b5", "xxxx", "#a34700")),
    "compute": ("a computation", Paint("#e6e6e6", "", "#777777")),
    "dram_bus": ("the DRAM bus", Paint("#fff3c4", "----", "#a07800")),
    "sram_port": ("an SRAM port", Paint("#d5edd0", "....", "#1b7837")),
}
_IDLE = Paint("#f5f5f5")
_LANE, _PITCH, _STRIP = 0.30, 0.40, 0.14  # inches


def timeline_plot(report: Report, program: TileProgram, timeline: Timeline) -> bytes:
    """PNG: time to the right, one lane an engine: its own work in a shade that alternates by layer, stalls by cause.

    The strip on top shows the layers' windows. Where several activities share a pixel they share its height in
    proportion to their cycles, so that a colour's area tells its cycles at any scale.
    """
    with look():
        return png(timeline_figure(report, program, timeline))


def timeline_figure(report: Report, program: TileProgram, timeline: Timeline) -> Figure:
    """The figure of :func:`timeline_plot`: for each activity of a lane one patch, labelled ``<queue> <activity>``.

    Its y axis is in inches from the top.
    """
    from matplotlib.patches import Patch

    # costs decide the causes that segments name, and only activities are drawn
    lanes = segments(program, timeline, [ComputeCost(0, 0, 0)] * len(program))
    spans = timeline.by_queue()
    end = max(1, timeline.cycles)
    left, right, bottom = 0.8, 0.2, 0.55  # whole pixels
    edges = np.linspace(0, end, round((WIDTH - left - right) * DPI) + 1)
    layers = [(layer.name, *w) for layer, w in zip(report.layers, windows_of(report.layers), strict=True)]
    labels = LayerLabels(layers, (WIDTH - left - right) / end)
    stalls = [a for a in STALLS if any(s.activity == a for lane in lanes.values() for s in lane)]
    entries: list[tuple[Any, str]] = [
        (tuple(Patch(**p.options()) for p in _BUSY), "works (shade: even and odd layers)")
    ]
    entries += [(Patch(**_STALLED[a][1].options()), f"waits for {_STALLED[a][0]}") for a in stalls]
    entries.append((Patch(**_IDLE.options()), "has nothing left to do"))
    top = 0.62 + 0.19 * -(-len(entries) // 5) + 0.42
    body = labels.height + _STRIP + _PITCH * len(lanes) + 0.1
    figure = new_figure(top + body + bottom, report, "what every engine does")
    axes = add_axes(figure, left, bottom, right, top)

    for parity, paint in enumerate(_BUSY):
        _, starts, cycles = zip(*layers[parity::2], strict=True) if layers[parity:] else ((), (), ())
        n = len(starts)
        fill(axes, boxes(starts, [labels.height] * n, cycles, [_STRIP] * n), paint, f"layers {_PARITY[parity]}")
    labels.draw(axes, labels.height - 0.05)
    middles = [labels.height + _STRIP + _PITCH * (k + 0.5) + 0.05 for k in range(len(lanes))]
    for middle, (queue, lane) in zip(middles, lanes.items(), strict=True):
        _draw_lane(axes, str(queue), middle + _LANE / 2, lane, spans[queue], edges)

    axes.set_ylim(body, 0)
    axes.set_yticks([labels.height + _STRIP / 2, *middles], ["layer", *map(str, lanes)])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    cycle_axis(axes, end)
    time_axis(axes, end, report.totals.clock_hz)
    legend(figure, entries, 0.62, 5)
    return figure


def _draw_lane(
    axes: Axes, queue: str, foot: float, lane: Sequence[Segment], spans: Sequence[Span], edges: Floats
) -> None:
    """Stack the activities of a lane from ``foot`` upwards, busy first, each as high as its share of the pixel."""
    layered: list[tuple[str, Paint, list[tuple[int, int]]]] = []
    for parity, paint in enumerate(_BUSY):
        own = [(s.release - s.busy, s.release) for s in spans if s.layer % 2 == parity]
        layered.append((_PARITY[parity], paint, own))
    for stall, (_, paint) in _STALLED.items():
        layered.append((stall, paint, [(s.start, s.end) for s in lane if s.activity == stall]))
    axes.broken_barh([(0, edges[-1])], (foot - _LANE, _LANE), **_IDLE.options())
    table = _settle_edges(np.array([shares(own, edges) for *_, own in layered]))
    tops = np.cumsum(table, axis=0)
    for (name, paint, _), low, high in zip(layered, tops - table, tops, strict=True):
        outlines = _outlines(edges, foot - _LANE * low, foot - _LANE * high)
        if outlines:
            fill(axes, outlines, paint, f"{queue} {name}")
    widest = 8 * edges[1]  # command boundaries that are at least 8 pixels apart
    starts = [s.release - s.busy for s in spans if s.busy > widest]
    axes.vlines(starts, foot - _LANE, foot, color="white", linewidth=0.4)


def shares(intervals: Sequence[tuple[int, int]], edges: Floats) -> Floats:
    """The part of each bin between ``edges`` that is covered by the ``intervals`` (start, end), sorted and disjoint."""
    if not intervals:
        return np.zeros(len(edges) - 1)
    bounds = np.asarray(intervals, dtype=np.float64)
    covered = np.cumsum(bounds[:, 1] - bounds[:, 0])
    before = np.stack([covered - (bounds[:, 1] - bounds[:, 0]), covered], axis=1)
    part: Floats = np.diff(np.interp(edges, bounds.ravel(), before.ravel(), left=0)) / np.diff(edges)
    return part


def _settle_edges(table: Floats) -> Floats:
    """Give the bin in which one long stretch ends and another begins to the larger: edges are sharp, on a pixel.

    ``table`` has a row an activity and a column a bin; what a column lacks to 1 is idle.
    """
    whole = np.vstack([table, 1 - table.sum(axis=0)])
    largest = whole.argmax(axis=0)
    pure = whole.max(axis=0) > 1 - 1e-9
    beside = np.pad(np.where(pure, largest, -1), 1, constant_values=len(whole))
    before, after = beside[:-2], beside[2:]
    edge = ~pure & (before >= 0) & (after >= 0) & (before != after)
    whole[:, edge] = np.arange(len(whole))[:, None] == largest[edge]
    return whole[:-1]


def _outlines(edges: Floats, low: Floats, high: Floats) -> list[Floats]:
    """Closed outlines of the step areas between ``low`` and ``high``, one for each run of bins where they differ."""
    some = np.concatenate([[False], low != high, [False]])
    changes = np.flatnonzero(some[1:] != some[:-1])
    outlines = []
    for a, b in zip(changes[::2], changes[1::2], strict=True):
        x = np.repeat(edges[a : b + 1], 2)[1:-1]
        up, down = np.repeat(high[a:b], 2), np.repeat(low[a:b], 2)
        outlines.append(np.stack([np.concatenate([x, x[::-1]]), np.concatenate([up, down[::-1]])], axis=1))
    return outlines

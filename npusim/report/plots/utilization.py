"""The utilization plot: a skyline over the run, one block a layer, whose area is the work done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.report.plots.canvas import (
    INK,
    WIDTH,
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
from npusim.report.result import LayerFigures, Report
from npusim.report.text import percent, printable, windows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNITS = {
    "mac": ("MAC array", Paint("#08519c")),
    "vector": ("vector unit", Paint("#d95f02", "////")),
    "popcount": ("popcount unit", Paint("#41ab5d", "....")),
}
_OTHER = Paint("#807dba", "xxx")
_PALE = Paint("#d9d9d9")


def worked_fraction(layer: LayerFigures) -> float:
    """The part of the layer's cycles in which its unit worked, 0..1, averaged over the unit's instances."""
    busy = [e.busy_cycles for e in layer.engines if kind_of(e.engine) == layer.engine]
    return sum(busy) / (len(busy) * layer.cycles) if busy and layer.cycles else 0.0


def kind_of(engine: str) -> str:
    """The engine without the number of its instance."""
    return engine.rstrip("0123456789")


def mean_utilization(report: Report) -> float:
    """Utilization of the layers, weighted by their cycles: the area of the skyline over its width."""
    done = sum(layer.utilization * layer.cycles for layer in report.layers)
    return done / report.totals.cycles if report.totals.cycles else 0.0


def utilization_plot(report: Report) -> bytes:
    """PNG: over the run's cycles, each layer as wide as its cycles and as high as the utilization of its unit.

    The area of a block is the work done. The pale part above it is as high as the share of the layer's cycles in which
    the unit works, so pale is what working below the peak cost, and what is empty above it went to waiting.
    """
    with look():
        return png(utilization_figure(report))


def utilization_figure(report: Report) -> Figure:
    """The figure of :func:`utilization_plot`: for each engine two patches, working and done, with a box a layer."""
    from matplotlib.patches import Patch
    from matplotlib.patheffects import withStroke

    layers, end = report.layers, max(1, report.totals.cycles)
    windows = windows_of(layers)
    engines = sorted({layer.engine for layer in layers})
    left, right, bottom, height = 0.65, 0.2, 0.55, 2.9
    top = 0.62 + 0.19 * -(-(len(engines) + 3) // 5) + 0.42
    labels = LayerLabels([(n.name, *w) for n, w in zip(layers, windows, strict=True)], (WIDTH - left - right) / end)
    figure = new_figure(top + labels.height + height + bottom, report, "utilization over the run")
    axes = add_axes(figure, left, bottom, right, top)

    entries: list[tuple[Any, str]] = []
    for engine in engines:
        name, paint = _UNITS.get(engine, (printable(engine), _OTHER))
        mine = [(layer, window) for layer, window in zip(layers, windows, strict=True) if layer.engine == engine]
        starts, widths = [start for _, (start, _) in mine], [cycles for _, (_, cycles) in mine]
        ground = [0] * len(mine)
        working = [100 * worked_fraction(layer) for layer, _ in mine]
        done = [100 * layer.utilization for layer, _ in mine]
        fill(axes, boxes(starts, ground, widths, working), _PALE, f"{engine} working")
        fill(axes, boxes(starts, ground, widths, done), paint, f"{engine} done")
        entries.append((Patch(**paint.options()), f"{name}: work done"))
    entries.append((Patch(**_PALE.options()), "unit works below its peak rate"))
    entries.append((Patch(facecolor="white", edgecolor=INK, linewidth=0.5), "unit waits"))
    mean = 100 * mean_utilization(report)
    line = axes.axhline(mean, color=INK, linewidth=1.2, linestyle=(0, (5, 3)))
    line.set_path_effects([withStroke(linewidth=2.8, foreground="white")])
    entries.append((line, f"mean over the run, all engines: {percent(mean, 100)} %"))
    tops = [100 * max(worked_fraction(layer), layer.utilization) for layer in layers]
    gaps = [(start, top) for (start, cycles), top in zip(windows, tops, strict=True) if cycles > end / 250]
    axes.vlines([start for start, _ in gaps], 0, [top for _, top in gaps], color="white", linewidth=0.5)
    labels.draw(axes, 102)
    axes.set_ylim(0, 100 * (1 + labels.height / height))
    axes.set_yticks(range(0, 101, 20))
    axes.spines["left"].set_bounds(0, 100)
    axes.set_ylabel("utilization (% of peak)", y=0.5 * height / (height + labels.height))
    axes.grid(axis="y")
    cycle_axis(axes, end)
    time_axis(axes, end, report.totals.clock_hz)
    legend(figure, entries, 0.62, 5)
    return figure

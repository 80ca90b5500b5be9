"""The roofline plot: for every layer the MACs it did in a cycle, against the MACs it does per byte of DRAM traffic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import atan2, cos, degrees, log10, pi, sin, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.hardware import Chip
from npusim.mapping.plan import Plan
from npusim.report.plots.canvas import (
    INK,
    WIDTH,
    add_axes,
    drawable,
    legend,
    look,
    new_figure,
    png,
    text_width,
)
from npusim.report.result import LayerFigures, Report
from npusim.report.text import percent, printable, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELS = 10
_LEFT, _RIGHT, _BOTTOM, _BODY = 0.85, 0.85, 0.5, 4.2  # inches
_LARGEST = 550.0  # area of the largest marker, in square points
_SIZE = 7  # of labels, in points
_MARKERS = {"mac": ("o", pi / 4, "#6baed6"), "popcount": ("s", 1.0, "#41ab5d"), "vector": ("^", 0.5, "#fdae6b")}
_OTHER = ("D", 1.0, "#807dba")
"""Marker, its area where matplotlib is told an area of 1, and its fill."""
_UNITS = {"mac": "MAC array", "popcount": "popcount unit", "vector": "vector unit"}


class Roof(NamedTuple):
    """What no run can exceed: MACs per cycle by (engine, element types), and bytes per cycle to and from DRAM."""

    peaks: dict[tuple[str, str], Fraction]
    bytes_per_cycle: Fraction


Limits = tuple[tuple[float, float], tuple[float, float]]
Box = tuple[float, float, float, float]  # left, bottom, right, top


class Point(NamedTuple):
    """A layer in the plot: ``intensity`` in MACs per byte, ``rate`` in MACs per cycle, both more than 0."""

    layer: LayerFigures
    intensity: float
    rate: float


def roof_of(plan: Plan, chip: Chip) -> Roof:
    """The roof over the layers of ``plan`` that do MACs: all instances of their units at their peak, and the DRAM.

    Ways of their own for stores and for graph inputs and outputs add to the rate of the DRAM bus, since all can be in
    use at once.
    """
    peaks = {}
    for layer in plan.layers:
        if layer.cost.work.macs:
            types = " x ".join(map(str, layer.cost.task.operands[:2]))
            numerator, denominator = layer.cost.unit.peak_per_cycle(layer.cost.task)
            peaks[layer.cost.engine, types] = Fraction(numerator * layer.cost.unit.instances, denominator)
    ways = (chip.dram, chip.dram.write_channel, chip.host_link)
    return Roof(peaks, sum((Fraction(w.bytes_per_cycle) for w in ways if w is not None), Fraction(0)))


def points_of(layers: Sequence[LayerFigures]) -> tuple[list[Point], dict[str, list[LayerFigures]]]:
    """The layers that have a place in the plot, and those that have none by the reason.

    MACs are counted as for the peak: taps on padding are done, too.
    """
    points = []
    out: dict[str, list[LayerFigures]] = {}
    for layer in layers:
        moved = layer.dram_read_bytes + layer.dram_write_bytes
        if layer.macs and moved:
            points.append(Point(layer, layer.macs / moved, layer.macs / layer.active_cycles))
        else:
            out.setdefault("without DRAM traffic" if layer.macs else "without MACs", []).append(layer)
    return points, out


def roofline_plot(report: Report, roof: Roof) -> bytes:
    """PNG: on logarithmic axes each layer at its MACs per DRAM byte and its MACs per cycle, under the chip's roof.

    After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (CACM 52(4), 2009). The
    area of a marker is as the cycles in which the layer was active. No layer lies above the peak of its unit; one that
    loaded before it was active can lie above the slope.
    """
    with look():
        return png(roofline_figure(report, roof))


def roofline_figure(report: Report, roof: Roof) -> Figure:
    """The figure of :func:`roofline_plot`; its first axes hold one collection of markers for each engine."""
    from matplotlib.lines import Line2D

    points, out = points_of(report.layers)
    engines = sorted({p.layer.engine for p in points})
    notes = _notes(points, out, report.totals.cycles)
    top = 0.62 + 0.19 * -(-(len(engines) + 1) // 4) + 0.17 * len(notes) + 0.12
    figure = new_figure(top + _BODY + _BOTTOM, report, "roofline by layer")
    axes = add_axes(figure, _LEFT, _BOTTOM, _RIGHT, top)
    (low_x, high_x), (low_y, high_y) = limits = _limits(points, roof)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low_x, high_x)
    axes.set_ylim(low_y, high_y)
    axes.grid()

    _draw_roof(axes, roof, limits)
    most = max((p.layer.active_cycles for p in points), default=1)
    entries: list[tuple[Any, str]] = []
    for engine in engines:
        marker, unit_area, colour = _MARKERS.get(engine, _OTHER)
        mine = sorted((p for p in points if p.layer.engine == engine), key=lambda p: -p.layer.active_cycles)
        axes.scatter(
            [p.intensity for p in mine], [p.rate for p in mine],
            [_LARGEST / unit_area * p.layer.active_cycles / most for p in mine],
            marker=marker, facecolor=colour, edgecolor=INK, linewidth=0.6, alpha=0.6, label=engine, zorder=3,
        )  # fmt: skip
        shown = Line2D([], [], marker=marker, linestyle="", color=colour, markeredgecolor=INK, markeredgewidth=0.6)
        entries.append((shown, f"layer on the {_UNITS.get(engine, printable(engine))}"))
    entries.append((Line2D([], [], color=INK, linewidth=1.4), "roof: all units at their peak, DRAM at its rate"))
    _draw_labels(axes, points, limits)
    for i, note in enumerate(notes):
        height = figure.get_size_inches()[1]
        figure.text(0.15 / WIDTH, 1 - (top - 0.12 - 0.17 * (len(notes) - i)) / height, note, size=7.5, va="top",
                    color="#555555")  # fmt: skip
    _name_axes(axes, report.totals.clock_hz)
    legend(figure, entries, 0.62, 4)
    return figure


def _notes(points: Sequence[Point], out: dict[str, list[LayerFigures]], cycles: int) -> list[str]:
    """What the areas of the markers mean, what a marker above the roof means, and what the plot leaves out."""
    notes = []
    if points:
        largest = percent(max(p.layer.active_cycles for p in points), cycles)
        notes.append(
            f"area of a marker: cycles in which the layer was active, the largest {largest} % of the run's; above the "
            "slope: it loaded before"
        )
    if out:
        number = sum(map(len, out.values()))
        share = percent(sum(x.cycles for xs in out.values() for x in xs), cycles)
        parts = ", ".join(f"{len(xs)} {why}" for why, xs in out.items())
        notes.append(f"left out: {number} of {number + len(points)} layers, {share} % of the cycles ({parts})")
    return notes


def _limits(points: Sequence[Point], roof: Roof) -> Limits:
    """Limits of both axes: all points and the ridge of every peak, with room around them and some of the slope."""
    peaks = [float(p) for p in roof.peaks.values()]
    xs = [p.intensity for p in points] + [p / float(roof.bytes_per_cycle) / 3 for p in peaks] or [1.0]
    ys = [p.rate for p in points] + peaks or [1.0]
    return (min(xs) / 2, max(xs) * 2), (min(ys) / 2, max(ys) * 2)


def _draw_roof(axes: Axes, roof: Roof, limits: Limits) -> None:
    """The slope up to the highest peak, and a level line for each peak from its ridge to the right."""
    (low_x, high_x), (low_y, high_y) = limits
    slope = float(roof.bytes_per_cycle)
    levels: dict[Fraction, list[str]] = {}
    for (engine, types), peak in sorted(roof.peaks.items()):
        levels.setdefault(peak, []).append(f"{printable(engine)} {types}")
    highest = max(levels, default=Fraction(0))
    end = float(highest) / slope if levels else high_x
    axes.plot([low_x, end], [low_x * slope, end * slope], color=INK, linewidth=1.4, label="slope")
    for peak, names in levels.items():
        axes.plot(
            [float(peak) / slope, high_x],
            [float(peak)] * 2,
            color=INK,
            label=f"peak {', '.join(names)}",
            linewidth=1.4 if peak == highest else 0.9,
            linestyle="-" if peak == highest else (0, (5, 3)),
        )
        axes.annotate(
            f"{', '.join(names)}: {float(peak):,.6g} MACs/cycle",
            (high_x, float(peak)),
            (-3, 17),
            ha="right",
            textcoords="offset points",
            size=_SIZE,
        )
    # Along the slope: one decade right is as many inches as the axes give it, and so is one up.
    width, height = WIDTH - _LEFT - _RIGHT, _BODY
    decade_x, decade_y = width / log10(high_x / low_x), height / log10(high_y / low_y)
    start = max(low_x, low_y / slope)
    middle = (start * end) ** 0.5 if end > start else start
    axes.annotate(
        f"DRAM: {slope:,.6g} bytes/cycle",
        (middle, middle * slope),
        (-5, 5),
        textcoords="offset points",
        rotation=degrees(atan2(decade_y, decade_x)),
        rotation_mode="anchor",
        ha="center",
        size=_SIZE,
    )


def _draw_labels(axes: Axes, points: Sequence[Point], limits: Limits) -> None:
    """Name the layers that were active longest, as near to their markers as no marker and no earlier name is."""
    from matplotlib.patheffects import withStroke

    width, height = WIDTH - _LEFT - _RIGHT, _BODY
    most = max((p.layer.active_cycles for p in points), default=1)
    halo = [withStroke(linewidth=2, foreground="white")]

    def inches(value: float, ends: tuple[float, float], extent: float) -> float:
        return extent * log10(value / ends[0]) / log10(ends[1] / ends[0])

    def place(p: Point) -> tuple[float, float, float]:
        radius = sqrt(_LARGEST * p.layer.active_cycles / most / pi) / 72
        return inches(p.intensity, limits[0], width), inches(p.rate, limits[1], height), radius

    taken = [(x - r, y - r, x + r, y + r) for x, y, r in map(place, points)]
    for p in sorted(points, key=lambda p: -p.layer.active_cycles)[:MOST_LABELS]:
        text = drawable(shorten(p.layer.name, 28))
        x, y, radius = place(p)
        half, tall = text_width(text, _SIZE) / 2 + 0.02, 0.07
        found = _free_place(x, y, radius, half, tall, taken, (width, height))
        if found is not None:
            dx, dy = found
            taken.append((x + dx - half, y + dy - tall, x + dx + half, y + dy + tall))
            axes.annotate(text, (p.intensity, p.rate), (72 * dx, 72 * dy), textcoords="offset points", size=_SIZE,
                          ha="center", va="center", zorder=5, path_effects=halo, arrowprops={
                              "arrowstyle": "-", "linewidth": 0.5, "color": "#555555", "shrinkA": 0, "shrinkB": 0,
                          })  # fmt: skip


def _free_place(
    x: float, y: float, radius: float, half: float, tall: float, taken: Sequence[Box], extent: tuple[float, float]
) -> tuple[float, float] | None:
    """Offset from (x, y) of the middle of a box 2 ``half`` wide and 2 ``tall`` high that meets nothing.

    None if none is found. Tried are sixteen directions at growing distances, in inches.
    """
    for step in range(10):
        for turn in (0, 8, 15, 1, 9, 7, 14, 2, 10, 6, 13, 3, 11, 5, 12, 4):
            away = radius + 0.05 + 0.15 * step
            across, up = cos(turn * pi / 8), sin(turn * pi / 8)
            dx, dy = across * (away + half), up * (away + tall)
            left, low, right, high = x + dx - half, y + dy - tall, x + dx + half, y + dy + tall
            inside = left > 0 and low > 0 and right < extent[0] and high < extent[1]
            if inside and all(right <= a or left >= c or high <= b or low >= d for a, b, c, d in taken):
                return dx, dy
    return None


def _name_axes(axes: Axes, clock_hz: int) -> None:
    """Units on both axes, and a second vertical axis that reads MACs per cycle as MACs per second."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    right = axes.twinx()
    right.set_yscale("log")
    low, high = axes.get_ylim()
    right.set_ylim(low * clock_hz / 1e9, high * clock_hz / 1e9)
    right.spines["right"].set_visible(True)
    right.spines[["left", "bottom", "top"]].set_visible(False)
    for axis in (axes.xaxis, axes.yaxis, right.yaxis):
        axis.set_major_locator(LogLocator(10))
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.12g}"))
        axis.set_minor_locator(LogLocator(10, subs=(2, 5)))  # more of them are slow to draw
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("MACs per byte of DRAM traffic (read and written)")
    axes.set_ylabel("MACs per active cycle of the layer")
    right.set_ylabel("10⁹ MACs per second")

"""The Pareto plot: every point of a sweep by two figures, and the front that no point lies below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from npusim.report.plots.canvas import DPI, INK, WIDTH, add_axes, drawable, legend, look, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_BLUE, _GREY = "#08519c", "#8a8a8a"
_HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 5.2, 0.95, 0.35, 0.55, 0.95
_MOST_NAMES = 40  # points of the front that are named
_WIDE = 20  # an axis is logarithmic if its largest value is so many times its smallest


class Scale(NamedTuple):
    """An axis: what it shows, how a value is written, and whether it has a tick at each value, as for chosen ones."""

    label: str
    text: Callable[[int], str]
    chosen: bool = False


class Spot(NamedTuple):
    """A point: its name, where it lies, and whether it is on the front."""

    name: str
    x: float
    y: float
    front: bool


def pareto_plot(title: str, facts: str, x: Scale, y: Scale, spots: Sequence[Spot], line: bool = True) -> bytes:
    """PNG: the points, those of the front with their names, and, unless x is no figure to weigh, the ``line`` along the
    points than which none is both further left and further down."""
    with look():
        return png(pareto_figure(title, facts, x, y, spots, line))


def pareto_figure(title: str, facts: str, x: Scale, y: Scale, spots: Sequence[Spot], line: bool = True) -> Figure:
    """The figure of :func:`pareto_plot`: the line (if there is one), the points off the front, those on it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, _HEIGHT), dpi=DPI)
    figure.text(0.15 / WIDTH, 1 - 0.14 / _HEIGHT, drawable(title), size=11, weight="bold", va="top")
    figure.text(0.15 / WIDTH, 1 - 0.38 / _HEIGHT, drawable(facts), size=8, va="top", color="#555555")
    axes = add_axes(figure, _LEFT, _BOTTOM, _RIGHT, _TOP)
    steps = staircase(spots) if line else []
    if steps:
        axes.plot(*zip(*steps, strict=True), color=_BLUE, linewidth=1.1, drawstyle="steps-post", alpha=0.7, zorder=2)
    off, on = ([s for s in spots if s.front is front] for front in (False, True))
    handles = []
    for of, marker, colour, width in ((off, "x", _GREY, 5), (on, "o", _BLUE, 6)):
        x_of, y_of = [s.x for s in of], [s.y for s in of]
        handles += axes.plot(x_of, y_of, marker, color=colour, markersize=width, linestyle="", zorder=3)
    for s in on[:_MOST_NAMES]:
        axes.annotate(drawable(s.name), (s.x, s.y), (5, 4), textcoords="offset points", size=8, color=INK)
    _scale(axes, axes.xaxis, x, [s.x for s in spots])
    _scale(axes, axes.yaxis, y, [s.y for s in spots])
    axes.grid()
    legend(figure, [(handles[1], "on the front"), (handles[0], "another point is better")], 0.62, 2)
    return figure


def staircase(spots: Sequence[Spot]) -> list[tuple[float, float]]:
    """The points than which none is both further left and further down, from left to right.

    >>> staircase([Spot("1", 1, 9, True), Spot("2", 2, 9, False), Spot("3", 3, 4, True)])
    [(1, 9), (3, 4)]
    """
    steps: list[tuple[float, float]] = []
    for x, y in sorted({(s.x, s.y) for s in spots}):
        if not steps or y < steps[-1][1]:
            steps.append((x, y))
    return steps


def _scale(axes: Axes, axis: Axis, scale: Scale, values: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    least, most = min(values, default=0), max(values, default=1)
    logarithmic = least > 0 and most > _WIDE * least
    horizontal = axis is axes.xaxis
    if logarithmic:
        (axes.set_xscale if horizontal else axes.set_yscale)("log")
        room = (most / least) ** 0.06
        ends = least / room, most * room
    else:
        room = 0.06 * (most - least) or max(0.06 * abs(most), 1)
        ends = least - room, most + room
    (axes.set_xlim if horizontal else axes.set_ylim)(*ends)
    distinct = sorted(set(values))
    if scale.chosen and len(distinct) <= 12:
        axis.set_major_locator(FixedLocator(distinct))
        axis.set_minor_locator(NullLocator())
    elif logarithmic:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    else:
        axis.set_major_locator(MaxNLocator(7, steps=(1, 2, 2.5, 5, 10), integer=True))
    axis.set_major_formatter(FuncFormatter(lambda v, _: scale.text(round(v))))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(drawable(scale.label))

"""The validation plot: predictions against measurements, over all magnitudes and as errors."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.report.plots.canvas import DPI, INK, WIDTH, add_axes, drawable, legend, look, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BANDS = (10, 25)
"""Percent that the shaded bands reach to both sides."""

_LOOKS = (
    ("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"), ("#e69f00", "v"),
    ("#56b4e9", "P"), ("#000000", "X"), ("#7b3294", "<"), ("#8c6d31", ">"), ("#999999", "h"),
)  # fmt: skip
_SHADES = ("#e0e0e0", "#f2f2f2")
_MOST = 60  # percent; errors beyond are drawn at the edge
_HEIGHT, _SHARES, _LEFT, _GAP, _RIGHT, _BOTTOM = 4.4, 3.0, 0.65, 0.75, 0.15, 0.5


class Series(NamedTuple):
    """A case: ``points`` are (measured, predicted), both more than 0, in one unit; ``label`` is shown in the legend."""

    label: str
    points: tuple[tuple[float, float], ...]


def validation_plot(cycles: Sequence[Series], shares: Sequence[Series] = ()) -> bytes:
    """PNG: predicted against measured ``cycles`` on logarithmic axes, and the errors of the same points beside it.

    ``shares`` of cycles, in percent, come below, on linear axes. Every case has a colour and a marker of its own.
    """
    with look():
        return png(validation_figure(cycles, shares))


def validation_figure(cycles: Sequence[Series], shares: Sequence[Series]) -> Figure:
    """The figure of :func:`validation_plot`; its axes are in the order named there."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    series = [*cycles, *shares]
    style = {id(s): _LOOKS[i % len(_LOOKS)] for i, s in enumerate(series)}
    entries: list[tuple[Any, str]] = [
        (Line2D([], [], color=colour, marker=marker, linestyle="", markersize=5), drawable(s.label))
        for s in series
        for colour, marker in (style[id(s)],)
    ]
    entries += [(Patch(facecolor=shade), f"within {band} %") for band, shade in zip(BANDS, _SHADES, strict=True)]
    columns = 2
    top = 0.62 + 0.19 * -(-len(entries) // columns) + 0.2
    low = _BOTTOM + bool(shares) * (_SHARES + _BOTTOM)
    height = top + _HEIGHT + low
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    figure.text(0.15 / WIDTH, 1 - 0.14 / height, "Predicted against measured", size=11, weight="bold", va="top")
    number = sum(len(s.points) for s in series)
    facts = f"{number} measurements that others published, in {len(series)} cases"
    figure.text(0.15 / WIDTH, 1 - 0.38 / height, facts, size=8, va="top", color="#555555")
    width = (WIDTH - _LEFT - _GAP - _RIGHT) / 2
    absolute = add_axes(figure, _LEFT, low, _RIGHT + width + _GAP, top)
    errors = add_axes(figure, _LEFT + width + _GAP, low, _RIGHT, top)
    _draw_absolute(absolute, cycles, style)
    _draw_errors(errors, cycles, style)
    if shares:
        below = add_axes(figure, _LEFT, _BOTTOM, _RIGHT + width + _GAP, height - _BOTTOM - _SHARES)
        _draw_shares(below, shares, style)
    legend(figure, entries, 0.62, columns)
    return figure


def _scatter(axes: Axes, s: Series, x: Sequence[float], y: Sequence[float], look_of: tuple[str, str]) -> None:
    colour, marker = look_of
    axes.plot(
        x, y, marker, color=colour, markersize=4, markeredgewidth=0.3, markeredgecolor="white", alpha=0.85,
        label=s.label, clip_on=False, zorder=3,
    )  # fmt: skip


def _draw_absolute(axes: Axes, series: Sequence[Series], style: dict[int, tuple[str, str]]) -> None:
    values = [v for s in series for point in s.points for v in point] or [1]
    ends = (min(values) / 1.6, max(values) * 1.6)
    for band, shade in reversed(list(zip(BANDS, _SHADES, strict=True))):
        below, above = ([x * (1 + sign * band / 100) for x in ends] for sign in (-1, 1))
        axes.fill_between(ends, below, above, color=shade, linewidth=0)
    axes.plot(ends, ends, color=INK, linewidth=0.6)
    for s in series:
        _scatter(axes, s, [m for m, _ in s.points], [p for _, p in s.points], style[id(s)])
    axes.set_xlim(ends)
    axes.set_ylim(ends)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _powers(axes.xaxis)
    _powers(axes.yaxis)
    axes.grid()
    axes.set_xlabel("measured cycles")
    axes.set_ylabel("predicted cycles")


def _draw_errors(axes: Axes, series: Sequence[Series], style: dict[int, tuple[str, str]]) -> None:
    for band, shade in reversed(list(zip(BANDS, _SHADES, strict=True))):
        axes.axhspan(-band, band, color=shade, linewidth=0)
    axes.axhline(0, color=INK, linewidth=0.6)
    reach = 0.0
    for s in series:
        off = [max(-_MOST, min(_MOST, 100 * (p - m) / m)) for m, p in s.points]
        reach = max([reach, *map(abs, off)])
        _scatter(axes, s, [m for m, _ in s.points], off, style[id(s)])
    values = [m for s in series for m, _ in s.points] or [1]
    limit = max(BANDS[-1] * 1.2, reach)
    axes.set_xlim(min(values) / 1.6, max(values) * 1.6)
    axes.set_xscale("log")
    _powers(axes.xaxis)
    axes.set_ylim(-limit, limit)
    axes.grid()
    axes.set_xlabel("measured cycles")
    beyond = f"; {_MOST} stands for more" if reach >= _MOST else ""
    axes.set_ylabel(f"error (% of measured{beyond})")


def _powers(axis: Axis) -> None:
    """Powers of ten on a logarithmic axis, without mathematical markup."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    superscripts = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
    axis.set_major_formatter(FuncFormatter(lambda x, _: "10" + str(round(log10(x))).translate(superscripts)))
    axis.set_minor_formatter(NullFormatter())


def _draw_shares(axes: Axes, series: Sequence[Series], style: dict[int, tuple[str, str]]) -> None:
    axes.fill_between([0, 100], [-BANDS[0], 100 - BANDS[0]], [BANDS[0], 100 + BANDS[0]], color=_SHADES[0], linewidth=0)
    axes.plot([0, 100], [0, 100], color=INK, linewidth=0.6)
    for s in series:
        _scatter(axes, s, [m for m, _ in s.points], [p for _, p in s.points], style[id(s)])
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.grid()
    axes.set_xlabel("measured share of cycles (%)")
    axes.set_ylabel(f"predicted share of cycles (%), shaded: within {BANDS[0]} points")

"""The latency plot: for every layer its cycles, split by cause, and where in the run they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from npusim.report.plots.canvas import (
    FAINT,
    WIDTH,
    Paint,
    add_axes,
    boxes,
    cycle_axis,
    drawable,
    fill,
    legend,
    look,
    new_figure,
    png,
    text_width,
    time_axis,
)
from npusim.report.result import LayerFigures, Report
from npusim.report.text import CAUSES, cause_label, causes_of, percent, shorten, windows_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 80
_BAR = 0.76  # of the distance between rows


_CAUSES: dict[str, Paint] = {
    "compute": Paint("#08519c"),
    "fill_drain": Paint("#9ecae1", "|||"),
    "output_path": Paint("#6baed6", "///"),
    "sram_port": Paint("#1b7837", "...."),
    "dram_read": Paint("#d95f02", "\\\\\\"),
    "dram_write": Paint("#fdae6b", "xxx", "#8c3d00"),
    "dram_bus": Paint("#fee8a8", "---", "#a07800"),
    "dependency": Paint("#969696"),
    "last_results": Paint("#e2e2e2", "...", "#777777"),
}
_OTHERS = (Paint("#807dba", "|||"), Paint("#cbc9e2", "+++", "#54278f"), Paint("#54278f", "ooo"))


class _Row(NamedTuple):
    """A bar: one layer, or several small ones together, with their windows."""

    label: str
    layers: tuple[LayerFigures, ...]
    windows: tuple[tuple[int, int], ...]

    @property
    def cycles(self) -> int:
        return sum(layer.cycles for layer in self.layers)

    def of(self, cause: str) -> int:
        return sum(layer.cycles_by_cause.get(cause, 0) for layer in self.layers)


def latency_plot(report: Report) -> bytes:
    """PNG: one horizontal bar a layer, in order of execution, as long as its cycles and split by what they went to.

    Beside it, the layer's window in the run, whose right end is the latency up to there. Of more than ``MOST_ROWS``
    layers the largest keep a bar of their own and the others share the last one.
    """
    with look():
        return png(latency_figure(report))


def latency_figure(report: Report) -> Figure:
    """The figure of :func:`latency_plot`; its first axes hold a patch for each cause, with a box a row."""
    rows = _rows(report.layers)
    causes = causes_of(report.layers)
    legend_lines = -(-max(1, len(causes)) // 4)
    top = 0.62 + 0.19 * legend_lines + 0.42
    body = 0.19 * max(1, len(rows)) + 0.05
    labels = [drawable(shorten(r.label, 36)) for r in rows]
    left = 0.3 + max((text_width(s, 8) for s in labels), default=0.5)
    figure = new_figure(top + body + 0.55, report, "latency by layer")
    window_width, gap = 1.9, 0.35
    bars = add_axes(figure, left, 0.55, window_width + gap + 0.3, top)
    windows = add_axes(figure, WIDTH - 0.2 - window_width, 0.55, 0.2, top)
    bars_width = WIDTH - left - window_width - gap - 0.3
    total = max(1, report.totals.cycles)

    entries = _draw_bars(bars, rows, causes, total)
    longest = max((r.cycles for r in rows), default=0)
    cycle_axis(bars, max(1, round(longest * 1.09)))
    time_axis(bars, max(1, round(longest * 1.09)), report.totals.clock_hz)
    for y, label in enumerate(labels):  # a hundred texts are several times faster than as many ticks
        bars.text(-4 / 72 / bars_width, y, label, transform=bars.get_yaxis_transform(), ha="right", va="center")
    _draw_windows(windows, rows)
    cycle_axis(windows, total, 4)
    time_axis(windows, total, report.totals.clock_hz, 4)
    windows.set_xlabel(f"cumulative {windows.get_xlabel()}")
    for axes in (bars, windows):
        axes.set_ylim(max(1, len(rows)) - 0.5, -0.5)
        axes.set_yticks([])
        axes.grid(axis="x")
    legend(figure, entries, 0.62, 4)
    return figure


def _rows(layers: Sequence[LayerFigures]) -> list[_Row]:
    windows = windows_of(layers)
    by_size = sorted(range(len(layers)), key=lambda i: (-layers[i].cycles, i))
    large = sorted(by_size if len(layers) <= MOST_ROWS else by_size[: MOST_ROWS - 1])
    rest = sorted(by_size[len(large) :])
    rows = [_Row(layers[i].name, (layers[i],), (windows[i],)) for i in large]
    if rest:
        own = tuple(layers[i] for i in rest)
        rows.append(_Row(f"other {len(rest)} layers", own, tuple(windows[i] for i in rest)))
    return rows


def _draw_bars(axes: Axes, rows: Sequence[_Row], causes: Sequence[str], total: int) -> list[tuple[Artist, str]]:
    unknown = [c for c in causes if c not in CAUSES]
    at = [0] * len(rows)
    entries = []
    for cause in causes:
        paint = _CAUSES[cause] if cause in _CAUSES else _OTHERS[unknown.index(cause) % len(_OTHERS)]
        widths = [r.of(cause) for r in rows]
        outlines = boxes(at, _tops(rows), widths, [_BAR] * len(rows))
        entries.append((fill(axes, outlines, paint, cause), cause_label(cause)))
        at = [a + w for a, w in zip(at, widths, strict=True)]
    for y, row in enumerate(rows):
        axes.annotate(
            f"{percent(row.cycles, total)} %",
            (at[y], y),
            (3, 0),
            textcoords="offset points",
            va="center_baseline",
            size=7,
            color="#555555",
        )
    return entries


def _draw_windows(axes: Axes, rows: Sequence[_Row]) -> None:
    placed = [(start, top, cycles) for row, top in zip(rows, _tops(rows), strict=True) for start, cycles in row.windows]
    x, y, width = zip(*placed, strict=True) if placed else ((), (), ())
    fill(axes, boxes(x, y, width, [_BAR] * len(placed)), Paint("#525252"), "windows")
    ends = [sum(r.windows[0]) for r in rows if len(r.layers) == 1]
    axes.step(ends, range(len(ends)), where="pre", color=FAINT, linewidth=0.8, zorder=0.5)


def _tops(rows: Sequence[_Row]) -> list[float]:
    return [y - _BAR / 2 for y in range(len(rows))]

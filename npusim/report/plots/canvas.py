"""What the plots share: one look, margins in inches, axes in cycles and in time, and PNG bytes without a date."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.report.result import Report
from npusim.report.text import duration, frequency, headline, printable, shorten, time_unit

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ft2font import FT2Font

Floats = NDArray[np.float64]

DPI = 150
WIDTH = 10.0  # inches
_STEPS = (1, 2, 2.5, 5, 10)  # of round numbers on an axis
INK, FAINT = "#222222", "#c8c8c8"

_STYLE: dict[str, object] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "text.color": INK,
    "text.hinting": "no_hinting",  # at 150 dots an inch hints gain little, and they are a third of the time of text
    "text.parse_math": False,  # names from models may hold a $
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}


class Paint(NamedTuple):
    """Fill, hatch and colour of the hatch. Lightness and hatch keep the paints of a plot apart without colour, too."""

    fill: str
    hatch: str = ""
    line: str = "white"

    def options(self) -> dict[str, Any]:
        """As keyword arguments of a patch or a collection."""
        return {"facecolor": self.fill, "hatch": self.hatch, "edgecolor": self.line, "linewidth": 0}


@contextmanager
def look() -> Iterator[None]:
    """Inside, matplotlib has its own defaults and the look of npusim, whatever its configuration files say."""
    import matplotlib.style

    with matplotlib.style.context(["default", _STYLE]):
        yield


def png(figure: Figure) -> bytes:
    """The figure, on white and opaque, as a PNG (ISO/IEC 15948) with its resolution; equal bytes for equal figures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())[:, :, :3]  # type: ignore[no-untyped-call]
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG", dpi=(DPI, DPI), compress_level=3)
    return buffer.getvalue()


def new_figure(height: float, report: Report, what: str) -> Figure:
    """A figure of ``height`` inches with its title, and the run's figures below the title; both at the left margin."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    t = report.totals
    facts = f"{t.cycles:,} cycles = {duration(t.latency_seconds)} at {frequency(t.clock_hz)}"
    figure.text(
        0.15 / WIDTH, 1 - 0.14 / height, f"{drawable(headline(report))}: {what}", size=11, weight="bold", va="top"
    )
    figure.text(0.15 / WIDTH, 1 - 0.38 / height, facts, size=8, va="top", color="#555555")
    return figure


def add_axes(figure: Figure, left: float, bottom: float, right: float, top: float) -> Axes:
    """Axes with the given margins to the edges of the figure, in inches."""
    width, height = figure.get_size_inches()
    return figure.add_axes(
        (left / width, bottom / height, (width - left - right) / width, (height - bottom - top) / height)
    )


def legend(figure: Figure, entries: Sequence[tuple[Any, str]], top: float, columns: int) -> None:
    """A legend of (artist or tuple of artists, label) between title and axes, ``top`` inches below the upper edge."""
    from matplotlib.legend_handler import HandlerTuple

    height = figure.get_size_inches()[1]
    figure.legend(
        [handle for handle, _ in entries],
        [label for _, label in entries],
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
        loc="upper left",
        bbox_to_anchor=(0.15 / WIDTH, 1 - top / height),
        ncols=columns,
        borderaxespad=0,
        borderpad=0,
        handlelength=2.2,
        handleheight=1.1,
        columnspacing=1.6,
    )


def fill(axes: Axes, outlines: Sequence[Floats], paint: Paint, label: str) -> Artist:
    """Fill closed polygons, each an array of (x, y), as one artist, since hatches make one artist each slow."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    path = Path.make_compound_path(*(Path(np.concatenate([o, o[:1]]), closed=True) for o in outlines))
    patch = PathPatch(path, label=label, **paint.options())
    patch.set_transform(axes.transData)
    patch.set_clip_path(axes.patch)
    axes.add_artist(patch)
    return patch


def boxes(x: Sequence[float], y: Sequence[float], width: Sequence[float], height: Sequence[float]) -> list[Floats]:
    """The outlines of rectangles by their corners (x, y) and extents; those without area are left out."""
    return [
        np.array([(a, b), (a + w, b), (a + w, b + h), (a, b + h)], dtype=np.float64)
        for a, b, w, h in zip(x, y, width, height, strict=True)
        if w and h
    ]


def cycle_axis(axes: Axes, end: int, ticks: int = 8) -> None:
    """The x axis from 0 to ``end`` >= 1 cycles, in cycles or in thousands, millions ... of them."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    worth, word = next(
        (w, n)
        for w, n in ((10**12, "10¹²"), (10**9, "10⁹"), (10**6, "millions"), (10**3, "thousands"), (1, ""))
        if end >= w
    )
    axes.set_xlim(0, end)
    axes.set_xlabel(f"cycles ({word})" if word else "cycles")
    axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=_STEPS, integer=worth == 1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / worth:g}"))


def time_axis(axes: Axes, end: int, clock_hz: int, ticks: int = 8) -> None:
    """A second x axis, at the top, that reads the cycles of the first one as time."""
    from matplotlib.ticker import MaxNLocator

    worth, unit = time_unit(end / clock_hz)
    top = axes.twiny()
    top.set_xlim(0, end * worth / clock_hz)
    top.spines["top"].set_visible(True)
    top.spines[["left", "bottom"]].set_visible(False)
    top.xaxis.set_major_locator(MaxNLocator(ticks, steps=_STEPS))
    top.set_xlabel(f"time ({unit})")


def drawable(name: str) -> str:
    """``name`` with ``?`` for every character that the font does not have."""
    glyphs = _glyphs()
    return "".join(c if ord(c) in glyphs else "?" for c in printable(name))


def text_width(text: str, size: float) -> float:
    """Width of a line of text in inches, at ``size`` points, by the advance widths of the font."""
    from matplotlib.backends.backend_agg import get_hinting_flag

    font = _font()
    font.set_size(size, 72)
    font.set_text(text, flags=get_hinting_flag())  # type: ignore[no-untyped-call]
    width: float = font.get_width_height()[0]
    return width / 64 / 72


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(_font().get_charmap())


@cache
def _font() -> FT2Font:
    from matplotlib.font_manager import findfont, get_font

    return get_font(findfont("DejaVu Sans"))


class LayerLabels:
    """Names of layers above a plot over time, where there is room: level, or upright if that does not fit.

    ``spans`` are (name, start, length in cycles); ``height`` is what the names need, in inches.
    """

    def __init__(self, spans: Sequence[tuple[str, int, int]], inch_per_cycle: float) -> None:
        self._texts: list[tuple[float, str, int]] = []
        self.height = 0.22
        for name, start, cycles in spans:
            room = cycles * inch_per_cycle
            if room >= 0.13:
                text = drawable(shorten(name, 28))
                width = text_width(text, 7)
                level = width + 0.08 <= room
                self._texts.append((start + cycles / 2, text, 0 if level else 90))
                self.height = max(self.height, 0.1 if level else width + 0.14)

    def draw(self, axes: Axes, y: float) -> None:
        """Write the names above ``y``."""
        for middle, text, rotation in self._texts:
            axes.text(middle, y, text, size=7, rotation=rotation, ha="center", va="bottom")

"""What the plots share."""

from __future__ import annotations

import io
import subprocess
import sys

import matplotlib
import pytest
from matplotlib.figure import Figure
from PIL import Image

from npusim.report.plots.canvas import LayerLabels, cycle_axis, drawable, look, png, text_width, time_axis


def test_importing_the_plots_does_not_import_matplotlib() -> None:
    code = "import npusim.report.plots, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_look_ignores_the_users_settings_and_restores_them() -> None:
    def draw() -> bytes:
        with look():
            figure = Figure()
            figure.add_subplot().set_title("text")
            return png(figure)

    plain = draw()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.bbox": "tight", "savefig.dpi": 50}):
        assert draw() == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_a_figure_is_drawn_at_150_dots_an_inch_on_white() -> None:
    with look():
        data = png(Figure(figsize=(2, 1)))
    with Image.open(io.BytesIO(data)) as image:
        assert image.info["dpi"] == pytest.approx((150, 150), abs=0.02)
        assert image.size == (300, 150) and image.getcolors() == [(300 * 150, (255, 255, 255))]


@pytest.mark.parametrize(
    ("end", "label"),
    [
        (1, "cycles"),
        (999, "cycles"),
        (1000, "cycles (thousands)"),
        (2_500_000, "cycles (millions)"),
        (10**9, "cycles (10⁹)"),
    ],
)
def test_cycle_axis_names_its_unit(end: int, label: str) -> None:
    axes = Figure().add_subplot()
    cycle_axis(axes, end)
    assert axes.get_xlabel() == label
    assert axes.get_xlim() == (0, end)


def test_cycle_axis_counts_whole_cycles() -> None:
    axes = Figure().add_subplot()
    cycle_axis(axes, 3)
    assert all(t == int(t) for t in axes.get_xticks())


@pytest.mark.parametrize(
    ("clock_hz", "label", "end"), [(10**9, "time (µs)", 2.5), (10**6, "time (ms)", 2.5), (100, "time (s)", 25)]
)
def test_time_axis_is_cycles_over_the_clock(clock_hz: int, label: str, end: float) -> None:
    figure = Figure()
    time_axis(figure.add_subplot(), 2500, clock_hz)
    top = figure.axes[1]
    assert (top.get_xlabel(), top.get_xlim()) == (label, (0, end))


def test_text_width_is_near_what_is_drawn() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with look():
        figure = Figure(dpi=300)
        text = figure.text(0, 0, "depthwise_conv2d_12", size=8)
        FigureCanvasAgg(figure).draw()
        drawn = text.get_window_extent().width / 300
    assert text_width("depthwise_conv2d_12", 8) == pytest.approx(drawn, rel=0.05)


def test_characters_without_glyph_are_replaced() -> None:
    assert drawable("conv µ 名") == "conv µ ?"


def test_labels_stand_upright_where_they_do_not_fit() -> None:
    axes = Figure().add_subplot()
    LayerLabels([("wide_enough", 0, 100), ("too_narrow", 100, 20), ("invisible", 120, 1)], 0.01).draw(axes, 1)
    assert [(t.get_text(), t.get_rotation(), t.get_position()[0]) for t in axes.texts] == [
        ("wide_enough", 0, 50),
        ("too_narrow", 90, 110),
    ]

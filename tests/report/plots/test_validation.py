"""The validation plot: points where their numbers say, a look of its own for every case, bands as wide as they say."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.report.plots.canvas import look
from npusim.report.plots.validation import BANDS, Series, validation_figure, validation_plot

CYCLES = [
    Series("first: MAPE 10.0 %, 3 rows", ((100, 110), (1e4, 9e3), (1e6, 1.1e6))),
    Series("second: MAPE 300.0 %, 1 rows", ((500, 2000),)),
]
SHARES = [Series("shares: mean 5.0 points off, 2 rows", ((0, 5), (80, 75)))]


def points(axes, label: str) -> list[tuple[float, float]]:  # type: ignore[no-untyped-def]
    (line,) = [x for x in axes.get_lines() if x.get_label() == label]
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def test_points_lie_where_their_numbers_say() -> None:
    with look():
        absolute, errors, shares = validation_figure(CYCLES, SHARES).axes
    for s in CYCLES:
        assert points(absolute, s.label) == list(s.points)
    assert points(errors, CYCLES[0].label) == [(100, 10), (1e4, -10), (1e6, pytest.approx(10))]
    assert points(errors, CYCLES[1].label) == [(500, 60)]  # 300 % is drawn at the edge, and the axis says so
    assert "60 stands for more" in errors.get_ylabel()
    assert points(shares, SHARES[0].label) == list(SHARES[0].points)
    assert (absolute.get_xscale(), absolute.get_yscale(), shares.get_xscale()) == ("log", "log", "linear")
    assert absolute.get_xlim() == absolute.get_ylim()


def test_bands_are_as_wide_as_they_say() -> None:
    with look():
        absolute, errors = validation_figure(CYCLES, ()).axes
    spans = sorted(p.get_extents().transformed(errors.transData.inverted()).ymax for p in errors.patches)
    assert spans == pytest.approx(sorted(BANDS))
    ratios = set()
    for area in absolute.collections:
        for x, y in area.get_paths()[0].vertices:
            ratios.add(round(float(y / x), 6))
    assert ratios == {round(1 + sign * b / 100, 6) for b in BANDS for sign in (-1, 1)}


def test_every_case_has_a_colour_and_a_marker_of_its_own() -> None:
    many = [Series(f"case {i}", ((10.0**i, 10.0**i),)) for i in range(1, 11)]
    with look():
        figure = validation_figure(many, ())
    lines = [x for x in figure.axes[0].get_lines() if str(x.get_label()).startswith("case")]
    assert len({x.get_color() for x in lines}) == len({x.get_marker() for x in lines}) == len(many)
    shown = [t.get_text() for t in figure.legends[0].get_texts()]
    assert shown == [*(s.label for s in many), "within 10 %", "within 25 %"]


def test_ticks_are_powers_of_ten_without_markup() -> None:
    with look():
        figure = validation_figure(CYCLES, ())
        figure.canvas.draw()
    labels = {t.get_text() for t in figure.axes[0].get_xticklabels()}
    assert "10⁴" in labels and not any("$" in text for text in labels)


def test_a_plot_of_nothing_and_equal_bytes() -> None:
    assert validation_plot(()) == validation_plot(())
    first = validation_plot(CYCLES, SHARES)
    assert first == validation_plot(CYCLES, SHARES)
    assert np.frombuffer(first[:8], np.uint8).tolist() == [137, 80, 78, 71, 13, 10, 26, 10]

"""The Pareto plot: every point where its figures say, and a line that no point lies below."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.report.plots.canvas import look
from npusim.report.plots.pareto import Scale, Spot, pareto_figure, pareto_plot, staircase
from npusim.report.text import count, size

CYCLES, SIZE = Scale("cycles", count), Scale("sram.size_bytes", size, chosen=True)
SPOTS = [
    Spot("#0", 1000, 65536, True), Spot("#1", 2000, 1024, True),
    Spot("#2", 1500, 65536, False), Spot("#3", 1800, 8192, True),
]  # fmt: skip


def test_points_line_and_names() -> None:
    figure = pareto_figure("tiny: Pareto front", "4 points", CYCLES, SIZE, SPOTS)
    (axes,) = figure.axes
    line, off, on = axes.lines
    assert np.column_stack(line.get_data()).tolist() == [[1000, 65536], [1800, 8192], [2000, 1024]]
    assert line.get_drawstyle() == "steps-post"
    assert np.column_stack(off.get_data()).tolist() == [[1500, 65536]]
    assert np.column_stack(on.get_data()).tolist() == [[1000, 65536], [2000, 1024], [1800, 8192]]
    assert [t.get_text() for t in axes.texts] == ["#0", "#1", "#3"]
    assert [t.get_text() for t in figure.texts] == ["tiny: Pareto front", "4 points"]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["on the front", "another point is better"]


def test_axes_have_labels_units_and_room() -> None:
    (axes,) = pareto_figure("t", "f", CYCLES, SIZE, SPOTS).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cycles", "sram.size_bytes")
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
    assert axes.get_yticks().tolist() == [1024, 8192, 65536]  # the values that were chosen
    assert [t.get_text() for t in axes.get_yticklabels()] == ["1.00 KiB", "8.00 KiB", "64.0 KiB"]
    for (low, high), values in ((axes.get_xlim(), (1000, 2000)), (axes.get_ylim(), (1024, 65536))):
        assert low < values[0] and values[1] < high
    assert "1.00 k" in [t.get_text() for t in axes.get_xticklabels()]


def test_no_line_where_the_x_axis_is_only_the_number_of_the_point() -> None:
    (axes,) = pareto_figure("t", "f", CYCLES, SIZE, SPOTS, line=False).axes
    assert [len(points.get_xdata()) for points in axes.lines] == [1, 3]


@pytest.mark.parametrize("spots", [[], [Spot("#0", 5, 5, True)], [Spot("#0", 0, 0, True), Spot("#1", 0, 0, True)]])
def test_few_points_and_equal_ones(spots: list[Spot]) -> None:
    (axes,) = pareto_figure("t", "f", CYCLES, SIZE, spots).axes
    assert len(axes.lines) == 2 + bool(spots)
    assert axes.get_xlim()[0] < axes.get_xlim()[1]


def test_many_front_points_are_not_all_named() -> None:
    spots = [Spot(f"#{i}", i + 1, 1000 - i, True) for i in range(100)]
    (axes,) = pareto_figure("t", "f", CYCLES, CYCLES, spots).axes
    assert len(axes.texts) == 40 and len(axes.lines[2].get_xdata()) == 100


def test_equal_points_give_equal_bytes() -> None:
    with look():
        first = pareto_plot("t", "f", CYCLES, SIZE, SPOTS)
    assert first == pareto_plot("t", "f", CYCLES, SIZE, SPOTS)
    assert first.startswith(b"\x89PNG")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=15))
def test_no_point_lies_below_the_line(values: list[tuple[int, int]]) -> None:
    steps = staircase([Spot("", x, y, False) for x, y in values])
    assert set(steps) == {
        (x, y) for x, y in values if not any((a <= x and b <= y) and (a, b) != (x, y) for a, b in values)
    }
    assert steps == sorted(steps)

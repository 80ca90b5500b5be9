"""The latency plot: its boxes are the layers' cycles by cause."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

from npusim.report.plots.latency import MOST_ROWS, latency_figure, latency_plot
from npusim.report.text import causes_of, windows_of


def boxes_of(axes, label: str) -> np.ndarray:  # type: ignore[no-untyped-def]
    """(left, top, right, bottom) of the boxes of the patch with this label."""
    (patch,) = [p for p in axes.get_children() if p.get_label() == label]
    corners = patch.get_path().vertices.reshape(-1, 5, 2)
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


@pytest.mark.parametrize("layers", [1, 5, 30])
def test_boxes_are_cycles_by_cause(make_report, layers: int) -> None:  # type: ignore[no-untyped-def]
    report = make_report(layers)
    axes, windows = latency_figure(report).axes[:2]
    lengths = np.zeros(layers)
    for cause in causes_of(report.layers):
        boxes = boxes_of(axes, cause)
        rows = np.rint(boxes[:, [1, 3]].mean(axis=1)).astype(int)
        want = {i: n for i, x in enumerate(report.layers) if (n := x.cycles_by_cause.get(cause, 0))}
        assert dict(zip(rows, boxes[:, 2] - boxes[:, 0], strict=True)) == want
        assert np.array_equal(boxes[:, 0], lengths[rows])  # stacked without gap or overlap
        lengths[rows] = boxes[:, 2]
    assert list(lengths) == [x.cycles for x in report.layers]
    shown = boxes_of(windows, "windows")
    assert [(a, c - a) for a, _, c, _ in shown] == windows_of(report.layers)


def test_axes_have_units_and_start_at_zero(make_report) -> None:  # type: ignore[no-untyped-def]
    figure = latency_figure(make_report(5))
    labels = [a.get_xlabel() for a in figure.axes]
    assert labels == ["cycles (thousands)", "cumulative cycles (thousands)", "time (µs)", "time (µs)"]
    assert [a.get_xlim()[0] for a in figure.axes] == [0, 0, 0, 0]
    assert [t.get_text() for t in figure.legends[0].get_texts()][:2] == ["compute", "output path"]
    names = [t.get_text() for t in figure.axes[0].texts]
    assert "block_0/depthwise" in names and "50.4 %" in names


def test_many_layers_share_the_last_row(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(100)
    figure = latency_figure(report)
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert "other 21 layers" in texts
    ends = np.zeros(MOST_ROWS)
    for cause in causes_of(report.layers):
        boxes = boxes_of(figure.axes[0], cause)
        rows = np.rint(boxes[:, [1, 3]].mean(axis=1)).astype(int)
        ends[rows] = np.maximum(ends[rows], boxes[:, 2])
    cycles = sorted((x.cycles for x in report.layers), reverse=True)
    assert ends[-1] == sum(cycles[MOST_ROWS - 1 :])
    assert sorted(ends[:-1], reverse=True) == cycles[: MOST_ROWS - 1]
    assert len(boxes_of(figure.axes[1], "windows")) == 100


def test_height_grows_with_layers(make_report) -> None:  # type: ignore[no-untyped-def]
    heights = [latency_figure(make_report(n)).get_size_inches()[1] for n in (1, 5, 30, 80, 100)]
    assert heights == sorted(heights)
    assert heights[3] == heights[4]


def test_unknown_causes_are_drawn_and_named(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(5, ("compute", "lunch_break", "tea"))
    figure = latency_figure(report)
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["compute", "lunch break", "tea"]
    drawn = [p for p in figure.axes[0].get_children() if p.get_label() in ("compute", "lunch_break", "tea")]
    assert len({p.get_facecolor() for p in drawn}) == len({p.get_hatch() for p in drawn}) == 3


def test_names_may_hold_anything(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(1)
    layer = dataclasses.replace(report.layers[0], name="a$\\frac$ \x1b 名 %s{x}")
    report = dataclasses.replace(report, layers=(layer,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = latency_plot(report)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert "a$\\frac$ ? ? %s{x}" in [t.get_text().replace("�", "?") for t in latency_figure(report).axes[0].texts]


@pytest.mark.parametrize("layers", [0, 1, 30])
def test_equal_reports_give_equal_bytes(make_report, layers: int) -> None:  # type: ignore[no-untyped-def]
    data = latency_plot(make_report(layers))
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert b"tEXt" not in data and b"iTXt" not in data
    assert data == latency_plot(make_report(layers))

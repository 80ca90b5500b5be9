"""The skyline: its area is the work done."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from npusim.report.plots.utilization import mean_utilization, utilization_figure, utilization_plot, worked_fraction
from npusim.report.result import EngineFigures
from npusim.report.text import windows_of


def boxes_of(axes, label: str) -> np.ndarray:  # type: ignore[no-untyped-def]
    (patch,) = [p for p in axes.get_children() if p.get_label() == label]
    corners = patch.get_path().vertices.reshape(-1, 5, 2)
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


@pytest.mark.parametrize("layers", [1, 5, 30, 100])
def test_blocks_are_windows_wide_and_utilization_high(make_report, layers: int) -> None:  # type: ignore[no-untyped-def]
    report = make_report(layers)
    axes = utilization_figure(report).axes[0]
    area, blocks = 0.0, 0
    for engine in {x.engine for x in report.layers}:
        mine = [(w, x) for w, x in zip(windows_of(report.layers), report.layers, strict=True) if x.engine == engine]
        done, working = boxes_of(axes, f"{engine} done"), boxes_of(axes, f"{engine} working")
        assert [(a, c - a) for a, _, c, _ in done] == [w for w, _ in mine]
        assert done[:, 1].tolist() == [0] * len(mine)
        assert done[:, 3] == pytest.approx([100 * x.utilization for _, x in mine])
        assert working[:, 3] == pytest.approx([100 * worked_fraction(x) for _, x in mine])
        area += float(((done[:, 2] - done[:, 0]) * done[:, 3]).sum())
        blocks += len(done)
    assert blocks == layers
    assert area / report.totals.cycles == pytest.approx(100 * mean_utilization(report))
    (line,) = [x for x in axes.lines if len(set(x.get_ydata())) == 1]
    assert line.get_ydata()[0] == pytest.approx(area / report.totals.cycles)


def test_axes_have_units_and_are_honest(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(5)
    figure = utilization_figure(report)
    axes, top = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cycles (thousands)", "utilization (% of peak)")
    assert top.get_xlabel() == "time (µs)"
    assert axes.get_xlim() == (0, report.totals.cycles)
    assert top.get_xlim() == pytest.approx((0, 1e6 * report.totals.latency_seconds))
    assert axes.get_ylim()[0] == 0 and axes.get_yticks().max() == 100
    legend = [t.get_text() for t in figure.legends[0].get_texts()]
    assert legend[:2] == ["MAC array: work done", "vector unit: work done"]
    assert legend[-1] == f"mean over the run, all engines: {100 * mean_utilization(report):.1f} %"


def test_the_widest_layers_are_named(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(100)
    shown = [t.get_text() for t in utilization_figure(report).axes[0].texts]
    widths = sorted(report.layers, key=lambda x: -x.cycles)
    assert 5 < len(shown) < 100
    assert sorted(shown) == sorted(x.name for x in widths[: len(shown)])


def test_worked_fraction_is_the_mean_of_the_units_instances(make_report) -> None:  # type: ignore[no-untyped-def]
    def engine(name: str, busy: int) -> EngineFigures:
        return EngineFigures(engine=name, busy_cycles=busy, stalled_cycles={}, idle_cycles=100 - busy)

    layer = dataclasses.replace(
        make_report(1).layers[0], cycles=100, engines=(engine("dma0", 100), engine("mac0", 80), engine("mac1", 20))
    )
    assert worked_fraction(layer) == 0.5
    assert worked_fraction(dataclasses.replace(layer, cycles=0)) == 0


def test_unknown_engines_are_drawn(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(2)
    layers = tuple(dataclasses.replace(x, engine="quantum") for x in report.layers)
    figure = utilization_figure(dataclasses.replace(report, layers=layers))
    assert [t.get_text() for t in figure.legends[0].get_texts()][0] == "quantum: work done"
    assert len(boxes_of(figure.axes[0], "quantum done")) == 2


@pytest.mark.parametrize("layers", [0, 1, 30])
def test_equal_reports_give_equal_bytes(make_report, layers: int) -> None:  # type: ignore[no-untyped-def]
    data = utilization_plot(make_report(layers))
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data == utilization_plot(make_report(layers))

"""The roofline: layers where their figures say, under a roof of the chip's numbers, and nothing left out in silence."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from math import pi
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import npusim
from npusim.api import make_job
from npusim.hardware.memory import HostLink, WriteChannel
from npusim.report.plots.roofline import MOST_LABELS, Roof, points_of, roof_of, roofline_figure, roofline_plot

WORKLOADS = Path(npusim.__file__).parents[1] / "workloads"
ROOF = Roof({("mac", "i8 x i8"): Fraction(1024)}, Fraction(64, 5))


def line(axes, label: str) -> list[tuple[float, float]]:  # type: ignore[no-untyped-def]
    (found,) = [x for x in axes.lines if x.get_label() == label]
    return list(zip(map(float, found.get_xdata()), map(float, found.get_ydata()), strict=True))


@pytest.mark.parametrize("layers", [1, 5, 100])
def test_markers_lie_where_the_figures_say_and_their_areas_are_cycles(make_report, layers: int) -> None:  # type: ignore[no-untyped-def]
    report = make_report(layers)
    (markers,) = roofline_figure(report, ROOF).axes[0].collections
    shown = sorted((x for x in report.layers if x.macs), key=lambda x: -x.cycles)
    where = [(x.macs / (x.dram_read_bytes + x.dram_write_bytes), x.macs / x.cycles) for x in shown]
    assert np.asarray(markers.get_offsets()).ravel() == pytest.approx(np.array(where).ravel())
    per_cycle = markers.get_sizes() / [x.cycles for x in shown]
    assert per_cycle == pytest.approx(np.full(len(shown), per_cycle[0]))


def test_equal_cycles_are_equal_areas_whatever_the_marker(make_report) -> None:  # type: ignore[no-untyped-def]
    """matplotlib's size is the square of a circle's diameter, and of a square's side."""
    one = make_report(1).layers[0]
    report = dataclasses.replace(make_report(1), layers=(one, dataclasses.replace(one, engine="popcount")))
    circle, square = roofline_figure(report, ROOF).axes[0].collections
    assert circle.get_sizes()[0] * pi / 4 == pytest.approx(square.get_sizes()[0])


def test_every_layer_is_shown_or_counted_with_the_reason(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(8)
    a, b, *rest = report.layers
    quiet = dataclasses.replace(a, dram_read_bytes=0, dram_write_bytes=0)
    hidden = dataclasses.replace(b, cycles=0)  # in the shadow of another layer, but active
    report = dataclasses.replace(report, layers=(quiet, hidden, *rest))
    points, out = points_of(report.layers)
    vector = [x for x in rest if not x.macs]
    assert out == {"without DRAM traffic": [quiet], "without MACs": vector}
    assert len(points) == 8 - 1 - len(vector) and points[0].layer is hidden
    assert points[0].rate == b.macs / b.active_cycles
    texts = [t.get_text() for t in roofline_figure(report, ROOF).texts]
    share = 100 * (a.cycles + sum(x.cycles for x in vector)) / report.totals.cycles
    assert texts[-1] == (
        f"left out: 3 of 8 layers, {share:.1f} % of the cycles (1 without DRAM traffic, 2 without MACs)"
    )


def test_the_roof_is_the_lower_of_peak_and_bandwidth(make_report) -> None:  # type: ignore[no-untyped-def]
    roof = Roof({("mac", "i8 x i8"): Fraction(1024), ("mac", "i16 x i8"): Fraction(512)}, Fraction(64, 5))
    axes = roofline_figure(make_report(5), roof).axes[0]
    (x0, y0), (x1, y1) = line(axes, "slope")
    assert (x1, y1) == pytest.approx((80, 1024)) and y0 / x0 == pytest.approx(12.8) and x0 < x1
    for label, peak in (("peak mac i8 x i8", 1024), ("peak mac i16 x i8", 512)):
        (x0, y0), (x1, y1) = line(axes, label)
        assert (x0, y0, y1) == pytest.approx((peak / 12.8, peak, peak)) and x1 == axes.get_xlim()[1]
    texts = [t.get_text() for t in axes.texts]
    assert "DRAM: 12.8 bytes/cycle" in texts and "mac i16 x i8: 512 MACs/cycle" in texts


def test_the_roof_of_a_chip() -> None:
    """All instances at the peak of the operands' types; other ways than the bus add to its rate."""
    job = make_job(WORKLOADS / "residual_block.yaml", bits="off", overrides=["units.0.instances=2"])
    plan = npusim.run(WORKLOADS / "residual_block.yaml", bits="off", overrides=["units.0.instances=2"]).plan
    (mac,) = [u for u in job.chip.units if u.label == "mac"]
    assert mac.instances == 2
    assert roof_of(plan, job.chip) == Roof({("mac", "i8 x i8"): Fraction(2048)}, Fraction(64, 5))
    dram = dataclasses.replace(job.chip.dram, write_channel=WriteChannel(bytes_per_cycle=8, latency_cycles=10))
    chip = dataclasses.replace(job.chip, dram=dram, host_link=HostLink(bytes_per_cycle="1/5", latency_cycles=10))
    assert roof_of(plan, chip).bytes_per_cycle == 21


def test_axes_have_units_and_both_rates_agree(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(5)
    axes, right = roofline_figure(report, ROOF).axes
    assert axes.get_xlabel() == "MACs per byte of DRAM traffic (read and written)"
    assert (axes.get_ylabel(), right.get_ylabel()) == ("MACs per active cycle of the layer", "10⁹ MACs per second")
    assert {axes.get_xscale(), axes.get_yscale(), right.get_yscale()} == {"log"}
    assert report.totals.clock_hz == 10**9
    assert right.get_ylim() == pytest.approx(axes.get_ylim())
    slow = dataclasses.replace(report, totals=dataclasses.replace(report.totals, clock_hz=500_000_000))
    axes, right = roofline_figure(slow, ROOF).axes
    assert right.get_ylim() == pytest.approx([y / 2 for y in axes.get_ylim()])


def test_labels_name_the_widest_layers_and_meet_nothing(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(100)
    figure = roofline_figure(report, ROOF)
    axes, (markers,) = figure.axes[0], figure.axes[0].collections
    widest = sorted((x for x in report.layers if x.macs), key=lambda x: -x.cycles)[:MOST_LABELS]
    names = {x.name for x in widest}
    texts = [t for t in axes.texts if t.get_text() in names]
    assert 5 < len(texts) <= MOST_LABELS
    assert {t.get_text() for t in axes.texts if "/cycle" not in t.get_text()} <= names
    FigureCanvasAgg(figure).draw()
    boxes = [super(type(t), t).get_window_extent() for t in texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    for (x, y), area in zip(axes.transData.transform(markers.get_offsets()), markers.get_sizes(), strict=True):
        radius = area**0.5 / 2 / 72 * figure.dpi
        for box in boxes:
            assert np.hypot(max(box.x0 - x, 0, x - box.x1), max(box.y0 - y, 0, y - box.y1)) >= radius


def test_unknown_engines_are_drawn(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(2)
    layers = tuple(dataclasses.replace(x, engine="quantum") for x in report.layers)
    figure = roofline_figure(dataclasses.replace(report, layers=layers), ROOF)
    assert [t.get_text() for t in figure.legends[0].get_texts()][0] == "layer on the quantum"


@pytest.mark.parametrize("layers", [0, 1, 30])
def test_equal_reports_give_equal_bytes(make_report, layers: int) -> None:  # type: ignore[no-untyped-def]
    data = roofline_plot(make_report(layers), ROOF)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data == roofline_plot(make_report(layers), ROOF)


def test_a_run_without_macs_is_drawn(make_report) -> None:  # type: ignore[no-untyped-def]
    layers = tuple(x for x in make_report(8).layers if not x.macs)
    report = dataclasses.replace(make_report(8), layers=layers)
    assert roofline_plot(report, Roof({}, Fraction(16))).startswith(b"\x89PNG\r\n\x1a\n")

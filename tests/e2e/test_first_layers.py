"""First layers, of few input channels: by im2col or by unrolled channels, as stated, and named in every report."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim.config import load_text
from npusim.errors import DoesNotFitError
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.report.files import csv_text
from npusim.report.mapping import loop_nest, mapping_yaml
from npusim.session import RunResult

CHANNELS = "out_channel 32 x in_channel 32"
COLUMNS = "out_channel 32 x in_channel 8 x kernel_column 4"
IM2COL = "im2col (out_channel 32 x reduction 32)"

WORKLOAD = """\
graph:
  inputs: {{x: 1x{size}x{size}x3xi8}}
  constants:
    w: {{type: {channels}x7x7x3xi8, random: true}}
    b: {{type: {channels}xi32, random: [-1000, 1000]}}
    m: {{type: {channels}xi32, fill: 1073741824}}
    s: {{type: {channels}xi8, fill: 40}}
  operators:
    - {{name: c, op: conv2d, inputs: [x, w, b],
       attributes: {{pad: [2, 3, 2, 3], stride: [2, 2], dilation: [1, 1], input_zp: 0, weight_zp: 0}}}}
    - {{name: y, op: rescale, inputs: [c, m, s],
       attributes: {{scale32: true, rounding: double, per_channel: true, input_unsigned: false, output_unsigned: false,
                    input_zp: 0, output_zp: 0, out_type: i8}}}}
  outputs: [y]
"""


@pytest.fixture
def workloads(tmp_path: Path) -> dict[str, Path]:
    """ResNet-50's first layer, and one like it on a small image."""
    paths = {}
    for name, size, channels in (("resnet50", 224, 64), ("small", 32, 40)):
        paths[name] = tmp_path / f"{name}.yaml"
        paths[name].write_text(WORKLOAD.format(size=size, channels=channels), encoding="utf-8")
    return paths


def first_layer(path: Path, unrolling: str | int | None, chip: str = "edge", tile: int = 28) -> RunResult:
    layer = LayerOptions(tile={"oy": tile, "ox": tile}, unrolling=unrolling)
    bits = "timed" if path.stem == "small" else "off"
    mapping = MappingOptions(layers={"c": layer}, smaller_memories=False)
    return npusim.run(path, chip, bits=bits, seed=1, mapping=mapping)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("unrolling", "name", "steps"),
    [
        (CHANNELS, CHANNELS, 2 * 7 * 7),  # 64 / 32 output channels, each tap, 3 channels on 32
        (1, COLUMNS, 2 * 7 * 2),  # of 7 kernel columns 4 at a time
        ("im2col", IM2COL, 2 * 5),  # 7 * 7 * 3 = 147 taps, 32 at a time
        (None, IM2COL, 2 * 5),
    ],
)
def test_resnet50_by_hand(workloads: dict[str, Path], unrolling: str | int | None, name: str, steps: int) -> None:
    """112 x 112 positions in 16 tiles, each of which fills 4 stages of the array and 16 of the output pipeline."""
    result = first_layer(workloads["resnet50"], unrolling)
    (layer,) = result.report.layers
    assert (layer.tiles, layer.compute_cycles) == (16, 112 * 112 * steps + 16 * (4 + 16))
    assert layer.unrolling == name
    (row,) = csv.DictReader(io.StringIO(csv_text(result.report), newline=""))
    assert row["unrolling"] == name
    assert loop_nest(result.plan.layers[0]).splitlines()[0] == f"c: conv2d + rescale -> 1x112x112x64xi8, by {name}"


def test_the_default_takes_the_fastest_and_says_so(workloads: dict[str, Path]) -> None:
    names = (CHANNELS, COLUMNS, IM2COL)
    cycles = {u: first_layer(workloads["resnet50"], u).report.totals.cycles for u in (None, *names)}
    assert len({cycles[u] for u in names}) == 3
    assert cycles[None] == cycles[IM2COL] == min(cycles.values())


@pytest.mark.parametrize("chip", ["edge", "binary", "micro"])
def test_both_ways_give_equal_bits(workloads: dict[str, Path], chip: str) -> None:
    both = [first_layer(workloads["small"], unrolling, chip, 5) for unrolling in ("im2col", 0)]
    by_taps, by_channels = both
    assert all(len(result.program) > 16 for result in both)
    assert np.array_equal(by_taps.outputs["y"], by_channels.outputs["y"])
    assert by_taps.report.totals.cycles < by_channels.report.totals.cycles
    names = [result.report.layers[0].unrolling or "" for result in both]
    assert names[0].startswith("im2col (out_channel ") and names[1].startswith("out_channel ")


TAPS = "taps (in_channel on 128 rows, out_channel on 128 columns)"
GATHERED = "im2col (reduction on 128 rows, out_channel on 128 columns)"


@pytest.mark.parametrize(
    ("unrolling", "name", "cycles"),
    [
        (None, GATHERED, 2 * 784 + 19 + 64 - 2),  # 147 taps in two folds, the last on 19 rows
        ("im2col", GATHERED, 2 * 784 + 19 + 64 - 2),
        ("taps", TAPS, 49 * 784 + 3 + 64 - 2),  # a fold for each tap, on three of 128 rows
        (1, TAPS, 49 * 784 + 3 + 64 - 2),
    ],
)
def test_a_systolic_array_does_im2col_or_tap_by_tap(
    workloads: dict[str, Path], unrolling: str | int | None, name: str, cycles: int
) -> None:
    """16 tiles of 784 positions, each with 8 stages of the array and the latency of the output pipeline."""
    (layer,) = first_layer(workloads["resnet50"], unrolling, "server").report.layers
    behind = 8 + npusim.load_chip("server").output_pipeline.latency_cycles
    assert (layer.unrolling, layer.tiles, layer.compute_cycles) == (name, 16, 16 * (cycles + behind))


def test_both_ways_of_a_systolic_array_give_equal_bits(workloads: dict[str, Path]) -> None:
    gathered, taps = (first_layer(workloads["small"], unrolling, "server", 5) for unrolling in ("im2col", "taps"))
    assert np.array_equal(gathered.outputs["y"], taps.outputs["y"])
    assert gathered.report.totals.cycles < taps.report.totals.cycles


def test_the_mapping_gives_it_back_where_it_was_stated(workloads: dict[str, Path]) -> None:
    path = workloads["small"]
    for unrolling in (None, 0, "im2col", CHANNELS):
        first = first_layer(path, unrolling)
        text = mapping_yaml(first.plan, MappingOptions())
        back = load_text(text, MappingOptions, "mapping")
        assert back.layers["c"].unrolling == unrolling
        again = npusim.run(path, "edge", seed=1, mapping=back)
        assert again.report.layers == first.report.layers


@pytest.mark.parametrize(
    ("chip", "known"),
    [
        ("edge", f"(it has {CHANNELS}; {COLUMNS}; channel 32 x kernel_row 3 x kernel_column 3; {IM2COL})"),
        ("server", f"(it has {GATHERED}; {TAPS})"),
    ],
)
@pytest.mark.parametrize("unrolling", ["winograd", 7])
def test_an_unrolling_that_the_unit_has_not(
    workloads: dict[str, Path], chip: str, known: str, unrolling: str | int
) -> None:
    with pytest.raises(DoesNotFitError) as caught:
        first_layer(workloads["small"], unrolling, chip)
    assert caught.value.problems == (
        f"layer 'c': conv2d: chip {chip!r}: unit 'mac' has no unrolling {unrolling!r} {known}; "
        "give one of them, its place in the list from 0, or im2col",
    )


def test_a_unit_without_an_array_has_none() -> None:
    path = Path(__file__).resolve().parents[2] / "workloads" / "pools.yaml"
    layers = npusim.run(path, bits="off").report.layers
    vector = next(layer for layer in layers if layer.engine == "vector")
    assert vector.unrolling is None
    stated = MappingOptions(layers={vector.name: LayerOptions(unrolling="im2col")})
    with pytest.raises(DoesNotFitError, match=r"unit 'vector' has no unrolling 'im2col' \(it has none\); leave it out"):
        npusim.run(path, bits="off", mapping=stated)

"""The cost functions: numbers worked out by hand, footprints against boxes, arrays against single boxes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.errors import DoesNotFitError
from npusim.frontends.chip import load_chip
from npusim.graph import Graph
from npusim.graph.passes.fold_aliases import FoldAliases
from npusim.graph.passes.fuse import Fuse
from npusim.graph.region import Region
from npusim.hardware import Chip
from npusim.ir.box import Box
from npusim.mapping.cost import RegionCost, TransferCost
from npusim.numerics.types import I4, I8, I32, I48, U1
from tests.plain import conv, matmul, plain_chip, sram_rate
from tests.properties.random_graphs import chips, graphs


def regions(graph: Graph, chip: Chip) -> tuple[Region, ...]:
    return Fuse(frozenset(chip.output_pipeline.operators))(graph, FoldAliases()(graph).nodes)


def cost_of(graph: Graph, chip: Chip) -> RegionCost:
    return RegionCost(regions(graph, chip)[0], chip)


def tiles(extents: list[int], sizes: list[int]) -> list[Box]:
    """All boxes of a space cut into tiles."""
    starts = [range(0, n, t) for n, t in zip(extents, sizes, strict=True)]
    return [
        Box(lo, tuple(min(a + t, n) for a, t, n in zip(lo, sizes, extents, strict=True))) for lo in product(*starts)
    ]


@settings(max_examples=80, deadline=None)
@given(graphs(3), st.data())
def test_no_box_touches_more_than_the_tile_shape(graph: Graph, data: st.DataObject) -> None:
    """Slots have this shape, so every footprint must fit."""
    chip = load_chip("micro")
    for region in regions(graph, chip):
        cost = RegionCost(region, chip)
        dims = region.work.dims
        sizes = [data.draw(st.integers(1, d.extent)) if d.splittable else d.extent for d in dims]
        for x in region.inputs:
            shape = cost.tile_shape(x.access, x.type.shape, sizes)
            boxes = tiles([d.extent for d in dims], sizes)[:200]
            touched = [x.access.footprint(region.work.index, b).clip(x.type.shape).shape for b in boxes]
            assert all(n <= m for t in touched for n, m in zip(t, shape, strict=True))
            assert all(1 <= m <= n for m, n in zip(shape, x.type.shape, strict=True))


@settings(max_examples=40, deadline=None)
@given(graphs(3), chips(), st.randoms(use_true_random=False))
def test_arrays_of_candidates_cost_what_each_costs_alone(graph: Graph, chip: Chip, random: np.random.Generator) -> None:
    transfer = TransferCost(chip)
    for region in regions(graph, chip):
        cost = RegionCost(region, chip)
        rows = [[random.randint(1, d.extent) for d in region.work.dims] for _ in range(5)]
        columns = [np.array(c) for c in zip(*rows, strict=True)]
        for first, last in product((False, True), repeat=2):
            many = np.broadcast_to(cost.box_cycles(columns, first, last), (5,))
            assert many.tolist() == [cost.box_cycles(r, first, last) for r in rows]
        for x in region.inputs:
            shapes = cost.tile_shape(x.access, x.type.shape, columns)
            each = [cost.tile_shape(x.access, x.type.shape, r) for r in rows]
            size = np.broadcast_to(cost.slot_bytes(shapes, x.type.dtype), (5,))
            assert size.tolist() == [cost.slot_bytes(s, x.type.dtype) for s in each]
            moved = np.broadcast_to(transfer.bytes_moved(x.type.shape, shapes, x.type.dtype), (5,))
            assert moved.tolist() == [transfer.bytes_moved(x.type.shape, s, x.type.dtype) for s in each]


def test_the_footprint_of_a_convolution_tile() -> None:
    cost = cost_of(conv(12, 16, 8), plain_chip())
    image, weight, bias = cost.region.inputs[:3]
    extents = [1, 4, 3, 8, 3, 3, 16]  # n oy ox oc ky kx ic
    assert cost.tile_shape(image.access, image.type.shape, extents) == (1, 6, 5, 16)
    assert cost.tile_shape(weight.access, weight.type.shape, extents) == (8, 3, 3, 16)
    assert cost.tile_shape(bias.access, bias.type.shape, extents) == (8,)
    assert cost.output_shape(extents) == (1, 4, 3, 8)
    # a tile of the whole output touches the 12 rows that there are, not the 14 with padding
    assert cost.tile_shape(image.access, image.type.shape, [1, 12, 12, 8, 3, 3, 16]) == (1, 12, 12, 16)


@pytest.mark.parametrize(
    ("shape", "dtype", "granule", "channels", "nbytes"),
    [
        ((1, 128, 128, 16), I8, 1, 16, 262144),
        ((1, 128, 128, 17), I8, 1, 16, 524288),
        ((3, 5), I8, 16, 1, 16),
        ((3, 5), I4, 1, 1, 8),
        ((9,), U1, 1, 1, 2),
        ((3, 3), I48, 8, 2, 72),
        ((), I32, 64, 16, 64),
    ],
)
def test_slots_are_whole_granules(
    shape: tuple[int, ...], dtype: object, granule: int, channels: int, nbytes: int
) -> None:
    chip = plain_chip(f"sram.granule_bytes={granule}", f"sram.channel_granule={channels}")
    assert cost_of(matmul(1, 1, 1), chip).slot_bytes(shape, dtype) == nbytes  # type: ignore[arg-type]


def test_cycles_of_a_box_on_the_array_and_behind_it() -> None:
    chip = plain_chip(
        "units.0.pipeline_cycles=5", "output_pipeline.elements_per_cycle=1/2", "output_pipeline.latency_cycles=3",
        "control.command_cycles=11",
    )  # fmt: skip
    cost = cost_of(matmul(8, 8, 8), chip)
    long, short = [1, 2, 3, 8], [1, 2, 3, 1]  # n h w c
    assert cost.compute_cycles(long, last=False) == 48 + 5 + 11
    assert cost.compute_cycles(long, last=True) == 48 + 5 + 3 + 11
    assert cost.compute_cycles(short, last=True) == 12 + 3 + 11  # 6 outputs at 2 cycles each
    assert cost.limit(long, True, True) == "compute"
    assert cost.limit(short, True, True) == "output_path"
    assert cost.limit(short, True, False) == "compute"


def test_streaming_and_filling_of_a_box() -> None:
    """What is left of the cycles of a box is due to its limit, or to the 11 cycles that every command takes more."""
    common = ("units.0.pipeline_cycles=5", "output_pipeline.latency_cycles=3", "control.command_cycles=11")
    cost = cost_of(matmul(8, 8, 8), plain_chip(*common))
    box = [1, 2, 3, 8]  # n h w c
    assert cost.stream_and_fill_cycles(box, True, last=False) == (48, 5)
    assert cost.stream_and_fill_cycles(box, True, last=True) == (48, 5 + 3)
    slow = cost_of(matmul(8, 8, 8), plain_chip(*common, "output_pipeline.elements_per_cycle=1/10"))
    assert slow.stream_and_fill_cycles(box, True, last=True) == (48, 3)
    assert slow.compute_cycles(box, last=True) == 60 + 3 + 11
    port = cost_of(matmul(8, 8, 8), plain_chip(*common, *sram_rate(1)))
    assert port.stream_and_fill_cycles(box, True, last=True) == (48, 0)
    assert port.port_cycles(box, True, last=True) > port.compute_cycles(box, last=True)


def test_filling_of_a_grid_is_its_skew_and_of_the_vector_unit_its_start() -> None:
    array = "{kind: systolic, rows: 4, columns: 2, stationary: weights, overlapped_folds: false, reload_cycles: 3}"
    grid = cost_of(matmul(8, 8, 8), plain_chip(f"units.0.array={array}", "units.0.macs_per_cycle={i8xi8: 1/2}"))
    assert grid.stream_and_fill_cycles([1, 5, 4, 8], True, last=True) == (2 * 4 * 5, 2 * 4 * (3 + 4 + 2 - 2))
    chip = plain_chip("output_pipeline.operators=[]", "units.2.startup_cycles=7", "control.command_cycles=2")
    vector = RegionCost(regions(conv(4, 4, 4), chip)[1], chip)
    box = [d.extent for d in vector.work.dims]
    stream, fill = vector.stream_and_fill_cycles(box, True, last=True)
    assert (stream, fill) == (vector.compute_cycles(box, last=True) - 7 - 2, 7)


def test_bytes_through_the_port_of_a_convolution_tile() -> None:
    """4 passes of the image for 4 output channels, weights once, bias and the rescale's constants in the last box."""
    chip = plain_chip(*sram_rate(1))
    cost = cost_of(conv(12, 16, 8), chip)
    box = [1, 4, 3, 4, 3, 3, 8]
    image, weight, outputs = 6 * 5 * 8, 4 * 3 * 3 * 8, 4 * 3 * 4
    products = 4 * image + weight
    assert cost.port_cycles(box, first=True, last=False) == products + 4 * outputs
    assert cost.port_cycles(box, first=False, last=False) == products + 8 * outputs
    assert cost.port_cycles(box, first=False, last=True) == products + 4 * outputs + outputs + 4 * 4 + 4 + 1
    assert cost.port_cycles(box, first=True, last=True) == products + outputs + 4 * 4 + 4 + 1
    assert cost.limit(box, True, False) == "compute"
    # one tap and one channel at a time: 12 products, but 12 + 1 + 48 bytes
    assert cost.limit([1, 4, 3, 1, 1, 1, 1], True, False) == "sram_port"
    assert cost.box_cycles([1, 4, 3, 1, 1, 1, 1], True, False) == 12 + 1 + 48


def test_the_vector_unit_runs_every_operator_of_a_region_one_after_the_other() -> None:
    chip = plain_chip("units.2.lanes=4", "units.2.startup_cycles=7")
    cost = RegionCost(regions(conv(4, 2, 3), load_chip("micro", ["output_pipeline.operators=[]"]))[1], chip)
    assert cost.engine == "vector"
    assert cost.port == chip.sram.vector_port == 1
    assert cost.compute_cycles([1, 2, 3, 3], last=True) == -(-18 // 4) * 2 + 7  # a rescale takes 2 cycles on 4 lanes


def test_a_unit_by_name() -> None:
    two = load_chip("micro", ["units.0.name=near"])
    region = regions(matmul(4, 4, 4), two)[0]
    assert RegionCost(region, two).engine == "near"
    assert RegionCost(region, two, "near").engine == "near"
    with pytest.raises(DoesNotFitError, match=r"layer 'mm': no mac unit of chip 'micro' is called 'far'; it has near"):
        RegionCost(region, two, "far")


def test_what_the_chip_lacks_is_named_with_the_layer() -> None:
    chip = load_chip("micro", ["units.0.macs_per_cycle={i16xi8: 1}"])
    with pytest.raises(DoesNotFitError, match=r"layer 'mm': matmul: chip 'micro': the mac_array has no rate for i8xi8"):
        cost_of(matmul(4, 4, 4), chip)
    chip = load_chip("micro", ["output_pipeline.operators=[]"])
    region = regions(conv(4, 2, 3), chip)[1]
    poor = load_chip("micro", ["units.2.rates=[{cycles: 1, operators: [add]}]"])
    with pytest.raises(
        DoesNotFitError, match=r"layer 'y_rescale': rescale: chip 'micro': the vector unit has no rescale"
    ):
        RegionCost(region, poor)


@pytest.mark.parametrize(
    ("rate", "latency", "outstanding", "burst", "cycles"),
    [
        (16, 0, 1, 1, 7),  # 100 bytes at 16 a cycle
        (16, 100, 4, 64, 40),  # 256 bytes in flight every 100 cycles
        (16, 100, 25, 64, 7),  # 1600 bytes in flight: just enough
        (16, 101, 25, 64, 7),  # 100 * 101 / 1600
        (1, 100, 1, 64, 157),  # 64 bytes every 100 cycles
    ],
)
def test_bursts_in_flight_bound_the_rate_of_a_channel(
    rate: int, latency: int, outstanding: int, burst: int, cycles: int
) -> None:
    """Little's law: throughput = bytes in flight / latency."""
    chip = plain_chip(
        f"dma.bytes_per_cycle={rate}", f"dma.outstanding_bursts={outstanding}", f"dram.latency_cycles={latency}",
        f"dram.burst_bytes={burst}",
    )  # fmt: skip
    assert TransferCost(chip).channel_cycles(100) == cycles


def test_the_bus_is_as_slow_as_the_slower_of_dram_and_sram() -> None:
    assert TransferCost(plain_chip("dram.bytes_per_cycle=64/5")).bus_cycles(100) == 8
    assert TransferCost(plain_chip("dram.bytes_per_cycle=64/5", *sram_rate(4))).bus_cycles(100) == 25
    assert TransferCost(plain_chip("dram.bytes_per_cycle=1/2")).bus_cycles(3) == 6


def test_every_run_of_a_box_moves_whole_bursts_and_opens_its_rows() -> None:
    transfer = TransferCost(plain_chip("dram.burst_bytes=32", "dram.row_buffer={row_bytes: 64, miss_cycles: 9}"))
    assert transfer.bytes_moved((8, 10, 16), (2, 3, 16), I8) == 2 * 64  # 2 runs of 48 bytes
    assert transfer.row_miss_cycles((8, 10, 16), (2, 3, 16), I8) == 2 * 9
    assert transfer.bytes_moved((8, 10, 16), (2, 10, 16), I8) == 320
    assert transfer.row_miss_cycles((8, 10, 16), (2, 10, 16), I8) == 5 * 9
    assert transfer.bytes_moved((8, 10, 16), (2, 10, 16), I4) == 160
    assert TransferCost(plain_chip()).row_miss_cycles((8, 10, 16), (2, 3, 16), I8) == 0


def test_a_channel_starts_every_run_anew() -> None:
    transfer = TransferCost(plain_chip("dma.run_cycles=5"))
    assert transfer.run_cycles((8, 10, 16), (2, 3, 16)) == 2 * 5
    assert transfer.run_cycles((8, 10, 16), (2, 3, 4)) == 6 * 5
    rows = np.asarray([1, 2, 8])
    assert transfer.run_cycles((8, 10, 16), (rows, np.asarray(10), np.asarray(16))).tolist() == [5, 5, 5]
    assert TransferCost(plain_chip()).run_cycles((8, 10, 16), (2, 3, 4)) == 0


def test_operands_lie_in_dram_as_the_layouts_say() -> None:
    graph = conv(8, 4, 8)
    layouts = "dram.layouts={features: [channel/2, row, column, channel], weights: [kernel_row, in_channel]}"
    cost = cost_of(graph, plain_chip(layouts))
    ifmap, weights = cost.region.inputs[:2]
    assert cost.in_dram(ifmap.access, ifmap.type.shape, ifmap.constant).shape == (1, 2, 8, 8, 2)
    assert cost.in_dram(weights.access, weights.type.shape, weights.constant).shape == (8, 3, 3, 4)
    assert cost.in_dram(cost.work.write, cost.output.shape, constant=False).shape == (1, 4, 8, 8, 2)
    plain = cost_of(graph, plain_chip())
    assert plain.in_dram(ifmap.access, ifmap.type.shape, ifmap.constant).shape == (1, 8, 8, 4)


def test_stores_with_a_channel_of_their_own_have_its_rate_and_latency() -> None:
    own = "dram.write_channel={bytes_per_cycle: 2, latency_cycles: 40}"
    chip = plain_chip(
        "dram.bytes_per_cycle=4", "dram.burst_bytes=8", "dma.bytes_per_cycle=16", "dma.outstanding_bursts=2", own
    )
    transfer = TransferCost(chip)
    assert (transfer.bus_cycles(64), transfer.bus_cycles(64, store=True)) == (16, 32)
    # no latency of reads to cover; of writes two bursts of 8 bytes in 40 cycles
    assert (transfer.channel_cycles(64), transfer.channel_cycles(64, store=True)) == (4, 160)
    shared = TransferCost(plain_chip("dram.bytes_per_cycle=4"))
    assert shared.bus_cycles(64, store=True) == shared.bus_cycles(64) == 16


def test_streamed_results_do_not_pass_the_sram_port() -> None:
    graph = matmul(4, 4, 4)
    whole = [1, 4, 4, 4]
    kept, streamed = (
        cost_of(graph, plain_chip(*sram_rate(1), *more)) for more in ((), ("output_pipeline.streamed_bytes=64",))
    )
    assert kept.port_cycles(whole, True, True) - streamed.port_cycles(whole, True, True) == 4 * 4 * 4
    assert (kept.streamed_bytes, streamed.streamed_bytes) == (None, 64)
    assert streamed.port_cycles(whole, True, False) == kept.port_cycles(whole, True, False)


def test_the_window_counts_positions_and_channels_of_a_box() -> None:
    window = "output_pipeline.window={channels: 2, positions: 4, round_trip_cycles: 5}"
    cost = cost_of(conv(6, 1, 3, pad=0, rescaled=False), plain_chip("output_pipeline.elements_per_cycle=1", window))
    extents = [1, 4, 4, 3, 3, 3, 1]  # 16 positions of 3 channels, which leave as 2 groups of 2
    assert cost.compute_cycles(extents, last=True) == max(16 * 27, 2 * (16 * 2 + 4 * 5))
    assert cost.drain_cycles(extents) == 4 * 2
    thin = [1, 4, 4, 3, 1, 1, 1]
    assert cost.compute_cycles(thin, last=True) == 2 * (16 * 2 + 4 * 5)
    assert cost.drain_cycles(thin) == 0

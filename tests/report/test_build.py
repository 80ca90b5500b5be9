"""The report's figures from timed programs: what bounds a layer, accounts that add up, work that is counted once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import Mapped, map_graph
from npusim.numerics.types import I8
from npusim.ops import op_class
from npusim.program import Compute
from npusim.report.build import adds_up, figures, region_macs, tile_macs
from npusim.report.result import EngineFigures, LayerFigures, Totals
from npusim.timing import Timeline
from npusim.timing.costs import command_costs
from npusim.timing.simulator import simulate_costed
from tests.plain import chain, conv, matmul, plain_chip, sram_rate

Figures = tuple[Totals, tuple[EngineFigures, ...], tuple[LayerFigures, ...]]


def timed(mapped: Mapped, chip: Chip, events: dict[str, int] | None = None) -> Figures:
    costs = command_costs(mapped.program, chip)
    timeline = simulate_costed(mapped.program, chip, costs)
    return figures(mapped.program, mapped.plan, timeline, costs, chip, events or {})


def run(graph: Graph, chip: Chip, **layers: LayerOptions) -> Figures:
    return timed(map_graph(graph, chip, MappingOptions(layers=layers)), chip)


# -- a layer on paper ------------------------------------------------------------------------------------------------


def test_a_product_in_two_tiles_on_paper() -> None:
    """
    cycles          0    8   24   88   120  152
    loads of a      ==8==>   (two rows; two more at 24..32)
    load of b            =16=>
    mac0 computes             ===64==>===64===>  88..152: its second tile does not wait for a store
    stores of y                       ==32=>    ==32=> ends at 184
    """
    tile = {"h": 2, "w": 4, "c": 8}
    totals, engines, (layer,) = run(matmul(4, 8, 4), plain_chip(), mm=LayerOptions(tile=tile, buffers=2))
    loads = 2 * 8 + 32  # 2 x 8 bytes of a for a tile, 8 x 4 of b
    assert (layer.start_cycle, layer.cycles, layer.span_cycles) == (0, loads + 64 + 64 + 32, loads + 64 + 64 + 32)
    assert layer.cycles_by_cause == {"compute": 128, "dram_read": loads, "last_results": 32}
    assert layer.bound_by == "compute"
    assert layer.compute_cycles == 128
    assert layer.utilization == round(128 / layer.cycles, 6)
    assert (layer.macs, layer.useful_macs) == (128, 128)
    assert (layer.dram_read_bytes, layer.dram_write_bytes) == (32 + 32, 64)
    assert (layer.tiles, layer.buffers, layer.loop_order) == (2, 2, ("n", "h", "w", "c"))
    assert layer.tile == {"n": 1, "h": 2, "w": 4, "c": 8}
    assert layer.sram_bytes == 2 * 16 + 32 + 2 * 32
    assert (layer.name, layer.operators, layer.engine, layer.output) == ("mm", ("matmul",), "mac", "1x4x4xi32")
    assert totals.cycles == layer.cycles
    assert totals.utilization == {"mac": layer.utilization}
    assert totals.latency_seconds == totals.cycles / 200e6
    # b, the second rows of a and both results: the first rows of a are not needed any more
    assert (totals.sram_peak_bytes, totals.sram_bytes) == (32 + 16 + 2 * 32, 128 * 1024)
    assert totals.commands == 3 + 2 + 2
    mac = next(e for e in engines if e.engine == "mac0")
    assert mac == EngineFigures(engine="mac0", busy_cycles=128, stalled_cycles={"load": loads}, idle_cycles=32)


# -- what bounds a layer ---------------------------------------------------------------------------------------------

STARVED = "dram.bytes_per_cycle=1/100"
FAST = ("dram.bytes_per_cycle=100000", "dma.bytes_per_cycle=100000", *sram_rate(100000))


@pytest.mark.parametrize(
    ("bound", "overrides"),
    [
        ("compute", FAST),
        ("dram_read", (STARVED,)),
        ("output_path", (*FAST, "output_pipeline.elements_per_cycle=1/1000")),
        ("sram_port", ("dram.bytes_per_cycle=100000", "dma.bytes_per_cycle=100000", *sram_rate(1),
                       "units.0.array.unrollings=[{out_channel: 8, in_channel: 64, row: 8, column: 8}]")),
    ],
)  # fmt: skip
def test_a_layer_is_bound_by_what_the_chip_is_short_of(bound: str, overrides: tuple[str, ...]) -> None:
    totals, _, (layer,) = run(conv(8, 16, 8), plain_chip(*overrides))
    assert layer.bound_by == bound
    assert 2 * layer.cycles_by_cause[bound] >= layer.cycles


def test_stores_bound_a_layer_that_makes_more_than_it_reads() -> None:
    """An outer product with one buffer: 8 + 32 bytes in, 1024 out, each tile waiting for the store before."""
    _, _, (layer,) = run(matmul(8, 1, 32), plain_chip(STARVED), mm=LayerOptions(tile={"h": 1, "w": 8}, buffers=1))
    assert layer.bound_by == "dram_write"


def test_a_slow_vector_unit_bounds_what_the_pipeline_leaves_to_it() -> None:
    slow = plain_chip(
        *FAST, "output_pipeline.operators=[]", "units.0.array.unrollings=[{out_channel: 8, in_channel: 16}]"
    )
    totals, engines, (sums, rescale) = run(conv(8, 16, 8), slow)
    assert (rescale.engine, rescale.bound_by) == ("vector", "compute")
    assert rescale.cycles > sums.cycles
    assert next(e for e in engines if e.engine == "vector0").busy_cycles == 8 * 8 * 8 * 2
    fast = replace(slow, units=(*slow.units[:2], replace(slow.units[2], lanes=64)))
    assert run(conv(8, 16, 8), fast)[0].cycles < totals.cycles


def test_a_faster_memory_shortens_a_layer_that_waits_for_it() -> None:
    """An LPDDR channel of 12.8 bytes a cycle, and an HBM stack of 256."""
    common = ("units.0.array.unrollings=[{out_channel: 64, in_channel: 64}]", "sram.size_bytes=1048576",
              "dma.outstanding_bursts=1024", "dram.burst_bytes=64")  # fmt: skip
    lpddr = ("dram.bytes_per_cycle=64/5", "dram.latency_cycles=100")
    hbm = ("dram.bytes_per_cycle=256", "dram.latency_cycles=150")
    slow, fast = (run(matmul(1, 1024, 512), plain_chip(*common, *memory))[0] for memory in (lpddr, hbm))
    assert slow.cycles > 512 * 1024 * 5 // 64
    assert fast.cycles < slow.cycles // 4
    assert fast.macs == slow.macs == 512 * 1024


# -- utilisation -----------------------------------------------------------------------------------------------------


def test_utilisation_counts_every_instance() -> None:
    """Four tiles on 16 arrays: a quarter of them works all the time."""
    chip = plain_chip(*FAST, "units.0.instances=16")
    options = {"mm": LayerOptions(tile={"h": 1, "w": 100, "c": 100})}
    totals, engines, (layer,) = run(matmul(4, 100, 100), chip, **options)
    assert [e.engine for e in engines if e.engine.startswith("mac")] == ["mac0", "mac1", "mac2", "mac3"]
    assert 0.24 < layer.utilization <= 0.25
    assert totals.utilization == {"mac": layer.utilization}


def test_a_layer_in_the_shadow_of_another_whose_last_tile_is_not_the_last_to_finish() -> None:
    """Layer 1 ends with a short tile on the second array while the first still works; layer 0 lasts as long."""
    chip = plain_chip(*FAST, "units.0.instances=2")
    tiles = {"mm0": {"h": 8, "w": 8, "c": 8}, "mm1": {"h": 7, "w": 8, "c": 8}}
    mapped = map_graph(chain(2), chip, MappingOptions(layers={k: LayerOptions(tile=t) for k, t in tiles.items()}))
    costs = command_costs(mapped.program, chip)
    timeline = simulate_costed(mapped.program, chip, costs)
    long, short = (c.id for c in mapped.program if isinstance(c, Compute) and c.layer == 1)
    spans = list(timeline.spans)
    end = timeline.cycles
    spans[0] = spans[0]._replace(finish=end)
    assert spans[0].layer == 0
    spans[long] = spans[long]._replace(start=end - 448, release=end, finish=end)
    spans[short] = spans[short]._replace(start=end - 448, release=end - 384, finish=end - 384)
    moved = Timeline(tuple(spans), timeline.moments)
    _, _, layers = figures(mapped.program, mapped.plan, moved, costs, chip, {})
    hidden = layers[1]
    assert (hidden.cycles, hidden.bound_by, hidden.cycles_by_cause) == (0, "overlapped", {})
    assert (hidden.compute_cycles, hidden.span_cycles) == (448 + 64, end - min(s.start for s in spans if s.layer == 1))
    assert all(e.busy_cycles == e.idle_cycles == 0 and not e.stalled_cycles for e in hidden.engines)
    assert hidden.utilization == round(512 / (2 * 448), 6)


def test_utilisation_of_the_vector_unit_is_that_of_its_lanes() -> None:
    b = GraphBuilder("vector")
    b.input("x", TensorType((10, 10), I8))
    b.node("clamp", op_class("clamp")(min_val=0, max_val=9), ("x",), "y")
    chip = plain_chip(*FAST, "units.2.lanes=64")
    _, _, (layer,) = run(b.finish(("y",)), chip, clamp=LayerOptions(tile={"d0": 10, "d1": 10}))
    assert layer.compute_cycles == 2  # 100 elements on 64 lanes
    assert layer.utilization == round(100 / (64 * layer.cycles), 6)
    assert (layer.macs, layer.useful_macs) == (0, 0)


# -- counts ----------------------------------------------------------------------------------------------------------


def test_taps_on_padding_are_macs_that_are_not_useful() -> None:
    (region,) = map_graph(conv(1, 8, 1, rescaled=False), plain_chip(), MappingOptions()).program.regions
    assert region_macs(region) == (72, 8)
    (region,) = map_graph(conv(5, 2, 3, pad=0, rescaled=False), plain_chip(), MappingOptions()).program.regions
    assert region_macs(region) == (3 * 3 * 3 * 18, 3 * 3 * 3 * 18)


@pytest.mark.parametrize("tile", [{"h": 13, "w": 19, "c": 17}, {"h": 5, "w": 7, "c": 6}, {"h": 1, "w": 1, "c": 16}])
def test_the_tiles_of_a_layer_do_its_work_once(tile: dict[str, int]) -> None:
    mapped = map_graph(matmul(13, 17, 19), plain_chip(), MappingOptions(layers={"mm": LayerOptions(tile=tile)}))
    assert tile_macs(mapped.program) == [13 * 17 * 19]


def test_overflow_events_belong_to_their_layer() -> None:
    chip = plain_chip()
    totals, _, layers = timed(map_graph(chain(2), chip, MappingOptions()), chip, {"mm1": 7})
    assert [x.overflow_events for x in layers] == [0, 7]
    assert totals.overflow_events == 7


def test_the_peak_counts_what_stays_as_well() -> None:
    totals, _, layers = run(chain(3), plain_chip())
    assert [x.output_in_sram for x in layers] == [True, True, False]
    allocated = (layers[0].sram_bytes + 64, layers[1].sram_bytes + 64 + 64, layers[2].sram_bytes + 64)
    assert 64 + 64 < totals.sram_peak_bytes <= max(allocated)


def test_bytes_of_a_layer_are_those_of_its_commands() -> None:
    """A layer whose input stays and whose output stays reads its constants and writes nothing."""
    whole = LayerOptions(tile={"h": 8, "w": 8, "c": 8})
    _, _, (first, second, third) = run(chain(3), plain_chip(), mm0=whole, mm1=whole, mm2=whole)
    rescale = 4 + 1
    assert (first.dram_read_bytes, first.dram_write_bytes) == (64 + 64 + rescale, 0)
    assert (second.dram_read_bytes, second.dram_write_bytes) == (64 + rescale, 0)
    assert (third.dram_read_bytes, third.dram_write_bytes) == (64 + rescale, 64)


def test_adding_up() -> None:
    good = EngineFigures(engine="mac0", busy_cycles=3, stalled_cycles={"load": 2, "store": 1}, idle_cycles=4)
    assert adds_up([good, good], 10)
    assert not adds_up([good], 11)
    assert adds_up([], 10)


def test_leakage_is_that_of_the_cycles_of_a_layer_and_energies_add_up() -> None:
    chip = plain_chip("energy.femtojoules.cycle=17")
    mapped = map_graph(chain(2), chip, MappingOptions())
    costs = command_costs(mapped.program, chip)
    timeline = simulate_costed(mapped.program, chip, costs)
    spent = ({"mac": 5}, {"mac": 1, "dram": 3})
    totals, _, layers = figures(mapped.program, mapped.plan, timeline, costs, chip, {}, spent)
    assert [x.energy_femtojoules for x in layers] == [
        {**e, "leakage": 17 * x.cycles} for e, x in zip(spent, layers, strict=True)
    ]
    assert totals.energy_femtojoules == {"mac": 6, "dram": 3, "leakage": 17 * totals.cycles}
    assert totals.area_square_micrometres is not None and set(totals.area_square_micrometres) == {
        "mac", "popcount", "vector", "sram",
    }  # fmt: skip


def test_a_chip_without_a_table_has_neither_energy_nor_area() -> None:
    totals, _, layers = run(chain(2), plain_chip("energy=null"))
    assert totals.energy_femtojoules is totals.area_square_micrometres is None
    assert [x.energy_femtojoules for x in layers] == [None, None]


def test_a_layer_names_the_unrolling_of_most_of_its_cycles() -> None:
    chip = plain_chip("units.0.array.unrollings=[{row: 8}, {out_channel: 8}]")
    tile = {"h": 8, "w": 4, "c": 3}
    _, _, (layer,) = run(matmul(9, 3, 4), chip, mm=LayerOptions(tile=tile))
    assert (layer.unrolling, layer.compute_cycles) == ("row 8", 4 * 3 + 1 * 3)  # the ninth row alone, as out_channel 8
    _, _, (layer,) = run(matmul(9, 3, 4), chip, mm=LayerOptions(tile=tile, unrolling=1))
    assert (layer.unrolling, layer.compute_cycles) == ("out_channel 8", 8 * 3 + 1 * 3)
    _, _, (layer,) = run(matmul(9, 3, 1), chip, mm=LayerOptions(tile={"h": 1}))
    assert layer.unrolling == "row 8"  # both are as fast: the first of the chip's list


def test_bank_conflicts_are_those_of_the_unrolling_that_is_demanded() -> None:
    """In words of 64 bytes: 24 of the ifmap as often as it is read, 12 of weights once, 128 of results."""
    chip = plain_chip(
        "units.0.array.unrollings=[{row: 8}, {out_channel: 8}]", "sram.bytes_per_cycle=64", "sram.banks=1"
    )
    for unrolling, reads in ((0, 4), (1, 1)):
        stated = LayerOptions(tile={"h": 8, "w": 4, "c": 3}, unrolling=unrolling)
        _, _, (layer,) = run(matmul(8, 3, 4), chip, mm=stated)
        assert layer.bank_conflict_cycles == (reads + 1 + 2) - -(-(reads * 24 + 12 + 128) // 64)

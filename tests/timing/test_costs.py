"""The cost of every command: hand-made numbers, and agreement with the functions that the tile search asks."""

from __future__ import annotations

import pytest

from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.mapper import Mapped, map_graph
from npusim.program import Compute, Load, Store
from npusim.timing.costs import ComputeCost, DmaCost, command_costs
from tests.plain import chain, conv, matmul, plain_chip, sram_rate


def tiled(tile: dict[str, int], *overrides: str) -> tuple[Mapped, list[ComputeCost | DmaCost]]:
    chip = plain_chip(*overrides)
    mapped = map_graph(matmul(4, 4, 4), chip, MappingOptions(layers={"mm": LayerOptions(tile=tile, buffers=1)}))
    return mapped, command_costs(mapped.program, chip)


def test_a_product_in_ragged_tiles() -> None:
    mapped, costs = tiled({"h": 3, "w": 4, "c": 4}, *sram_rate(10), "dma.bytes_per_cycle=2")
    by_kind = {}
    for c, cost in zip(mapped.program, costs, strict=True):
        by_kind.setdefault(type(c).__name__, []).append(cost)
    # passes of a over the array: 4 output channels one at a time; b once: 4 * 12 + 16 bytes, then 48 bytes of output
    assert by_kind["Compute"] == [ComputeCost(48, 12, 0, stream_cycles=48), ComputeCost(16, 5, 0, stream_cycles=16)]
    assert by_kind["Store"] == [DmaCost(24, 48, 5, 48), DmaCost(8, 16, 2, 16)]
    assert sorted(by_kind["Load"]) == [DmaCost(2, 4, 1, 4), DmaCost(6, 12, 2, 12), DmaCost(8, 16, 2, 16)]


def test_bursts_count_as_bytes_moved() -> None:
    _, costs = tiled({"h": 3, "w": 4, "c": 4}, "dram.burst_bytes=32")
    moved = [k.bytes_moved for k in costs if isinstance(k, DmaCost)]
    assert moved == [32, 32, 32, 64, 32]  # of 12 and 16, then of 4, 48 and 16


def test_partial_sums_go_through_the_port() -> None:
    mapped, costs = tiled({"h": 1, "w": 1, "c": 2}, *sram_rate(1))
    work = [(c, k) for c, k in zip(mapped.program, costs, strict=True) if isinstance(c, Compute)]
    assert {(c.first, c.last): k.port_cycles for c, k in work} == {
        (True, False): 2 + 2 + 4,  # two operands, sums out
        (False, True): 2 + 2 + 4 + 4,  # two operands, sums in, result out
    }
    assert all(k.limit == "sram_port" for _, k in work)


def test_a_memory_of_the_array_for_partial_sums_spares_the_port() -> None:
    mapped, costs = tiled({"h": 1, "w": 1, "c": 2}, *sram_rate(1), "units.0.accumulator_bytes=64")
    ports = {(c.first, c.last): k.port_cycles for c, k in zip(mapped.program, costs, strict=True) if c.id and
             isinstance(c, Compute) and isinstance(k, ComputeCost)}  # fmt: skip
    assert ports == {(True, False): 2 + 2, (False, True): 2 + 2 + 4}


def test_only_the_first_computation_of_a_layer_pays_for_its_launch() -> None:
    plain, launched = plain_chip(), plain_chip("control.layer_cycles=100", "control.command_cycles=7")
    p = map_graph(chain(2), plain, MappingOptions(layers={"mm0": LayerOptions(tile={"h": 2})})).program
    work = [c for c in p if isinstance(c, Compute)]
    before, after = command_costs(p, plain), command_costs(p, launched)
    more = [after[c.id].cycles - before[c.id].cycles for c in work]  # type: ignore[union-attr]
    first = {layer: min(c.id for c in work if c.layer == layer) for layer in (0, 1)}
    assert more == [107 if c.id == first[c.layer] else 7 for c in work]


def test_rows_that_a_transfer_opens_cost_bus_cycles() -> None:
    """Each of 4 rows of 8 bytes of the tile is a run of its own and opens one row of DRAM."""
    overrides = "dram.row_buffer={row_bytes: 64, miss_cycles: 9}"
    options = MappingOptions(layers={"mm": LayerOptions(tile={"h": 2, "w": 8, "c": 4})})
    p = map_graph(matmul(2, 4, 16), plain_chip(), options).program
    plain, missing = command_costs(p, plain_chip()), command_costs(p, plain_chip(overrides))
    for c, a, b in zip(p, plain, missing, strict=True):
        if isinstance(c, Load) and p.slots[c.parts[0].slot].value == "b":
            assert (a.bus_cycles, b.bus_cycles) == (32, 32 + 4 * 9)  # type: ignore[union-attr]


def test_every_run_of_a_transfer_costs_its_channel_cycles() -> None:
    tile = {"h": 2, "w": 2, "c": 3}
    mapped, plain = tiled(tile)
    _, dear = tiled(tile, "dma.run_cycles=11")
    for c, a, b in zip(mapped.program, plain, dear, strict=True):
        if isinstance(a, DmaCost) and isinstance(b, DmaCost):
            runs = sum(r.box.shape[1] for r in c.parts) if isinstance(c, Load) else 2  # a row of 4 is never whole
            assert b == a._replace(channel_cycles=a.channel_cycles + 11 * runs)


def test_a_layout_joins_the_runs_of_a_tile() -> None:
    """Half of the 3x3 weights from 4 to 8 channels is one run, with output channels innermost 36, by fours one again.

    The load moves 16 bytes of bias as well, in one more run.
    """
    options = MappingOptions(layers={"conv": LayerOptions(tile={"oc": 4, "oy": 8, "ox": 8, "ic": 4})})
    weights = "weights: [kernel_row, kernel_column, in_channel, out_channel]"
    blocks = "weights: [out_channel/4, kernel_row, kernel_column, in_channel, out_channel]"
    found = []
    for layouts in (
        (),
        (f"dram.layouts={{features: null, {weights}}}",),
        (f"dram.layouts={{features: null, {blocks}}}",),
    ):
        chip = plain_chip("dram.burst_bytes=32", "dma.run_cycles=1", *layouts)
        mapped = map_graph(conv(8, 4, 8), chip, options)
        moves = [
            k
            for c, k in zip(mapped.program, command_costs(mapped.program, chip), strict=True)
            if isinstance(c, Load) and isinstance(k, DmaCost) and mapped.program.slots[c.parts[0].slot].value == "w"
        ]
        found.append([(k.bytes_moved, k.channel_cycles) for k in moves][1])
    assert found == [(160 + 32, 1 + 2), (36 * 32 + 32, 1 + 37), (160 + 32, 1 + 2)]


@pytest.mark.parametrize("overrides", [(), (*sram_rate(4), "output_pipeline.elements_per_cycle=1/9")])
def test_commands_cost_what_the_search_was_told(overrides: tuple[str, ...]) -> None:
    chip = plain_chip(*overrides)
    layers = {"conv": LayerOptions(tile={"oy": 3, "ox": 5, "oc": 2, "ic": 4})}
    mapped = map_graph(conv(8, 6, 5), chip, MappingOptions(layers=layers))
    for c, cost in zip(mapped.program, command_costs(mapped.program, chip), strict=True):
        if isinstance(c, Compute):
            assert isinstance(cost, ComputeCost)
            asked = mapped.plan.layers[c.layer].cost
            assert cost.cycles == asked.compute_cycles(c.box.shape, c.last)
            assert max(cost.cycles, cost.port_cycles) == asked.box_cycles(c.box.shape, c.first, c.last)


def test_a_slow_output_pipeline_is_the_limit_of_last_tiles_only() -> None:
    chip = plain_chip("output_pipeline.elements_per_cycle=1/100")
    mapped = map_graph(matmul(4, 4, 4), chip, MappingOptions(layers={"mm": LayerOptions(tile={"c": 2})}))
    limits = {
        (c.first, c.last): k.limit
        for c, k in zip(mapped.program, command_costs(mapped.program, chip), strict=True)
        if isinstance(c, Compute) and isinstance(k, ComputeCost)
    }
    assert limits[False, True] == "output_path"
    assert limits[True, False] == "compute"


def test_a_streamed_store_needs_only_its_last_burst_and_what_waits_in_the_window() -> None:
    streamed = ("output_pipeline.streamed_bytes=96", "dram.burst_bytes=4", "dram.bytes_per_cycle=2")
    window = "output_pipeline.window={channels: 4, positions: 2, round_trip_cycles: 0}"
    # the last stripes are of two positions and of one, four channels each, at one sum a cycle
    for more, waits in (((), (0, 0)), ((window, "output_pipeline.elements_per_cycle=1"), (2 * 4, 1 * 4))):
        mapped, costs = tiled({"h": 3, "w": 4, "c": 4}, *streamed, *more)
        stores = [k for c, k in zip(mapped.program, costs, strict=True) if isinstance(c, Store)]
        assert stores == [DmaCost(1, 24, 0, 48, waits[0] + 2), DmaCost(1, 8, 0, 16, waits[1] + 2)]

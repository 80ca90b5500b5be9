"""Layers played through: exactly the cycles of the simulation, whatever the loop nest."""

from __future__ import annotations

import random

import pytest

from npusim.errors import DoesNotFitError
from npusim.frontends.chip import load_chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.mapper import Mapped, map_graph, partition
from npusim.mapping.pace import Nest, Pace
from npusim.timing import simulate
from tests.plain import conv, matmul, plain_chip

GRAPHS = {
    "matmul": matmul(30, 70, 50),
    "conv": conv(13, 20, 24),
    "batched 1x1": conv(9, 33, 17, kernel=1, pad=0, batch=2),
    "raw sums": conv(10, 16, 8, rescaled=False),
    "pads wider than tiles": conv(6, 8, 8, kernel=5, pad=2),
}


def paced(mapped: Mapped) -> tuple[Pace, Nest]:
    (p,) = mapped.plan.layers
    pace = Pace(p.cost, p.resident, p.output_resident, p.store_output)
    return pace, Nest(p.mapping.tile, p.mapping.order, p.mapping.buffers)


@pytest.mark.parametrize("overrides", [(), ("dma.channels=1",), ("control.layer_cycles=7", "control.run_cycles=50")])
@pytest.mark.parametrize("preset", ["micro", "edge", "server"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_loop_nest_takes_the_cycles_of_its_simulation(name: str, preset: str, overrides: tuple[str, ...]) -> None:
    graph, chip, draw = GRAPHS[name], load_chip(preset, overrides), random.Random(f"{name} {preset}")
    (region,) = partition(graph, chip, MappingOptions())
    played = 0
    for _ in range(6):
        tile = {d.name: -(-d.extent // draw.choice([1, 1, 2, 3, 5])) for d in region.work.dims}
        order = tuple(draw.sample(list(tile), len(tile)))
        options = LayerOptions(tile=tile, order=order, buffers=draw.choice([1, 2, 3]))
        try:
            mapped = map_graph(graph, chip, MappingOptions(layers={region.name: options}))
        except DoesNotFitError:
            continue
        pace, nest = paced(mapped)
        assert Pace.holds(pace.cost)
        assert pace.cycles(nest) == simulate(mapped.program, chip).cycles, f"{options}"
        played += 1
    assert played > 1


def test_nests_that_share_operands_do_not_mix_them_up() -> None:
    """Tiles of equal size along different dimensions are different tiles."""
    graph, chip = matmul(16, 16, 16), plain_chip()
    tiles = [{"h": 16, "w": 4, "c": 16}, {"h": 16, "w": 16, "c": 4}, {"h": 4, "w": 16, "c": 16}]
    shared: Pace | None = None
    for tile in tiles:
        mapped = map_graph(graph, chip, MappingOptions(layers={"mm": LayerOptions(tile=tile, buffers=2)}))
        pace, nest = paced(mapped)
        shared = shared or pace
        assert shared.cycles(nest) == pace.cycles(nest) == simulate(mapped.program, chip).cycles


def test_what_is_in_sram_is_not_loaded_and_what_stays_is_not_stored() -> None:
    pace, nest = paced(map_graph(matmul(8, 8, 8), plain_chip(), MappingOptions()))
    nest = Nest((1, 2, 8, 8), (0, 1, 2, 3), 2)
    inputs = len(pace.inputs)
    alone = Pace(pace.cost, [True] * inputs, True, False)
    assert alone.cycles(nest) == 8**3  # one multiplication a cycle
    assert pace.cycles(nest) > alone.cycles(nest)


@pytest.mark.parametrize(
    "overrides",
    [
        ("units.0.instances=2",),
        ("dram.fair=true",),
        ("sram.ports=1",),
        ("output_pipeline.streamed_bytes=1024",),
        ("sram.preloaded_constants=true",),
        ("dram.write_channel={bytes_per_cycle: 1, latency_cycles: 0}",),
    ],
)
def test_what_is_not_covered_is_said(overrides: tuple[str, ...]) -> None:
    pace, _ = paced(map_graph(matmul(8, 8, 8), plain_chip(*overrides), MappingOptions()))
    assert not Pace.holds(pace.cost)

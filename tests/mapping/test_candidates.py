"""Candidates: what each tiling loads, holds and takes, weighed for many at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from npusim.frontends.chip import load_chip
from npusim.graph import Graph
from npusim.graph.passes.fold_aliases import FoldAliases
from npusim.graph.passes.fuse import Fuse
from npusim.graph.region import Region
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.candidates import Candidates, open_sums
from npusim.mapping.cost import RegionCost
from npusim.mapping.mapper import map_graph
from npusim.mapping.search import candidates
from tests.plain import conv, matmul, plain_chip


def region_of(graph: Graph, operators: Iterable[str] = ()) -> Region:
    return Fuse(frozenset(operators))(graph, FoldAliases()(graph).nodes)[0]


def found(graph: Graph, chip: Chip, limit: int = 2048, **options: object) -> Candidates:
    region = region_of(graph, chip.output_pipeline.operators)
    return candidates(region, RegionCost(region, chip), LayerOptions(**options), limit)  # type: ignore[arg-type]


def test_orders_and_buffers_that_make_no_difference_are_weighed_once() -> None:
    c = found(matmul(8, 8, 8), plain_chip(), tile={"h": 4, "w": 8, "c": 8})
    assert sorted(c.buffers.tolist()) == [1, 2]  # two tiles have no use for a third slot; all orders are the same
    c = found(matmul(8, 8, 8), plain_chip(), tile={"h": 8, "w": 8, "c": 8})
    assert len(c.tiles) == 1


def test_fetches_stop_at_the_innermost_loop_that_moves_an_operand() -> None:
    c = found(matmul(8, 8, 8), plain_chip(), tile={"h": 2, "w": 4, "c": 8}, order=("h", "w"), buffers=1)
    assert c.fetches.tolist() == [[4, 8]]  # a once a row of tiles, b for every tile
    c = found(matmul(8, 8, 8), plain_chip(), tile={"h": 2, "w": 4, "c": 8}, order=("w", "h"), buffers=1)
    assert c.fetches.tolist() == [[8, 2]]
    c = found(matmul(8, 8, 8), plain_chip(), tile={"h": 2, "w": 4, "c": 2}, order=("h", "w"), buffers=1)
    assert c.fetches.tolist() == [[32, 32]]
    assert c.stores.tolist() == [8]
    assert c.commands.tolist() == [32]


def test_reloaded_operands_are_fetched_for_every_tile_and_those_of_finished_sums_once_an_output() -> None:
    tile = {"h": 2, "w": 4, "c": 2}
    c = found(matmul(8, 8, 8), plain_chip(), tile=tile, order=("h", "w"), buffers=1, reload=True)
    assert c.fetches.tolist() == [[32, 32]]
    tile = {"n": 1, "oy": 8, "ox": 8, "oc": 2, "ic": 2}
    c = found(conv(8, 4, 4), plain_chip(), tile=tile, order=("oc",), buffers=1, reload=True)
    assert c.fetches.tolist() == [[4, 4, 2, 2, 2]]  # ifmap, weights; bias, multiplier and shift behind the sums


@pytest.mark.parametrize(
    ("order", "tiles"),
    [
        (("h", "w", "c"), 1),  # one tile after the other
        (("h", "c", "w"), 4),  # all of a row of tiles
        (("w", "c", "h"), 3),
        (("c", "h", "w"), 12),
        (("c", "w"), 12),  # what is not named follows
        (("h", "c"), 4),
    ],
)
def test_sums_are_open_for_all_tiles_inside_a_reduction(order: tuple[str, ...], tiles: int) -> None:
    c = found(matmul(6, 8, 8), plain_chip(), tile={"h": 2, "w": 2, "c": 4}, order=order, buffers=1)
    assert c.accumulator_bytes.tolist() == [tiles * 2 * 2 * 4]
    c = found(matmul(6, 8, 8), plain_chip(), tile={"h": 2, "w": 2, "c": 8}, order=order, buffers=1)
    assert c.accumulator_bytes.tolist() == [0]  # nothing is split


def test_open_sums_of_numbers_and_of_arrays() -> None:
    dims = region_of(matmul(6, 8, 8)).work.dims  # n, h, w, c
    trips = [(1, 3, 4, 2), (1, 3, 4, 1), (5, 1, 2, 3)]
    for order in ((0, 1, 2, 3), (3, 0, 1, 2), (1, 3, 2, 0)):
        alone = [open_sums(dims, order, t) for t in trips]
        assert open_sums(dims, order, [np.asarray(t) for t in zip(*trips, strict=True)]).tolist() == alone
    assert [open_sums(dims, (1, 3, 2, 0), t) for t in trips] == [4, 1, 10]


def test_the_working_set_holds_a_slot_for_each_buffer_that_is_used() -> None:
    def slots(buffers: int, **tile: int) -> int:
        c = found(matmul(8, 8, 8), plain_chip(), tile=tile, order=("h", "w"), buffers=buffers)
        return int(c.weigh((False, False), False, True)[1][0])

    whole = 64 + 64 + 4 * 64
    assert slots(1, h=8, w=8, c=8) == slots(3, h=8, w=8, c=8) == whole
    assert slots(1, h=2, w=8, c=8) == 16 + 64 + 64
    assert slots(2, h=2, w=8, c=8) == 2 * 16 + 64 + 2 * 64  # b is fetched once
    assert slots(3, h=2, w=8, c=8) == 3 * 16 + 64 + 3 * 64
    assert slots(3, h=4, w=8, c=8) == 2 * 32 + 64 + 2 * 128  # there are but two tiles
    assert slots(1, h=8, w=8, c=4) == 32 + 32 + 256 + 256  # and the partial sums


def test_only_instances_of_the_unit_that_works_need_slots_of_their_own() -> None:
    """16 arrays beside one vector unit do not make a vector layer larger."""
    chip = plain_chip("units.0.instances=16", "output_pipeline.operators=[]")
    assert found(matmul(8, 8, 8), chip).instances == 16
    mapped = map_graph(conv(8, 4, 4), chip, MappingOptions(buffers=1))
    assert [p.cost.engine for p in mapped.plan.layers] == ["mac", "vector"]
    sums, vector = mapped.plan.layers
    assert len(sums.output_slots or (0,)) <= 16
    assert all(len(s) <= 1 for s in (*vector.input_slots, vector.output_slots))


def test_residents_need_no_slots_and_no_transfers() -> None:
    c = found(matmul(8, 8, 8), plain_chip(), tile={"h": 2, "w": 8, "c": 8}, order=("h", "w"), buffers=2)
    cycles, slots, bus = c.weigh((False, False), False, True)
    less_cycles, less_slots, less_bus = c.weigh((True, False), True, False)
    assert (slots - less_slots).tolist() == [2 * 16 + 2 * 64]
    assert (bus - less_bus).tolist() == [64 + 256]
    assert less_cycles[0] < cycles[0]


def test_a_write_channel_takes_the_stores_off_the_bus() -> None:
    own = "dram.write_channel={bytes_per_cycle: 1, latency_cycles: 0}"
    shared, apart = (
        found(matmul(8, 8, 8), plain_chip(*more), buffers=2, tile={"h": 2, "w": 8, "c": 8}) for more in ((), (own,))
    )
    traffic = [c.weigh([False] * 2, False, True)[2] for c in (shared, apart)]
    assert (traffic[0] - traffic[1] == shared.stores * shared.store_bus).all()


def test_the_weighing_of_many_does_not_overflow() -> None:
    """A product of 8192 x 8192 x 8192 in single points, every byte a burst of 32 bytes at 4 a cycle."""
    chip = load_chip("micro", ["dram.turnaround_cycles=0"])
    c = found(matmul(8192, 8192, 8192), chip, tile={"h": 1, "w": 1, "c": 1})
    cycles, slots, bus = c.weigh((False, False), False, True)
    assert all(int(x.min()) > 0 for x in (cycles, slots, bus))
    assert int(bus.max()) == 2 * 8192**3 * 8 + 8192**2 * 8

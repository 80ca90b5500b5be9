"""The tile search: what it weighs, what it picks, what a person may fix, and what it says when nothing will do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.errors import DoesNotFitError, InputError
from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.graph.passes.fold_aliases import FoldAliases
from npusim.graph.passes.fuse import Fuse
from npusim.graph.region import Region
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.candidates import Candidates
from npusim.mapping.cost import RegionCost
from npusim.mapping.mapper import map_graph
from npusim.mapping.pace import Nest, Pace
from npusim.mapping.plan import LayerPlan
from npusim.mapping.search import TIE, candidates, choose
from npusim.numerics.types import I8
from npusim.ops import op_class
from npusim.timing import simulate
from tests.plain import chain, conv, matmul, plain_chip


def region_of(graph: Graph, operators: Iterable[str] = ()) -> Region:
    return Fuse(frozenset(operators))(graph, FoldAliases()(graph).nodes)[0]


def found(graph: Graph, chip: Chip, limit: int = 2048, **options: object) -> Candidates:
    region = region_of(graph, chip.output_pipeline.operators)
    return candidates(region, RegionCost(region, chip), LayerOptions(**options), limit)  # type: ignore[arg-type]


def planned(graph: Graph, chip: Chip, layer: str, **options: object) -> LayerPlan:
    mapped = map_graph(graph, chip, MappingOptions(layers={layer: LayerOptions(**options)}))  # type: ignore[arg-type]
    return next(p for p in mapped.plan.layers if p.region.name == layer)


# -- what a person fixes ---------------------------------------------------------------------------------------------


def test_a_full_manual_mapping_is_taken_as_it_is() -> None:
    tile = {"n": 1, "oy": 3, "ox": 5, "oc": 2, "ky": 3, "kx": 3, "ic": 4}
    plan = planned(conv(8, 6, 5), plain_chip(), "conv", tile=tile, order=("oc", "ox", "oy", "n"), buffers=3)
    assert plan.mapping.tile == tuple(tile.values())
    assert plan.mapping.order == (3, 2, 1, 0, 4, 5, 6)
    assert plan.mapping.buffers == 3


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(["n", "oy", "ox", "oc", "ic"]), st.integers(1, 12)), st.integers(1, 3))
def test_what_is_stated_is_obeyed_and_the_rest_is_searched(tile: dict[str, int], buffers: int) -> None:
    plan = planned(conv(8, 6, 5), plain_chip(), "conv", tile=tile, buffers=buffers)
    for d, t in zip(plan.region.work.dims, plan.mapping.tile, strict=True):
        assert t == min(tile.get(d.name, t), d.extent)
    assert plan.mapping.buffers == buffers


def test_a_part_of_an_order_comes_outermost() -> None:
    assert planned(conv(8, 6, 5), plain_chip(), "conv", order=("ox",)).mapping.order == (2, 0, 1, 3, 4, 5, 6)
    assert planned(conv(8, 6, 5), plain_chip(), "conv", order=()).mapping.order == (0, 1, 2, 3, 4, 5, 6)
    assert planned(conv(8, 6, 5), plain_chip(), "conv", order=("ic", "oc")).mapping.order == (6, 3, 0, 1, 2, 4, 5)


def test_buffers_of_the_network_give_way_to_those_of_a_layer() -> None:
    options = MappingOptions(buffers=1, layers={"mm": LayerOptions(buffers=3)})
    assert map_graph(matmul(4, 4, 4), plain_chip(), options).plan.layers[0].mapping.buffers == 3
    assert map_graph(matmul(4, 4, 4), plain_chip(), MappingOptions(buffers=1)).plan.layers[0].mapping.buffers == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tile": {"rows": 2}}, r"layer 'mm': unknown dimension 'rows'; it has n, h, w, c"),
        ({"order": ("h", "rows")}, r"layer 'mm': unknown dimension 'rows'; it has n, h, w, c"),
        ({"order": ("h", "w", "h")}, r"layer 'mm': 'order' lists 'h' 2 times"),
    ],
)
def test_a_wrong_manual_mapping_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        planned(matmul(4, 4, 4), plain_chip(), "mm", **options)


def test_all_faults_of_a_manual_mapping_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        planned(matmul(4, 4, 4), plain_chip(), "mm", tile={"x": 1, "y": 1}, order=("z", "h", "h"))
    assert len(caught.value.problems) == 4


def test_a_dimension_that_cannot_be_split_is_not_split() -> None:
    """The index of the largest element is found in one go."""
    b = GraphBuilder("pool")
    b.input("x", TensorType((1, 8, 8, 4), I8))
    b.node("argmax", op_class("argmax")(axis=3), ("x",), "y")
    graph = b.finish(("y",))
    dims = map_graph(graph, plain_chip(), MappingOptions()).plan.layers[0].region.work.dims
    (d,) = (d for d in dims if not d.splittable)
    with pytest.raises(
        InputError, match=rf"layer 'argmax': '{d.name}' cannot be split; leave it out or give {d.extent}"
    ):
        planned(graph, plain_chip(), "argmax", tile={d.name: d.extent - 1})
    assert planned(graph, plain_chip(), "argmax", tile={d.name: d.extent}).mapping.tile[dims.index(d)] == d.extent


# -- what is weighed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 7, 100, 2048])
def test_no_more_candidates_than_allowed_for_each_order_and_buffering(limit: int) -> None:
    c = found(conv(28, 64, 64, batch=3), plain_chip(), limit)
    per_kind: dict[tuple[int, int], int] = {}
    for order, buffers in zip(c.order.tolist(), c.buffers.tolist(), strict=True):
        per_kind[order, buffers] = per_kind.get((order, buffers), 0) + 1
    assert all(o < len(c.orders) and b in (1, 2, 3) for o, b in per_kind)
    assert limit // 3 < max(per_kind.values()) <= limit


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_the_smallest_tile_is_always_among_the_candidates(limit: int) -> None:
    """Whatever is left out for time, a layer that fits at all is mapped."""
    c = found(conv(28, 64, 64), plain_chip(), limit)
    assert [1, 1, 1, 1, 3, 3, 1] in c.tiles.tolist()


def test_candidates_are_halves_thirds_quarters_and_so_on() -> None:
    c = found(matmul(1, 1, 24), plain_chip())
    assert sorted(set(c.tiles[:, 2].tolist())) == [1, 2, 3, 4, 6, 8, 12, 24]


# -- what is picked --------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(800, 20000), st.booleans(), st.booleans(), st.sampled_from([1, 2]))
def test_the_pick_is_the_best_by_the_stated_rule(budget: int, resident: bool, store: bool, instances: int) -> None:
    """Of all candidates by estimate where a layer cannot be played (two instances), else of those that were played."""
    graph, chip = conv(10, 6, 9), plain_chip("dram.bytes_per_cycle=4", f"units.0.instances={instances}")
    c, cost = found(graph, chip), RegionCost(region_of(graph, chip.output_pipeline.operators), chip)
    flags = ((resident, *[False] * (c.slot_bytes.shape[1] - 1)), not store, store)
    cycles, slots, bus = (x.tolist() for x in c.weigh(*flags))
    picked = choose(cost, c, *flags, budget)
    fitting = [i for i in range(len(cycles)) if slots[i] <= budget]
    if not fitting:
        assert picked is None
        return
    assert picked is not None
    assert picked.sram_bytes <= budget
    assert c.fewest_cycles(*flags, budget) == min(cycles[i] for i in fitting)
    nest = Nest(picked.tile, picked.order, picked.buffers)
    if instances == 1:
        assert picked.estimate_cycles == Pace(cost, *flags).cycles(nest)
        return
    best = min(cycles[i] for i in fitting)
    near = [i for i in fitting if cycles[i] <= best + best // TIE]
    near = [i for i in near if slots[i] <= budget // 2] or near
    least = min(bus[i] for i in near)
    near = [i for i in near if bus[i] <= least + least // 8]
    i = min(near, key=lambda i: (c.commands[i], bus[i], slots[i], i))
    assert nest == c.nest(i)
    assert (picked.estimate_cycles, picked.sram_bytes) == (cycles[i], slots[i])


def test_the_estimate_never_grows_with_the_budget() -> None:
    c = found(conv(28, 64, 64), load_chip("edge"))
    flags = ([False] * c.slot_bytes.shape[1], False, True)
    fewest = [c.fewest_cycles(*flags, budget) for budget in range(2048, 1 << 18, 2048)]
    known = [f for f in fewest if f is not None]
    assert len(known) > 100
    assert known == sorted(known, reverse=True)


SAMPLE = {
    "square product": matmul(64, 256, 64),
    "matrix by vector": matmul(1, 2048, 512),
    "3x3 convolution": conv(28, 64, 64),
    "raw sums": conv(28, 64, 64, rescaled=False),
    "1x1 convolution": conv(14, 256, 64, kernel=1, pad=0),
    "first layer": conv(56, 3, 16),
}


@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.parametrize("preset", ["micro", "edge", "server"])
def test_a_layer_alone_takes_the_cycles_that_the_search_says(preset: str, name: str) -> None:
    for kib in (16, 64, 256):
        chip = load_chip(preset, [f"sram.size_bytes={kib} KiB"])
        mapped = map_graph(SAMPLE[name], chip, MappingOptions())
        cycles, estimate = simulate(mapped.program, chip).cycles, mapped.plan.layers[0].mapping.estimate_cycles
        assert cycles == estimate, f"{kib} KiB"


# -- what does not fit -----------------------------------------------------------------------------------------------


def test_a_layer_that_does_not_fit_is_told_tensor_by_tensor() -> None:
    chip = plain_chip("sram.size_bytes=1024")
    with pytest.raises(DoesNotFitError) as caught:
        planned(matmul(1, 4096, 1), chip, "mm", tile={"c": 4096})
    assert str(caught.value) == (
        "layer 'mm': its smallest tile (n 1, h 1, w 1, c 4096) needs 8196 bytes of SRAM (bytes by tensor: a 4096, "
        "b 4096, y 4), but there are 1024; enlarge sram.size_bytes or allow smaller tiles"
    )


def test_the_bytes_by_tensor_add_up_with_every_copy() -> None:
    chip = plain_chip("sram.size_bytes=1024", "units.0.instances=4")
    tile = {"h": 64, "w": 64, "c": 2}
    message = r"needs 82432 bytes of SRAM \(bytes by tensor: a 256, b 256, y 16384, partial sums 65536\)"
    with pytest.raises(DoesNotFitError, match=message):
        planned(matmul(64, 4, 64), chip, "mm", tile=tile)


def test_whole_granules_are_what_is_free() -> None:
    chip = plain_chip("sram.size_bytes=1000", "sram.granule_bytes=64")
    with pytest.raises(DoesNotFitError, match=r"needs 16896 bytes .*, but 960 of 1000 bytes are free"):
        planned(matmul(64, 4, 64), chip, "mm", tile={"h": 64, "w": 64})


def test_partial_sums_that_overflow_a_memory_of_their_own() -> None:
    chip = plain_chip("units.0.accumulator_bytes=64")
    message = r"the partial sums of its smallest tile \(n 1, h 64, w 64, c 2\) need 16384 bytes, but the unit has 64"
    with pytest.raises(DoesNotFitError, match=message):
        planned(matmul(64, 4, 64), chip, "mm", tile={"h": 64, "w": 64, "c": 2})
    plan = planned(matmul(64, 4, 64), chip, "mm", tile={"c": 2})
    assert 4 * plan.mapping.tile[1] * plan.mapping.tile[2] <= 64


def test_open_sums_that_overflow_a_memory_of_their_own() -> None:
    tile = {"h": 2, "w": 2, "c": 2}
    for instances, holds in ((1, 64), (2, 32)):  # 4 tiles of 16 bytes
        chips = [
            plain_chip(f"units.0.accumulator_bytes={n}", f"units.0.instances={instances}") for n in (holds, holds - 16)
        ]
        assert planned(matmul(4, 4, 4), chips[0], "mm", tile=tile, order=("c", "h")).mapping.order == (3, 1, 0, 2)
        message = rf"partial sums of its smallest tile \(n 1, h 2, w 2, c 2\) need 64 bytes, .* {64 - 16 * instances}"
        with pytest.raises(DoesNotFitError, match=message):
            planned(matmul(4, 4, 4), chips[1], "mm", tile=tile, order=("c", "h"))


def test_a_tile_that_just_fits_is_taken() -> None:
    for nbytes, fits in ((8196, True), (8195, False)):
        chip = replace(plain_chip(), sram=replace(plain_chip().sram, size_bytes=nbytes))
        if fits:
            assert planned(matmul(1, 4096, 1), chip, "mm", tile={"c": 4096}).mapping.sram_bytes == nbytes
        else:
            with pytest.raises(DoesNotFitError, match="8196"):
                planned(matmul(1, 4096, 1), chip, "mm", tile={"c": 4096})


# -- results that leave for DRAM while they are computed ---------------------------------------------------------------


def test_streamed_results_take_no_sram_but_their_own_addresses() -> None:
    chip = plain_chip("output_pipeline.streamed_bytes=64")
    plan = planned(matmul(4, 4, 4), chip, "mm", tile={"h": 1, "w": 4}, buffers=3)
    assert plan.output_slots == (chip.streamed_base, chip.streamed_base + 16)  # one that leaves, one that is made
    kept = planned(matmul(4, 4, 4), plain_chip(), "mm", tile={"h": 1, "w": 4, "c": plan.mapping.tile[3]}, buffers=3)
    assert kept.mapping.sram_bytes - plan.mapping.sram_bytes == 3 * 16


def test_streamed_results_that_are_too_many_under_way_are_refused() -> None:
    chip = plain_chip("output_pipeline.streamed_bytes=31")
    message = (
        r"layer 'mm': the results of its smallest tile \(n 1, h 1, w 4, c 4\) put 32 bytes under way to DRAM, but at "
        r"most 31 may be; enlarge output_pipeline.streamed_bytes or allow smaller tiles"
    )
    with pytest.raises(DoesNotFitError, match=message):
        planned(matmul(4, 4, 4), chip, "mm", tile={"h": 1, "w": 4, "c": 4})
    assert planned(matmul(4, 4, 4), chip, "mm", tile={"h": 1}).mapping.tile[2] < 4  # searched, it takes smaller ones


def test_streamed_results_do_not_stay_in_sram() -> None:
    chip = plain_chip("output_pipeline.streamed_bytes=1024", "output_pipeline.operators=[rescale]")
    assert map_graph(chain(2), chip, MappingOptions()).plan.residents == {}
    forced = MappingOptions(layers={"mm0": LayerOptions(resident=True)})
    with pytest.raises(
        InputError, match=r"'mm0': resident is true, but its output leaves for DRAM while it is computed"
    ):
        map_graph(chain(2), chip, forced)

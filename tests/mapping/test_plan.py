"""Plans: what stays in SRAM and what a person may demand of it, and slots that hold what the search promised."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from npusim.errors import DoesNotFitError, InputError
from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping import plan as planning
from npusim.mapping.allocate import Lifetime
from npusim.mapping.layer_slots import fetches
from npusim.mapping.mapper import map_graph
from npusim.mapping.plan import LayerPlan, Plan
from npusim.numerics.types import I8
from npusim.ops import op_class
from npusim.program import Load, Store, TileProgram
from npusim.timing import simulate
from tests.plain import chain, conv, matmul, plain_chip
from tests.properties.chains import convolution_chain
from tests.properties.random_graphs import chips, graphs, mapping_options


def moved(program: TileProgram) -> tuple[set[str], set[str]]:
    """(values loaded, values stored)."""
    loads = {program.slots[r.slot].value for c in program if isinstance(c, Load) for r in c.parts}
    return loads, {program.slots[c.ref.slot].value for c in program if isinstance(c, Store)}


def residents(graph: Graph, chip: Chip, residency: bool = True, **layers: LayerOptions) -> tuple[set[str], TileProgram]:
    mapped = map_graph(graph, chip, MappingOptions(residency=residency, layers=layers))
    return set(mapped.plan.residents), mapped.program


# -- what stays ------------------------------------------------------------------------------------------------------


def test_a_value_that_stays_is_neither_stored_nor_loaded() -> None:
    stays, program = residents(chain(3), plain_chip())
    loads, stores = moved(program)
    assert stays == {"y0", "y1"}
    assert loads.isdisjoint(stays)
    assert stores == {"y2"}


def test_a_graph_output_that_stays_is_stored_as_well() -> None:
    graph = chain(2)
    graph = Graph(graph.name, graph.types, graph.constants, graph.inputs, ("y0", "y1"), graph.nodes)
    stays, program = residents(graph, plain_chip())
    loads, stores = moved(program)
    assert stays == {"y0"}
    assert stores == {"y0", "y1"}
    assert "y0" not in loads


def test_without_residency_every_value_goes_through_dram() -> None:
    stays, program = residents(chain(3), plain_chip(), residency=False)
    loads, stores = moved(program)
    assert stays == set()
    assert stores == {"y0", "y1", "y2"}
    assert loads >= {"y0", "y1"}


def test_a_layer_may_be_kept_or_sent_to_dram_one_by_one() -> None:
    stays, program = residents(chain(3), plain_chip(), mm0=LayerOptions(resident=False))
    assert stays == {"y1"}
    assert moved(program)[1] == {"y0", "y2"}
    stays, program = residents(chain(3), plain_chip(), residency=False, mm0=LayerOptions(resident=True))
    assert stays == {"y0"}
    assert moved(program)[1] == {"y1", "y2"}


def test_an_output_that_nobody_reads_has_nothing_to_stay_for() -> None:
    assert residents(matmul(4, 4, 4), plain_chip(), mm=LayerOptions(resident=True))[0] == set()


def test_residents_alive_together_have_places_of_their_own() -> None:
    mapped = map_graph(chain(4), plain_chip(), MappingOptions())
    kept = list(mapped.plan.residents.values())
    assert len(kept) == 3
    for k, (offset, life) in enumerate(kept):
        for other, theirs in kept[:k]:
            if life.first <= theirs.last and theirs.first <= life.last:
                assert offset + life.nbytes <= other or other + theirs.nbytes <= offset


# -- what cannot stay ------------------------------------------------------------------------------------------------


def test_a_demand_that_leaves_no_room_is_refused() -> None:
    """The 4096 bytes of y0 fit, but then no tile does."""
    chip = plain_chip("sram.size_bytes=4100")
    residents(chain(2, h=64, c=64), chip)
    with pytest.raises(InputError) as caught:
        residents(chain(2, h=64, c=64), chip, mm0=LayerOptions(resident=True))
    assert str(caught.value) == (
        "mapping of layer 'mm0': resident is true, but its output of 4096 bytes leaves too little of the SRAM's 4100 "
        "for the layers up to its last reader; enlarge sram.size_bytes, or leave resident out"
    )


def test_a_demand_comes_before_what_would_be_kept_anyway() -> None:
    """Only one of y0 and y1 fits; y0 is found first, but it is y1 that is demanded."""
    graph, chip = chain(3, h=64, c=64), plain_chip("sram.size_bytes=9000")
    assert "y1" in residents(graph, chip, mm1=LayerOptions(resident=True))[0]
    chip = plain_chip("sram.size_bytes=8100")
    assert residents(graph, chip, mm1=LayerOptions(resident=True))[0] == {"y1"}
    with pytest.raises(InputError, match=r"'mm\d': resident is true, but its output of 4096 bytes leaves too little"):
        residents(graph, chip, mm0=LayerOptions(resident=True), mm1=LayerOptions(resident=True))


def test_a_demand_for_which_there_are_bytes_but_no_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others give way first; only when y1 alone finds no place either can the demand not be met."""
    tried: list[set[str]] = []

    def none(lifetimes: Iterable[Lifetime], capacity: int) -> None:
        tried.append({v.value for v in lifetimes})

    monkeypatch.setattr(planning, "place_lifetimes", none)
    monkeypatch.setattr(planning, "place_side_by_side", none)
    with pytest.raises(InputError, match=r"'mm1': resident is true, but its output of 64 bytes leaves too little"):
        residents(chain(4), plain_chip(), mm1=LayerOptions(resident=True))
    assert tried[-1] == {"y1"}
    assert max(map(len, tried)) == 3


def reshaped() -> Graph:
    """``mm0`` makes [1, 6, 4], ``mm1`` reads it as [1, 4, 6]."""
    b = GraphBuilder("reshaped")
    rng = np.random.default_rng(0)
    b.input("a", TensorType((1, 6, 4), I8))
    b.constant("b0", TensorType((1, 4, 4), I8), rng.integers(-2, 2, (1, 4, 4), np.int8))
    b.constant("b1", TensorType((1, 6, 3), I8), rng.integers(-2, 2, (1, 6, 3), np.int8))
    b.node("mm0", op_class("matmul")(), ("a", "b0"), "sums")
    b.node("cast", op_class("cast")(out_type="i8"), ("sums",), "y0")
    b.node("reshape", op_class("reshape")(new_shape=(1, 4, 6)), ("y0",), "seen")
    b.node("mm1", op_class("matmul")(), ("seen", "b1"), "y1")
    return b.finish(("y1",))


def test_a_reshaped_value_stays_unless_its_rows_have_gaps() -> None:
    assert "y0" in residents(reshaped(), plain_chip())[0]
    gaps = plain_chip("sram.channel_granule=16")
    assert "y0" not in residents(reshaped(), gaps)[0]
    message = r"'cast': resident is true, but its output is read under another shape, which a channel granule cannot"
    with pytest.raises(InputError, match=message):
        residents(reshaped(), gaps, cast=LayerOptions(resident=True))


def test_a_layer_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(InputError, match=r"mapping: no layer is called 'mm9'; the layers are mm0, mm1"):
        residents(chain(2), plain_chip(), mm9=LayerOptions())


def test_a_layer_goes_to_the_unit_that_it_names() -> None:
    chip = load_chip("micro", ["units.0.name=near"])
    assert map_graph(matmul(4, 4, 4), chip, MappingOptions()).plan.layers[0].cost.engine == "near"
    with pytest.raises(DoesNotFitError, match=r"layer 'mm': no mac unit of chip 'micro' is called 'far'; it has near"):
        residents(matmul(4, 4, 4), chip, mm=LayerOptions(unit="far"))


# -- slots -----------------------------------------------------------------------------------------------------------


def slot_bytes(layer: LayerPlan, plan: Plan) -> list[tuple[int, int]]:
    """Every slot of a layer as an interval."""
    found = []
    for x, offsets in zip(layer.region.inputs, layer.input_slots, strict=True):
        shape = layer.cost.tile_shape(x.access, x.type.shape, layer.mapping.tile)
        found += [(o, o + int(layer.cost.slot_bytes(shape, x.type.dtype))) for o in offsets]
    out = layer.cost.output_shape(layer.mapping.tile)
    found += [(o, o + int(layer.cost.slot_bytes(out, layer.cost.output.dtype))) for o in layer.output_slots]
    return found + [(o, o + int(layer.cost.slot_bytes(out, layer.cost.accumulator))) for o in layer.accumulator_slots]


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(4), chips(), mapping_options())
def test_every_layer_has_the_slots_that_the_search_weighed(graph: Graph, chip: Chip, options: MappingOptions) -> None:
    try:
        plan = map_graph(graph, chip, options).plan
    except DoesNotFitError:
        assume(False)
    for k, layer in enumerate(plan.layers):
        slots = slot_bytes(layer, plan)
        assert sum(hi - lo for lo, hi in slots) == layer.mapping.sram_bytes
        kept = [(o, o + v.nbytes) for o, v in plan.residents.values() if v.first <= k <= v.last]
        edges = sorted([*slots, *kept])
        assert all(hi <= lo for (_, hi), (lo, _) in zip(edges, edges[1:], strict=False))
        assert edges[0][0] >= 0
        assert edges[-1][1] <= chip.sram.size_bytes
        for resident, offsets in zip(layer.resident, layer.input_slots, strict=True):
            assert bool(offsets) != resident
        assert bool(layer.output_slots) != layer.output_resident
        assert layer.store_output or layer.output_resident


@pytest.mark.parametrize(("prefetch", "apart"), [(True, True), (False, False)])
def test_prefetching_keeps_clear_of_the_layer_before(prefetch: bool, apart: bool) -> None:
    plan = map_graph(chain(2), plain_chip(), MappingOptions(prefetch=prefetch, residency=False)).plan
    first, second = (slot_bytes(layer, plan) for layer in plan.layers)
    assert all(a[1] <= b[0] or b[1] <= a[0] for a in first for b in second) == apart


def test_partial_sums_lie_behind_the_sram_where_the_array_has_a_memory_for_them() -> None:
    chip = plain_chip("units.0.accumulator_bytes=64", "units.0.instances=2")
    options = MappingOptions(layers={"mm": LayerOptions(tile={"h": 2, "w": 2, "c": 2})})
    mapped = map_graph(matmul(8, 8, 8), chip, options)
    assert mapped.plan.layers[0].accumulator_slots == (chip.sram.size_bytes, chip.sram.size_bytes + 64)
    assert mapped.program.sram_bytes == chip.sram.size_bytes + 2 * 64
    whole = map_graph(matmul(8, 8, 8), chip, MappingOptions(layers={"mm": LayerOptions(tile={"c": 8})}))
    assert whole.plan.layers[0].accumulator_slots == ()


def test_fetches_of_a_plan_are_those_of_its_loops() -> None:
    options = LayerOptions(tile={"h": 2, "w": 4, "c": 8}, order=("h", "w"))
    (layer,) = map_graph(matmul(8, 8, 8), plain_chip(), MappingOptions(layers={"mm": options})).plan.layers
    assert [fetches(layer.region, i, layer.mapping, [1, 4, 2, 1]) for i in (0, 1)] == [4, 8]


def test_residency_saves_time_on_a_slow_memory() -> None:
    chip = load_chip("edge", ["dram.bytes_per_cycle=1"])
    graph = convolution_chain(0, layers=2, size=24)
    kept, sent = (map_graph(graph, chip, MappingOptions(residency=r)).program for r in (True, False))
    assert simulate(kept, chip).cycles < simulate(sent, chip).cycles


def test_nothing_fits_in_too_small_a_memory() -> None:
    with pytest.raises(DoesNotFitError, match=r"layer 'conv': its smallest tile .* but there are 16"):
        map_graph(conv(8, 4, 4), plain_chip("sram.size_bytes=16"), MappingOptions())

"""Emitted commands: which boxes, in which slots and queues, after what, and how many bytes they move."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import pytest

from npusim.graph import Graph
from npusim.hardware import Chip
from npusim.ir.box import Box
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.cost import TransferCost
from npusim.mapping.mapper import map_graph
from npusim.program import Compute, Load, Store, TileProgram
from tests.plain import chain, conv, matmul, plain_chip
from tests.properties.chains import convolution_chain, small_chip


def emitted(graph: Graph, chip: Chip, layer: str = "mm", **options: object) -> TileProgram:
    return map_graph(graph, chip, MappingOptions(layers={layer: LayerOptions(**options)})).program  # type: ignore[arg-type]


def computes(p: TileProgram) -> list[Compute]:
    return [c for c in p if isinstance(c, Compute)]


def loads_of(p: TileProgram, value: str) -> list[Box]:
    return [r.box for c in p if isinstance(c, Load) for r in c.parts if p.slots[r.slot].value == value]


def test_ragged_tiles_cover_the_work_once() -> None:
    p = emitted(matmul(13, 17, 19), plain_chip(), tile={"h": 5, "w": 7, "c": 6})
    sizes = [prod(c.box.shape) for c in computes(p)]
    assert len(sizes) == 27
    assert sum(sizes) == 13 * 17 * 19
    assert (max(sizes), min(sizes)) == (5 * 7 * 6, 3 * 5 * 5)


def test_tiles_come_in_the_order_of_the_loops_and_reductions_innermost() -> None:
    tile = {"h": 2, "w": 2, "c": 2}
    by_row = [c.box.lo for c in computes(emitted(matmul(4, 4, 4), plain_chip(), tile=tile, order=("h", "w")))]
    by_column = [c.box.lo for c in computes(emitted(matmul(4, 4, 4), plain_chip(), tile=tile, order=("w", "h")))]
    assert by_row == [(0, h, w, c) for h in (0, 2) for w in (0, 2) for c in (0, 2)]
    assert by_column == [(0, h, w, c) for w in (0, 2) for h in (0, 2) for c in (0, 2)]


def test_an_accumulation_is_opened_continued_and_closed_in_one_slot() -> None:
    p = emitted(matmul(2, 6, 2), plain_chip(), tile={"h": 1, "c": 2})
    for k, c in enumerate(computes(p)):
        assert (c.first, c.last) == (k % 3 == 0, k % 3 == 2)
        assert c.accumulator is not None
        assert (c.result is not None) == c.last
    assert len({c.accumulator.slot for c in computes(p) if c.accumulator}) == 1
    assert sum(isinstance(c, Store) for c in p) == 2


@pytest.mark.parametrize(
    ("order", "boxes", "slots"),
    [
        (("c", "h", "w"), [(c, h, w) for c in (0, 2, 4) for h in (0, 2) for w in (0, 2)], [0, 1, 2, 3]),
        (("h", "c", "w"), [(c, h, w) for h in (0, 2) for c in (0, 2, 4) for w in (0, 2)], [0, 1, 0, 1]),
        (("w", "c", "h"), [(c, h, w) for w in (0, 2) for c in (0, 2, 4) for h in (0, 2)], [0, 0, 1, 1]),
        (("h", "w", "c"), [(c, h, w) for h in (0, 2) for w in (0, 2) for c in (0, 2, 4)], [0, 0, 0, 0]),
    ],
)
def test_a_reduction_outside_parallel_loops_keeps_the_sums_of_many_tiles_open(
    order: tuple[str, ...], boxes: list[tuple[int, int, int]], slots: list[int]
) -> None:
    """``slots``: which slot holds the sums of the tiles (0, 0), (0, 2), (2, 0), (2, 2) of rows and columns."""
    p = emitted(matmul(4, 6, 4), plain_chip(), tile={"h": 2, "w": 2, "c": 2}, order=order)
    assert [(c.box.lo[3], c.box.lo[1], c.box.lo[2]) for c in computes(p)] == boxes
    assert [c.first for c in computes(p)] == [at[0] == 0 for at in boxes]
    assert [c.last for c in computes(p)] == [at[0] == 4 for at in boxes]
    assert all((c.result is not None) == c.last for c in computes(p))
    used = [c.accumulator.slot for c in computes(p) if c.accumulator]
    tiles = {(0, 0): slots[0], (0, 2): slots[1], (2, 0): slots[2], (2, 2): slots[3]}
    assert [s - min(used) for s in used] == [tiles[h, w] for _, h, w in boxes]


def test_open_sums_lie_in_the_memory_of_the_instance_that_adds_to_them() -> None:
    chip = plain_chip("units.0.accumulator_bytes=64", "units.0.instances=2")
    p = emitted(matmul(6, 4, 2), chip, tile={"h": 2, "w": 2, "c": 2}, order=("c", "h"))
    base = chip.sram.size_bytes
    places = [(c.queue.instance, p.slots[c.accumulator.slot].offset - base) for c in computes(p) if c.accumulator]
    assert places == [(0, 0), (1, 64), (0, 16)] * 2


def test_tiles_that_reload_load_every_operand_anew() -> None:
    tile = {"h": 2, "w": 2, "c": 2}
    p = emitted(matmul(4, 4, 4), plain_chip(), tile=tile, order=("h", "w"), reload=True, buffers=2)
    assert loads_of(p, "a") == [Box((0, h, c), (1, h + 2, c + 2)) for h in (0, 2) for _ in (0, 2) for c in (0, 2)]
    assert loads_of(p, "b") == [Box((0, c, w), (1, c + 2, w + 2)) for _ in (0, 2) for w in (0, 2) for c in (0, 2)]
    p = emitted(matmul(4, 4, 4), plain_chip(), tile=tile, order=("h", "w"), buffers=4)
    assert (len(loads_of(p, "a")), len(loads_of(p, "b"))) == (4, 4)


def test_operands_of_finished_sums_are_reloaded_once_a_tile_of_the_output() -> None:
    p = emitted(conv(4, 4, 4), plain_chip(), "conv", tile={"oc": 2, "ic": 1}, order=("oc",), reload=True)
    assert {v: len(loads_of(p, v)) for v in ("x", "w", "y_multiplier", "y_shift")} == {
        "x": 8, "w": 8, "y_multiplier": 2, "y_shift": 2,
    }  # fmt: skip


def test_operands_stay_in_their_slots_while_their_box_does_not_change() -> None:
    p = emitted(matmul(4, 4, 4), plain_chip(), tile={"h": 2, "w": 1, "c": 4}, order=("h", "w"), buffers=2)
    assert loads_of(p, "a") == [Box((0, h, 0), (1, h + 2, 4)) for h in (0, 2)]
    assert len(loads_of(p, "b")) == 8
    p = emitted(matmul(4, 4, 4), plain_chip(), tile={"h": 2, "w": 1, "c": 4}, order=("w", "h"), buffers=2)
    assert len(loads_of(p, "a")) == 2  # two buffers hold both rows of tiles
    assert len(loads_of(p, "b")) == 4
    p = emitted(matmul(4, 4, 4), plain_chip(), tile={"h": 2, "w": 1, "c": 4}, order=("w", "h"), buffers=1)
    assert len(loads_of(p, "a")) == 8


@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_buffers_are_used_in_turn(buffers: int) -> None:
    p = emitted(matmul(6, 4, 4), plain_chip(), tile={"h": 1, "w": 4, "c": 4}, buffers=buffers)
    slots = [c.operands[0].slot for c in computes(p) if c.operands[0]]
    results = [c.result.slot for c in computes(p) if c.result]
    for used in (slots, results):
        assert used == (used[:buffers] * 6)[:6]
        assert len(set(used)) == buffers


def test_every_instance_of_a_unit_takes_tiles_in_turn() -> None:
    p = emitted(matmul(6, 4, 4), plain_chip("units.0.instances=4"), tile={"h": 1, "w": 4, "c": 2})
    by_tile = sorted((c.box.lo[1], c.box.lo[3], c.queue.instance) for c in computes(p))
    assert by_tile == [(row, half, row % 4) for row in range(6) for half in (0, 2)]
    sums = {(c.queue.instance, c.accumulator.slot) for c in computes(p) if c.accumulator}
    assert len(sums) == 4


@pytest.mark.parametrize(
    ("channels", "constants", "data", "stores"),
    [(1, {0}, {0}, {0}), (2, {0}, {0}, {1}), (3, {0}, {1}, {2}), (4, {0}, {1}, {3})],
)
def test_the_channel_of_a_transfer_tells_what_it_moves(
    channels: int, constants: set[int], data: set[int], stores: set[int]
) -> None:
    p = emitted(matmul(4, 4, 4), plain_chip(f"dma.channels={channels}"), tile={"h": 2, "w": 2, "c": 4})
    found: dict[str, set[int]] = {"b": set(), "a": set(), "store": set()}
    for c in p:
        if isinstance(c, Load):
            for r in c.parts:
                found[p.slots[r.slot].value].add(c.queue.instance)
        elif isinstance(c, Store):
            found["store"].add(c.queue.instance)
    assert found == {"b": constants, "a": data, "store": stores}


def test_loads_are_moved_up_to_what_they_depend_on() -> None:
    """No load could stand one place earlier without passing a dependency or an earlier load."""
    p = map_graph(convolution_chain(0), small_chip(6144), MappingOptions()).program
    moved = 0
    for c, before in zip(p.commands[1:], p.commands, strict=False):
        if isinstance(c, Load):
            assert isinstance(before, Load) or before.id in c.deps
            moved += not isinstance(before, Load)
    assert moved > 5


def test_stored_values_are_loaded_after_the_stores_that_hold_their_boxes() -> None:
    layers = {
        "mm0": LayerOptions(tile={"h": 2, "w": 8, "c": 8}),
        "mm1": LayerOptions(tile={"h": 4, "w": 8, "c": 8}),
    }
    p = map_graph(chain(2), plain_chip(), MappingOptions(residency=False, layers=layers)).program
    stores = {c.ref.box: c.id for c in p if isinstance(c, Store) and p.slots[c.ref.slot].value == "y0"}
    assert len(stores) == 4
    for c in p:
        if isinstance(c, Load) and p.slots[c.parts[0].slot].value == "y0":
            needed = [i for box, i in stores.items() if box.intersects(c.parts[0].box)]
            assert len(needed) == 2
            assert max(needed) in c.deps


def test_each_box_waits_for_those_parts_of_a_resident_that_it_reads() -> None:
    """The vector unit rescales two rows of a convolution as soon as they are there."""
    chip = plain_chip("output_pipeline.operators=[]")
    p = map_graph(conv(8, 4, 4), chip, MappingOptions(layers={
        "conv": LayerOptions(tile={"oy": 2, "ox": 8, "oc": 4, "ic": 4}, resident=True),
        "y_rescale": LayerOptions(tile={"d1": 2, "d2": 8, "d3": 4}),
    })).program  # fmt: skip
    makers = {c.box.lo[1]: c.id for c in computes(p) if c.layer == 0}
    readers = [c for c in computes(p) if c.layer == 1]
    assert len(makers) == len(readers) == 4
    for c in readers:
        assert [d for d in c.deps if d in makers.values()] == [makers[c.box.lo[1]]]


# -- bytes -----------------------------------------------------------------------------------------------------------


def dram_bytes(p: TileProgram, chip: Chip) -> dict[str, int]:
    """DRAM bytes by value."""
    found: dict[str, int] = {}
    for c in p:
        for ref in c.parts if isinstance(c, Load) else (c.ref,) if isinstance(c, Store) else ():
            slot = p.slots[ref.slot]
            shape = p.graph.types[slot.value].shape
            nbytes = TransferCost(chip).bytes_moved(shape, ref.box.shape, slot.dtype)
            found[slot.value] = found.get(slot.value, 0) + nbytes
    return found


@pytest.mark.parametrize("pad", [0, 1])
def test_padding_is_never_read_from_dram(pad: int) -> None:
    """One tile of a 9x9x4 image: 324 bytes, with or without a ring of padding around it."""
    chip = plain_chip()
    p = emitted(conv(9, 4, 6, pad=pad), chip, "conv", tile={"oy": 9, "ox": 9, "oc": 6, "ic": 4})
    assert dram_bytes(p, chip)["x"] == 9 * 9 * 4


def test_a_halo_is_read_by_both_tiles_that_need_it() -> None:
    chip = plain_chip()
    p = emitted(conv(9, 4, 6), chip, "conv", tile={"oy": 3, "ox": 9, "oc": 6, "ic": 4})
    assert [b.shape[1] for b in loads_of(p, "x")] == [4, 5, 4]
    assert dram_bytes(p, chip)["x"] == (4 + 5 + 4) * 9 * 4


def test_dram_bytes_of_a_memory_bound_convolution_fall_as_the_sram_grows() -> None:
    """With the bus as its only concern the search moves ever fewer bytes, down to each tensor once.

    Ever fewer but for 1/64: a tiling that leaves room to the next layer may be a little slower.
    """
    graph = conv(28, 64, 64)
    moved = []
    for kib in (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256):
        chip = plain_chip("dram.bytes_per_cycle=1/1000", f"sram.size_bytes={kib * 1024}")
        moved.append(sum(dram_bytes(map_graph(graph, chip, MappingOptions(buffers=1)).program, chip).values()))
    assert all(64 * after <= 65 * before for before, after in pairwise(moved)), moved
    assert moved[0] > 3 * moved[-1]
    assert moved[-1] == 28 * 28 * 64 * 2 + 64 * 64 * 9 + 64 * 4 + 4 + 1

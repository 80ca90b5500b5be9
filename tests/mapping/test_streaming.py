"""Layers on units of their own stream side by side: addresses, rows ahead, constants that are there, the switches."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from npusim.functional import evaluate_graph, execute
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.hardware.units.popcount import PopcountUnit
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.allocate import Lifetime, place_side_by_side, place_slots
from npusim.mapping.mapper import Mapped, map_graph
from npusim.numerics.types import I32, U1
from npusim.ops import make_op
from npusim.program import Compute, Load
from npusim.session import overflow_policies
from npusim.timing import simulate
from npusim.timing.costs import DmaCost, command_costs
from tests.plain import chain, matmul, plain_chip

WINDOW = {"stride": [1, 1], "dilation": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "pad_value": "minus_one"}


def pipeline(images: int = 1) -> Graph:
    """Three 3x3 convolutions of 8 binary channels: 12 x 12 -> 10 x 10 -> 8 x 8 -> 6 x 6."""
    rng = np.random.default_rng(3)
    b = GraphBuilder("pipeline")
    b.input("x", TensorType((images, 12, 12, 8), U1))
    value = "x"
    for i in range(3):
        b.constant(f"w{i}", TensorType((8, 3, 3, 8), U1), rng.integers(0, 2, (8, 3, 3, 8), np.uint8))
        b.constant(f"t{i}", TensorType((8,), I32), rng.integers(-9, 9, (8,), np.int32))
        b.node(f"c{i}", make_op("binary_conv2d", {**WINDOW, "layout": "nhwc"}), (value, f"w{i}", f"t{i}"), f"y{i}")
        value = f"y{i}"
    return b.finish((value,))


def streaming_chip(rows_ahead: int = 0, lanes: tuple[int, ...] = (8, 8, 8), *overrides: str) -> Chip:
    """A unit for each convolution; with 8 lanes and 72-bit words, an output position a cycle."""
    free = ("dram.bytes_per_cycle=4096", "dram.write_channel={bytes_per_cycle: 4096, latency_cycles: 0}")
    chip = plain_chip("sram.preloaded_constants=true", *free, *overrides)
    unit = chip.units[1]
    assert isinstance(unit, PopcountUnit)
    fields = {"word_bits": 72, "pipeline_cycles": 0, "rows_ahead": rows_ahead}
    units = [dataclasses.replace(unit, name=f"u{i}", lanes=n, **fields) for i, n in enumerate(lanes)]  # type: ignore[call-arg]
    return dataclasses.replace(chip, units=(*units, chip.units[2]))  # type: ignore[call-arg]


def by_row(graph: Graph, chip: Chip, **switches: bool) -> Mapped:
    tile = {"n": 1, "oy": 1, "ox": 99, "oc": 8}
    layers = {f"c{i}": LayerOptions(tile=tile, order=("n", "oy"), unit=f"u{i}", buffers=2) for i in range(3)}
    return map_graph(graph, chip, MappingOptions(layers=layers, **switches))


def finishes(mapped: Mapped, chip: Chip) -> list[list[int]]:
    """When each row of each layer is finished, after the first load."""
    spans = simulate(mapped.program, chip).spans
    begin = min(s.start for c, s in zip(mapped.program, spans, strict=True) if isinstance(c, Compute))
    return [
        [
            s.finish - begin
            for c, s in zip(mapped.program, spans, strict=True)
            if isinstance(c, Compute) and c.layer == k
        ]
        for k in range(3)
    ]


def test_rows_flow_through_the_layers_as_on_paper() -> None:
    """10, 8 and 6 cycles a row. Row r of a layer begins when row r + 2 of the one before is there: the first layer
    finishes rows at 10, 20, 30, ...; the second at 38 (30 + 8), 48, 58, ...; the third at 64 (58 + 6), 74, ..."""
    chip = streaming_chip()
    first, second, third = finishes(by_row(pipeline(), chip), chip)
    assert first == [10 * (r + 1) for r in range(10)]
    assert second == [10 * (r + 3) + 8 for r in range(8)]
    assert third == [10 * (r + 5) + 8 + 6 for r in range(6)]


def test_a_row_ahead_makes_every_layer_wait_for_one_more_row() -> None:
    """The last row of a map has none behind it: it follows the row before."""
    chip = streaming_chip(rows_ahead=1)
    _, second, third = finishes(by_row(pipeline(), chip), chip)
    assert second == [10 * (r + 4) + 8 for r in range(7)] + [10 * 10 + 8 + 8]
    assert third[0] == second[3] + 6
    assert third[-1] == second[-1] + 2 * 6  # its last but one row waited for that one


def test_images_follow_each_other_at_the_pace_of_the_slowest_layer() -> None:
    """The middle layer on 4 lanes: 8 rows of 16 cycles an image."""
    chip = streaming_chip(0, (8, 4, 8))
    cycles = [simulate(by_row(pipeline(n), chip).program, chip).cycles for n in (1, 2, 3, 4)]
    assert set(np.diff(cycles)) == {8 * 16}


def test_without_overlap_layers_follow_each_other() -> None:
    chip = streaming_chip()
    mapped = by_row(pipeline(), chip, overlap=False)
    first, second, third = finishes(mapped, chip)
    assert (first[-1], second[-1], third[-1]) == (100, 164, 200)
    loaded = plain_chip()
    apart = map_graph(chain(3), loaded, MappingOptions(overlap=False, residency=False)).program
    spans = simulate(apart, loaded).spans
    for k in (1, 2):
        before = max(s.finish for c, s in zip(apart, spans, strict=True) if c.layer < k)
        assert min(s.start for c, s in zip(apart, spans, strict=True) if c.layer == k) >= before


@pytest.mark.parametrize("switches", [{}, {"overlap": False}, {"prefetch": False}])
def test_bits_do_not_depend_on_the_schedule(switches: dict[str, bool]) -> None:
    chip, graph = streaming_chip(rows_ahead=1), pipeline(2)
    program = by_row(graph, chip, **switches).program
    given = {"x": np.random.default_rng(1).integers(0, 2, (2, 12, 12, 8), np.uint8)}
    outputs, _ = execute(program, given, simulate(program, chip).moments, overflow_policies(chip))
    assert np.array_equal(outputs["y2"], evaluate_graph(graph, given, overflow_policies(chip))["y2"])


# -- constants that are there before the run ---------------------------------------------------------------------------


def test_constants_that_are_there_cost_nothing_and_move_nothing() -> None:
    chip = streaming_chip()
    program = by_row(pipeline(), chip).program
    timeline = simulate(program, chip)
    for c, cost, span in zip(program, command_costs(program, chip), timeline, strict=True):
        constant = isinstance(c, Load) and program.slots[c.parts[0].slot].value != "x"
        if isinstance(cost, DmaCost):
            assert cost.preloaded == constant
        if constant:
            assert (span.start, span.finish) == (0, 0)
    assert sum(len(spans) for spans in timeline.by_queue().values()) == len(program) - 3  # one load a layer brings both


def test_constants_that_come_into_used_bytes_are_loaded() -> None:
    """With one buffer the second half of the weights takes the place of the first."""
    chip = plain_chip("sram.preloaded_constants=true")
    options = MappingOptions(layers={"mm0": LayerOptions(tile={"w": 4}, buffers=1)})
    program = map_graph(chain(1), chip, options).program
    weights = [
        (c, k)
        for c, k in zip(program, command_costs(program, chip), strict=True)
        if isinstance(c, Load) and any(program.slots[r.slot].value == "b0" for r in c.parts)
    ]
    assert [k.preloaded for _, k in weights if isinstance(k, DmaCost)] == [True, False]


def test_the_search_knows_that_constants_are_there() -> None:
    """Whole weights cost nothing, parts that come one after the other do."""
    chip = plain_chip("sram.preloaded_constants=true")
    program = map_graph(matmul(4, 8, 4), chip, MappingOptions()).program
    loads = [(c, k) for c, k in zip(program, command_costs(program, chip), strict=True) if isinstance(c, Load)]
    weights = [k for c, k in loads if program.slots[c.parts[0].slot].value == "b" and isinstance(k, DmaCost)]
    assert [k.preloaded for k in weights] == [True] * len(weights)


# -- addresses ---------------------------------------------------------------------------------------------------------


def test_values_lie_side_by_side_where_there_is_room() -> None:
    values = [Lifetime("a", 8, 0, 1), Lifetime("b", 8, 2, 3), Lifetime("c", 2, 1, 2)]
    assert place_side_by_side(values, 18) == {"a": 0, "c": 8, "b": 10}
    assert place_side_by_side(values, 17) is None


def test_slots_keep_clear_of_all_that_is_used_where_they_can() -> None:
    assert place_slots([4], [], [(0, 4)], 20, [(4, 12)]) == [12]
    assert place_slots([4], [], [(0, 4)], 14, [(4, 12)]) == [4]  # no room beyond: clear of the layer before at least
    assert place_slots([4], [], [(0, 10)], 12, [(10, 12)]) == [0]


def test_a_memory_too_small_for_all_values_is_shared() -> None:
    """Eight layers of 64 bytes: side by side in 1 KiB, one upon the other in 256 bytes, with the same result."""
    for size, together in (("1 KiB", False), ("256", True)):
        chip = plain_chip(f"sram.size_bytes={size}")
        plan = map_graph(chain(8), chip, MappingOptions()).plan
        assert set(plan.residents) == {f"y{i}" for i in range(7)}
        offsets = [offset for offset, _ in plan.residents.values()]
        assert (len(set(offsets)) < len(offsets)) == together


# -- the choice of a unit ----------------------------------------------------------------------------------------------


def test_of_several_units_the_fastest_takes_a_layer() -> None:
    chip = plain_chip()
    slow, fast = (
        dataclasses.replace(chip.units[0], name=n, macs_per_cycle={"i8xi8": r}) for n, r in (("slow", 1), ("fast", 4))
    )
    for units, taken in (((slow, fast), "fast"), ((fast, slow), "fast"), ((slow,), "slow")):
        both = dataclasses.replace(chip, units=(*units, *chip.units[1:]))  # type: ignore[call-arg]
        assert map_graph(chain(1), both, MappingOptions()).plan.layers[0].cost.engine == taken
    both = dataclasses.replace(chip, units=(slow, fast, *chip.units[1:]))  # type: ignore[call-arg]
    stated = MappingOptions(layers={"mm0": LayerOptions(unit="slow")})
    assert map_graph(chain(1), both, stated).plan.layers[0].cost.engine == "slow"

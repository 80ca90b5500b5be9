"""Shares of the multipliers' cycles: on paper, and summing to one whatever runs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from npusim.errors import DoesNotFitError
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.hardware.units.vector import VectorUnit
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I32
from npusim.ops import op_class
from npusim.report.losses import _SHARE_OF_STALL, SHARES, losses
from npusim.session import Job, RunResult, run
from npusim.timing.accounting import STALLS
from tests.plain import chain, conv, matmul, plain_chip, sram_rate
from tests.properties.random_graphs import chips, graphs

FAST = ("dram.bytes_per_cycle=100000", "dma.bytes_per_cycle=100000", *sram_rate(100000))


def result_of(graph: Graph, chip: Chip, **layers: LayerOptions) -> RunResult:
    inputs = {v: np.zeros(graph.types[v].shape, graph.types[v].dtype.storage) for v in graph.data_inputs}
    mapping = MappingOptions(layers=layers, smaller_memories=False)
    return run(Job(graph=graph, chip=chip, inputs=inputs, mapping=mapping, bits="off"))


def shares(graph: Graph, chip: Chip, **layers: LayerOptions) -> tuple[int, dict[str, Fraction]]:
    """(cycles of the run, its shares that are not 0)."""
    result = result_of(graph, chip, **layers)
    found = losses(result.report, result.plan, chip)
    return result.report.totals.cycles, {name: share for name, share in found.items() if share}


def test_a_product_in_two_tiles_on_paper() -> None:
    """A multiplier: 48 cycles of loads, 2 tiles of 64 products, 32 cycles of the last store."""
    tile = LayerOptions(tile={"h": 2, "w": 4, "c": 8}, buffers=2)
    cycles, found = shares(matmul(4, 8, 4), plain_chip(), mm=tile)
    assert cycles == 48 + 128 + 32
    assert found == {name: Fraction(n, cycles) for name, n in (("useful", 128), ("dram", 48), ("last_results", 32))}


def test_multipliers_without_work_are_edges_or_arrays_without_a_tile() -> None:
    """[2, 5] times [5, 3] on three arrays of 4 x 4, a row for each of two: 2 steps, of which 15 products."""
    chip = plain_chip(*FAST, "units.0.instances=3", "units.0.array.unrollings=[{out_channel: 4, in_channel: 4}]")
    cycles, found = shares(matmul(2, 5, 3), chip, mm=LayerOptions(tile={"h": 1, "w": 3, "c": 5}))
    budget = cycles * 3 * 16
    assert found["useful"] == Fraction(2 * 5 * 3, budget)
    assert found["edges"] == Fraction(2 * 2 * 16 - 2 * 5 * 3, budget)
    assert found["idle_instances"] == Fraction(1, 3)
    assert sum(found.values()) == 1


def test_an_array_waits_while_other_units_work() -> None:
    """Rescaling on the vector unit, which takes 2 cycles for each of 512 outputs."""
    chip = plain_chip(*FAST, "output_pipeline.operators=[]", "units.0.array.unrollings=[{out_channel: 8}]")
    cycles, found = shares(conv(8, 16, 8), chip)
    assert found["other_units"] >= Fraction(2 * 512, cycles)
    assert found["padding"] > 0
    assert sum(found.values()) == 1


def test_element_types_at_half_the_rate_fill_the_array_too() -> None:
    chip = plain_chip("units.0.macs_per_cycle={i8xi8: 1/2}")
    cycles, found = shares(matmul(4, 8, 4), chip, mm=LayerOptions(tile={"h": 4, "w": 4, "c": 8}))
    assert found["useful"] == Fraction(2 * 4 * 8 * 4, cycles)
    assert "edges" not in found


def test_runs_and_chips_without_multipliers_have_none() -> None:
    b = GraphBuilder("nothing")
    b.input("x", TensorType((2, 2), I8))
    b.node("same", op_class("reshape")(new_shape=(4,)), ("x",), "y")
    graph = b.finish(("y",))
    assert shares(graph, plain_chip()) == (0, {})
    b = GraphBuilder("sum")
    b.input("x", TensorType((2, 2), I32))
    b.node("add", op_class("maximum")(), ("x", "x"), "y")
    graph = b.finish(("y",))
    cycles, found = shares(graph, plain_chip())
    assert cycles and found == {"other_units": 1}
    chip = plain_chip()
    cycles, found = shares(graph, replace(chip, units=tuple(u for u in chip.units if isinstance(u, VectorUnit))))
    assert cycles and not found


def test_every_stall_has_its_share() -> None:
    assert set(_SHARE_OF_STALL) == set(STALLS)
    assert set(_SHARE_OF_STALL.values()) <= set(SHARES)


@settings(
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(graphs(3), chips())
def test_shares_sum_to_one(graph: Graph, chip: Chip) -> None:
    try:
        result = result_of(graph, chip)
    except DoesNotFitError:
        assume(False)
    found = losses(result.report, result.plan, chip)
    assert sum(found.values()) == (1 if found else 0)
    assert all(share >= 0 for share in found.values()), found
    for layer in result.report.layers:
        assert sum(layer.compute_cycles_by_part.values()) == layer.compute_cycles


@pytest.mark.parametrize("layers", [1, 3])
def test_launches_are_control(layers: int) -> None:
    cycles, found = shares(chain(layers), plain_chip("control.run_cycles=70", "control.layer_cycles=9"))
    assert found["control"] == Fraction(70 + 9 * layers, cycles)

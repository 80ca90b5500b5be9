"""The analytic twin: hand-made bounds, and that no simulation of any tiling, chip or graph goes below them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from npusim import session
from npusim.errors import InternalError
from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import Mapped, map_graph
from npusim.numerics.types import I8, I32
from npusim.ops import op_class
from npusim.report.build import figures
from npusim.session import Job, run
from npusim.timing.bound import Bound, bound_cycles, layer_bounds, run_bound
from npusim.timing.costs import DmaCost, command_costs
from npusim.timing.simulator import simulate_costed
from tests.plain import chain, conv, matmul, plain_chip
from tests.properties.mapped_graphs import SLOW, mapped_graphs
from tests.properties.random_graphs import random_input


def bounds(graph: Graph, chip: Chip, options: MappingOptions | None = None) -> list[Bound]:
    mapped = map_graph(graph, chip, options or MappingOptions())
    costs = command_costs(mapped.program, chip)
    return layer_bounds(mapped.program, [x.cost for x in mapped.plan.layers], chip, costs)


def test_a_product_needs_its_points_and_its_bytes() -> None:
    (bound,) = bounds(matmul(4, 6, 5), plain_chip())
    # 4 * 6 * 5 points at one a cycle; 24 + 30 bytes in and 20 sums of 4 bytes out at one a cycle
    assert bound == {"mac": 120, "dram": 24 + 30 + 80}
    assert bound_cycles(bound) == 134


def test_rates_and_instances_divide_and_fractions_round_up() -> None:
    chip = plain_chip("dram.bytes_per_cycle=3", "units.0.array.unrollings=[{out_channel: 7}]", "units.0.instances=2")
    (bound,) = bounds(matmul(4, 6, 5), chip)
    assert bound == {"mac": Fraction(120, 14), "dram": Fraction(134, 3)} and bound_cycles(bound) == 45


def test_a_tiling_that_reads_twice_does_not_move_the_bound() -> None:
    tile = {"h": 1, "w": 1}
    again = MappingOptions(layers={"mm": LayerOptions(tile=tile, order=("w", "h"), buffers=1)})
    chip = plain_chip()
    assert bounds(matmul(4, 6, 5), chip, again) == bounds(matmul(4, 6, 5), chip)
    costs = command_costs(map_graph(matmul(4, 6, 5), chip, again).program, chip)
    assert sum(c.bytes_moved for c in costs if isinstance(c, DmaCost)) > 134


def test_padding_has_no_bytes() -> None:
    (bound,) = bounds(conv(9, 4, 2, kernel=3, pad=1, rescaled=False), plain_chip())
    weights, bias = 2 * 3 * 3 * 4, 2 * 4
    assert bound["dram"] == 9 * 9 * 4 + weights + bias + 9 * 9 * 2 * 4


def test_a_stride_above_the_kernel_skips_bytes() -> None:
    b = GraphBuilder("strided")
    b.input("x", TensorType((1, 7, 7, 4), I8))
    b.constant("w", TensorType((2, 1, 1, 4), I8), np.ones((2, 1, 1, 4), np.int8))
    b.constant("bias", TensorType((2,), I32), np.zeros(2, np.int32))
    b.node("conv", op_class("conv2d")(pad=(0, 0, 0, 0), stride=(3, 2), dilation=(1, 1)), ("x", "w", "bias"), "y")
    (bound,) = bounds(b.finish(("y",)), plain_chip())
    assert bound["dram"] == 3 * 4 * 4 + 8 + 8 + 3 * 4 * 2 * 4  # rows 0, 3, 6 and columns 0, 2, 4, 6


def test_what_stays_in_sram_does_not_count() -> None:
    first, last = bounds(chain(2), plain_chip())
    constants = 64 + 4 + 1  # matrix, multiplier and shift
    assert first["dram"] == last["dram"] == 64 + constants  # the input, or the output: what lies between stays
    assert run_bound([first, last]) == {"mac": 1024, "dram": 2 * (64 + constants)}


def test_writes_with_a_channel_of_their_own_are_a_resource_of_their_own() -> None:
    write = load_chip("nv_small").dram.write_channel
    assert write is not None
    chip = replace(plain_chip(), dram=replace(plain_chip().dram, write_channel=write))
    (bound,) = bounds(matmul(4, 6, 5), chip)
    assert bound["dram_read"] == 54 and bound["dram_write"] == 80 / Fraction(write.bytes_per_cycle)


@settings(SLOW, max_examples=60)
@given(mapped_graphs())
def test_no_simulation_is_faster_than_its_bounds(case: tuple[Graph, Chip, Mapped]) -> None:
    _, chip, mapped = case
    costs = command_costs(mapped.program, chip)
    timeline = simulate_costed(mapped.program, chip, costs)
    totals, _, layers = figures(mapped.program, mapped.plan, timeline, costs, chip, {})
    assert 0 < totals.bound_cycles <= totals.cycles
    assert totals.bound_cycles >= max(x.bound_cycles for x in layers)
    for layer in layers:
        assert layer.bound_cycles == max(layer.bound_resources.values()) <= layer.span_cycles
        assert layer.estimate_cycles > 0


def test_a_run_below_its_bound_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, chip = matmul(2, 3, 4), plain_chip()
    job = Job(graph, chip, random_input(graph, 0))
    honest = session.figures

    def faster(*arguments: object) -> object:
        totals, engines, layers = honest(*arguments)  # type: ignore[arg-type]
        return totals, engines, tuple(replace(x, bound_cycles=10**6) for x in layers)

    monkeypatch.setattr(session, "figures", faster)
    with pytest.raises(InternalError, match=r"^layer mm: simulated in \d+ cycles, below its bound of 1000000$"):
        run(job)

    def faster_run(*arguments: object) -> object:
        totals, engines, layers = honest(*arguments)  # type: ignore[arg-type]
        return replace(totals, bound_cycles=10**6), engines, layers

    monkeypatch.setattr(session, "figures", faster_run)
    with pytest.raises(InternalError, match=r"^simulated in \d+ cycles, below the bound of 1000000$"):
        run(job)

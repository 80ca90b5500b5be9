"""Commands that overlap on a unit, on paper: reloads beside the stream, drains beside the next, results waited for."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.functional import evaluate_graph, execute
from npusim.graph import Graph
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.mapper import map_graph
from npusim.program import Compute, Queue
from npusim.timing import Timeline, simulate
from npusim.timing.accounting import segments
from npusim.timing.costs import ComputeCost, DmaCost, command_costs
from npusim.timing.simulator import simulate_costed
from tests.plain import chain, compute, load, matmul, plain_chip, program

MAC = Queue("mac", 0)


def overlapped(*overrides: str) -> Chip:
    """A 2 x 2 grid, weights stationary, 6 cycles to reload them, whose tiles follow each other without a gap."""
    grid = ("{kind: systolic, rows: 2, columns: 2, stationary: weights, overlapped_folds: true, reload_cycles: 6, "
            "overlapped_commands: true}")  # fmt: skip
    return plain_chip(f"units.0.array={grid}", *overrides)


def times(timeline: Timeline, *commands: int) -> list[tuple[int, int, int, int]]:
    """(start, begin of the stream, release, finish) of commands."""
    spans = [timeline.spans[c] for c in commands]
    return [(s.start, s.start + s.reload_wait, s.release, s.finish) for s in spans]


def test_a_reload_that_the_stream_before_covers_is_not_seen() -> None:
    """Streams of 10 cycles; 6 to reload. The first reload has nothing to hide behind."""
    p = program(compute(0), compute(1), compute(2))
    timeline = simulate_costed(p, overlapped(), [ComputeCost(10, 1, 0, reload_cycles=6)] * 3)
    assert times(timeline, 0, 1, 2) == [(0, 6, 16, 16), (16, 16, 26, 26), (26, 26, 36, 36)]


def test_a_reload_longer_than_the_stream_before_is_seen_in_part() -> None:
    """Streams of 4: the next weights start into the shadow registers with the stream before, and need 2 cycles more."""
    p = program(compute(0), compute(1), compute(2))
    timeline = simulate_costed(p, overlapped(), [ComputeCost(4, 1, 0, reload_cycles=6)] * 3)
    assert times(timeline, 0, 1, 2) == [(0, 6, 10, 10), (10, 12, 16, 16), (16, 18, 22, 22)]
    assert [s.busy for s in timeline] == [4, 4, 4]


def test_a_reload_starts_when_the_operand_is_there() -> None:
    """Weights arrive in cycles 20 and 40, while the array has nothing to do: all of each reload is seen."""
    p = program(load(0), compute(1, deps=[0]), load(2), compute(3, deps=[2]))
    move = DmaCost(20, 20, 0, 20)
    stream = ComputeCost(4, 1, 0, reload_cycles=6)
    timeline = simulate_costed(p, overlapped(), [move, stream, move, stream])
    assert times(timeline, 1, 3) == [(20, 26, 30, 30), (40, 46, 50, 50)]
    costs = [move, stream, move, stream]
    assert [(x.activity, x.cause, x.end - x.start) for x in segments(p, timeline, costs)[MAC]] == [
        ("load", "dram_read", 20), ("reload", "reload", 6), ("busy", "compute", 4),
        ("load", "dram_read", 10), ("reload", "reload", 6), ("busy", "compute", 4),
    ]  # fmt: skip


def test_the_next_command_streams_while_one_drains() -> None:
    p = program(compute(0), compute(1), compute(2, "vector", deps=[1]))
    costs = [ComputeCost(10, 1, 0, result_cycles=7), ComputeCost(10, 1, 0, result_cycles=7), ComputeCost(3, 1, 1)]
    timeline = simulate_costed(p, overlapped(), costs)
    assert times(timeline, 0, 1, 2) == [(0, 0, 10, 17), (10, 10, 20, 27), (27, 27, 30, 30)]


def test_results_come_in_order() -> None:
    """The second command has less to drain than what is left of the first."""
    p = program(compute(0), compute(1))
    timeline = simulate_costed(
        p, overlapped(), [ComputeCost(10, 1, 0, result_cycles=50), ComputeCost(10, 1, 0, result_cycles=1)]
    )
    assert times(timeline, 0, 1) == [(0, 0, 10, 60), (10, 10, 20, 60)]


def test_partial_sums_do_not_wait_for_the_drain() -> None:
    """[6, 4] times [4, 2]: two tiles of 2 rows of weights add up in place; each streams 6 rows and drains 2 cycles."""
    chip = overlapped("units.0.accumulator_bytes=4096", "units.0.array.reload_cycles=0", "dram.bytes_per_cycle=1000")
    options = MappingOptions(layers={"mm": LayerOptions(tile={"h": 6, "w": 2, "c": 2})})
    p = map_graph(matmul(6, 4, 2), chip, options).program
    first, second = (c.id for c in p if isinstance(c, Compute))
    timeline = simulate(p, chip)
    (_, _, released, _), (start, _, end, finish) = times(timeline, first, second)
    assert released == start and end == start + 6 and finish == end + 2


def two_layers() -> tuple[Graph, MappingOptions]:
    """Two products of [8, 8] with [8, 8], each in tiles of 2 x 2 weights, the first's result in SRAM."""
    tile = {"h": 8, "w": 2, "c": 2}
    layers = {"mm0": LayerOptions(tile=tile, resident=True), "mm1": LayerOptions(tile=tile)}
    return chain(2), MappingOptions(layers=layers)


@pytest.mark.parametrize("accumulator_bytes", [0, 4096])
def test_a_layer_waits_for_the_results_of_the_one_before(accumulator_bytes: int) -> None:
    """Though both are in the queue of one unit; and the bits that come out are right."""
    chip = overlapped(f"units.0.accumulator_bytes={accumulator_bytes}", "output_pipeline.latency_cycles=100")
    graph, options = two_layers()
    p = map_graph(graph, chip, options).program
    timeline = simulate(p, chip)
    last = {c.layer: c.id for c in p if isinstance(c, Compute)}
    begins = next(c.id for c in p if isinstance(c, Compute) and c.layer == 1)
    made_first = next(c.id for c in p if isinstance(c, Compute) and c.layer == 0 and c.last)
    assert timeline.spans[begins].start >= timeline.spans[made_first].finish
    assert made_first in p.commands[begins].deps
    assert timeline.spans[last[1]].start > timeline.spans[last[0]].finish  # its operand is the last result of all
    inputs = {"a": np.arange(64, dtype=np.int8).reshape(1, 8, 8)}
    outputs, _ = execute(p, inputs, timeline.moments)
    want = evaluate_graph(graph, inputs)
    for v in graph.outputs:
        np.testing.assert_array_equal(outputs[v], want[v])


def test_what_the_output_pipeline_takes_after_a_tile() -> None:
    """8 x 2 results at 1 a cycle, beside the array or behind the tile, on a unit that overlaps tiles and on one that
    does not."""
    found = {}
    pipeline = ("output_pipeline.elements_per_cycle=1", "output_pipeline.latency_cycles=5")
    for after in ("false", "true"):
        for unit, overlaps in (("overlapped", "true"), ("ordinary", "false")):
            chip = overlapped(
                *pipeline, f"output_pipeline.after_tile={after}", f"units.0.array.overlapped_commands={overlaps}"
            )
            options = MappingOptions(layers={"mm": LayerOptions(tile={"h": 8, "w": 2, "c": 2})})
            p = map_graph(matmul(8, 2, 2), chip, options).program
            (cost,) = (x for x in command_costs(p, chip) if isinstance(x, ComputeCost))
            found[unit, after] = cost.cycles, cost.reload_cycles, cost.result_cycles
    skew = 2
    assert found["overlapped", "false"] == (16, 6, skew + 5)  # held by the pipeline, then its latency
    assert found["overlapped", "true"] == (8, 6, skew + 16 + 5)
    assert found["ordinary", "false"] == (max(6 + 8 + skew, 16) + 5, 0, 0)
    assert found["ordinary", "true"] == (6 + 8 + skew + 16 + 5, 0, 0)

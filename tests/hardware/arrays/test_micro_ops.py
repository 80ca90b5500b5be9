"""Micro-ops: how often their list starts, counted on paper, ints and arrays alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.hardware.arrays.micro_ops import MicroOps
from npusim.hardware.arrays.unrolled import Unrolled
from npusim.ir.work import Loop
from tests.hardware.tasks import convolution_task, extents

LOOPS: Any = ("in_channel", "column", "kernel_column", "kernel_row", "out_channel", "row")


def steps(*counts: int) -> dict[Loop, int]:
    return {Loop(name): n for name, n in zip(LOOPS, counts, strict=True)}


@pytest.mark.parametrize(
    ("counts", "starts"),
    [
        ((1, 7, 3, 3, 16, 7), 7 * 3),  # the first two loops of more than one step are counters
        ((2, 7, 3, 3, 16, 7), 2 * 7),
        ((1, 28, 1, 1, 4, 7), 28 * 4),
        ((1, 1, 1, 1, 1, 7), 7),
        ((1, 1, 1, 1, 1, 1), 1),
    ],
)
def test_the_outermost_loops_of_several_steps_are_the_counters(counts: tuple[int, ...], starts: int) -> None:
    assert MicroOps(loops=LOOPS, counters=2, fill_cycles=3).start_cycles(steps(*counts)) == 3 * starts


def test_loops_that_are_not_named_are_outside() -> None:
    ops = MicroOps(loops=("row",), counters=1, fill_cycles=1)
    assert ops.start_cycles({Loop.BATCH: 5, Loop.ROW: 4, Loop.COLUMN: 2}) == 5 * 2 * 4


def test_arrays_of_candidates_give_what_ints_give() -> None:
    ops = MicroOps(loops=LOOPS, counters=2, fill_cycles=3)
    counts = [(1, 7, 3, 3, 16, 7), (2, 7, 3, 3, 16, 7), (1, 1, 1, 1, 4, 7)]
    columns = {Loop(name): np.asarray(c) for name, c in zip(LOOPS, zip(*counts, strict=True), strict=True)}
    assert np.asarray(ops.start_cycles(columns)).tolist() == [ops.start_cycles(steps(*c)) for c in counts]


def test_an_unrolled_array_adds_the_starts_to_its_steps() -> None:
    unrollings: Any = ({"out_channel": 16, "in_channel": 16},)
    task = convolution_task((1, 7, 7), 256, (3, 3), 16)
    pairs = list(zip(task.work.dims, extents(task), strict=True))
    plain = Unrolled(kind="unrolled", unrollings=unrollings, stationary="output")
    listed = Unrolled(
        kind="unrolled", unrollings=unrollings, stationary="output",
        micro_ops=MicroOps(loops=LOOPS, counters=2, fill_cycles=3),
    )  # fmt: skip
    assert plain.steps(pairs)[0] == 7 * 7 * 9 * 16
    assert listed.steps(pairs) == (7 * 7 * 9 * 16 + 3 * 7 * 3, *plain.steps(pairs)[1:])


def test_a_loop_that_is_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="loops: row, column, row names a loop twice; name each loop once"):
        MicroOps(loops=("row", "column", "row"), counters=1, fill_cycles=1)

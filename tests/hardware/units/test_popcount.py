"""The popcount unit: words counted one by one."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.config import load_text
from npusim.errors import ConfigError
from npusim.hardware import Task
from npusim.hardware.units.popcount import PopcountUnit
from npusim.ir.taps import dense_points
from npusim.ir.work import Dim, Loop
from tests.hardware.tasks import convolution_task, depthwise_task, extents, product_task

TEXT = "{kind: popcount, instances: 1, lanes: 8, word_bits: 64, pipeline_cycles: 2}"


def popcount(lanes: int, word_bits: int, pipeline_cycles: int = 0) -> PopcountUnit:
    return PopcountUnit(kind="popcount", instances=1, lanes=lanes, word_bits=word_bits, pipeline_cycles=pipeline_cycles)


def enumerated_cycles(task: Task, lanes: int, word_bits: int) -> int:
    """Distinct (position and bit plane, group of lanes, word) over all points."""
    dims = task.work.dims
    seen = set()
    for point in product(*(range(d.extent) for d in dims)):
        position, lane, bit = [], 0, 0
        for d, i in zip(dims, point, strict=True):
            if d.loop is Loop.BIT_PLANE:
                position.append(i)
            elif d.reduce:
                bit = bit * d.extent + i
            elif d.loop in (Loop.CHANNEL, Loop.OUT_CHANNEL):
                lane = i
            else:
                position.append(i)
        seen.add((*position, lane // lanes, bit // word_bits))
    return len(seen)


def in_planes(task: Task, left: int, right: int) -> Task:
    """The task on numbers of ``left`` and ``right`` bits; their extents come last."""
    planes = (
        Dim("a_bit", left, Loop.BIT_PLANE, reduce=True, splittable=False),
        Dim("b_bit", right, Loop.BIT_PLANE, reduce=True, splittable=False),
    )
    return dataclasses.replace(task, work=dataclasses.replace(task.work, dims=(*task.work.dims, *planes)))


sizes = st.integers(1, 4)
tasks = st.one_of(
    st.builds(product_task, sizes, st.integers(1, 40), st.integers(1, 20)),
    st.builds(depthwise_task, st.tuples(sizes, sizes, sizes), sizes, st.tuples(sizes, sizes)),
    st.builds(convolution_task, st.tuples(st.just(1), sizes, sizes), sizes, st.tuples(sizes, sizes), sizes),
    st.builds(in_planes, st.builds(product_task, sizes, st.integers(1, 40), st.integers(1, 20)), sizes, sizes),
)


@settings(deadline=None)
@given(tasks, st.integers(1, 9), st.integers(1, 33), st.integers(0, 5))
def test_a_lane_takes_a_word_a_cycle(task: Task, lanes: int, word_bits: int, pipeline_cycles: int) -> None:
    unit = popcount(lanes, word_bits, pipeline_cycles)
    cycles = unit.cycles(task, extents(task))
    assert cycles == enumerated_cycles(task, lanes, word_bits) + pipeline_cycles
    numerator, denominator = unit.peak_per_cycle(task)
    assert dense_points(task.work) * denominator <= cycles * numerator
    assert unit.passes(task, extents(task)) == (1,) * len(task.work.reads)


@settings(deadline=None)
@given(tasks, st.data())
def test_arrays_of_candidates_cost_what_each_costs(task: Task, data: st.DataObject) -> None:
    unit = popcount(8, 64, 3)
    rows = data.draw(st.lists(st.tuples(*[st.integers(1, 99)] * len(extents(task))), min_size=1, max_size=5))
    got = unit.cycles(task, list(np.array(rows).T))
    assert got.tolist() == [unit.cycles(task, row) for row in rows]


def test_cycles_by_hand() -> None:
    """100 bits are two words of 64, 9 outputs two groups of 8 lanes: 4 cycles for each of 3 rows."""
    task = product_task(3, 100, 9)
    assert popcount(8, 64).cycles(task, extents(task)) == 12
    assert popcount(8, 64, 2).cycles(task, extents(task)) == 14
    assert popcount(8, 64).peak_per_cycle(task) == (512, 1)
    assert popcount(8, 64).refuses(task) is None


def test_every_pair_of_bit_planes_takes_a_pass() -> None:
    """Numbers of 2 and 3 bits: six times the cycles, a sixth of the multiply-accumulates a cycle."""
    task = in_planes(product_task(3, 100, 9), 2, 3)
    assert popcount(8, 64, 2).cycles(task, extents(task)) == 6 * 12 + 2
    assert Fraction(*popcount(8, 64).peak_per_cycle(task)) == Fraction(512, 6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lanes: 8", "lanes: -8", "lanes"),
        ("word_bits: 64", "word_bits: 0", "word_bits"),
        (", word_bits: 64", "", "word_bits"),
        ("pipeline_cycles: 2", "pipeline_cycles: two", "pipeline_cycles"),
    ],
)
def test_what_yaml_may_not_say(old: str, new: str, message: str) -> None:
    assert load_text(TEXT, PopcountUnit, "unit") == popcount(8, 64, 2)
    broken: Any = TEXT.replace(old, new)
    assert broken != TEXT
    with pytest.raises(ConfigError, match=message):
        load_text(broken, PopcountUnit, "unit")


def test_words_are_counted_on_the_lanes_that_have_an_output() -> None:
    task = product_task(3, 100, 9)
    assert popcount(8, 64).actions(task, extents(task)) == {"popcount_word": 3 * 9 * 2}
    task = in_planes(task, 2, 3)
    assert popcount(8, 64).actions(task, extents(task)) == {"popcount_word": 3 * 9 * 2 * 6}

"""The vector unit: instructions counted lane by lane."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.config import load_text
from npusim.errors import ConfigError
from npusim.hardware.units.vector import OperatorRate, VectorUnit
from npusim.numerics.types import F32
from tests.hardware.tasks import extents, pool_task, useful_points

TEXT = """
kind: vector
instances: 2
lanes: 8
rates:
  - {cycles: 1, operators: [add, max_pool2d]}
  - {cycles: 3/2, operators: [mul]}
startup_cycles: 5
"""


def vector(lanes: int, cycles: Any, operator: str = "max_pool2d") -> VectorUnit:
    rates = (OperatorRate(cycles=cycles, operators=(operator,)),)
    return VectorUnit(kind="vector", instances=1, lanes=lanes, rates=rates, startup_cycles=9)


sizes = st.integers(1, 4)
tasks = st.builds(
    pool_task, st.just("max_pool2d"), st.tuples(sizes, sizes, sizes), st.integers(1, 9), st.tuples(sizes, sizes)
)
costs = st.fractions(Fraction(1, 3), 16, max_denominator=5)


@settings(deadline=None)
@given(tasks, st.integers(1, 40), costs)
def test_every_point_takes_a_lane_of_an_instruction(task: Any, lanes: int, cost: Fraction) -> None:
    unit = vector(lanes, cost)
    points = list(product(*(range(e) for e in extents(task))))
    instructions = [points[i : i + lanes] for i in range(0, len(points), lanes)]
    time = len(instructions) * cost
    cycles = unit.cycles(task, extents(task))
    assert cycles - 1 < time <= cycles
    numerator, denominator = unit.peak_per_cycle(task)
    assert Fraction(numerator, denominator) == lanes / cost
    assert useful_points(task) * denominator <= cycles * numerator


@settings(deadline=None)
@given(tasks, st.integers(1, 40), costs, st.data())
def test_arrays_of_candidates_cost_what_each_costs(task: Any, lanes: int, cost: Fraction, data: st.DataObject) -> None:
    unit = vector(lanes, cost)
    rows = data.draw(st.lists(st.tuples(*[st.integers(1, 30)] * len(extents(task))), min_size=1, max_size=5))
    got = unit.cycles(task, list(np.array(rows).T))
    assert got.tolist() == [unit.cycles(task, row) for row in rows]


def test_cycles_by_hand() -> None:
    """5 x 5 positions, 3 channels, 2 x 2 taps: 300 points in 38 instructions of 8 lanes."""
    task = pool_task("max_pool2d", (1, 5, 5), 3, (2, 2))
    assert vector(8, 1).cycles(task, extents(task)) == 38
    assert vector(8, "3/2").cycles(task, extents(task)) == 57
    assert vector(8, "1/4").cycles(task, extents(task)) == 10
    assert vector(8, 16).cycles(task, extents(task)) == 608


def test_start_up_is_not_in_the_cycles_of_a_box() -> None:
    """A command pays it once, whatever runs in it."""
    task = pool_task("max_pool2d", (1, 1, 1), 1, (1, 1))
    assert vector(8, 1).cycles(task, extents(task)) == 1


def test_every_operand_is_read_once() -> None:
    task = pool_task("max_pool2d", (1, 5, 5), 3, (2, 2))
    assert vector(8, 1).passes(task, extents(task)) == (1,)


def test_what_the_unit_refuses() -> None:
    unit = load_text(TEXT, VectorUnit, "unit")
    assert unit.refuses(pool_task("max_pool2d", (1, 1, 1), 1, (1, 1))) is None
    assert unit.cycles_per_instruction("mul") == Fraction(3, 2)
    assert unit.cycles_per_instruction("table") is None
    assert unit.refuses(pool_task("table", (1, 1, 1), 1, (1, 1))) == (
        "the vector unit has no table; add it to the unit's rates with its cycles"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[mul]", "[mul, add]", "rates: add named more than once; name an operator with one cost"),
        ("[mul]", "[mul, mul]", "rates: mul named more than once"),
        ("lanes: 8", "lanes: 0", "lanes"),
        ("lanes: 8\n", "", "lanes"),
        ("cycles: 3/2", "cycles: 0", "cycles.*more than 0"),
        ("cycles: 3/2, ", "", "cycles"),
        ("startup_cycles: 5", "startup_cycles: -5", "startup_cycles"),
        ("kind: vector", "kind: simd", "kind"),
    ],
)
def test_what_yaml_may_not_say(old: str, new: str, message: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(ConfigError, match=message):
        load_text(TEXT.replace(old, new), VectorUnit, "unit")


def test_operations_are_cycles_of_the_lanes_that_have_a_point() -> None:
    unit = load_text(TEXT, VectorUnit, "unit")
    task = pool_task("mul", (1, 3, 3), 5, (1, 1))
    assert unit.actions(task, extents(task)) == {"vector_operation": 68}  # 45 points x 3/2 cycles
    boxes = [np.array([e, 1]) for e in extents(task)]
    assert unit.actions(task, boxes)["vector_operation"].tolist() == [68, 2]


def test_floats_need_a_unit_that_declares_them() -> None:
    unit = vector(8, 1)
    task = replace(pool_task("max_pool2d", (1, 4, 4), 8, (2, 2)), operands=(F32,), accumulator=F32)
    assert "does integers only; quantise the model, or declare float32: true" in (unit.refuses(task) or "")
    assert replace(unit, float32=True).refuses(task) is None

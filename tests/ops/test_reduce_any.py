"""Tests of REDUCE_ANY."""

from __future__ import annotations

from itertools import product

from npusim.numerics.types import BOOL
from npusim.ops.reduce_any import ReduceAny
from tests.ops.elementwise import run
from tests.ops.reduction import check_against, check_axis_rule, check_types, sparse


def test_types() -> None:
    check_types(ReduceAny, {"bool": "bool"})


def test_axis_rule() -> None:
    check_axis_rule(ReduceAny, BOOL)


def test_oracle_and_tilings() -> None:
    check_against(ReduceAny, any, BOOL, sparse)


def test_every_line_of_four() -> None:
    lines = list(product([False, True], repeat=4))
    assert run(ReduceAny(1), lines, types=[BOOL]).tolist() == [[any(line)] for line in lines]

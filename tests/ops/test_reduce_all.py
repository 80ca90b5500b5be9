"""Tests of REDUCE_ALL."""

from __future__ import annotations

from itertools import product

from npusim.numerics.types import BOOL
from npusim.ops.reduce_all import ReduceAll
from tests.ops.elementwise import run
from tests.ops.reduction import check_against, check_axis_rule, check_types, sparse


def test_types() -> None:
    check_types(ReduceAll, {"bool": "bool"})


def test_axis_rule() -> None:
    check_axis_rule(ReduceAll, BOOL)


def test_oracle_and_tilings() -> None:
    check_against(ReduceAll, all, BOOL, sparse)


def test_every_line_of_four() -> None:
    lines = list(product([False, True], repeat=4))
    assert run(ReduceAll(1), lines, types=[BOOL]).tolist() == [[all(line)] for line in lines]

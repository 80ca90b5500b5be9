"""Tests of LOGICAL_NOT."""

from __future__ import annotations

from npusim.numerics.types import BOOL
from npusim.ops.logical_not import LogicalNot
from tests.ops.elementwise import check_against, check_types, run


def test_types() -> None:
    check_types(LogicalNot(), {("bool",): "bool"})


def test_truth_table() -> None:
    assert run(LogicalNot(), [False, True], types=[BOOL]).tolist() == [True, False]


def test_oracle_and_tilings() -> None:
    check_against(LogicalNot(), lambda x: not x, [BOOL])

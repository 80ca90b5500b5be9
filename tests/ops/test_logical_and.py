"""Tests of LOGICAL_AND."""

from __future__ import annotations

from npusim.numerics.types import BOOL
from npusim.ops.logical_and import LogicalAnd
from tests.ops.elementwise import check_against, check_broadcast_rules, check_types, run


def test_types() -> None:
    check_types(LogicalAnd(), {("bool", "bool"): "bool"})


def test_broadcast_rules() -> None:
    check_broadcast_rules(LogicalAnd(), [BOOL, BOOL])


def test_truth_table() -> None:
    out = run(LogicalAnd(), [[False], [True]], [[False, True]], types=[BOOL, BOOL])
    assert out.tolist() == [[False, False], [False, True]]


def test_oracle_and_tilings() -> None:
    check_against(LogicalAnd(), lambda a, b: a and b, [BOOL, BOOL])

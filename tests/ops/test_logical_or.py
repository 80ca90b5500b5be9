"""Tests of LOGICAL_OR."""

from __future__ import annotations

from npusim.numerics.types import BOOL
from npusim.ops.logical_or import LogicalOr
from tests.ops.elementwise import check_against, check_broadcast_rules, check_types, run


def test_types() -> None:
    check_types(LogicalOr(), {("bool", "bool"): "bool"})


def test_broadcast_rules() -> None:
    check_broadcast_rules(LogicalOr(), [BOOL, BOOL])


def test_truth_table() -> None:
    out = run(LogicalOr(), [[False], [True]], [[False, True]], types=[BOOL, BOOL])
    assert out.tolist() == [[False, True], [True, True]]


def test_oracle_and_tilings() -> None:
    check_against(LogicalOr(), lambda a, b: a or b, [BOOL, BOOL])

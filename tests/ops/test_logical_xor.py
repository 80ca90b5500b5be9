"""Tests of LOGICAL_XOR."""

from __future__ import annotations

from npusim.numerics.types import BOOL
from npusim.ops.logical_xor import LogicalXor
from tests.ops.elementwise import check_against, check_broadcast_rules, check_types, run


def test_types() -> None:
    check_types(LogicalXor(), {("bool", "bool"): "bool"})


def test_broadcast_rules() -> None:
    check_broadcast_rules(LogicalXor(), [BOOL, BOOL])


def test_truth_table() -> None:
    out = run(LogicalXor(), [[False], [True]], [[False, True]], types=[BOOL, BOOL])
    assert out.tolist() == [[False, True], [True, False]]


def test_oracle_and_tilings() -> None:
    check_against(LogicalXor(), lambda a, b: a is not b, [BOOL, BOOL])

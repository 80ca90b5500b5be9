"""Tests of MAXIMUM."""

from __future__ import annotations

from npusim.numerics.types import I32
from npusim.ops.maximum import Maximum
from tests.ops.elementwise import check_against, check_broadcast_rules, check_types, run


def test_types() -> None:
    check_types(Maximum(), {("i32", "i32"): "i32"})


def test_broadcast_rules() -> None:
    check_broadcast_rules(Maximum(), [I32, I32])


def test_oracle_and_tilings() -> None:
    check_against(Maximum(), max, [I32, I32])


def test_extremes() -> None:
    out = run(Maximum(), [-(2**31), 2**31 - 1, 0], [2**31 - 1, 2**31 - 2, -1], types=[I32, I32])
    assert out.tolist() == [2147483647, 2147483647, 0]

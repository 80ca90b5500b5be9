"""Tests of SELECT."""

from __future__ import annotations

import pytest

from npusim.numerics.types import BOOL, I8, I16, I32, DType
from npusim.ops.select import Select
from tests.ops.elementwise import check_against, check_broadcast_rules, check_types, run


def test_types() -> None:
    check_types(Select(), {("bool", t, t): t for t in ("bool", "i8", "i16", "i32")})


def test_broadcast_rules() -> None:
    check_broadcast_rules(Select(), [BOOL, I8, I8])


@pytest.mark.parametrize("dtype", [BOOL, I8, I16, I32], ids=str)
def test_oracle_and_tilings(dtype: DType) -> None:
    check_against(Select(), lambda c, a, b: a if c else b, [BOOL, dtype, dtype], trials=18)


def test_a_condition_that_broadcasts() -> None:
    out = run(Select(), [[True], [False]], [[1, 2, 3]], [[-1], [-2]], types=[BOOL, I16, I16])
    assert out.tolist() == [[1, 2, 3], [-2, -2, -2]]

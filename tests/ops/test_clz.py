"""Tests of CLZ."""

from __future__ import annotations

from npusim.numerics.types import I32
from npusim.ops.clz import Clz
from tests.ops.elementwise import check_against, check_types, run


def oracle(x: int) -> int:
    return 32 - (x & 0xFFFFFFFF).bit_length()


def test_types() -> None:
    check_types(Clz(), {("i32",): "i32"})


def test_oracle_and_tilings() -> None:
    check_against(Clz(), oracle, [I32])


def test_around_every_power_of_two() -> None:
    values = [v for k in range(32) for v in ((1 << k) - 1, 1 << k, -(1 << k)) if v < 2**31]
    assert run(Clz(), values, types=[I32]).tolist() == [oracle(v) for v in values]
    assert run(Clz(), [0, 1, -1, 2**31 - 1, -(2**31)], types=[I32]).tolist() == [32, 31, 0, 1, 0]

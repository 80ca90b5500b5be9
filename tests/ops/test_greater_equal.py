"""Tests of GREATER_EQUAL."""

from __future__ import annotations

import numpy as np

from npusim.ir.tensor import TensorType
from npusim.numerics.types import I32, Array
from npusim.ops.greater_equal import GreaterEqual
from tests.ops.elementwise import check_against, check_broadcast_rules, check_types, run


def few_values(rng: np.random.Generator, kind: TensorType) -> Array:
    return rng.choice([-(2**31), -1, 0, 2**31 - 1], kind.shape).astype(np.int32)


def test_types() -> None:
    check_types(GreaterEqual(), {("i32", "i32"): "bool"})


def test_broadcast_rules() -> None:
    check_broadcast_rules(GreaterEqual(), [I32, I32])


def test_oracle_and_tilings() -> None:
    check_against(GreaterEqual(), lambda a, b: a >= b, [I32, I32], few_values, few_values)


def test_extremes() -> None:
    out = run(GreaterEqual(), [-(2**31), 7, 2**31 - 1, 0], [2**31 - 1, 7, -(2**31), -1], types=[I32, I32])
    assert out.tolist() == [False, True, True, True]

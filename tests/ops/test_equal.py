"""Tests of EQUAL."""

from __future__ import annotations

import numpy as np

from npusim.ir.tensor import TensorType
from npusim.numerics.types import I32, Array
from npusim.ops.equal import Equal
from tests.ops.elementwise import check_against, check_broadcast_rules, check_types, run


def few_values(rng: np.random.Generator, kind: TensorType) -> Array:
    return rng.choice([-(2**31), -1, 0, 2**31 - 1], kind.shape).astype(np.int32)


def test_types() -> None:
    check_types(Equal(), {("i32", "i32"): "bool"})


def test_broadcast_rules() -> None:
    check_broadcast_rules(Equal(), [I32, I32])


def test_oracle_and_tilings() -> None:
    check_against(Equal(), lambda a, b: a == b, [I32, I32], few_values, few_values)


def test_extremes() -> None:
    out = run(Equal(), [-(2**31), 7, 2**31 - 1, 0], [2**31 - 1, 7, -(2**31), -1], types=[I32, I32])
    assert out.tolist() == [False, True, False, False]

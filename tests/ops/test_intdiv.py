"""Tests of INTDIV."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I32, Array
from npusim.ops.intdiv import IntDiv
from tests.ops.elementwise import check_against, check_broadcast_rules, check_types, run


def oracle(a: int, b: int) -> int:
    magnitude = abs(a) // abs(b)
    return magnitude if (a < 0) == (b < 0) else -magnitude


def divisible(rng: np.random.Generator, kind: TensorType) -> Array:
    """No zero, and no INT32_MIN; small and large magnitudes."""
    magnitude = rng.integers(1, 2**31, kind.shape) >> rng.integers(0, 31, kind.shape)
    return (np.maximum(magnitude, 1) * rng.choice([-1, 1], kind.shape)).astype(np.int32)


def test_types() -> None:
    check_types(IntDiv(), {("i32", "i32"): "i32"})


def test_broadcast_rules() -> None:
    check_broadcast_rules(IntDiv(), [I32, I32])


def test_oracle_and_tilings() -> None:
    check_against(IntDiv(), oracle, [I32, I32], divisible, divisible, trials=24)


def test_truncates_towards_zero() -> None:
    out = run(IntDiv(), [7, -7, 7, -7, -(2**31), -(2**31), 0], [2, 2, -2, -2, 1, 2**31 - 1, -5], types=[I32, I32])
    assert out.tolist() == [3, -3, -3, 3, -(2**31), -1, 0]


def test_division_by_zero_is_unpredictable() -> None:
    with pytest.raises(UnpredictableError, match=r"^intdiv: the divisor must not be 0, got 0 at output index \[1\]"):
        run(IntDiv(), [1, 2], [1, 0], types=[I32, I32])


def test_minimum_by_minus_one_is_unpredictable() -> None:
    with pytest.raises(UnpredictableError, match=r"^intdiv: the quotient must fit i32 .* got 2147483648 at .* \[1\]"):
        run(IntDiv(), [1, -(2**31)], [-1, -1], types=[I32, I32])

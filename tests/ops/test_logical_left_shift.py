"""Tests of LOGICAL_LEFT_SHIFT."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I16, I32, Array, DType
from npusim.ops.logical_left_shift import LogicalLeftShift
from tests.ops.elementwise import all_pairs, check_against, check_broadcast_rules, check_types, expected, run, wrap
from tests.ops.tiling import random_array


def oracle(a: int, b: int, bits: int) -> int:
    return wrap(a << b, bits)


def amounts(rng: np.random.Generator, kind: TensorType) -> Array:
    return rng.integers(0, kind.dtype.bits, kind.shape).astype(kind.dtype.storage)


def test_types() -> None:
    check_types(LogicalLeftShift(), {(t, t): t for t in ("i8", "i16", "i32")})


def test_broadcast_rules() -> None:
    check_broadcast_rules(LogicalLeftShift(), [I8, I8])


@pytest.mark.parametrize("dtype", [I8, I16, I32], ids=str)
def test_oracle_and_tilings(dtype: DType) -> None:
    check_against(LogicalLeftShift(), lambda a, b: oracle(a, b, dtype.bits), [dtype, dtype], random_array, amounts)


@pytest.mark.parametrize("dtype", [I8, I16, I32], ids=str)
def test_extreme_values_by_every_amount(dtype: DType) -> None:
    values = [[v] for v in (dtype.minimum, dtype.minimum + 1, -2, -1, 0, 1, dtype.maximum)]
    every = list(range(dtype.bits))
    out = run(LogicalLeftShift(), values, [every], types=[dtype, dtype])
    assert out.tolist() == [[oracle(v, b, dtype.bits) for b in every] for (v,) in values]


def test_every_int8_by_every_amount() -> None:
    a, b = all_pairs()[0], np.arange(8, dtype=np.int8).reshape(1, 8)
    out = run(LogicalLeftShift(), a, b, types=[I8, I8])
    np.testing.assert_array_equal(out, expected(lambda x, s: oracle(x, s, 8), [a, b]))


@pytest.mark.parametrize("dtype", [I8, I16, I32], ids=str)
@pytest.mark.parametrize("amount", [-1, "width"])
def test_an_amount_outside_the_width_is_unpredictable(dtype: DType, amount: int | str) -> None:
    bad = dtype.bits if amount == "width" else -1
    message = rf"^logical_left_shift: a shift of {dtype} must lie in 0.*, got {bad} at .* \[1\]"
    with pytest.raises(UnpredictableError, match=message):
        run(LogicalLeftShift(), [1, 1], [0, bad], types=[dtype, dtype])

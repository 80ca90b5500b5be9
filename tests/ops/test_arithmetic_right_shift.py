"""Tests of ARITHMETIC_RIGHT_SHIFT."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I16, I32, Array, DType
from npusim.ops.arithmetic_right_shift import ArithmeticRightShift
from tests.ops.elementwise import all_pairs, check_against, check_broadcast_rules, check_types, expected, run
from tests.ops.tiling import random_array


def oracle(rounded: bool) -> Callable[[int, int], int]:
    return lambda a, b: (a + (1 << b >> 1)) >> b if rounded else a >> b


def amounts(rng: np.random.Generator, kind: TensorType) -> Array:
    return rng.integers(0, kind.dtype.bits, kind.shape).astype(kind.dtype.storage)


def test_types() -> None:
    check_types(ArithmeticRightShift(True), {(t, t): t for t in ("i8", "i16", "i32")})


def test_broadcast_rules() -> None:
    check_broadcast_rules(ArithmeticRightShift(True), [I8, I8])


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("dtype", [I8, I16, I32], ids=str)
def test_oracle_and_tilings(dtype: DType, rounded: bool) -> None:
    check_against(ArithmeticRightShift(rounded), oracle(rounded), [dtype, dtype], random_array, amounts)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("dtype", [I8, I16, I32], ids=str)
def test_extreme_values_by_every_amount(dtype: DType, rounded: bool) -> None:
    values = [[v] for v in (dtype.minimum, dtype.minimum + 1, -2, -1, 0, 1, dtype.maximum)]
    every = list(range(dtype.bits))
    out = run(ArithmeticRightShift(rounded), values, [every], types=[dtype, dtype])
    assert out.tolist() == [[oracle(rounded)(v, b) for b in every] for (v,) in values]


@pytest.mark.parametrize("rounded", [False, True])
def test_every_int8_by_every_amount(rounded: bool) -> None:
    a, b = all_pairs()[0], np.arange(8, dtype=np.int8).reshape(1, 8)
    out = run(ArithmeticRightShift(rounded), a, b, types=[I8, I8])
    np.testing.assert_array_equal(out, expected(oracle(rounded), [a, b]))


@pytest.mark.parametrize("dtype", [I8, I16, I32], ids=str)
@pytest.mark.parametrize("amount", [-1, "width"])
def test_an_amount_outside_the_width_is_unpredictable(dtype: DType, amount: int | str) -> None:
    bad = dtype.bits if amount == "width" else -1
    message = rf"^arithmetic_right_shift: a shift of {dtype} must lie in 0.*, got {bad} at .* \[1\]"
    with pytest.raises(UnpredictableError, match=message):
        run(ArithmeticRightShift(True), [1, 1], [0, bad], types=[dtype, dtype])

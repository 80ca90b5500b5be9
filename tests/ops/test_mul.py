"""Tests of MUL."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.numerics.types import I8, I16, I32, DType
from npusim.ops.mul import Mul
from tests.ops.elementwise import all_pairs, check_against, check_broadcast_rules, check_types, expected, run, wrap

LOWEST, HIGHEST = -(2**31), 2**31 - 1


def shifted(a: int, b: int, shift: int) -> int:
    return (a * b + (1 << (shift - 1))) >> shift


def test_types() -> None:
    check_types(Mul(0), {(t, t): "i32" for t in ("i8", "i16", "i32")})


def test_broadcast_rules() -> None:
    check_broadcast_rules(Mul(0), [I8, I8])


@pytest.mark.parametrize("dtype", [I8, I16], ids=str)
def test_oracle_and_tilings(dtype: DType) -> None:
    check_against(Mul(0), lambda a, b: a * b, [dtype, dtype])


def test_without_shift_int32_keeps_the_low_bits() -> None:
    check_against(Mul(0), lambda a, b: wrap(a * b, 32), [I32, I32])
    out = run(Mul(0), [65536, HIGHEST, LOWEST, LOWEST], [65536, 2, -1, LOWEST], types=[I32, I32])
    assert out.tolist() == [0, -2, LOWEST, 0]


@pytest.mark.parametrize("shift", [32, 33, 40, 62, 63])
def test_shifted_oracle_and_tilings(shift: int) -> None:
    check_against(Mul(shift), lambda a, b: shifted(a, b, shift), [I32, I32], trials=6)


def test_all_pairs_of_int8() -> None:
    a, b = all_pairs()
    np.testing.assert_array_equal(run(Mul(0), a, b, types=[I8, I8]), expected(lambda x, y: x * y, [a, b]))


@pytest.mark.parametrize("shift", range(1, 64))
def test_every_shift_on_products_next_to_halves(shift: int) -> None:
    near = [v for k in (-3, -1, 0, 1, 3) for v in ((k << shift >> 1) - 1, k << shift >> 1, (k << shift >> 1) + 1)]
    pairs = [(v, 1) for v in near if LOWEST <= v <= HIGHEST]
    pairs += [(LOWEST, LOWEST), (LOWEST, HIGHEST), (HIGHEST, HIGHEST)]
    pairs = [(a, b) for a, b in pairs if LOWEST <= shifted(a, b, shift) <= HIGHEST]
    a, b = zip(*pairs, strict=True)
    assert run(Mul(shift), a, b, types=[I32, I32]).tolist() == [shifted(x, y, shift) for x, y in pairs]


def test_the_largest_product_with_the_largest_shift_is_exact() -> None:
    assert run(Mul(63), [LOWEST], [LOWEST], types=[I32, I32]).tolist() == [1]  # product plus rounding term is 2**63


def test_a_shifted_product_outside_int32_is_unpredictable() -> None:
    message = r"^mul: the shifted product must fit i32 .* got 2147483648 at output index \[1\]"
    with pytest.raises(UnpredictableError, match=message):
        run(Mul(31), [1, LOWEST], [1, LOWEST], types=[I32, I32])


@pytest.mark.parametrize("shift, dtype, last", [(64, I32, 63), (-1, I32, 63), (1, I8, 0), (3, I16, 0)])
def test_an_illegal_shift_is_unpredictable(shift: int, dtype: DType, last: int) -> None:
    message = rf"^mul: the shift of {dtype} operands must lie in 0\.\.{last}, got {shift} at output index \[0, 0\]"
    with pytest.raises(UnpredictableError, match=message):
        run(Mul(shift), [[1]], [[1]], types=[dtype, dtype])

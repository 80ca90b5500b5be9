"""Tests of BITWISE_XOR."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.numerics.types import I8, I16, I32, DType
from npusim.ops.bitwise_xor import BitwiseXor
from tests.ops.elementwise import all_pairs, check_against, check_broadcast_rules, check_types, expected, run


def oracle(a: int, b: int) -> int:
    return a ^ b


def test_types() -> None:
    check_types(BitwiseXor(), {(t, t): t for t in ("i8", "i16", "i32")})


def test_broadcast_rules() -> None:
    check_broadcast_rules(BitwiseXor(), [I8, I8])


@pytest.mark.parametrize("dtype", [I8, I16, I32], ids=str)
def test_oracle_and_tilings(dtype: DType) -> None:
    check_against(BitwiseXor(), oracle, [dtype, dtype])


def test_all_pairs_of_int8() -> None:
    a, b = all_pairs()
    np.testing.assert_array_equal(run(BitwiseXor(), a, b, types=[I8, I8]), expected(oracle, [a, b]))

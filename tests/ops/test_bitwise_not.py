"""Tests of BITWISE_NOT."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.numerics.types import I8, I16, I32, DType
from npusim.ops.bitwise_not import BitwiseNot
from tests.ops.elementwise import check_against, check_types, run


def test_types() -> None:
    check_types(BitwiseNot(), {(t,): t for t in ("i8", "i16", "i32")})


@pytest.mark.parametrize("dtype", [I8, I16, I32], ids=str)
def test_oracle_and_tilings(dtype: DType) -> None:
    check_against(BitwiseNot(), lambda x: -x - 1, [dtype])


def test_all_int8() -> None:
    x = np.arange(-128, 128)
    assert run(BitwiseNot(), x, types=[I8]).tolist() == list(range(127, -129, -1))

"""Tests of REDUCE_MIN."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I16, I32, DType
from npusim.ops.reduce_min import ReduceMin
from tests.ops.elementwise import run
from tests.ops.reduction import check_against, check_axis_rule, check_types
from tests.ops.tiling import check_tiled


def test_types() -> None:
    check_types(ReduceMin, {t: t for t in ("i8", "i16", "i32")})


def test_axis_rule() -> None:
    check_axis_rule(ReduceMin, I8)


@pytest.mark.parametrize("dtype", [I8, I16, I32], ids=str)
def test_oracle_and_tilings(dtype: DType) -> None:
    check_against(ReduceMin, min, dtype)


def test_example() -> None:
    x = [[3, -128, 7], [127, 0, -1]]
    assert run(ReduceMin(0), x, types=[I8]).tolist() == [[min(a, b) for a, b in zip(*x, strict=True)]]
    assert run(ReduceMin(1), x, types=[I8]).tolist() == [[min(row)] for row in x]


@pytest.mark.parametrize("tile", [1, 3, 64, 1001])
def test_the_extreme_in_any_tile_of_a_long_line(tile: int) -> None:
    for at in (0, 500, 999, 1000):
        x = np.zeros(1001, np.int32)
        x[at] = -(2**31)
        assert check_tiled(ReduceMin(0), [x], [TensorType((1001,), I32)], [tile]).tolist() == [x[at]]

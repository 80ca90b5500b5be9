"""Tests of ABS."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I32, Array
from npusim.ops.abs import Abs
from tests.ops.elementwise import check_against, check_types, run


def symmetric(rng: np.random.Generator, kind: TensorType) -> Array:
    return rng.integers(1 - 2**31, 2**31, kind.shape).astype(np.int32)


def test_types() -> None:
    check_types(Abs(), {("i32",): "i32"})


def test_oracle_and_tilings() -> None:
    check_against(Abs(), abs, [I32], symmetric)


def test_limits() -> None:
    assert run(Abs(), [1 - 2**31, 2**31 - 1, 0], types=[I32]).tolist() == [2**31 - 1, 2**31 - 1, 0]
    with pytest.raises(UnpredictableError, match=r"^abs: the magnitude must fit i32, got -2147483648 at .* \[2\]"):
        run(Abs(), [0, 1, -(2**31)], types=[I32])

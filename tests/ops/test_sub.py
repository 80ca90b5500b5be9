"""Tests of SUB."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I32, Array
from npusim.ops.sub import Sub
from tests.ops.elementwise import check_against, check_broadcast_rules, check_types, run


def half_range(rng: np.random.Generator, kind: TensorType) -> Array:
    return rng.integers(-(2**30), 2**30, kind.shape).astype(np.int32)


def test_types() -> None:
    check_types(Sub(), {("i32", "i32"): "i32"})


def test_broadcast_rules() -> None:
    check_broadcast_rules(Sub(), [I32, I32])


def test_oracle_and_tilings() -> None:
    check_against(Sub(), lambda a, b: a - b, [I32, I32], half_range, half_range)


def test_results_on_the_limits() -> None:
    out = run(Sub(), [-2147483648, 2147483647], [-1, 1], types=[I32, I32])
    assert out.tolist() == [-2147483647, 2147483646]


@pytest.mark.parametrize("a, b", [(-2147483648, 1), (2147483647, -1)])
def test_overflow_is_unpredictable(a: int, b: int) -> None:
    message = rf"^sub: the difference must fit i32 \(.*\), got {a - b} at output index \[0, 1\]; TOSA leaves"
    with pytest.raises(UnpredictableError, match=message):
        run(Sub(), [[0, a]], [[0, b]], types=[I32, I32])

"""Tests of ADD."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import I32, Array
from npusim.ops import evaluate_bound
from npusim.ops.add import Add
from tests.ops.elementwise import check_against, check_broadcast_rules, check_types, run


def half_range(rng: np.random.Generator, kind: TensorType) -> Array:
    return rng.integers(-(2**30), 2**30, kind.shape).astype(np.int32)


def test_types() -> None:
    check_types(Add(), {("i32", "i32"): "i32"})


def test_broadcast_rules() -> None:
    check_broadcast_rules(Add(), [I32, I32])


def test_oracle_and_tilings() -> None:
    check_against(Add(), lambda a, b: a + b, [I32, I32], half_range, half_range)


def test_results_on_the_limits() -> None:
    out = run(Add(), [2147483646, -2147483647], [1, -1], types=[I32, I32])
    assert out.tolist() == [2147483647, -2147483648]


@pytest.mark.parametrize("a, b", [(2147483647, 1), (-2147483648, -1)])
def test_overflow_is_unpredictable(a: int, b: int) -> None:
    message = rf"^add: the sum must fit i32 \(.*\), got {a + b} at output index \[0, 1\]; TOSA leaves"
    with pytest.raises(UnpredictableError, match=message):
        run(Add(), [[0, a]], [[0, b]], types=[I32, I32])


def test_overflow_in_a_tile_names_the_index_of_the_whole_output() -> None:
    kind = TensorType((4, 5), I32)
    tiles = [np.full((2, 2), 1, np.int32), np.array([[0, 0], [0, 2**31 - 1]], np.int32)]
    with pytest.raises(UnpredictableError, match=r"^layer 'x': add: .* at output index \[3, 4\]"):
        Add().step(Add().bind([kind, kind]), None, tiles, Box((2, 3), (4, 5)), Overflow("refuse", "layer 'x': add"))


def test_large_tensors_are_computed_in_pieces() -> None:
    kinds = [TensorType((3, 1, 70_001), I32), TensorType((3, 2, 1), I32)]
    bound = Add().bind(kinds)
    a = np.arange(3 * 70_001, dtype=np.int32).reshape(kinds[0].shape)
    b = np.arange(6, dtype=np.int32).reshape(kinds[1].shape)
    np.testing.assert_array_equal(evaluate_bound(bound, [a, b], Overflow()), a.astype(np.int64) + b)
    a[2, 0, 70_000] = 2**31 - 5
    with pytest.raises(UnpredictableError, match=r"got 2147483648 at output index \[2, 1, 70000\]"):
        evaluate_bound(bound, [a, b], Overflow())

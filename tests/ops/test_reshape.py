"""RESHAPE against flat row-major indices."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ops import evaluate
from npusim.ops.reshape import Reshape
from tests.ops.movement import SEEDS, check_elements, random_operand, random_type


def flat_index(index: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Position of ``index`` in row-major order."""
    at = 0
    for i, n in zip(index, shape, strict=True):
        at = at * n + i
    return at


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_and_whole_keep_row_major_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    old = tuple(int(n) for n in rng.permutation([2, 3, 1, 2, 2]))
    new = [(24,), (4, 6), (6, 1, 4), (3, 2, 2, 2), (1, 24, 1)][seed % 5]
    dtype = random_type(rng)
    x = random_operand(rng, old, dtype)
    flat = [x[i] for i in np.ndindex(old)]
    check_elements(rng, Reshape(new), [x], [dtype], lambda *i: flat[flat_index(i, new)])


def test_scalars() -> None:
    assert evaluate("reshape", [np.int8([[7]])], new_shape=[]).shape == ()
    np.testing.assert_array_equal(evaluate("reshape", [np.int8(7)], new_shape=[1, 1]), [[7]])


@pytest.mark.parametrize(
    ("new_shape", "message"),
    [
        ([2, -1], r"rule new_shape_positive\), got new_shape \[2, -1\]"),
        ([0, 6], r"rule new_shape_positive\), got new_shape \[0, 6\]"),
        ([2, 4], r"rule same_size\), got new_shape \[2, 4\] \(8 elements\) for input \[2, 3\] \(6 elements\)"),
    ],
)
def test_rules(new_shape: list[int], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        evaluate("reshape", [np.zeros((2, 3), np.int8)], new_shape=new_shape)

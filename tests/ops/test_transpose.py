"""TRANSPOSE against a permuted index."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ops import evaluate
from npusim.ops.transpose import Transpose
from tests.ops.movement import SEEDS, check_elements, random_operand, random_shape, random_type


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_and_whole_permute_the_index(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, dtype = random_shape(rng), random_type(rng)
    perms = tuple(int(p) for p in rng.permutation(len(shape)))
    x = random_operand(rng, shape, dtype)
    out = check_elements(
        rng, Transpose(perms), [x], [dtype], lambda *i: x[tuple(i[perms.index(k)] for k in range(x.ndim))]
    )
    assert out.shape == tuple(shape[p] for p in perms)


def test_three_axes_in_a_cycle() -> None:
    x = np.arange(6, dtype=np.int16).reshape(1, 2, 3)
    out = evaluate("transpose", [x], perms=[1, 2, 0])
    np.testing.assert_array_equal(out, [[[0], [1], [2]], [[3], [4], [5]]])


@pytest.mark.parametrize("perms", [[0], [0, 0], [0, 2], [-1, 0], [0, 1, 2]])
def test_perms_rule(perms: list[int]) -> None:
    with pytest.raises(InvalidGraphError, match=r"perms must hold every axis .* \(rule perms\), got perms .* \[2, 3\]"):
        evaluate("transpose", [np.zeros((2, 3), np.int8)], perms=perms)


def test_rank_rule() -> None:
    with pytest.raises(InvalidGraphError, match=r"transpose: .* \(rule rank\), got input \[\]"):
        evaluate("transpose", [np.int8(1)], perms=[])

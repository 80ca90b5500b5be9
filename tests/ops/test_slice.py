"""SLICE against a shifted index."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ops import evaluate
from npusim.ops.slice import Slice
from tests.ops.movement import SEEDS, check_elements, random_operand, random_shape, random_type


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_and_whole_shift_the_index(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, dtype = random_shape(rng), random_type(rng)
    start = tuple(int(rng.integers(n)) for n in shape)
    size = tuple(int(rng.integers(1, n - a + 1)) for n, a in zip(shape, start, strict=True))
    x = random_operand(rng, shape, dtype)
    out = check_elements(
        rng, Slice(start, size), [x], [dtype], lambda *i: x[tuple(a + b for a, b in zip(i, start, strict=True))]
    )
    assert out.shape == size


def test_result_is_not_a_view_of_the_operand() -> None:
    x = np.arange(4, dtype=np.int8)
    assert not np.shares_memory(evaluate("slice", [x], start=[1], size=[2]), x)


@pytest.mark.parametrize(
    ("start", "size", "message"),
    [
        ([0], [1, 1], r"rule one_entry_an_axis\), got start \[0\], size \[1, 1\] for input \[2, 3\]"),
        ([0, 0], [1], r"rule one_entry_an_axis\), got start \[0, 0\], size \[1\] for input \[2, 3\]"),
        ([0, -1], [1, 1], r"rule start\), got start \[0, -1\]"),
        ([0, 0], [1, 0], r"rule size\), got size \[1, 0\]"),
        ([0, 2], [2, 2], r"rule inside\), got start \[0, 2\], size \[2, 2\] for input \[2, 3\]"),
    ],
)
def test_rules(start: list[int], size: list[int], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        evaluate("slice", [np.zeros((2, 3), np.int8)], start=start, size=size)


def test_rank_rule() -> None:
    with pytest.raises(InvalidGraphError, match=r"slice: .* \(rule rank\), got input \[\]"):
        evaluate("slice", [np.int8(1)], start=[], size=[])

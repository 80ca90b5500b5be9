"""REVERSE against an index counted from the other end."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ops import evaluate
from npusim.ops.reverse import Reverse
from tests.ops.movement import SEEDS, check_elements, random_operand, random_shape, random_type


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_and_whole_mirror_the_axis(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, dtype = random_shape(rng), random_type(rng)
    axis = int(rng.integers(len(shape)))
    x = random_operand(rng, shape, dtype)
    check_elements(
        rng, Reverse(axis), [x], [dtype], lambda *i: x[(*i[:axis], shape[axis] - 1 - i[axis], *i[axis + 1 :])]
    )


def test_example() -> None:
    np.testing.assert_array_equal(evaluate("reverse", [np.int8([[1, 2, 3]])], axis=1), [[3, 2, 1]])


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3), 2), ((2, 3), -1), ((), 0)], ids=["too large", "negative", "a scalar has none"]
)
def test_axis_rule(shape: tuple[int, ...], axis: int) -> None:
    with pytest.raises(InvalidGraphError, match=rf"axis must name .* \(rule axis\), got axis {axis} for input"):
        evaluate("reverse", [np.zeros(shape, np.int8)], axis=axis)

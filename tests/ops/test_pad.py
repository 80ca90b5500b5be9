"""PAD against an index that is inside or not."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.numerics.types import DTYPES
from npusim.ops import evaluate
from npusim.ops.pad import Pad
from tests.ops.movement import SEEDS, check_elements, random_operand, random_shape, random_type


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_and_whole_surround_the_input(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, dtype = random_shape(rng, high=3), random_type(rng)
    padding = tuple(int(p) for p in rng.integers(0, 4, 2 * len(shape)))
    const = int(rng.integers(DTYPES[dtype].minimum, DTYPES[dtype].maximum, endpoint=True))
    x = random_operand(rng, shape, dtype)

    def element(*index: int) -> int:
        at = tuple(i - before for i, before in zip(index, padding[::2], strict=True))
        inside = all(0 <= i < n for i, n in zip(at, shape, strict=True))
        return x[at] if inside else const

    out = check_elements(rng, Pad(padding, const), [x], [dtype], element)
    assert out.shape == tuple(n + padding[2 * k] + padding[2 * k + 1] for k, n in enumerate(shape))


def test_example() -> None:
    out = evaluate("pad", [np.int8([[1, 2]])], padding=[0, 1, 2, 0], pad_const=-9)
    np.testing.assert_array_equal(out, [[-9, -9, 1, 2], [-9, -9, -9, -9]])


@pytest.mark.parametrize(
    ("dtype", "padding", "const", "message"),
    [
        ("i8", [0, 0, 0], 0, r"rule two_entries_an_axis\), got padding \[0, 0, 0\] for input \[2, 3\]"),
        ("i8", [0, 0, -1, 0], 0, r"rule padding\), got padding \[0, 0, -1, 0\]"),
        ("i8", [0, 0, 1, 0], 128, r"rule pad_const\), got pad_const 128 for i8 \(-128..127\)"),
        ("i4", [0, 0, 1, 0], -8, r"rule pad_const\), got pad_const -8 for i4 \(-7..7\)"),
        ("bool", [0, 0, 1, 0], 2, r"rule pad_const\), got pad_const 2 for bool \(0..1\)"),
    ],
)
def test_rules(dtype: str, padding: list[int], const: int, message: str) -> None:
    x = np.zeros((2, 3), DTYPES[dtype].storage)
    with pytest.raises(InvalidGraphError, match=message):
        evaluate("pad", [x], types=[dtype], padding=padding, pad_const=const)


def test_rank_rule() -> None:
    with pytest.raises(InvalidGraphError, match=r"pad: .* \(rule rank\), got input \[\]"):
        evaluate("pad", [np.int8(1)], padding=[], pad_const=0)

"""TILE against an index modulo the size."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8
from npusim.ops import evaluate
from npusim.ops.tile import Tile
from tests.ops.movement import SEEDS, check_elements, random_operand, random_shape, random_type


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_and_whole_repeat_the_input(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, dtype = random_shape(rng, high=3), random_type(rng)
    multiples = tuple(int(m) for m in rng.integers(1, 4, len(shape)))
    x = random_operand(rng, shape, dtype)
    check_elements(
        rng, Tile(multiples), [x], [dtype], lambda *i: x[tuple(a % n for a, n in zip(i, shape, strict=True))]
    )


def test_only_repeated_axes_are_read_whole() -> None:
    work = Tile((1, 2)).bind([TensorType((6, 4), I8)]).work
    assert work.reads[0].footprint(work.index, Box((2, 5), (3, 6))) == Box((2, 0), (3, 4))


@pytest.mark.parametrize(
    ("multiples", "message"),
    [
        ([2], r"rule one_entry_an_axis\), got multiples \[2\] for input \[2, 3\]"),
        ([2, 0], r"rule multiples\), got multiples \[2, 0\]"),
        ([-1, 1], r"rule multiples\), got multiples \[-1, 1\]"),
    ],
)
def test_rules(multiples: list[int], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        evaluate("tile", [np.zeros((2, 3), np.int8)], multiples=multiples)


def test_rank_rule() -> None:
    with pytest.raises(InvalidGraphError, match=r"tile: .* \(rule rank\), got input \[\]"):
        evaluate("tile", [np.int8(1)], multiples=[])

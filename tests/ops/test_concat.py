"""CONCAT against the input that an index falls in."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8
from npusim.ops import evaluate
from npusim.ops.concat import Concat
from tests.ops.movement import SEEDS, check_elements, random_operand, random_shape, random_type


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_and_whole_join_the_inputs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, dtype = random_shape(rng), random_type(rng)
    axis = int(rng.integers(len(shape)))
    sizes = rng.integers(1, 5, int(rng.integers(1, 5)))
    arrays = [random_operand(rng, (*shape[:axis], int(n), *shape[axis + 1 :]), dtype) for n in sizes]

    def element(*index: int) -> int:
        at = list(index)
        for x in arrays:
            if at[axis] < x.shape[axis]:
                return x[tuple(at)]
            at[axis] -= x.shape[axis]
        raise AssertionError(f"{index} is in no input")

    check_elements(rng, Concat(axis), arrays, [dtype] * len(arrays), element)


def test_a_box_outside_an_input_reads_nothing_of_it() -> None:
    work = Concat(0).bind([TensorType((2, 3), I8), TensorType((4, 3), I8)]).work
    first, second = (a.footprint(work.index, Box((3, 0), (5, 3))) for a in work.reads)
    assert first.clip((2, 3)).size == 0
    assert second == Box((1, 0), (3, 3))


@pytest.mark.parametrize("axis", [2, -1])
def test_axis_rule(axis: int) -> None:
    with pytest.raises(InvalidGraphError, match=rf"rule axis\), got axis {axis} for input \[2, 3\]"):
        evaluate("concat", [np.zeros((2, 3), np.int8)], axis=axis)


@pytest.mark.parametrize("other", [(2, 4), (3,), (2, 3, 1)])
def test_same_sizes_rule(other: tuple[int, ...]) -> None:
    with pytest.raises(InvalidGraphError, match=r"rule same_sizes\), got input \[2, 3\], input\[1\] .* with axis 0"):
        evaluate("concat", [np.zeros((2, 3), np.int8), np.zeros(other, np.int8)], axis=0)


def test_mixed_types() -> None:
    with pytest.raises(InvalidGraphError, match=r"concat: no type rule for input i8, input\[1\] i16"):
        evaluate("concat", [np.int8([1]), np.int16([1])], axis=0)


def test_needs_an_input() -> None:
    with pytest.raises(InvalidGraphError, match="takes 1 or more operands"):
        evaluate("concat", [], axis=0)

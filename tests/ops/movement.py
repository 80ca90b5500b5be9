"""What the tests of the data movement operators share: random operands, and the check against an element oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npusim.ir.tensor import TensorType
from npusim.numerics.types import DTYPES, Array
from npusim.ops import Op
from tests.ops.tiling import check_tiled, indices, random_array, random_tiles

SEEDS = range(12)
MOVED = ("bool", "u1", "u2", "u3", "u4", "i2", "i3", "i4", "u8", "i8", "u16", "i16", "i32", "i48")


def random_shape(rng: np.random.Generator, low: int = 1, high: int = 4) -> tuple[int, ...]:
    """A shape of rank ``low..high`` with sizes 1..5."""
    return tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(low, high + 1))))


def random_type(rng: np.random.Generator) -> str:
    """The name of an element type that can be moved."""
    return str(rng.choice(MOVED))


def random_operand(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Legal values of the type, extremes included."""
    return random_array(rng, TensorType(shape, DTYPES[dtype]))


def check_elements(
    rng: np.random.Generator,
    op: Op,
    arrays: Sequence[Array],
    dtypes: Sequence[str],
    element: Callable[..., Any],
) -> Array:
    """Three random tilings and the whole operator agree, and ``out[i, j, ...] == element(i, j, ...)`` everywhere."""
    types = [TensorType(x.shape, DTYPES[t]) for x, t in zip(arrays, dtypes, strict=True)]
    bound = op.bind(types)
    for _ in range(3):
        out = check_tiled(op, arrays, types, random_tiles(rng, bound.work))
    for index in indices(bound.output.shape):
        assert out[index] == element(*index), index
    return out

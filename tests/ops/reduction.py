"""What every reduction must show: its type table, its rule, and its oracle over random shapes, axes and tilings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import BOOL, DTYPES, Array, DType
from npusim.ops._reduction import Reduction
from tests.ops.tiling import check_tiled, indices, random_array, random_tiles


def check_types(make: Callable[[int], Reduction], legal: Mapping[str, str]) -> None:
    """``make(axis)`` takes exactly the ``legal`` input types, each giving the output type stated."""
    for name, dtype in DTYPES.items():
        if name in legal:
            assert make(1).bind([TensorType((2, 3), dtype)]).output == TensorType((2, 1), DTYPES[legal[name]])
        else:
            with pytest.raises(InvalidGraphError, match=rf"no type rule for input {name}; legal: "):
                make(1).bind([TensorType((2, 3), dtype)])


def check_axis_rule(make: Callable[[int], Reduction], dtype: DType) -> None:
    """An axis that the input does not have is refused; so is every axis of a scalar."""
    for axis, shape in ((-1, (2, 3)), (2, (2, 3)), (0, ())):
        with pytest.raises(InvalidGraphError, match=rf"\(rule axis_in_rank\), got axis {axis} for input \["):
            make(axis).bind([TensorType(shape, dtype)])


def check_against(
    make: Callable[[int], Reduction],
    oracle: Callable[[list[Any]], Any],
    dtype: DType,
    values: Callable[[np.random.Generator, TensorType], Array] = random_array,
) -> None:
    """Random shapes of rank 1..5, every axis, random tilings: equal to ``oracle`` of each line of elements."""
    rng = np.random.default_rng(7)
    for rank in range(1, 6):
        for axis in range(rank):
            kind = TensorType(tuple(int(n) for n in rng.integers(1, 6, rank)), dtype)
            x = values(rng, kind)
            out = check_tiled(make(axis), [x], [kind], random_tiles(rng, make(axis).bind([kind]).work))
            for i in indices(out.shape):
                line = x[(*i[:axis], slice(None), *i[axis + 1 :])].tolist()
                assert out[i].item() == oracle(line)


def sparse(rng: np.random.Generator, kind: TensorType) -> Array:
    """Booleans, one in four of them the rarer value, which alternates."""
    rare = bool(rng.integers(2))
    assert kind.dtype is BOOL
    return np.where(rng.random(kind.shape) < 0.25, rare, not rare)

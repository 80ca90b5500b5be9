"""What every element-wise operator must show: type table, broadcasting rules, and equality with its oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import DTYPES, Array, DType
from npusim.ops import Op, evaluate_bound
from tests.ops.tiling import check_tiled, indices, random_array, random_tiles

Oracle = Callable[..., int | bool]
"""The meaning of one element on Python integers and booleans."""

Values = Callable[[np.random.Generator, TensorType], Array]


def run(op: Op, *arrays: Any, types: Sequence[DType]) -> Array:
    """The whole operator on nested lists or arrays."""
    given = [np.asarray(x, t.storage) for x, t in zip(arrays, types, strict=True)]
    bound = op.bind([TensorType(x.shape, t) for x, t in zip(given, types, strict=True)])
    return evaluate_bound(bound, given, Overflow("refuse", op.name))


def check_types(op: Op, legal: Mapping[tuple[str, ...], str]) -> None:
    """``op`` takes exactly the ``legal`` combinations of operand types, each giving the output type stated."""
    for names in product(DTYPES, repeat=len(op.operands)):
        types = [TensorType((2,), DTYPES[n]) for n in names]
        if names in legal:
            assert op.bind(types).output == TensorType((2,), DTYPES[legal[names]])
        else:
            with pytest.raises(InvalidGraphError, match=rf"^{op.name}: .*\b{names[0]}\b"):
                op.bind(types)


def check_broadcast_rules(op: Op, types: Sequence[DType]) -> None:
    """Operands of unequal rank or of sizes that do not broadcast are refused by name."""
    shapes = [(2, 3), (1, 2, 3), (2, 3)][: len(types)]
    with pytest.raises(InvalidGraphError, match=rf"^{op.name}: .*same rank \(rule same_rank\), got .* \[1, 2, 3\]"):
        op.bind([TensorType(s, t) for s, t in zip(shapes, types, strict=True)])
    shapes = [(2, 3), (1, 2), (2, 1)][: len(types)]
    with pytest.raises(InvalidGraphError, match=rf"^{op.name}: .*\(rule broadcastable\), got .* \[2, 3\], .* \[1, 2\]"):
        op.bind([TensorType(s, t) for s, t in zip(shapes, types, strict=True)])


def check_against(op: Op, oracle: Oracle, types: Sequence[DType], *values: Values, trials: int = 12) -> None:
    """Random shapes of rank 0..5, operands that broadcast, random tilings: equal to ``oracle`` element by element.

    ``values`` makes the elements of each operand; without it they are any of their type.
    """
    rng = np.random.default_rng(2)
    makers = values or (random_array,) * len(types)
    for trial in range(trials):
        shape = tuple(int(n) for n in rng.integers(1, 5, trial % 6))
        whole = trial % len(types)  # the operand that does not broadcast
        shapes = [tuple(n if i == whole or rng.random() < 0.7 else 1 for n in shape) for i in range(len(types))]
        kinds = [TensorType(s, t) for s, t in zip(shapes, types, strict=True)]
        arrays = [make(rng, k) for make, k in zip(makers, kinds, strict=True)]
        out = check_tiled(op, arrays, kinds, random_tiles(rng, op.bind(kinds).work))
        np.testing.assert_array_equal(out, expected(oracle, arrays))


def expected(oracle: Oracle, arrays: Sequence[Array]) -> Array:
    """``oracle`` applied to Python integers, element by element, with broadcasting."""
    full = np.broadcast_arrays(*arrays)
    out = np.empty(full[0].shape, object)
    for i in indices(out.shape):
        out[i] = oracle(*(x[i].item() for x in full))
    return out


def all_pairs() -> tuple[Array, Array]:
    """Two int8 operands that broadcast to all 65536 pairs."""
    x = np.arange(-128, 128).astype(np.int8)
    return x.reshape(256, 1), x.reshape(1, 256)


def wrap(value: int, bits: int) -> int:
    """The low ``bits`` of ``value`` as a two's complement number."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half

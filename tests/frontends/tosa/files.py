"""Small TOSA files for tests of the conversion, written as bytes and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from npusim.frontends.tosa import (
    TosaBlock,
    TosaFile,
    TosaOperator,
    TosaRegion,
    TosaShape,
    TosaTensor,
    encode_constant,
    read_tosa,
    write_tosa,
)

Operator = tuple[str, Mapping[str, Any], Sequence[str], Sequence[str]]
"""Name, attributes, inputs, outputs."""


def const(name: str, dtype: str, values: ArrayLike) -> TosaTensor:
    """A constant; an operator CONST makes it."""
    array = np.asarray(values)
    return TosaTensor(name, array.shape, dtype, encode_constant(array, dtype))


def var(name: str, dtype: str, values: ArrayLike, variable_name: str = "") -> TosaTensor:
    """A variable with its first value."""
    array = np.asarray(values)
    return TosaTensor(name, array.shape, dtype, encode_constant(array, dtype), True, variable_name)


def tosa_file(
    operators: Sequence[Operator],
    tensors: Sequence[TosaTensor],
    inputs: Sequence[str],
    outputs: Sequence[str],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> TosaFile:
    """A file of one block; constants among ``tensors`` and ``shapes`` get their operators before ``operators``."""
    shapes = shapes or {}
    made: list[Operator] = [("CONST", {}, (), (t.name,)) for t in tensors if t.data and not t.is_variable]
    made += [("CONST_SHAPE", {}, (), (name,)) for name in shapes]
    block = TosaBlock(
        "main",
        tuple(TosaOperator(n, a, tuple(i), tuple(o), k) for k, (n, a, i, o) in enumerate((*made, *operators))),
        {t.name: t for t in tensors},
        {name: TosaShape(name, values) for name, values in shapes.items()},
        tuple(inputs),
        tuple(outputs),
    )
    file = TosaFile((1, 0, 0, False), (TosaRegion("main", (block,)),))
    return read_tosa(write_tosa(file), "test.tosa")

"""Tests of ARGMAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import DTYPES
from npusim.ops.argmax import Argmax
from tests.ops.convolution import bind, evaluate, tensors
from tests.ops.tiling import check_tiled, indices, random_array, random_tiles


@pytest.mark.parametrize("dtype", ["i8", "i16", "f32"])
@pytest.mark.parametrize("seed", range(25))
def test_every_tiling_gives_the_definition(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(map(int, rng.integers(1, 6, rng.integers(1, 6))))
    op = Argmax(int(rng.integers(0, len(shape))))
    kinds = tensors([shape], [dtype])
    x = random_array(rng, kinds[0])
    if seed % 3 == 0:
        x = np.clip(x, -2, 2).astype(x.dtype)
    got = check_tiled(op, [x], kinds, random_tiles(rng, op.bind(kinds).work))
    for index in indices(got.shape):
        line = x[(*index[: op.axis], slice(None), *index[op.axis :])].tolist()
        assert got[index] == line.index(max(line))


def test_the_first_of_equal_maxima_wins() -> None:
    rows = [[5, 7, 7, 3], [-128] * 4, [127, 127, 0, 127]]
    assert evaluate(Argmax(1), [rows], ["i8"]).tolist() == [1, 0, 0]
    assert evaluate(Argmax(0), [[[1, 1], [2, 0], [2, 1]]], ["i8"]).tolist() == [1, 0]


def test_a_vector_gives_a_scalar() -> None:
    got = evaluate(Argmax(0), [[3, 9, 9]], ["i16"])
    assert got.shape == () and got.dtype == np.int32 and got == 1


def test_a_nan_is_never_the_largest() -> None:
    nan, inf = np.nan, np.inf
    x = [[nan, 1, 2], [nan, nan, nan], [-inf, nan, -inf], [inf, nan, inf]]
    assert evaluate(Argmax(1), [x], ["f32"]).tolist() == [2, 0, 0, 0]


@pytest.mark.parametrize("axis", [-1, 2])
def test_axis_must_exist(axis: int) -> None:
    with pytest.raises(InvalidGraphError, match=rf"argmax: .*rule axis_range\), got axis {axis} for input \[3, 4\]"):
        bind(Argmax(axis), [(3, 4)], ["i8"])


def test_every_index_must_be_an_int32() -> None:
    with pytest.raises(InvalidGraphError, match=r"rule index_fits\), got input \[2147483648\]"):
        Argmax(0).bind([TensorType((1 << 31,), DTYPES["i8"])])


@pytest.mark.parametrize("dtype", ["i32", "bool", "i4"])
def test_types(dtype: Any) -> None:
    with pytest.raises(InvalidGraphError, match=f"argmax: no type rule for input {dtype}"):
        bind(Argmax(0), [(3, 4)], [dtype])


def test_the_axis_is_never_split() -> None:
    work = Argmax(1).bind(tensors([(2, 3, 4)], ["i8"])).work
    assert [(d.extent, d.reduce, d.splittable) for d in work.dims] == [
        (2, False, True),
        (4, False, True),
        (3, True, False),
    ]

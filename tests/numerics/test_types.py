"""Element types: their ranges, their numpy storage, and the search for a value that is none of theirs."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.numerics.types import (
    BOOL,
    DTYPES,
    F32,
    I4,
    I8,
    I16,
    I32,
    I48,
    U1,
    U8,
    U16,
    Array,
    DType,
    ceil_div,
    first_outside,
)

INTEGERS = [t for t in DTYPES.values() if t.is_integer]


@pytest.mark.parametrize(
    ("dtype", "bits", "minimum", "maximum"),
    [
        (BOOL, 8, 0, 1),
        (U1, 1, 0, 1),
        (I4, 4, -7, 7),
        (I8, 8, -128, 127),
        (U8, 8, 0, 255),
        (I16, 16, -32768, 32767),
        (U16, 16, 0, 65535),
        (I32, 32, -2147483648, 2147483647),
        (I48, 48, -140737488355328, 140737488355327),
    ],
    ids=str,
)
def test_ranges(dtype: DType, bits: int, minimum: int, maximum: int) -> None:
    assert (dtype.bits, dtype.minimum, dtype.maximum) == (bits, minimum, maximum)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_storage_holds_the_range_and_the_name_says_the_width(dtype: DType) -> None:
    assert DTYPES[dtype.name] is dtype
    assert str(dtype) == dtype.name
    if dtype.is_integer:
        assert dtype.name == f"{dtype.storage.kind}{dtype.bits}"
        info = np.iinfo(dtype.storage)
        assert info.min <= dtype.minimum < dtype.maximum <= info.max
        assert dtype.maximum.bit_length() + (dtype.minimum < 0) == dtype.bits
    else:
        assert dtype.storage.kind in "bf"
        assert dtype.storage.itemsize * 8 == dtype.bits


def test_names_and_widths_are_told_apart() -> None:
    assert len({(t.bits, t.storage.kind) for t in DTYPES.values()}) == len(set(DTYPES.values())) == len(DTYPES)
    assert not BOOL.is_integer and not F32.is_integer


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_a_copy_is_the_type_itself(dtype: DType) -> None:
    assert pickle.loads(pickle.dumps(dtype)) is copy.deepcopy(dtype) is copy.copy(dtype) is dtype


# -- ceil_div ---------------------------------------------------------------------------------------------------------


@given(st.integers(-(1 << 80), 1 << 80), st.integers(1, 1 << 80))
def test_division_rounds_up(a: int, b: int) -> None:
    assert ceil_div(a, b) == ceil(Fraction(a, b))


@given(st.lists(st.tuples(st.integers(-(1 << 31), 1 << 31), st.integers(1, 1 << 31)), min_size=1, max_size=6))
def test_division_of_arrays(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs).T
    assert ceil_div(a, b).tolist() == [ceil_div(x, y) for x, y in pairs]
    assert ceil_div(a, 7).tolist() == [ceil_div(x, 7) for x, _ in pairs]


# -- first_outside ----------------------------------------------------------------------------------------------------


def plain_first_outside(x: Array, dtype: DType) -> tuple[int, ...] | None:
    for index in np.ndindex(x.shape):
        if not dtype.minimum <= int(x[index]) <= dtype.maximum:
            return index
    return None


@given(
    st.sampled_from(INTEGERS),
    st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]),
    st.lists(st.integers(1, 4), max_size=3).map(tuple),
    st.data(),
)
def test_the_first_value_outside_in_row_major_order(
    dtype: DType, storage: str, shape: tuple[int, ...], data: st.DataObject
) -> None:
    info = np.iinfo(storage)
    edges = [v + d for v in (dtype.minimum, dtype.maximum, info.min, info.max, 0) for d in (-1, 0, 1)]
    values = st.sampled_from([v for v in edges if info.min <= v <= info.max])
    size = int(np.prod(shape, dtype=np.int64))
    x = np.array(data.draw(st.lists(values, min_size=size, max_size=size)), storage).reshape(shape)
    assert first_outside(x, dtype) == plain_first_outside(x, dtype)
    assert first_outside(x.T, dtype) == plain_first_outside(x.T, dtype)


@pytest.mark.parametrize(
    ("x", "dtype", "expected"),
    [
        ([[1, 2], [8, -8]], I4, (1, 0)),
        ([[1, 2], [7, -8]], I4, (1, 1)),
        ([1 << 47], I48, (0,)),
        ([-(1 << 47), (1 << 47) - 1], I48, None),
        ([0, 1, 2], U1, (2,)),
        ([], I4, None),
        ([1.5, np.inf], F32, None),
        ([True, False], BOOL, None),
        (200, I8, ()),
    ],
)
def test_by_hand(x: Any, dtype: DType, expected: tuple[int, ...] | None) -> None:
    assert first_outside(np.array(x), dtype) == expected


def test_an_index_is_made_of_python_integers() -> None:
    index = first_outside(np.array([[0, 300]]), I8)
    assert index is not None and [type(i) for i in index] == [int, int]

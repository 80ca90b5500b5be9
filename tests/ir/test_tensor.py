"""Tensor types: sizes in elements and in packed bytes."""

from __future__ import annotations

import dataclasses
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.ir.tensor import TensorType, packed_bytes
from npusim.numerics.types import BOOL, DTYPES, F32, I4, I8, I16, I32, I48, U1, U8, U16, DType


@given(st.lists(st.integers(1, 9), max_size=4).map(tuple), st.sampled_from(list(DTYPES.values())))
def test_packed_bytes_are_the_fewest_that_hold_the_bits(shape: tuple[int, ...], dtype: DType) -> None:
    tensor = TensorType(shape, dtype)
    bits = prod(shape) * dtype.bits
    assert tensor.size == prod(shape)
    assert tensor.packed_bytes == packed_bytes(tensor.size, dtype) == len(range(0, bits, 8))


def test_bytes_of_nine_elements() -> None:
    expected = {U1: 2, I4: 5, BOOL: 9, I8: 9, U8: 9, I16: 18, U16: 18, I32: 36, F32: 36, I48: 54}
    assert {t: packed_bytes(9, t) for t in expected} == expected
    assert TensorType((), I48).packed_bytes == 6


def test_text_and_identity() -> None:
    assert str(TensorType((1, 8, 8, 3), I8)) == "1x8x8x3xi8"
    assert str(TensorType((), I32)) == "i32"
    assert TensorType((2, 3), I8) == TensorType((2, 3), I8) != TensorType((3, 2), I8)
    assert len({TensorType((2,), I8), TensorType((2,), I8), TensorType((2,), U8)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        TensorType((2,), I8).shape = (3,)  # type: ignore[misc]

"""Elements as memories and files hold them: int4, int48, bits and whole bytes, there and back."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.ir.tensor import packed_bytes
from npusim.numerics.packing import pack, unpack
from npusim.numerics.types import BOOL, F32, I4, I8, I16, I32, I48, U1, U8, U16, DType


@pytest.mark.parametrize("dtype", [U1, I4, I8, I16, I32, I48, U8, U16], ids=str)
def test_there_and_back(dtype: DType) -> None:
    rng = np.random.default_rng(dtype.bits)
    for shape in ((), (1,), (2,), (7,), (8,), (9,), (3, 5), (2, 3, 4)):
        x = rng.integers(dtype.minimum, dtype.maximum, shape, endpoint=True).astype(dtype.storage)
        data = pack(x, dtype)
        assert (data.dtype, data.ndim, data.size) == (np.uint8, 1, packed_bytes(x.size, dtype))
        np.testing.assert_array_equal(unpack(data, shape, dtype), x, strict=True)


def test_bools_and_floats_there_and_back() -> None:
    for dtype, x in ((BOOL, np.array([True, False, True])), (F32, np.float32([[1.5, -0.0], [np.inf, 2**-140]]))):
        np.testing.assert_array_equal(unpack(pack(x, dtype), x.shape, dtype), x, strict=True)


def test_int4_is_two_in_a_byte_low_nibble_first() -> None:
    assert pack(np.int8([-6, 2, 3, -2, -7]), I4).tobytes().hex() == "2ae309"
    assert unpack(np.frombuffer(bytes.fromhex("2ae309"), np.uint8), (5,), I4).tolist() == [-6, 2, 3, -2, -7]


def test_bits_are_eight_in_a_byte_least_significant_first() -> None:
    assert pack(np.uint8([1, 0, 0, 0, 0, 0, 0, 1, 1]), U1).tolist() == [0x81, 0x01]


def test_int48_is_six_bytes_little_endian_with_its_sign() -> None:
    x = np.array([1, -2, 2**47 - 1, -(2**47)])
    assert pack(x, I48).tobytes().hex() == "010000000000" + "feffffffffff" + "ffffffffff7f" + "000000000080"
    np.testing.assert_array_equal(unpack(pack(x, I48), (4,), I48), x)


def test_wider_integers_are_little_endian() -> None:
    assert pack(np.int16([-2, 258]), I16).tobytes().hex() == "feff0201"
    assert pack(np.int32([258]), I32).tobytes().hex() == "02010000"


@pytest.mark.parametrize("dtype", [U1, I4, I16, I48], ids=str)
def test_transposed_elements_are_packed_in_index_order(dtype: DType) -> None:
    x = (np.arange(12).reshape(3, 4).T % 2).astype(dtype.storage)
    np.testing.assert_array_equal(pack(x, dtype), pack(x.copy(order="C"), dtype))


def test_unpacked_elements_need_no_alignment() -> None:
    memory = np.zeros(9, np.uint8)
    memory[1:] = pack(np.int32([7, -7]), I32)
    assert unpack(memory[1:], (2,), I32).tolist() == [7, -7]

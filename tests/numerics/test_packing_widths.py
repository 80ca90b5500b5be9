"""Packing of elements of every width below a byte, and the order of their bits."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.ir.tensor import packed_bytes
from npusim.numerics.packing import BitOrder, pack, unpack, unpack_bits
from npusim.numerics.types import DTYPES, I2, I3, U1, U2, U3, U4, DType


@pytest.mark.parametrize("dtype", [t for t in DTYPES.values() if t.bits < 8], ids=str)
def test_there_and_back(dtype: DType) -> None:
    rng = np.random.default_rng(dtype.bits)
    for shape in ((), (1,), (3,), (8,), (5, 7), (2, 3, 11)):
        x = rng.integers(dtype.minimum, dtype.maximum, shape, endpoint=True).astype(dtype.storage)
        data = pack(x, dtype)
        assert data.dtype == np.uint8
        assert data.size == packed_bytes(x.size, dtype)
        back = unpack(data, shape, dtype)
        np.testing.assert_array_equal(back, x, strict=True)


@pytest.mark.parametrize("dtype", [U1, U2, U3, U4, I2, I3], ids=str)
def test_elements_follow_each_other_least_significant_bit_first(dtype: DType) -> None:
    x = np.arange(dtype.minimum, dtype.maximum + 1).astype(dtype.storage)
    whole = sum((int(v) & ((1 << dtype.bits) - 1)) << (i * dtype.bits) for i, v in enumerate(x))
    assert int.from_bytes(pack(x, dtype).tobytes(), "little") == whole


def test_the_end_of_the_last_byte_is_zero() -> None:
    assert pack(np.full(3, 7, np.uint8), U3).tolist() == [255, 1]
    assert pack(np.full(3, -1, np.int8), I2).tolist() == [63]


def test_64_bits_of_a_pixel_take_8_bytes_side_by_side() -> None:
    pixels = np.zeros((2, 64), np.uint8)
    pixels[1] = 1
    assert pack(pixels, U1).tolist() == [0] * 8 + [255] * 8


def test_transposed_and_strided_elements() -> None:
    x = np.arange(12, dtype=np.uint8).reshape(3, 4).T[::2] % 8
    np.testing.assert_array_equal(unpack(pack(x, U3), x.shape, U3), x)


@pytest.mark.parametrize(
    ("order", "bits"), [("lsb", [1, 1, 0, 0, 0, 0, 0, 1, 0]), ("msb", [1, 0, 0, 0, 0, 0, 1, 1, 1])]
)
def test_bits_of_files_in_both_orders(order: BitOrder, bits: list[int]) -> None:
    assert unpack_bits(np.array([0b10000011, 0b11111110], np.uint8), (3, 3), order).reshape(-1).tolist() == bits


@pytest.mark.parametrize("size", [0, 1, 3])
def test_files_of_too_few_or_too_many_bytes(size: int) -> None:
    with pytest.raises(ValueError, match=rf"9 bits of shape \[3, 3\] take 2 bytes, got {size}"):
        unpack_bits(np.zeros(size, np.uint8), (3, 3), "lsb")


def test_an_unknown_bit_order() -> None:
    with pytest.raises(ValueError, match="bit order 'big' must be lsb or msb"):
        unpack_bits(np.zeros(1, np.uint8), (8,), "big")  # type: ignore[arg-type]

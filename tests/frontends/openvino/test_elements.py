"""Constants of an IR: their types, and that their bytes are there, neither more nor fewer."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.frontends.openvino.elements import constant_array, integer_range, stated_type
from npusim.frontends.openvino.reader import Layer
from npusim.numerics.types import BOOL, DTYPES, F16, F32, I8, I32, U1


def const(element: str, shape: str, offset: Any, size: Any) -> Layer:
    attributes = {"element_type": element, "shape": shape, "offset": str(offset), "size": str(size)}
    return Layer("0", "c", "Const", "opset1", attributes, (), ())


@pytest.mark.parametrize(("order", "numpy_order"), [("lsb", "little"), ("msb", "big")])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 300])
def test_bits_follow_each_other_in_the_stated_order(
    order: Literal["lsb", "msb"], numpy_order: Literal["little", "big"], count: int
) -> None:
    bits = np.random.default_rng(count).integers(0, 2, (count, 1, 1, 3)).astype(np.uint8)
    raw = np.packbits(bits.reshape(-1), bitorder=numpy_order).tobytes()
    assert len(raw) == (3 * count + 7) // 8
    tensor, array = constant_array(const("u1", f"{count},1,1,3", 5, len(raw)), b"front" + raw + b"back", order)
    assert tensor.dtype is U1
    np.testing.assert_array_equal(array, bits)


def test_numbers_are_little_endian() -> None:
    _, halves = constant_array(const("f16", "2", 0, 4), bytes.fromhex("003c00c0"), "lsb")
    _, words = constant_array(const("i32", "", 0, 4), bytes.fromhex("fe ff ff ff"), "lsb")
    tensor, flags = constant_array(const("boolean", "3", 0, 3), b"\x00\x01\xff", "lsb")
    assert halves.tolist() == [1.0, -2.0]
    assert words.shape == ()
    assert words == -2
    assert tensor.dtype is BOOL
    assert flags.tolist() == [False, True, True]
    for array, dtype in ((halves, F16), (words, I32), (flags, BOOL)):
        assert array.dtype == dtype.storage


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (const("u1", "2,1,3,3", 0, 2), "attribute size 2 is too small: 2x1x3x3xu1 takes 3 bytes"),
        (const("u1", "2,1,3,3", 0, 4), "attribute size 4 is too large: 2x1x3x3xu1 takes 3 bytes"),
        (const("f32", "2", 0, 4), "attribute size 4 is too small: 2xf32 takes 8 bytes"),
        (const("f32", "2", 4, 8), r"its bytes 4\.\.12 lie beyond the \.bin of 8 bytes"),
        (const("f32", "2", "-4", 8), "attribute offset '-4' must be a number of bytes"),
        (const("f32", "2", 0, "1e9"), "attribute size '1e9' must be a number of bytes"),
        (const("f64", "1", 0, 8), "attribute element_type 'f64' must be one of f32, f16"),
        (const("f32", "2,-1", 0, 8), "attribute shape '2,-1' has an empty or dynamic dimension"),
        (const("f32", "0", 0, 0), "attribute shape '0' has an empty or dynamic dimension"),
    ],
)
def test_faults(layer: Layer, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        constant_array(layer, bytes(8), "lsb")


def test_a_shape_may_have_brackets_and_spaces() -> None:
    assert stated_type(const("f32", "[1, 3, 2]", 0, 0)).shape == (1, 3, 2)


def test_range_of_integers_that_a_type_holds() -> None:
    assert integer_range(I8) == (-128, 127)
    for dtype in (F16, F32):
        _, most = integer_range(dtype)
        storage = DTYPES[dtype.name].storage
        assert [int(np.asarray(n).astype(storage)) for n in (most, most + 1)] == [most, most]

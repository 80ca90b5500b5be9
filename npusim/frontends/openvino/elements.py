"""Element types of an OpenVINO IR and the arrays of its constants."""

from __future__ import annotations

from math import prod
from typing import Final, Literal

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.openvino.reader import Layer, dimension
from npusim.ir.tensor import TensorType, packed_bytes
from npusim.numerics.packing import unpack_bits
from npusim.numerics.types import BOOL, F16, F32, I8, I16, I32, U1, U8, U16, Array, DType

ELEMENT_TYPES: Final = {
    "f32": F32, "f16": F16, "i32": I32, "i16": I16, "i8": I8, "u16": U16, "u8": U8, "boolean": BOOL, "u1": U1,
}  # fmt: skip
"""As attributes name them."""

PRECISIONS: Final = {
    "FP32": F32, "FP16": F16, "I32": I32, "I16": I16, "I8": I8, "U16": U16, "U8": U8, "BOOL": BOOL, "U1": U1, "BIN": U1,
}  # fmt: skip
"""As ports name them."""

EXACT_INTEGERS: Final = {F32: 1 << 24, F16: 1 << 11}
"""Up to which magnitude a float type holds every integer."""


def integer_range(dtype: DType) -> tuple[int, int]:
    """The range in which the type holds every integer."""
    largest = EXACT_INTEGERS.get(dtype)
    return (dtype.minimum, dtype.maximum) if largest is None else (-largest, largest)


def stated_type(layer: Layer) -> TensorType:
    """The type that a Parameter or a constant states. Raises InvalidGraphError for one that npusim does not have."""
    element, shape = layer.attributes.get("element_type", ""), layer.attributes.get("shape", "")
    dtype = ELEMENT_TYPES.get(element)
    if dtype is None:
        known = ", ".join(ELEMENT_TYPES)
        raise InvalidGraphError(f"attribute element_type {element!r} must be one of {known}")
    sizes = tuple(map(dimension, shape.strip(" []").split(","))) if shape.strip(" []") else ()
    check_static(f"attribute shape {shape!r}", sizes)
    return TensorType(sizes, dtype)


def check_static(what: str, shape: tuple[int, ...]) -> None:
    """Refuse an empty or open dimension."""
    if any(n < 1 for n in shape):
        raise InvalidGraphError(
            f"{what} has an empty or dynamic dimension; every size must be a number of at least 1: give the model a "
            "static shape before it is exported"
        )


def constant_array(layer: Layer, data: bytes, bit_order: Literal["lsb", "msb"]) -> tuple[TensorType, Array]:
    """Type and array of a constant whose bytes are in ``data``, little-endian; those of u1 follow each other bit by
    bit, the last byte filled up, ``bit_order`` saying which bit of a byte comes first.

    Raises InvalidGraphError if the bytes are not in the file, or are more or fewer than the elements take.
    """
    tensor = stated_type(layer)
    offset, size = (_bytes(layer, name) for name in ("offset", "size"))
    if offset + size > len(data):
        raise InvalidGraphError(
            f"its bytes {offset}..{offset + size} lie beyond the .bin of {len(data)} bytes; take the two files of one "
            "export"
        )
    wanted = packed_bytes(prod(tensor.shape), tensor.dtype)
    if size != wanted:
        raise InvalidGraphError(
            f"attribute size {size} is too {'small' if size < wanted else 'large'}: {tensor} takes {wanted} bytes"
        )
    raw = np.frombuffer(data, np.uint8, size, offset)
    if tensor.dtype is U1:
        return tensor, unpack_bits(raw, tensor.shape, bit_order)
    if tensor.dtype is BOOL:
        return tensor, (raw != 0).reshape(tensor.shape)
    stored = tensor.dtype.storage.newbyteorder("<")
    return tensor, np.frombuffer(raw.tobytes(), stored).astype(tensor.dtype.storage).reshape(tensor.shape)


def _bytes(layer: Layer, name: str) -> int:
    text = layer.attributes.get(name, "")
    number = dimension(text)
    if number < 0:
        raise InvalidGraphError(f"attribute {name} {text!r} must be a number of bytes")
    return number

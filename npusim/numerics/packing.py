"""Packing of elements into memory bytes and back: int48 in six bytes, elements below a byte side by side.

Orders follow TOSA's file format (1.0, "Serialization"): little endian, low nibble first; elements of other widths
below a byte (u1, i2, u3, ...) follow each other bit by bit, least significant bit first, and may cross bytes. The
unused high bits of a last partial byte are zero.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from npusim.numerics.types import I4, I48, U1, Array, DType

Bytes = NDArray[np.uint8]

BitOrder = Literal["lsb", "msb"]
"""Which bit of a byte a file counts first: the least or the most significant one. Memories here count ``lsb``."""


def pack(x: Array, dtype: DType) -> Bytes:
    """The elements of ``x`` (storage type of ``dtype``, any shape, C order) as a flat array of bytes, maybe a view.

    >>> pack(np.array([-6, 2, 3, -2, -7], np.int8), I4).tobytes().hex()
    '2ae309'
    >>> from npusim.numerics.types import I3
    >>> pack(np.array([3, -4, 1], np.int8), I3).tobytes().hex()
    '6300'
    """
    flat = np.ascontiguousarray(x).reshape(-1)
    if dtype is I48:
        return flat.astype("<i8", copy=False).view(np.uint8).reshape(-1, 8)[:, :6].reshape(-1)
    if dtype is I4:
        nibbles = flat.view(np.uint8) & 15
        if nibbles.size % 2:
            nibbles = np.append(nibbles, np.uint8(0))
        return np.asarray(nibbles[0::2] | (nibbles[1::2] << 4), np.uint8)
    if dtype is U1:
        return np.packbits(flat.astype(np.uint8, copy=False), bitorder="little")
    if dtype.bits < 8:
        bits = np.unpackbits(flat.view(np.uint8)[:, None], axis=1, count=dtype.bits, bitorder="little")
        return np.packbits(bits, bitorder="little")
    return flat.view(np.uint8)


def unpack(data: Bytes, shape: tuple[int, ...], dtype: DType) -> Array:
    """Inverse of :func:`pack`; ``data`` has exactly the packed bytes of ``shape``. May be a view of ``data``.

    >>> unpack(np.frombuffer(bytes.fromhex("2ae309"), np.uint8), (5,), I4).tolist()
    [-6, 2, 3, -2, -7]
    """
    count = int(np.prod(shape, dtype=np.int64))
    if dtype is I48:
        wide = np.zeros((count, 8), np.uint8)
        wide[:, :6] = data.reshape(-1, 6)
        wide[:, 6:] = (wide[:, 5:6] >> 7) * 255
        return wide.reshape(-1).view(np.int64).reshape(shape)
    if dtype is I4:
        nibbles = np.empty(data.size * 2, np.uint8)
        nibbles[0::2] = data & 15
        nibbles[1::2] = data >> 4
        return ((nibbles[:count] ^ 8).view(np.int8) - np.int8(8)).reshape(shape)
    if dtype is U1:
        return np.unpackbits(data, count=count, bitorder="little").reshape(shape)
    if dtype.bits < 8:
        bits = np.unpackbits(data, count=count * dtype.bits, bitorder="little").reshape(count, dtype.bits)
        plain = np.packbits(bits, axis=1, bitorder="little").reshape(-1)
        if dtype.minimum == 0:
            return plain.reshape(shape)
        sign = 1 << (dtype.bits - 1)
        return ((plain ^ np.uint8(sign)).view(np.int8) - np.int8(sign)).reshape(shape)
    return np.ascontiguousarray(data).view(dtype.storage).reshape(shape)


def unpack_bits(data: Bytes, shape: tuple[int, ...], order: BitOrder) -> Array:
    """Bits of a file as an array of 0 and 1: flat, ceil(n / 8) bytes, whatever lies behind the last bit is ignored.

    ValueError for too few or too many bytes, and for an unknown ``order``.

    >>> unpack_bits(np.array([0b10110000], np.uint8), (2, 2), "msb").tolist()
    [[1, 0], [1, 1]]
    """
    if order not in ("lsb", "msb"):
        raise ValueError(f"bit order {order!r} must be lsb or msb")
    count = int(np.prod(shape, dtype=np.int64))
    wanted = -(-count // 8)
    if data.size != wanted:
        raise ValueError(f"{count} bits of shape {list(shape)} take {wanted} bytes, got {data.size}")
    return np.unpackbits(data, count=count, bitorder="little" if order == "lsb" else "big").reshape(shape)

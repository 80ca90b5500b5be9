"""Packing of elements into memory bytes and back: int4 two per byte, int48 in six bytes, u1 eight per byte.

Orders follow TOSA's file format (1.0, "Serialization"): little endian, low nibble first; u1 least significant bit
first. The unused high bits of a last partial byte are zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npusim.numerics.types import I4, I48, U1, Array, DType

Bytes = NDArray[np.uint8]


def pack(x: Array, dtype: DType) -> Bytes:
    """The elements of ``x`` (storage type of ``dtype``, any shape, C order) as a flat array of bytes.

    >>> pack(np.array([-6, 2, 3, -2, -7], np.int8), I4).tobytes().hex()
    '2ae309'
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
    return np.ascontiguousarray(data).view(dtype.storage).reshape(shape)

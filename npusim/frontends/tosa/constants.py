"""Bytes of TOSA constants to numpy arrays and back, as vector operations.

Source: the layout that the TOSA serialization library gives constants. Numbers are little endian, elements flattened
in C order; INT4 and INT48 are packed as ``npusim.numerics.packing`` says.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from npusim.errors import FileFormatError, InputError
from npusim.frontends.tosa.records import TosaTensor
from npusim.numerics.packing import pack, unpack
from npusim.numerics.types import I4, I48, ceil_div

_STORED: Final[dict[str, np.dtype[Any]]] = {
    "BOOL": np.dtype("u1"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "SHAPE": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
}
_PACKED: Final = {"INT4": I4, "INT48": I48}
_BITS: Final = {
    **{name: 8 * dtype.itemsize for name, dtype in _STORED.items()},
    **{name: dtype.bits for name, dtype in _PACKED.items()},
}


def decode_constant(tensor: TosaTensor) -> NDArray[Any]:
    """The constant ``tensor`` as a read-only array of its shape, a view of the tensor's bytes where they allow it.

    BOOL gives ``bool`` (any byte but 0 is true), INT4 ``int8`` in -8..7, INT48 and SHAPE ``int64``, the others the
    numpy type of their name. Bytes beyond those that the shape wants must be 0: the TOSA serialization library pads
    constants to eights, ExecuTorch gives a zero point of shape [1] one byte a channel.

    Raises FileFormatError for a wrong number of bytes, a dimension below 1, and element types that are not listed here.
    """
    name, shape, dtype = tensor.name, tensor.shape, tensor.dtype
    if dtype not in _BITS:
        known = ", ".join(_BITS)
        raise FileFormatError(f"constant {name!r} has elements of the unsupported type {dtype}; use one of {known}")
    data = np.frombuffer(tensor.data or b"", np.uint8)
    if min(shape, default=1) < 1:
        raise FileFormatError(f"constant {name!r} has the shape {list(shape)}; give it dimensions of 1 or more")
    wanted = ceil_div(prod(shape) * _BITS[dtype], 8)
    if data.size < wanted or data[wanted:].any():
        raise FileFormatError(
            f"constant {name!r} of type {dtype} and shape {list(shape)} wants {wanted} bytes, {data.size} are given; "
            "the file is damaged or was written wrongly: export it again"
        )
    data = data[:wanted]
    array: NDArray[Any]
    if dtype in _PACKED:
        array = unpack(data, shape, _PACKED[dtype])
    else:
        stored = data.view(_STORED[dtype]).reshape(shape)
        array = np.require(stored, stored.dtype.newbyteorder("="), ["ALIGNED"])
        if dtype == "BOOL":
            array = array != 0
    array.setflags(write=False)
    return array


def encode_constant(array: ArrayLike, dtype: str) -> bytes:
    """The bytes of a constant of TOSA's type ``dtype``, one that ``decode_constant`` reads, with ``array``'s elements.

    Floats are rounded to the type. Raises InputError when an integer does not fit the type's bits (INT4: -8..7), when
    the array's elements are not of the type's kind, or when the type is not supported.
    """
    values = np.asarray(array)
    if dtype not in _BITS:
        raise InputError(f"constants of type {dtype} are not supported; use one of {', '.join(_BITS)}")
    kinds = {"BOOL": "b", "FP16": "f", "FP32": "f"}.get(dtype, "iu")
    if values.dtype.kind not in kinds:
        raise InputError(f"a constant of type {dtype} cannot hold an array of {values.dtype}; convert the array first")
    if kinds == "iu" and values.size:
        limit = 1 << (_BITS[dtype] - 1)
        lowest, highest = int(values.min()), int(values.max())
        if lowest < -limit or highest >= limit:
            held = f"{-limit}..{limit - 1}, the array has {lowest}..{highest}"
            raise InputError(f"a constant of type {dtype} holds {held}; use a wider type")
    if dtype in _PACKED:
        packed = _PACKED[dtype]
        return pack(values.astype(packed.storage), packed).tobytes()
    return values.astype(_STORED[dtype]).tobytes()

"""Element types of tensors: exact integers of a stated width, and how numpy holds one element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""A numpy array of integers, booleans or (for float rows) floats."""


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    ``bits`` is the width in memory (a bool takes a byte, an int48 six bytes, an int4 half a byte, a u1 one bit; others
    below a byte follow each other bit by bit),
    ``minimum``/``maximum`` the inclusive legal range (int4 is -7..7: TOSA 1.0 refuses -8), ``storage`` the numpy
    type of one unpacked element.

    >>> I8.minimum, I8.maximum, I4.minimum, I48.maximum == 2**47 - 1
    (-128, 127, -7, True)
    >>> str(I48), I48.storage
    ('i48', dtype('int64'))
    """

    name: str
    bits: int
    minimum: int
    maximum: int
    storage: np.dtype[Any]

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or unpickled type is the one of that name, so that ``is`` tells types apart everywhere."""
        return _named, (self.name,)

    @property
    def is_integer(self) -> bool:
        """True for the signed and unsigned integers (not for bool and float)."""
        return self.storage.kind in "iu"


def _signed(bits: int, storage: str) -> DType:
    return DType(f"i{bits}", bits, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, np.dtype(storage))


def _unsigned(bits: int, storage: str) -> DType:
    return DType(f"u{bits}", bits, 0, (1 << bits) - 1, np.dtype(storage))


BOOL = DType("bool", 8, 0, 1, np.dtype(np.bool_))
U1, U2, U3, U4 = (_unsigned(n, "u1") for n in (1, 2, 3, 4))
I2, I3 = (_signed(n, "i1") for n in (2, 3))
I4 = DType("i4", 4, -7, 7, np.dtype("i1"))
I8, I16, I32, I48 = _signed(8, "i1"), _signed(16, "i2"), _signed(32, "i4"), _signed(48, "i8")
U8, U16 = _unsigned(8, "u1"), _unsigned(16, "u2")
F16, F32 = DType("f16", 16, 0, 0, np.dtype("f2")), DType("f32", 32, 0, 0, np.dtype("f4"))

DTYPES: dict[str, DType] = {t.name: t for t in (BOOL, U1, U2, U3, U4, I2, I3, I4, I8, I16, I32, I48, U8, U16, F16, F32)}
"""Every element type by name."""


def _named(name: str) -> DType:
    return DTYPES[name]


def ceil_div(a: Any, b: Any) -> Any:
    """``ceil(a / b)`` in integers, for ints and integer arrays alike; ``b`` > 0.

    >>> ceil_div(7, 2), ceil_div(0, 5)
    (4, 0)
    """
    return -(-a // b)


def first_outside(x: Array, dtype: DType) -> tuple[int, ...] | None:
    """Index of the first element outside ``dtype``'s legal range, or None."""
    if not dtype.is_integer or x.size == 0:
        return None
    info = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
    if info is not None and info.min >= dtype.minimum and info.max <= dtype.maximum:
        return None
    if int(x.min()) >= dtype.minimum and int(x.max()) <= dtype.maximum:
        return None
    flat = int(np.argmax((x < dtype.minimum) | (x > dtype.maximum)))
    return tuple(int(i) for i in np.unravel_index(flat, x.shape))

"""What integers a tensor holds and how the popcount unit stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.numerics.types import I2, I3, I4, I8, U1, U2, U3, U4, U8, Array, DType

WIDEST: Final = 8
"""Bits of a factor of the popcount unit."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The integers ``low``..``high``, of ``bipolar`` ones only -1 and +1.

    ``wide`` ones are stored as i8, which the vector unit computes with, the others as narrow as can be.

    >>> Numbers(0, 31).bits, [str(n.dtype) for n in (Numbers(0, 3), Numbers(-1, 1), Numbers(-1, 1, bipolar=True))]
    (5, ['u2', 'i2', 'u1'])
    """

    low: int
    high: int
    bipolar: bool = False
    wide: bool = False

    @property
    def bits(self) -> int:
        """Bits of a two's complement number, or of a binary one where there are no negative ones."""
        if self.low >= 0:
            return max(1, self.high.bit_length())
        return 1 + max((-self.low - 1).bit_length(), self.high.bit_length())

    @property
    def dtype(self) -> DType:
        """The element type. Raises InvalidGraphError for numbers of more than 8 bits, and for wide ones beyond i8."""
        if self.bits > WIDEST or (self.wide and self.high > I8.maximum):
            most = f"{I8.minimum}..{I8.maximum}" if self.wide else f"{WIDEST} bits"
            raise InvalidGraphError(
                f"integers {self.low}..{self.high} do not fit {most}, which is what npusim's low-bit operators take; "
                "quantise to fewer bits"
            )
        if self.packed_signs:
            return U1
        legal = (I8,) if self.wide else (U1, U2, U3, U4, U8, I2, I3, I4, I8)
        return next(t for t in legal if t.minimum <= self.low and self.high <= t.maximum)

    @property
    def packed_signs(self) -> bool:
        """Whether an element is a bit that stands for -1 or +1."""
        return self.bipolar and not self.wide

    def encode(self, numbers: Array) -> Array:
        """The elements that stand for ``numbers``."""
        return (numbers > 0 if self.packed_signs else numbers).astype(self.dtype.storage)

    def operand(self, what: str) -> Mapping[str, Any]:
        """The attributes of a bit-serial operator about the operand ``what`` (input or weight)."""
        if self.packed_signs:
            return {f"{what}_kind": "bipolar"}
        if self.low == -1 and self.high <= 1:
            return {f"{what}_kind": "ternary"}
        bits = self.bits + (self.low >= 0 and self.dtype.minimum < 0)  # the sign of a wide number takes one more
        return {f"{what}_bits": bits} if bits < self.dtype.bits else {}


def annotated(data_type: str) -> Numbers | None:
    """The integers of FINN's data type of that name (BIPOLAR, BINARY, TERNARY, INT2, UINT8, ...); None for others.

    >>> annotated("UINT4"), annotated("FLOAT32")
    (Numbers(low=0, high=15, bipolar=False, wide=False), None)
    """
    if data_type in ("BIPOLAR", "TERNARY"):
        return Numbers(-1, 1, bipolar=data_type == "BIPOLAR")
    kind, digits = data_type.rstrip("0123456789"), data_type[len(data_type.rstrip("0123456789")) :]
    bits = 1 if data_type == "BINARY" else int(digits or 0)
    if not 1 <= bits <= WIDEST or kind not in ("BINARY", "UINT", "INT"):
        return None
    return Numbers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == "INT" else Numbers(0, (1 << bits) - 1)


def product(x: Numbers, w: Numbers, kind: str) -> tuple[str, Mapping[str, Any]]:
    """The operator of the popcount unit that sums products of ``x`` and ``w``, and its attributes about them.

    ``kind`` is matmul or conv2d.
    """
    if x.bipolar and w.bipolar:
        return f"binary_{kind}", {"binarize": "gt0"} if x.wide else {}
    return f"bitserial_{kind}", {**x.operand("input"), **w.operand("weight")}


def sum_range(x: Numbers, w: Numbers, length: int) -> tuple[int, int]:
    """What sums of up to ``length`` products lie in."""
    products = [a * b for a in (x.low, x.high) for b in (w.low, w.high)]
    return length * min(0, *products), length * max(0, *products)


@dataclass(frozen=True)
class Weights:
    """A constant of floats as ``numbers`` times ``scale``, both of its shape; ``range`` is what the numbers may be."""

    numbers: Array
    scale: Array
    range: Numbers

    @staticmethod
    def of_integers(array: Array) -> Weights | None:
        """An array of integers of up to 8 bits as it is (with -1 and +1 alone: bipolar), of any other None."""
        if array.dtype.kind not in "fiu" or not array.size or array.dtype.itemsize > 8:
            return None
        if not np.isfinite(array).all() or (np.abs(array) > 1 << WIDEST).any() or (array != np.trunc(array)).any():
            return None
        low, high = int(array.min()), int(array.max())
        found = Numbers(low, high, bipolar=bool((np.abs(array) == 1).all()) and low < high)
        if found.bits > WIDEST:
            return None
        return Weights(array.astype(np.int64), np.ones(array.shape, np.float32), found)

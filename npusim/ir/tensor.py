"""Tensor types: a shape and an element type."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from npusim.numerics.types import DType, ceil_div


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type of a tensor.

    >>> from npusim.numerics.types import I4, I48
    >>> TensorType((3, 3), I4).packed_bytes, TensorType((2,), I48).packed_bytes, str(TensorType((1, 8), I4))
    (5, 12, '1x8xi4')
    """

    shape: tuple[int, ...]
    dtype: DType

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def packed_bytes(self) -> int:
        """Bytes of the whole tensor as memories hold it, sub-byte elements packed."""
        return packed_bytes(self.size, self.dtype)

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), str(self.dtype)])


def packed_bytes(elements: int, dtype: DType) -> int:
    """Bytes that ``elements`` packed elements of ``dtype`` take.

    >>> from npusim.numerics.types import U1
    >>> packed_bytes(9, U1)
    2
    """
    return int(ceil_div(elements * dtype.bits, 8))

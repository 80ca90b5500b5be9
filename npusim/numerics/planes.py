"""Numbers of a few bits as weighted planes of single bits, and their products by counting ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from npusim.numerics.popcount import Words, count_ones, pack_words, popcount_matmul
from npusim.numerics.types import Array

Kind = Literal["integer", "bipolar", "ternary"]
"""``integer``: binary or two's complement. ``bipolar``: the bit 0 stands for -1, 1 for +1. ``ternary``: -1, 0, +1."""

KINDS = get_args(Kind)

BLOCK = 1 << 20
"""Products summed at a time: a few MiB of counts."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How elements stand for numbers, and the planes they are made of: number = ``constant`` + sum(weight * bit).

    An integer has a plane per bit, of weight 2**k, the top one of a signed integer negative (two's complement).
    A bipolar number is 2 * bit - 1. A ternary one has the planes "not zero" and "negative", of weights 1 and -2.

    >>> Encoding("integer", 3, signed=True).weights, Encoding("integer", 3, signed=True).range
    ((1, 2, -4), (-4, 3))
    >>> Encoding("bipolar").weights, Encoding("bipolar").constant, Encoding("ternary").weights
    ((2,), -1, (1, -2))
    """

    kind: Kind
    bits: int = 1
    signed: bool = False

    @property
    def weights(self) -> tuple[int, ...]:
        """What a one in each plane is worth."""
        if self.kind == "bipolar":
            return (2,)
        if self.kind == "ternary":
            return (1, -2)
        top = self.bits - 1
        return tuple(-(1 << k) if self.signed and k == top else 1 << k for k in range(self.bits))

    @property
    def constant(self) -> int:
        """What an element whose bits are all zero is worth."""
        return -1 if self.kind == "bipolar" else 0

    @property
    def passes(self) -> int:
        """Passes of one-bit work per pass of the other operand; the two of ternary work are counted once a product."""
        return self.bits if self.kind == "integer" else 1

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest number."""
        if self.kind != "integer":
            return -1, 1
        return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if self.signed else (0, (1 << self.bits) - 1)

    def numbers(self, elements: Array) -> NDArray[np.int64]:
        """The numbers that ``elements`` stand for."""
        x = elements.astype(np.int64)
        return 2 * x - 1 if self.kind == "bipolar" else x

    def split(self, elements: Array) -> Iterator[Array]:
        """The planes of ``elements``, integers within :attr:`range` (bipolar: 0 or 1), as arrays of 0 and 1."""
        if self.kind == "bipolar":
            yield elements
        elif self.kind == "ternary":
            yield elements != 0
            yield elements < 0
        else:
            for k in range(self.bits):
                yield (elements >> k) & 1


@dataclass(frozen=True, slots=True)
class Planes:
    """The packed rows [M, W] of every plane of a matrix."""

    words: tuple[Words, ...]
    encoding: Encoding

    @staticmethod
    def of(elements: Array, encoding: Encoding, pack: Callable[[Array], Words] = pack_words) -> Planes:
        """The planes of ``elements`` [M, K], or of whatever ``pack`` makes rows of words of."""
        return Planes(tuple(pack(bits) for bits in encoding.split(elements)), encoding)


def plane_matmul(a: Planes, b: Planes, length: int) -> NDArray[np.int32]:
    """``out[m, n]`` = sum over ``length`` elements of a[m] * b[n], by counting ones in combined planes.

    With a = c + sum_i u_i * a_i and b = d + sum_j v_j * b_j, where a_i and b_j are bits: the sum over i and j of
    u_i * v_j * ones(a_i and b_j), plus d * u_i * ones(a_i), c * v_j * ones(b_j) and c * d * length. Two bipolar rows
    agree in all places but ones(a xor b): length - 2 * ones(a xor b). Bits behind ``length`` are zero in all rows.

    All terms are added modulo 2**32, so the result is exact whenever it fits int32.
    """
    out = np.empty((len(a.words[0]), len(b.words[0])), np.int32)
    step = max(1, BLOCK // max(1, out.shape[1]))
    for top in range(0, len(out), step):
        rows = Planes(tuple(w[top : top + step] for w in a.words), a.encoding)
        out[top : top + step] = _product(rows, b, length)
    return out


def _product(a: Planes, b: Planes, length: int) -> NDArray[np.int32]:
    x, y = a.encoding, b.encoding
    if x.kind == y.kind == "bipolar":
        counts = popcount_matmul(a.words[0], b.words[0], "xor")
        counts *= -2
        counts += np.int32(length)
        return counts
    total = np.full((len(a.words[0]), len(b.words[0])), x.constant * y.constant * length, np.int32)
    for u, p in zip(x.weights, a.words, strict=True):
        for v, q in zip(y.weights, b.words, strict=True):
            counts = popcount_matmul(p, q, "and")
            counts *= u * v
            total += counts
    if y.constant:
        total += _weighted(a, y.constant)[:, None]
    if x.constant:
        total += _weighted(b, x.constant)
    return total


def _weighted(rows: Planes, factor: int) -> NDArray[np.int32]:
    """``factor`` times the sum of each row's numbers, their constants left out."""
    sums = np.zeros(len(rows.words[0]), np.int64)
    for weight, words in zip(rows.encoding.weights, rows.words, strict=True):
        sums += factor * weight * count_ones(words)
    return sums.astype(np.int32)

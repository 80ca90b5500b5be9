"""Exact products of bit matrices: bits packed into 64-bit words, combined by xor or and, and counted."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from npusim.numerics.types import Array, ceil_div

Words = NDArray[np.uint64]
"""Packed bits: along the last axis 64 to a word, unused bits zero."""

Combine = Literal["xor", "and"]
"""``xor`` counts where two rows differ, ``and`` where both hold a one."""

Route = Literal["auto", "numpy", "numba"]
"""Who counts: numpy always can; numba is an optional extra and several times faster. The numbers are the same."""

NUMBA_WORDS = 1 << 24
"""``auto`` takes numba from this many pairs of words on: below, numpy is done before numba is loaded."""

BLOCK = 1 << 15
"""Outputs counted at a time by numpy: their words and counts stay in a second-level cache."""

WORDS_IN_A_BYTE = 3
"""Counts of this many words (3 * 64) add up without leaving a byte."""


def pack_bytes(bits: Array) -> NDArray[np.uint8]:
    """``bits`` (0 or 1, any integer type) packed along the last axis, least significant bit first, zeros behind.

    >>> pack_bytes(np.array([[1, 0, 1, 0, 0, 0, 0, 0, 1]])).tolist()
    [[5, 1]]
    """
    return np.packbits(np.asarray(bits, np.uint8), axis=-1, bitorder="little")


def as_words(rows: NDArray[np.uint8]) -> Words:
    """Rows of packed bytes [..., n] as words [..., ceil(n / 8)], zeros behind.

    Which bit of a word a byte's bit becomes depends on the host's byte order, the same for all rows: no count does.
    """
    length = rows.shape[-1]
    padded = np.zeros((*rows.shape[:-1], int(ceil_div(length, 8)) * 8), np.uint8)
    padded[..., :length] = rows
    return padded.view(np.uint64)


def pack_words(bits: Array) -> Words:
    """``bits`` (0 or 1) [..., n] packed along the last axis: [..., ceil(n / 64)].

    >>> pack_words(np.ones((2, 65), np.uint8)).shape
    (2, 2)
    """
    return as_words(pack_bytes(bits))


def count_ones(words: Words) -> NDArray[np.int64]:
    """Number of ones of each row: [..., w] -> [...]."""
    return np.asarray(np.bitwise_count(words).sum(-1, dtype=np.int64))


def numba_available() -> bool:
    """Whether the optional numba is installed; does not import it."""
    return find_spec("numba") is not None


def popcount_matmul(a: Words, b: Words, combine: Combine, route: Route = "auto") -> NDArray[np.int32]:
    """``out[m, n]`` = number of ones in ``a[m] combine b[n]``, for rows of words a [M, W] and b [N, W].

    Exact: a count is at most 64 * W, which must be below 2**31. ``route`` ``auto`` takes numba where it is installed
    and the product is large enough to pay for loading it. ValueError for shapes that do not match, an unknown
    ``combine`` or ``route``, or a row that is too long.

    >>> rows = pack_words(np.array([[1, 1, 0], [0, 1, 0]]))
    >>> popcount_matmul(rows, rows, "xor").tolist(), popcount_matmul(rows, rows, "and").tolist()
    ([[0, 1], [1, 0]], [[2, 1], [1, 1]])
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"rows of {list(a.shape)} and {list(b.shape)} words cannot be combined")
    if a.shape[1] >= 1 << 25:
        raise ValueError(f"rows of {a.shape[1]} words hold counts beyond int32; at most {(1 << 25) - 1}")
    if combine not in get_args(Combine) or route not in get_args(Route):
        raise ValueError(
            f"combine {combine!r} must be one of {get_args(Combine)}, route {route!r} of {get_args(Route)}"
        )
    if route == "auto":
        large = a.shape[0] * b.shape[0] * a.shape[1] >= NUMBA_WORDS
        route = "numba" if large and numba_available() else "numpy"
    if route == "numba":
        from npusim.numerics.popcount_numba import count

        return count(a, b, combine)
    return _count(a, b, combine)


def _count(a: Words, b: Words, combine: Combine) -> NDArray[np.int32]:
    """The plain twin of the numba kernel: block by block, word by word."""
    rows, columns = len(a), len(b)
    words_a, words_b = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    mix = np.bitwise_xor if combine == "xor" else np.bitwise_and
    out = np.zeros((rows, columns), np.int32)
    width = max(1, min(columns, BLOCK))
    height = max(1, BLOCK // width)
    mixed = np.empty((height, width), np.uint64)
    counts, sums = np.empty((2, height, width), np.uint8)
    for top in range(0, rows, height):
        for left in range(0, columns, width):
            block = out[top : top + height, left : left + width]
            here = tuple(slice(0, n) for n in block.shape)
            x, one, some = mixed[here], counts[here], sums[here]
            some.fill(0)
            for w, (p, q) in enumerate(zip(words_a, words_b, strict=True), 1):
                mix(p[top : top + height, None], q[left : left + width], out=x)
                np.bitwise_count(x, out=one)
                np.add(some, one, out=some)
                if w % WORDS_IN_A_BYTE == 0 or w == len(words_a):
                    np.add(block, some, out=block)
                    some.fill(0)
    return out

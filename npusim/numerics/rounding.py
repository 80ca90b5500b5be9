"""Fixed-point scaling and rounding on integer arrays: TOSA's apply_scale, reciprocal_scale, apply_clip and shifts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from npusim.errors import UnpredictableError
from npusim.numerics.types import I32, I48, Array

LONGEST_RECIPROCAL = 1 << 30
"""Largest n of :func:`reciprocal_scale`: beyond it the multiplier needs more than 31 bits."""


class ScaleError(UnpredictableError):
    """A REQUIRE of a scaling is broken: ``value`` at ``index`` of the broadcast operands, ``message`` says which.

    Left alone it is an unpredictable result like any other; operators catch it to name themselves and the layer.
    """

    def __init__(self, index: tuple[int, ...], value: int, message: str) -> None:
        super().__init__(f"{message}, got {value} at index {list(index)}")
        self.index = index
        self.value = value
        self.message = message


def apply_scale_32(value: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, double_round: bool) -> Array:
    """``value * multiplier / 2**shift`` rounded half up, or in two roundings (TOSA 1.0, apply_scale_32).

    All operands broadcast. Requires 0 <= multiplier < 2**31, 2 <= shift <= 62, value in int32 and
    -2**(shift-1) <= value < 2**(shift-1); ScaleError for the first element that breaks one. Returns int64 in the range
    of int32: under these bounds the product is below 2**62 and the rounding terms below 2**61 + 2**30, so that nothing
    leaves int64.

    >>> apply_scale_32([5, -5], 1 << 30, 31, False).tolist(), int(apply_scale_32(-(1 << 20), 1, 33, True))
    ([3, -2], 0)
    """
    v, m, s = (np.asarray(x, np.int64) for x in (value, multiplier, shift))
    shape = np.broadcast_shapes(v.shape, m.shape, s.shape)
    if v.size == 0:
        return np.zeros(shape, np.int64)
    _require_multiplier(m, (1 << 31) - 1, shape)
    _require_shift(s, shape)
    _require(v, I32.minimum, I32.maximum, "a scaled value must be an int32", shape)
    half = np.int64(1) << (s - 1)
    if v.min() < -half.min() or v.max() >= half.min():
        _refuse_first((v < -half) | (v >= half), v, "a scaled value must lie in -2^(shift-1)..2^(shift-1)-1", shape)
    out = np.multiply(np.broadcast_to(v, shape), m)
    out += half
    if double_round and s.max() > 31:
        sign = np.where(v >= 0, np.int64(1 << 30), np.int64(-(1 << 30)))
        out += sign if s.min() > 31 else np.where(s > 31, sign, 0)
    out >>= s
    return np.asarray(out)


def apply_scale_16(value: ArrayLike, multiplier: ArrayLike, shift: ArrayLike) -> Array:
    """``value * multiplier / 2**shift`` rounded half up, for wide values (TOSA 1.0, apply_scale_16).

    All operands broadcast. Requires 0 <= multiplier < 2**15, 2 <= shift <= 62, value in int48, and a result in int32;
    ScaleError for the first element that breaks one. Returns int64. The product stays below 2**62, the rounding term
    below 2**61.

    >>> apply_scale_16([1 << 40, -3], 16384, 34).tolist()
    [1048576, 0]
    """
    v, m, s = (np.asarray(x, np.int64) for x in (value, multiplier, shift))
    shape = np.broadcast_shapes(v.shape, m.shape, s.shape)
    if v.size == 0:
        return np.zeros(shape, np.int64)
    _require_multiplier(m, (1 << 15) - 1, shape)
    _require_shift(s, shape)
    _require(v, I48.minimum, I48.maximum, "a scaled value must be an int48", shape)
    out = np.multiply(np.broadcast_to(v, shape), m)
    out += np.int64(1) << (s - 1)
    out >>= s
    _require(np.asarray(out), I32.minimum, I32.maximum, "a scaled result must fit int32", shape)
    return np.asarray(out)


def reciprocal_scale(n: ArrayLike) -> tuple[Array, Array]:
    """Multiplier and shift with which :func:`apply_scale_32` divides by ``n`` (TOSA 1.0, reciprocal_scale).

    k = bit_length(n - 1), multiplier = floor((2**30 + 1) * 2**k / n), shift = 30 + k; the effect is a division that
    rounds half away from zero. Requires 1 <= n <= 2**30 (ScaleError), which keeps the multiplier below 2**31.

    >>> [tuple(int(x) for x in reciprocal_scale(n)) for n in (1, 3, 9, 49)]
    [(1073741825, 30), (1431655766, 32), (1908874355, 34), (1402438302, 36)]
    """
    count = np.asarray(n, np.int64)
    _require(count, 1, LONGEST_RECIPROCAL, "a divisor must lie in 1..2^30", count.shape)
    # bit_length(x) is frexp's exponent, and exact because x < 2**30 is a float64.
    k = np.frexp((count - 1).astype(np.float64))[1].astype(np.int64)
    return np.asarray((np.int64((1 << 30) + 1) << k) // count), np.asarray(k + 30)


def apply_clip(value: ArrayLike, minimum: int, maximum: int) -> Array:
    """``min(max(value, minimum), maximum)`` (TOSA 1.0, apply_clip); ValueError unless minimum <= maximum."""
    if minimum > maximum:
        raise ValueError(f"clip range {minimum}..{maximum} is empty")
    return np.asarray(np.clip(value, minimum, maximum))


def rounding_right_shift(value: ArrayLike, shift: ArrayLike) -> Array:
    """``value / 2**shift`` rounded half up: the last bit shifted out is added back; ``shift`` 0 changes nothing.

    Operands broadcast; 0 <= shift <= 63 (ScaleError), any int64 value. Equal to ``(value + 2**(shift-1)) >> shift`` in
    unbounded integers, the rounding of ARITHMETIC_RIGHT_SHIFT and of MUL (TOSA 1.0), without a sum that could
    leave int64.

    >>> rounding_right_shift([5, -5, 6, 7], [1, 1, 2, 0]).tolist()
    [3, -2, 2, 7]
    """
    v, s = np.asarray(value, np.int64), np.asarray(shift, np.int64)
    _require(s, 0, 63, "a shift must lie in 0..63", np.broadcast_shapes(v.shape, s.shape))
    return np.asarray((v >> s) + np.where(s > 0, (v >> np.maximum(s - 1, 0)) & 1, 0))


def _require_multiplier(m: Array, maximum: int, shape: tuple[int, ...]) -> None:
    _require(m, 0, maximum, f"a multiplier must lie in 0..{maximum}", shape)


def _require_shift(s: Array, shape: tuple[int, ...]) -> None:
    _require(s, 2, 62, "a scale shift must lie in 2..62", shape)


def _require(x: Array, minimum: int, maximum: int, message: str, shape: tuple[int, ...]) -> None:
    """ScaleError unless all of ``x``, which broadcasts to ``shape``, lies in the range."""
    if x.size and (x.min() < minimum or x.max() > maximum):
        _refuse_first((x < minimum) | (x > maximum), x, message, shape)


def _refuse_first(bad: Array, x: Array, message: str, shape: tuple[int, ...]) -> None:
    """ScaleError for the first element of ``bad`` broadcast to ``shape``, if there is one."""
    bad = np.broadcast_to(bad, shape)
    first = int(np.argmax(bad))
    index = tuple(int(i) for i in np.unravel_index(first, shape))
    if bad[index]:
        raise ScaleError(index, int(np.broadcast_to(x, shape)[index]), message)

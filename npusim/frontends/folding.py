"""Folds float scales, batch norms and quantisers behind an integer sum into thresholds: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from typing import Final

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.numerics.types import Array

ROOT_BITS: Final = 256
"""Fraction bits to which a square root is enclosed; constants of float32 have at most 149."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A real number known to lie in ``low``..``high``; with both equal it is known exactly.

    >>> Interval.of(0.5) * Interval.of(-3) + Interval.of(1)
    Interval(low=Fraction(-1, 2), high=Fraction(-1, 2))
    """

    low: Fraction
    high: Fraction

    @staticmethod
    def of(number: float | int | Fraction) -> Interval:
        """The number itself: every finite float is a fraction."""
        exact = Fraction(number)
        return Interval(exact, exact)

    @property
    def is_exact(self) -> bool:
        """Whether it is one number."""
        return self.low == self.high

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def reciprocal(self) -> Interval:
        """One over a number that is not 0. Raises ZeroDivisionError for one that may be."""
        if self.low <= 0 <= self.high:
            raise ZeroDivisionError(f"1 / {self}")
        return Interval(1 / self.high, 1 / self.low)

    def root(self) -> Interval:
        """The square root of a number that is not negative: exact for squares of fractions, else to ROOT_BITS.

        >>> Interval.of(Fraction(9, 4)).root()
        Interval(low=Fraction(3, 2), high=Fraction(3, 2))
        """
        return Interval(_root(self.low)[0], _root(self.high)[1])


def _root(x: Fraction) -> tuple[Fraction, Fraction]:
    n, d = x.numerator, x.denominator
    if isqrt(n) ** 2 == n and isqrt(d) ** 2 == d:
        exact = Fraction(isqrt(n), isqrt(d))
        return exact, exact
    floor = isqrt((n << 2 * ROOT_BITS) // d)  # the square root of n / d, in units of 2**-ROOT_BITS, rounded down
    return Fraction(floor, 1 << ROOT_BITS), Fraction(floor + 1, 1 << ROOT_BITS)


@dataclass(frozen=True, slots=True)
class Affine:
    """``scale * (x - center) + offset`` in one channel, as real numbers; at the center it is the offset, exactly."""

    scale: Interval
    offset: Interval
    center: Fraction = Fraction(0)

    def at(self, x: int | Fraction) -> Interval:
        """The value at x."""
        return self.scale * Interval.of(x - self.center) + self.offset

    def then(self, other: Affine) -> Affine:
        """This, then ``other``. What is known exactly stays so: centers move, where this is exact and no constant."""
        scale = self.scale * other.scale
        if self.scale.is_exact and self.offset.is_exact and self.scale.low:
            center = self.center + (other.center - self.offset.low) / self.scale.low
            return Affine(scale, other.offset, center)
        return Affine(scale, other.at_interval(self.offset), self.center)

    def at_interval(self, x: Interval) -> Interval:
        """The values at all that x may be."""
        return self.scale * (x - Interval.of(self.center)) + self.offset


def batch_norm(scale: float, bias: float, mean: float, variance: float, epsilon: float) -> Affine:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias (Ioffe and Szegedy, arXiv:1502.03167, algorithm 2)."""
    slope = Interval.of(scale) * (Interval.of(variance) + Interval.of(epsilon)).root().reciprocal()
    return Affine(slope, Interval.of(bias), Fraction(mean))


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where a quantiser steps up: at values above ``at``, and at ``at`` itself if ``inclusive``."""

    at: Fraction
    inclusive: bool


def rounding_boundaries(lowest: int, highest: int) -> tuple[Boundary, ...]:
    """Of rounding to the nearest integer, ties to even, clipped to ``lowest``..``highest``.

    >>> [(str(b.at), b.inclusive) for b in rounding_boundaries(-1, 1)]
    [('-1/2', True), ('1/2', False)]
    """
    half = Fraction(1, 2)
    return tuple(Boundary(k - half, k % 2 == 0) for k in range(lowest + 1, highest + 1))


@dataclass(frozen=True)
class Thresholds:
    """A threshold stage with compare ``ge``: ``values`` [channels, steps] i32, ``invert`` [channels] u1.

    An element's level is the number of thresholds that it reaches, or in inverted channels does not reach.
    """

    values: Array
    invert: Array

    def levels(self, sums: Array) -> Array:
        """Levels of ``sums`` [..., channels]."""
        passed = (sums[..., None] >= self.values).sum(-1)
        return np.asarray(np.where(self.invert.astype(np.bool_), self.values.shape[1] - passed, passed))


def fold(
    where: str,
    channels: Sequence[Affine],
    boundaries: Sequence[Boundary],
    sums: tuple[int, int],
    levels: Callable[[Array], Array],
) -> Thresholds:
    """The thresholds of sums that are the same as ``boundaries`` (ascending) of ``channels[c]`` applied to the sum.

    A slope of one sign makes the level monotone in the sum, so that each boundary becomes one threshold, found by
    bisection in exact arithmetic over the integers of ``sums`` (both ends included), from a guess that is mostly right.
    ``levels`` is the same function in float32 as the model's own runtime evaluates it, from sums [n, channels] to
    levels [n, channels]. Each of its operations rounds monotonically, so it agrees with the thresholds everywhere if it
    does on both sides of each of them, which is checked. Raises InvalidGraphError that starts with ``where`` if it does
    not, or if a value cannot be told from a boundary: there the model's bits depend on how its floats are rounded.
    """
    low, high = sums
    steps = len(boundaries)
    values = np.empty((len(channels), steps), np.int32)
    invert = np.zeros(len(channels), np.uint8)
    for c, affine in enumerate(channels):
        falls = affine.scale.high < 0
        invert[c] = falls
        for k, boundary in enumerate(boundaries):
            # an inverted channel counts the thresholds that are not reached, so its first step up is the last of them
            values[c, k] = _threshold(where, c, affine, boundary, low, high, falls)
    found = Thresholds(values, invert)
    for k in range(steps):
        for side in (values[:, k], values[:, k] - 1):
            at = np.clip(side, low, high)[None, :]
            differs = np.flatnonzero(found.levels(at)[0] != levels(at)[0])
            if differs.size:
                c = int(differs[0])
                raise InvalidGraphError(
                    f"{where} cannot be folded into integer thresholds: in channel {c} the sum {at[0, c]} gives level "
                    f"{found.levels(at)[0, c]} in exact arithmetic and {levels(at)[0, c]} in float32; change its "
                    "constants by more than a rounding error, or compute the operator on the host"
                )
    return found


def _threshold(where: str, channel: int, affine: Affine, boundary: Boundary, low: int, high: int, falls: bool) -> int:
    """The first sum from ``low`` on that passes the boundary (with ``falls``: that no longer does), or high + 1."""

    def turned(y: int) -> bool:
        """Whether the sum y lies at or behind the threshold."""
        value = affine.at(y)
        if value.low > boundary.at:
            return not falls
        if value.high < boundary.at:
            return falls
        if value.is_exact:
            return boundary.inclusive != falls
        raise InvalidGraphError(
            f"{where} cannot be folded into integer thresholds: in channel {channel} the sum {y} lies within "
            f"2^-{ROOT_BITS} of a boundary; change its constants, or compute the operator on the host"
        )

    end = high + 1
    if affine.scale.low:  # the guess: where the lower ends of the values cross the boundary
        near = min(max(ceil((boundary.at - affine.offset.low) / affine.scale.low + affine.center), low), end)
        if near > low and not turned(near - 1):
            low = near
        if near < end and turned(near):
            end = near
    while low < end:
        middle = (low + end) // 2
        if turned(middle):
            end = middle
        else:
            low = middle + 1
    return low

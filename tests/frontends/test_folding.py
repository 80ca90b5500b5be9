"""Folding of floats into thresholds: equal to the real function at every sum, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.errors import InvalidGraphError
from npusim.frontends.folding import (
    Affine,
    Boundary,
    Interval,
    Thresholds,
    batch_norm,
    fold,
    rounding_boundaries,
)
from npusim.numerics.types import Array

SIGN = (Boundary(Fraction(0), True),)
floats = st.floats(-8, 8, width=32)


def float32_batch_norm(constants: Sequence[Sequence[float]], sums: Array) -> Array:
    scale, bias, mean, variance, epsilon = (np.array(c, np.float32) for c in zip(*constants, strict=True))
    return (sums.astype(np.float32) - mean) / np.sqrt(variance + epsilon) * scale + bias


def level_of_real(constants: Sequence[float], boundaries: Sequence[Boundary], y: int) -> int:
    """Boundaries passed by scale * (y - mean) / sqrt(v) + bias, decided without roots: compare squares, with signs."""
    scale, bias, mean, variance, epsilon = map(Fraction, constants)
    passed = 0
    for b in boundaries:
        left, right = scale * (y - mean), b.at - bias  # left / sqrt(v) against right
        a, c = left * abs(left), right * abs(right) * (variance + epsilon)
        passed += a > c or (a == c and b.inclusive)
    return passed


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(floats, floats, floats, st.floats(0.125, 64, width=32)), min_size=1, max_size=4),
    st.sampled_from([SIGN, (Boundary(Fraction(0), False),), rounding_boundaries(-1, 1), rounding_boundaries(-4, 3)]),
)
def test_thresholds_give_the_level_of_the_real_function_at_every_sum(
    channels: list[tuple[float, float, float, float]], boundaries: tuple[Boundary, ...]
) -> None:
    constants = [(*c, 2.0**-10) for c in channels]
    sums = np.arange(-40, 41)
    wanted = np.array([[level_of_real(c, boundaries, int(y)) for c in constants] for y in sums])

    def levels(at: Array) -> Array:
        return np.array(
            [[level_of_real(c, boundaries, int(y)) for c, y in zip(constants, row, strict=True)] for row in at]
        )

    found = fold("BatchNormalization 'bn'", [batch_norm(*c) for c in constants], boundaries, (-40, 40), levels)
    assert (found.levels(np.repeat(sums[:, None], len(constants), 1)) == wanted).all()
    assert found.values.dtype == np.int32 and found.invert.dtype == np.uint8


def test_a_falling_channel_is_inverted_and_a_flat_one_constant() -> None:
    flat = [Affine(Interval.of(0), Interval.of(n)) for n in (1, -1)]
    channels = [Affine(Interval.of(2), Interval.of(-5)), Affine(Interval.of(-2), Interval.of(5)), *flat]

    def levels(sums: Array) -> Array:
        return (sums * [2, -2, 0, 0] + [-5, 5, 1, -1] >= 0).astype(int)

    found = fold("Sign 's'", channels, SIGN, (-9, 9), levels)
    assert found.values.tolist() == [[3], [3], [-9], [10]] and found.invert.tolist() == [0, 1, 0, 0]


def test_a_sum_on_the_boundary_belongs_where_the_boundary_says() -> None:
    for inclusive, first in ((True, 0), (False, 1)):
        boundary = (Boundary(Fraction(0), inclusive),)
        found = fold(
            "x",
            [Affine(Interval.of(1), Interval.of(0))],
            boundary,
            (-4, 4),
            lambda y, i=inclusive: (y >= 0 if i else y > 0).astype(int),
        )
        assert found.values.tolist() == [[first]]


def test_rounding_of_float32_that_changes_a_bit_is_refused() -> None:
    """(y - 1/3) * 3 at y where float32's third is not a third: a mean of 2^-25 vanishes beside 1 in float32."""
    mean = 2.0**-25
    channel = batch_norm(1.0, 0.0, 1 + mean, 1.0, 0.0)  # y = 1 lies below the mean, but not in float32

    def levels(sums: Array) -> Array:
        return (sums.astype(np.float32) - np.float32(1 + mean) >= 0).astype(int)

    message = (
        r"BatchNormalization 'bn' cannot be folded into integer thresholds: in channel 0 the sum 1 gives level 0 in "
        r"exact arithmetic and 1 in float32; change its constants"
    )
    with pytest.raises(InvalidGraphError, match=message):
        fold("BatchNormalization 'bn'", [channel], SIGN, (-8, 8), levels)


def test_a_value_that_cannot_be_told_from_a_boundary_is_refused() -> None:
    two = Interval.of(2).root()
    channel = Affine(two * two, Interval.of(-2))  # 0 at the sum 1, but known to 2^-255 only
    message = r"Mul 'm' cannot be folded into integer thresholds: in channel 0 the sum 1 lies within 2\^-256"
    with pytest.raises(InvalidGraphError, match=message):
        fold("Mul 'm'", [channel], SIGN, (0, 1), lambda y: (y >= 1).astype(int))


@given(st.fractions(0, 1000), st.integers(0, 50), st.integers(1, 50))
def test_roots_enclose_and_are_exact_where_they_can_be(x: Fraction, n: int, d: int) -> None:
    root = Interval.of(x).root()
    assert root.low**2 <= x <= root.high**2 and root.high - root.low <= Fraction(1, 1 << 256)
    exact = Fraction(n, d)
    assert Interval.of(exact**2).root() == Interval.of(exact)
    assert isqrt(n * n) == n


@given(*[st.fractions(-9, 9)] * 4)
def test_intervals_hold_what_is_computed_from_their_numbers(a: Fraction, b: Fraction, c: Fraction, d: Fraction) -> None:
    x, y = Interval(min(a, b), max(a, b)), Interval(min(c, d), max(c, d))
    for made, exact in ((x + y, a + c), (x - y, a - c), (x * y, a * c), (-x, -a)):
        assert made.low <= exact <= made.high
    if y.low > 0 or y.high < 0:
        assert y.reciprocal().low <= 1 / c <= y.reciprocal().high
    else:
        with pytest.raises(ZeroDivisionError):
            y.reciprocal()


@given(st.integers(-8, 0), st.integers(1, 8), st.fractions(-12, 12, max_denominator=4))
def test_rounding_boundaries_are_those_of_round_half_even(low: int, high: int, x: Fraction) -> None:
    passed = sum(x > b.at or (x == b.at and b.inclusive) for b in rounding_boundaries(low, high))
    assert low + passed == min(max(round(x), low), high)


def test_affines_follow_each_other() -> None:
    double = Affine(Interval.of(2), Interval.of(3))
    assert [double.then(Affine(Interval.of(-1), Interval.of(10))).at(x) for x in (0, 5)] == [
        Interval.of(7),
        Interval.of(-3),
    ]
    # 2 x + 3 is 7 at 2: there a batch norm with mean 7 is its bias, whatever its irrational slope
    norm = batch_norm(1.0, 0.5, 7.0, 2.0, 0.0)
    assert double.then(norm).at(2) == Interval.of(0.5)
    twice = norm.then(batch_norm(3.0, 0.25, 0.5, 5.0, 0.0))
    assert twice.at(7) == Interval.of(0.25) and not twice.at(8).is_exact


def test_levels_count_thresholds() -> None:
    stage = Thresholds(np.array([[0, 2], [0, 2]], np.int32), np.array([0, 1], np.uint8))
    assert stage.levels(np.array([[-1, -1], [0, 0], [2, 2]])).tolist() == [[0, 2], [1, 1], [2, 0]]

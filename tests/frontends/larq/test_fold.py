"""Folding scaled sums into thresholds: exact over every sum, or refused."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.frontends.larq.binary import Convolution
from npusim.frontends.larq.fold import Step, fold_signs
from npusim.frontends.larq.kernels import clipped, elementwise
from npusim.numerics.types import Array

F = np.float32
UNBOUNDED = (-np.inf, np.inf)


def layer(
    length: int, channels: int, low: int | None = None, high: int | None = None, padded: bool = False
) -> Convolution:
    weight = np.zeros((channels, 1, 1, length), np.uint8)
    return Convolution({}, weight, length, -length if low is None else low, length if high is None else high, padded)


def multiply(value: Array, clip: tuple[float, float]) -> Step:
    function = partial(elementwise, kind="MUL", left=None, right=value, clip=clip)
    return Step(function, value, np.zeros_like(value), clip)


@pytest.mark.parametrize("clip", [(None, None), (0, None), (0, 6), (-1, 1)])
@pytest.mark.parametrize("second", [UNBOUNDED, (0.0, np.inf), (-1.0, 1.0)])
def test_bits_are_the_exact_signs_of_every_sum(
    clip: tuple[int | None, int | None], second: tuple[float, float]
) -> None:
    """Against fractions, for random scales of all signs and sizes, scales of 0, and steps that clip."""
    rng = np.random.default_rng(7)
    channels, length = 60, 25
    convolution = layer(length, channels, *clip)
    multiplier = (rng.normal(size=channels) * 10.0 ** rng.integers(-3, 3, channels)).astype(F)
    multiplier[:3] = 0
    bias = (multiplier * rng.uniform(-30, 30, channels)).astype(F)
    bias[:3] = [1, -1, 0]
    factor, shift = rng.normal(size=channels).astype(F), rng.normal(size=channels).astype(F)
    factor[3:5] = 0
    add = Step(
        partial(elementwise, kind="ADD", left=None, right=shift, clip=UNBOUNDED), np.ones(channels, F), shift, UNBOUNDED
    )
    found = fold_signs("q", convolution, multiplier, bias, [("m", multiply(factor, second)), ("a", add)])
    sums = np.arange(-length, length + 1)
    bits = found.levels(np.broadcast_to(sums[:, None], (len(sums), channels)))
    for c in range(channels):
        m, b, f, s = (Fraction(float(v[c])) for v in (multiplier, bias, factor, shift))
        for i, y in enumerate(sums.tolist()):
            inner = min(max((min(max(y, convolution.low), convolution.high) * m + b) * f, second[0]), second[1])
            assert bits[i, c] == (inner + s >= 0), (c, y)
    assert 0 < bits.mean() < 1


def test_a_clipping_operator_of_its_own() -> None:
    """The sign of a rectified number is +; that of its negative says whether it was rectified."""
    relu = Step(partial(clipped, clip=(0.0, np.inf)), np.ones(2, F), np.zeros(2, F), (0.0, np.inf))
    convolution, one = layer(4, 2), np.ones(2, F)
    found = fold_signs("q", convolution, one, np.array([0.5, -0.5], F), [("r", relu)])
    assert found.levels(np.full((1, 2), -4)).tolist() == [[1, 1]]
    found = fold_signs("q", convolution, one, np.array([0.5, -0.5], F), [("r", relu), ("m", multiply(-one, UNBOUNDED))])
    assert found.levels(np.array([[-1, 0], [0, 1]])).tolist() == [[1, 1], [0, 0]]


def test_a_sum_that_rounds_to_zero_is_refused() -> None:
    """3 times the float 0.1 is less than the float that it rounds to: y m + b is 0 in floats, in truth below."""
    with pytest.raises(
        InvalidGraphError, match=r"^q cannot be folded .*: in channel 1 the sum 3 gives level 0 .* and 1 in"
    ):
        fold_signs("q", layer(100, 2), np.array([1, 0.1], F), np.array([0, -3 * F(0.1)], F), [])


@pytest.mark.parametrize(
    ("multiplier", "bias", "refused"),
    [(0.5, -1.0, False), (0.1, 0.05, False), (0.1, -0.2 + 1e-6, True), (-0.1, 0.2 - 1e-6, True), (0.0, 1.0, False)],
)
def test_behind_zero_padding_values_keep_their_distance_or_are_exact(
    multiplier: float, bias: float, refused: bool
) -> None:
    given = layer(9, 1, padded=True), np.array([multiplier], F), np.array([bias], F)
    if not refused:
        fold_signs("q", *given, [])
        return
    with pytest.raises(
        InvalidGraphError, match=r"^q cannot be folded .*: in channel 0 the sum 2 is scaled to .*; pad with"
    ):
        fold_signs("q", *given, [])


def test_what_is_not_finite_is_refused_by_name() -> None:
    with pytest.raises(InvalidGraphError, match=r"^m cannot be folded .*: a constant of it is not finite"):
        fold_signs("q", layer(9, 1), np.ones(1, F), np.ones(1, F), [("m", multiply(np.array([np.nan], F), UNBOUNDED))])
    with pytest.raises(InvalidGraphError, match=r"^q cannot be folded .*: a constant of it is not finite"):
        fold_signs("q", layer(9, 1), np.array([np.inf], F), np.ones(1, F), [])

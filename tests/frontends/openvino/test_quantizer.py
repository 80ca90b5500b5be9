"""FakeQuantize of two levels against its definition, on floats and as thresholds of integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from npusim.errors import InputError, InvalidGraphError
from npusim.frontends.openvino.quantizer import Quantizer, quantize
from npusim.numerics.types import Array


def quantizer(*limits: list[float]) -> Quantizer:
    return Quantizer(*(np.asarray(v, np.float32) for v in limits))


def exact(x: Fraction, low: float, high: float, output_low: float, output_high: float) -> float:
    """The definition in exact arithmetic, for low <= high."""
    if x <= Fraction(low):
        return output_low
    if x > Fraction(high):
        return output_high
    return output_high if (x - Fraction(low)) / (Fraction(high) - Fraction(low)) > Fraction(1, 2) else output_low


@pytest.mark.parametrize("seed", range(20))
def test_thresholds_give_the_levels_of_the_definition_for_every_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c = 6
    low = rng.integers(-40, 40, c) / 4
    high = low + rng.integers(0, 3, c) * rng.integers(1, 20, c) / 4
    outputs = rng.choice([-1.0, 0.0, 1.0, 2.5], (2, c))
    added = [rng.integers(-20, 20, c).astype(np.float32) / 4 for _ in range(seed % 3)]
    q = quantizer(low.tolist(), high.tolist(), *outputs.tolist())
    thresholds, invert = q.thresholds("here", c, added, (-30, 30))
    for y in range(-30, 31):
        bits = (y >= thresholds) ^ invert.astype(np.bool_)
        got = np.where(bits, q.high, q.low)
        shifted = [y + sum((Fraction(float(a[i])) for a in added), Fraction(0)) for i in range(c)]
        assert got.tolist() == [exact(shifted[i], low[i], high[i], *outputs[:, i]) for i in range(c)]
    same = q.bits(q.passes(np.arange(-30, 31, dtype=np.float32)[:, None]))
    if not added:
        np.testing.assert_array_equal(same, (np.arange(-30, 31)[:, None] >= thresholds) ^ invert)


def test_equal_limits_are_a_strict_comparison() -> None:
    q = quantizer([1.5, 2], [1.5, 2], [0, 0], [1, 1])
    thresholds, invert = q.thresholds("here", 2, [], (-9, 9))
    assert (thresholds.tolist(), invert.tolist()) == ([2, 3], [0, 0])
    assert q.passes(np.float32([[1.5, 2], [np.nextafter(np.float32(1.5), 9), 2.5]])).tolist() == [[0, 0], [1, 1]]


def test_one_limit_may_stand_for_all_channels() -> None:
    q = quantizer([1.5], [1.5], [1], [0])
    thresholds, invert = q.thresholds("here", 3, [np.float32([0, 1, 2])], (-9, 9))
    assert (thresholds.tolist(), invert.tolist()) == ([2, 1, 0], [1, 1, 1])


def test_infinite_limits_and_constant_channels() -> None:
    inf = float("inf")
    q = quantizer([inf, -inf, 0, 0, 0], [inf, -inf, 0, 0, 0], [0, 0, 0, 1, 7], [1, 1, 0, 1, 7])
    thresholds, invert = q.thresholds("here", 5, [], (-5, 5))
    for y in (-5, 0, 5):
        bits = (y >= thresholds) ^ invert.astype(np.bool_)
        assert np.where(bits, q.high, q.low).tolist() == [0, 1, 0, 1, 7]
    assert (q.low.tolist(), q.high.tolist()) == ([0, 0, 0, 0, 7], [1, 1, 1, 1, 7])


def test_what_hangs_on_the_rounding_of_floats_is_refused() -> None:
    # 3 + 16777216 is 16777220 in float32: not above 16777219
    q = quantizer([16777219.0], [16777219.0], [0], [1])
    with pytest.raises(InvalidGraphError, match="^here cannot be folded into integer thresholds: in channel 0 the sum"):
        q.thresholds("here", 1, [np.float32([16777216.0])], (-8, 8))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (([0, 1], [0, 0], [0, 0], [1, 1]), "input_low 1.0 and input_high 0.0 in channel 1: the low limit"),
        (([0.0], [float("inf")], [0], [1]), "only equal ones may be infinite"),
        (([float("nan")], [0], [0], [1]), "input_low nan in channel 0"),
        (([0], [0], [0], [float("inf")]), "output_high inf in channel 0"),
    ],
)  # fmt: skip
def test_limits_that_are_refused(limits: tuple[list[float], ...], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        quantizer(*limits)


def test_floats_are_quantised_along_their_channels() -> None:
    q = quantizer([0, 0.5, -1], [0, 0.5, 1], [0, 1, -1], [1, 0, 1])
    x: Array = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    bits = quantize(x, q, "fq")
    np.testing.assert_array_equal(bits, np.stack([x[:, 0] > 0, x[:, 1] <= 0.5, x[:, 2] > 0], 1))
    assert bits.dtype == np.uint8
    x[1, 2, 3, 4] = np.nan
    with pytest.raises(InputError, match=r"FakeQuantize 'fq' reads nan at index \[1, 2, 3, 4\]"):
        quantize(x, q, "fq")

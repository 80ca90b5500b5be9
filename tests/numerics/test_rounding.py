"""Fixed-point scaling against its formulas on Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.errors import UnpredictableError
from npusim.numerics.rounding import (
    ScaleError,
    apply_clip,
    apply_scale_16,
    apply_scale_32,
    reciprocal_scale,
    rounding_right_shift,
)

SHIFTS = st.integers(2, 62)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def scale_32(v: int, m: int, s: int, double_round: bool) -> int:
    r = 1 << (s - 1)
    if double_round and s > 31:
        r += 1 << 30 if v >= 0 else -(1 << 30)
    return (v * m + r) >> s


@st.composite
def scalable_32(draw: st.DrawFn) -> tuple[int, int, int]:
    s = draw(SHIFTS)
    limit = min(1 << (s - 1), 1 << 31)
    return draw(st.integers(-limit, limit - 1)), draw(st.integers(0, (1 << 31) - 1)), s


@given(st.lists(scalable_32(), min_size=1), st.booleans())
def test_scale_32_is_its_formula(rows: list[tuple[int, int, int]], double_round: bool) -> None:
    v, m, s = np.array(rows).T
    got = apply_scale_32(v, m, s, double_round)
    assert got.dtype == np.int64
    assert got.tolist() == [scale_32(*r, double_round) for r in rows]


@pytest.mark.parametrize("double_round", [False, True])
def test_scale_32_at_its_extremes(double_round: bool) -> None:
    """The largest magnitudes of every shift: nothing may leave int64 on the way."""
    for s in range(2, 63):
        limit = min(1 << (s - 1), 1 << 31)
        for v in (-limit, -1, 0, 1, limit - 1):
            for m in (0, 1, (1 << 31) - 1):
                assert int(apply_scale_32(v, m, s, double_round)) == scale_32(v, m, s, double_round)


def test_scale_32_broadcasts_and_keeps_its_operands() -> None:
    v, m, s = np.arange(-6, 6, dtype=np.int32).reshape(2, 2, 3), np.array([1 << 30, 3, 1 << 20]), np.array([31, 5, 33])
    before = v.copy()
    got = apply_scale_32(v, m, s, True)
    assert got.tolist() == [
        [[scale_32(int(v[i, j, k]), int(m[k]), int(s[k]), True) for k in range(3)] for j in range(2)] for i in range(2)
    ]
    np.testing.assert_array_equal(v, before)
    assert apply_scale_32(np.int8(5), m, s, False).shape == (3,)
    assert apply_scale_32(np.zeros((0, 3)), m, s, False).shape == (0, 3)


@pytest.mark.parametrize(
    ("v", "m", "s", "message"),
    [
        ([0, 1 << 30], 1, 31, r"-2\^\(shift-1\)\.\.2\^\(shift-1\)-1, got 1073741824 at index \[1\]"),
        ([0, -(1 << 30) - 1], 1, 31, r"got -1073741825 at index \[1\]"),
        ([0, 2], 1, [40, 2], r"got 2 at index \[1\]"),
        ([0, 1 << 31], 1, 62, r"must be an int32, got 2147483648 at index \[1\]"),
        ([0, 0], [5, -1], 31, r"multiplier must lie in 0\.\.2147483647, got -1 at index \[1\]"),
        ([0, 0], 1 << 31, 31, r"multiplier must lie .* got 2147483648 at index \[0\]"),
        ([[0], [0]], 1, [31, 1], r"shift must lie in 2\.\.62, got 1 at index \[0, 1\]"),
        (0, 1, 63, r"shift must lie in 2\.\.62, got 63 at index \[\]"),
    ],
)
def test_scale_32_refuses(v: object, m: object, s: object, message: str) -> None:
    with pytest.raises(ScaleError, match=message):
        apply_scale_32(v, m, s, False)  # type: ignore[arg-type]


def test_a_scale_error_carries_the_first_element_that_is_wrong() -> None:
    with pytest.raises(UnpredictableError) as caught:
        apply_scale_32(np.array([[1, 2], [7, 9]]), np.int64(1), np.array([4, 3]), False)
    error = caught.value
    assert isinstance(error, ScaleError)
    assert (error.index, error.value) == ((1, 1), 9)
    assert "2^(shift-1)" in error.message and error.exit_code == 3


@given(
    st.lists(
        st.tuples(st.integers(-(1 << 47), (1 << 47) - 1), st.integers(0, (1 << 15) - 1), st.integers(32, 62)),
        min_size=1,
    )
)
def test_scale_16_is_its_formula(rows: list[tuple[int, int, int]]) -> None:
    v, m, s = np.array(rows).T
    assert apply_scale_16(v, m, s).tolist() == [(v * m + (1 << (s - 1))) >> s for v, m, s in rows]


def test_scale_16_result_at_the_edge_of_int32() -> None:
    assert apply_scale_16([(1 << 31) - 1, -(1 << 31)], 1 << 14, 14).tolist() == [(1 << 31) - 1, -(1 << 31)]
    with pytest.raises(ScaleError, match=r"result must fit int32, got 2147483648 at index \[1\]"):
        apply_scale_16([0, 1 << 31], 1 << 14, 14)


@pytest.mark.parametrize(
    ("v", "m", "s", "message"),
    [
        (1 << 47, 1, 40, "must be an int48, got 140737488355328"),
        (-(1 << 47) - 1, 1, 40, "must be an int48"),
        (0, 1 << 15, 40, r"multiplier must lie in 0\.\.32767, got 32768"),
        (0, -1, 40, "multiplier must lie"),
        (0, 1, 1, r"shift must lie in 2\.\.62, got 1"),
        (0, 1, 63, r"shift must lie in 2\.\.62, got 63"),
    ],
)
def test_scale_16_refuses(v: int, m: int, s: int, message: str) -> None:
    with pytest.raises(ScaleError, match=message):
        apply_scale_16(v, m, s)


def test_reciprocal_is_its_formula() -> None:
    powers = [p + d for k in range(31) for p in [1 << k] for d in (-1, 0, 1) if 1 <= p + d <= 1 << 30]
    n = np.array([*range(1, 5000), *powers])
    multiplier, shift = reciprocal_scale(n)
    for i, value in enumerate(n.tolist()):
        k = (value - 1).bit_length()
        assert int(multiplier[i]) == ((1 << 30) + 1 << k) // value < 1 << 31
        assert int(shift[i]) == 30 + k


@given(st.integers(1, 1 << 20), st.integers(-(1 << 15), 1 << 15), st.integers(-1, 1))
def test_reciprocal_divides_and_rounds_half_away_from_zero(n: int, quotient: int, off: int) -> None:
    """Tried on and beside every kind of tie.

    True while |v| < 2**29: the multiplier is too large by a part in 2**30 at most, so the quotient moves by less
    than |v| / n / 2**30 < 1 / (2n), which is less than a value that is no tie has to the next tie. Beyond, the formula
    rules.
    """
    v = max(1 - (1 << 29), min((1 << 29) - 1, quotient * n + n // 2 + off))
    away = (2 * abs(v) + n) // (2 * n)
    assert int(apply_scale_32(v, *reciprocal_scale(n), False)) == (away if v >= 0 else -away)


@pytest.mark.parametrize("n", [0, -3, (1 << 30) + 1])
def test_reciprocal_refuses(n: int) -> None:
    with pytest.raises(ScaleError, match=rf"divisor must lie in 1\.\.2\^30, got {n} at index \[1\]"):
        reciprocal_scale([1, n])


def test_clip() -> None:
    assert apply_clip([-300, -128, 0, 127, 300], -128, 127).tolist() == [-128, -128, 0, 127, 127]
    assert apply_clip([5], 3, 3).tolist() == [3]
    with pytest.raises(ValueError, match=r"4\.\.3 is empty"):
        apply_clip([1], 4, 3)


@given(st.lists(st.tuples(INT64, st.integers(0, 63)), min_size=1))
def test_rounding_shift_is_its_formula(rows: list[tuple[int, int]]) -> None:
    v, s = (np.array(c, np.int64) for c in zip(*rows, strict=True))
    assert rounding_right_shift(v, s).tolist() == [(v + (1 << s - 1)) >> s if s else v for v, s in rows]


@pytest.mark.parametrize("shift", [-1, 64])
def test_rounding_shift_refuses(shift: int) -> None:
    with pytest.raises(ScaleError, match=rf"shift must lie in 0\.\.63, got {shift}"):
        rounding_right_shift(1, shift)

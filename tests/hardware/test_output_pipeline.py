"""The output pipeline's rate, against accumulators taken in cycle by cycle."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.config import load_text
from npusim.errors import ConfigError
from npusim.hardware.output_pipeline import DeliveryWindow, OutputPipeline

TEXT = """
elements_per_cycle: 32
operators: [rescale, clamp]
latency_cycles: 16
instances_per_array: 1
"""


def pipeline(rate: Any, instances: int = 1) -> OutputPipeline:
    return OutputPipeline(
        elements_per_cycle=rate, operators=("rescale",), latency_cycles=7, instances_per_array=instances
    )


def cycle_by_cycle(elements: int, rate: Fraction) -> int:
    cycles, room = 0, Fraction(0)
    while room < elements:
        cycles, room = cycles + 1, room + rate
    return cycles


@given(st.integers(0, 300), st.fractions(Fraction(1, 4), 40, max_denominator=7), st.integers(1, 3))
def test_cycles_are_those_that_the_elements_take_one_after_the_other(
    elements: int, rate: Fraction, instances: int
) -> None:
    unit = pipeline(rate, instances)
    expected = cycle_by_cycle(elements, rate * instances)
    assert unit.cycles(elements) == expected
    assert unit.cycles(np.array([elements, 0, elements])).tolist() == [expected, 0, expected]


def test_cycles_by_hand() -> None:
    assert [pipeline(32).cycles(n) for n in (0, 1, 32, 33, 64, 1000)] == [0, 1, 1, 2, 2, 32]
    assert pipeline("1/3").cycles(10) == 30
    assert pipeline("3/2").cycles(10) == 7
    assert pipeline("3/2", instances=2).cycles(10) == 4


def test_a_pipeline_from_yaml() -> None:
    unit = load_text(TEXT, OutputPipeline, "pipeline")
    assert (unit.operators, unit.latency_cycles, unit.cycles(33)) == (("rescale", "clamp"), 16, 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("elements_per_cycle: 32", "elements_per_cycle: 0", "elements_per_cycle.*more than 0"),
        ("latency_cycles: 16", "latency_cycles: -1", "latency_cycles"),
        ("latency_cycles: 16\n", "", "latency_cycles"),
        ("instances_per_array: 1", "instances_per_array: 0", "instances_per_array"),
        ("[rescale, clamp]", "rescale", "operators"),
    ],
)
def test_what_yaml_may_not_say(old: str, new: str, message: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(ConfigError, match=message):
        load_text(TEXT.replace(old, new), OutputPipeline, "pipeline")


# -- the window between array and pipeline ----------------------------------------------------------------------------


def window(positions: int = 16, round_trip: int = 38, channels: int = 8) -> DeliveryWindow:
    return DeliveryWindow(channels=channels, positions=positions, round_trip_cycles=round_trip)


def stripes_one_by_one(positions: int, size: int) -> list[int]:
    """Whole stripes while two or more are left, half ones while more than one is left, then the rest."""
    found = []
    while positions > size:
        found.append(size if positions >= 2 * size else size // 2)
        positions -= found[-1]
    return [*found, positions]


@pytest.mark.parametrize("size", [2, 4, 6, 16, 64])
def test_stripes_are_those_of_cutting_one_after_the_other(size: int) -> None:
    counts = np.arange(1, 6 * size)
    for n in counts.tolist():
        whole, halves, last = window(size).stripes(n)
        want = stripes_one_by_one(n, size)
        assert [size] * whole + [size // 2] * halves + [last] == want
        assert sum(want) == n
    alike = np.stack(window(size).stripes(counts), -1)
    assert alike.tolist() == [list(window(size).stripes(n)) for n in counts.tolist()]


def delivery_cycles(stripes: list[int], size: int, cycles_per_position: int, round_trip: int) -> int:
    """The window credit by credit: when the last sum of ``stripes`` leaves, counted from the first one's arrival.

    A stripe begins to finish once that many credits are back; its sums then arrive faster than they leave.
    """
    delivered: list[int] = []  # when each sum so far has left; its credit is back at once, the round trip starts there
    for n in stripes:
        needed = len(delivered) + n - size  # sums that must have left before
        begin = delivered[needed - 1] + round_trip if needed > 0 else 0
        for _ in range(n):
            begin = max(begin, delivered[-1] if delivered else 0) + cycles_per_position
            delivered.append(begin)
    return delivered[-1]


@pytest.mark.parametrize(
    ("size", "round_trip"), [(16, 0), (16, 7), (16, 38), (16, 72), (4, 0), (4, 7), (4, 18), (64, 200)]
)
def test_idle_cycles_are_those_of_a_window_followed_credit_by_credit(size: int, round_trip: int) -> None:
    """Per group of channels in the steady state; the round trip is at most what half a window takes."""
    for n in range(1, 6 * size):
        cut = stripes_one_by_one(n, size)
        groups = 2 * size // n + 4
        one, two = (delivery_cycles(cut * g, size, 9, round_trip) for g in (groups, groups + 1))
        assert two - one == n * 9 + window(size, round_trip).idle_cycles(n, 9)


@pytest.mark.parametrize(("size", "round_trip"), [(16, 200), (4, 38), (4, 200)])
def test_a_longer_round_trip_idles_at_most_as_long_as_counted(size: int, round_trip: int) -> None:
    for n in range(1, 6 * size):
        cut = stripes_one_by_one(n, size)
        groups = 2 * size // n + 4
        one, two = (delivery_cycles(cut * g, size, 9, round_trip) for g in (groups, 2 * groups))
        assert two - one <= groups * (n * 9 + window(size, round_trip).idle_cycles(n, 9))


def test_a_tile_through_the_window_by_hand() -> None:
    unit = OutputPipeline(
        elements_per_cycle="8/9", operators=(), latency_cycles=0, instances_per_array=1, window=window()
    )  # fmt: skip
    assert unit.tile_cycles(1, 8) == 9
    assert unit.tile_cycles(1, 1) == 9  # an entry of eight channels leaves as a whole
    assert unit.tile_cycles(16, 8) == 16 * 9 + 38
    assert unit.tile_cycles(13, 8) == 13 * 9 + (38 - 3 * 9)
    assert unit.tile_cycles(36, 8) == 36 * 9 + 38 + 0 + (38 - 4 * 9)  # stripes of 16, 8, 12
    assert unit.tile_cycles(576, 32) == 4 * 36 * (16 * 9 + 38)
    assert unit.tile_cycles(np.array([1, 16]), np.array([8, 16])).tolist() == [9, 2 * 182]
    assert pipeline(1).tile_cycles(3, 5) == 15


def test_what_waits_in_the_window_drains_behind_a_busy_array() -> None:
    unit = OutputPipeline(
        elements_per_cycle="8/9", operators=(), latency_cycles=0, instances_per_array=1, window=window()
    )  # fmt: skip
    assert unit.drain_cycles(16, 8, 1000) == 16 * 9
    assert unit.drain_cycles(36, 8, 10_000) == 12 * 9
    assert unit.drain_cycles(16, 8, 16) == 0  # the pipeline sets the pace, its time is in the tile's
    assert unit.drain_cycles(np.array([16, 36]), 8, 10_000).tolist() == [144, 108]
    assert pipeline(1).drain_cycles(16, 8, 1000) == 0


def test_a_window_has_an_even_number_of_positions() -> None:
    text = TEXT + "window: {channels: 8, positions: 15, round_trip_cycles: 38}\n"
    with pytest.raises(ConfigError, match="positions: 15 has no half; give an even number"):
        load_text(text, OutputPipeline, "pipeline")
    with pytest.raises(ConfigError, match="round_trip_cycles"):
        load_text(TEXT + "window: {channels: 8, positions: 16}\n", OutputPipeline, "pipeline")

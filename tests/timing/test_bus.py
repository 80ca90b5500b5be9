"""The DRAM bus: turns worked out by hand, and equal shares against bursts served one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.timing.bus import Bus, FairBus, OrderedBus

Transfer = tuple[int, int]
"""When the channel asks, and the cycles that the transfer takes of the whole bus."""


def ends(env: simpy.Environment, bus: Bus, transfers: Sequence[Transfer], earliest: int | None = None) -> list[int]:
    """The end of every transfer; each has a channel of its own, and reads."""
    found = [-1] * len(transfers)

    def channel(i: int, asks: int, cycles: int):  # type: ignore[no-untyped-def]
        yield env.timeout(asks)
        found[i] = yield from bus.carry(i, True, asks if earliest is None else earliest, cycles)

    for i, (asks, cycles) in enumerate(transfers):
        env.process(channel(i, asks, cycles))
    env.run()
    return found


def ordered(transfers: Sequence[Transfer], earliest: int | None = None) -> list[int]:
    env = simpy.Environment()
    return ends(env, OrderedBus(env, range(len(transfers)), 0), transfers, earliest)


def fair(transfers: Sequence[Transfer], latency: int = 0) -> list[int]:
    env = simpy.Environment()
    bus = FairBus(env, latency)
    return ends(env, bus, transfers, None if latency == 0 else latency)


def test_turns_are_those_of_the_program() -> None:
    assert ordered([(0, 5), (0, 3), (2, 4)]) == [5, 8, 12]
    assert ordered([(10, 5), (0, 3)]) == [15, 18]  # the second waits for the turn of the first


def test_what_moved_before_its_turn_need_not_move_then() -> None:
    assert ordered([(20, 5)], earliest=3) == [8]
    assert ordered([(0, 6), (20, 5)], earliest=3) == [9, 14]  # only where nothing else was moving


@pytest.mark.parametrize(
    ("transfers", "want"),
    [
        ([(0, 10)], [10]),
        ([(0, 10), (0, 10)], [20, 20]),
        ([(0, 10), (0, 30)], [20, 40]),  # 20 cycles of halves, then 20 of the whole
        ([(0, 10), (4, 10)], [16, 20]),  # 4 alone, 6 left at a half, then 4 left alone
        ([(0, 6), (0, 6), (0, 6)], [18, 18, 18]),
        ([(0, 5), (50, 5)], [5, 55]),
    ],
)
def test_equal_shares_by_hand(transfers: list[Transfer], want: list[int]) -> None:
    assert fair(transfers) == want


def test_the_latency_comes_after_the_shares() -> None:
    assert fair([(0, 10), (0, 30)], latency=100) == [120, 140]


def burst_by_burst(transfers: Sequence[Transfer]) -> list[int]:
    """One cycle of the bus after the other, given by turns to those that have asked and are not done."""
    left, found, now, last = [c for _, c in transfers], [-1] * len(transfers), 0, -1
    while any(left):
        waiting = [i for i, (asks, _) in enumerate(transfers) if asks <= now and left[i]]
        now += 1
        if waiting:
            last = min(waiting, key=lambda i: (i - last - 1) % len(transfers))
            left[last] -= 1
            if not left[last]:
                found[last] = now
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60)), min_size=1, max_size=4))
def test_equal_shares_are_turns_of_single_bursts(transfers: list[Transfer]) -> None:
    """Within a burst a channel each time that the number of channels changes."""
    got, want = fair(transfers), burst_by_burst(transfers)
    assert all(abs(a - b) <= 2 * len(transfers) for a, b in zip(got, want, strict=True))
    assert abs(max(got) - max(want)) <= 1  # the bus does not idle while anybody waits

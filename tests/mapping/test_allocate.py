"""Addresses against brute force: a table of bytes and layers, and every order of placing."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.mapping.allocate import Lifetime, first_fit, gaps, place_lifetimes, place_slots


@st.composite
def lifetimes(draw: st.DrawFn, most: int = 8, largest: int = 12) -> list[Lifetime]:
    found = []
    for i in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, 5))
        found.append(Lifetime(f"v{i}", draw(st.integers(1, largest)), first, first + draw(st.integers(0, 3))))
    return found


@given(lifetimes(), st.integers(1, 40))
def test_values_alive_at_the_same_time_never_share_a_byte(values: list[Lifetime], capacity: int) -> None:
    placed = place_lifetimes(values, capacity)
    if placed is None:
        return
    owner: dict[tuple[int, int], str] = {}
    for v in values:
        for byte in range(placed[v.value], placed[v.value] + v.nbytes):
            assert 0 <= byte < capacity
            for layer in range(v.first, v.last + 1):
                assert owner.setdefault((byte, layer), v.value) == v.value


@given(lifetimes())
def test_a_place_is_found_wherever_all_values_fit_side_by_side(values: list[Lifetime]) -> None:
    assert place_lifetimes(values, sum(v.nbytes for v in values)) is not None


def fits_in_some_order(values: list[Lifetime], capacity: int) -> bool:
    """Whether placing at the lowest free offset works for some order: true whenever any placement exists."""
    for order in permutations(values):
        placed: list[tuple[Lifetime, int]] = []
        for v in order:
            busy = [(o, o + w.nbytes) for w, o in placed if w.first <= v.last and v.first <= w.last]
            offset = next(
                (o for o in range(capacity - v.nbytes + 1) if all(o + v.nbytes <= a or b <= o for a, b in busy)), None
            )
            if offset is None:
                break
            placed.append((v, offset))
        else:
            return True
    return False


@settings(max_examples=60, deadline=None)
@given(lifetimes(most=5, largest=6), st.integers(1, 16))
def test_nothing_is_placed_that_brute_force_cannot_place(values: list[Lifetime], capacity: int) -> None:
    if place_lifetimes(values, capacity) is not None:
        assert fits_in_some_order(values, capacity)
    if max((sum(v.nbytes for v in values if v.first <= t <= v.last) for t in range(9)), default=0) > capacity:
        assert place_lifetimes(values, capacity) is None


def test_a_value_that_is_larger_than_the_memory_has_no_place() -> None:
    assert place_lifetimes([Lifetime("v", 11, 0, 1)], 10) is None
    assert place_lifetimes([Lifetime("v", 10, 0, 1)], 10) == {"v": 0}


def test_bytes_are_used_again_by_values_that_live_later() -> None:
    values = [Lifetime("a", 8, 0, 1), Lifetime("b", 8, 2, 3), Lifetime("c", 2, 1, 2)]
    assert place_lifetimes(values, 10) == {"a": 0, "b": 0, "c": 8}


intervals = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda t: (min(t), max(t))), max_size=6)


@given(intervals, st.integers(0, 20))
def test_gaps_are_the_bytes_that_no_interval_holds(busy: list[tuple[int, int]], capacity: int) -> None:
    busy = [(lo, min(hi, capacity)) for lo, hi in busy if lo < capacity]
    free = {b for lo, hi in gaps(busy, capacity) for b in range(lo, hi)}
    assert free == set(range(capacity)) - {b for lo, hi in busy for b in range(lo, hi)}
    found = gaps(busy, capacity)
    assert found == sorted(found)
    assert all(lo < hi for lo, hi in found)


def test_first_fit_is_the_lowest() -> None:
    assert first_fit(3, [(0, 2), (4, 7), (8, 20)]) == 4
    assert first_fit(13, [(0, 2), (4, 7), (8, 20)]) is None


@given(
    st.lists(st.integers(1, 10), max_size=6),
    intervals,
    intervals,
    st.integers(1, 40),
)
def test_slots_overlap_neither_each_other_nor_what_is_busy(
    sizes: list[int], busy: list[tuple[int, int]], avoid: list[tuple[int, int]], capacity: int
) -> None:
    busy, avoid = ([(lo, min(hi, capacity)) for lo, hi in x if lo < capacity] for x in (busy, avoid))
    offsets = place_slots(sizes, busy, avoid, capacity)
    if offsets is None:
        assert busy or sum(sizes) > capacity
        return
    taken = {b for lo, hi in busy for b in range(lo, hi)}
    for offset, size in zip(offsets, sizes, strict=True):
        mine = set(range(offset, offset + size))
        assert mine.isdisjoint(taken)
        assert offset >= 0
        assert offset + size <= capacity
        taken |= mine


def test_slots_keep_clear_of_the_layer_before_where_they_can() -> None:
    assert place_slots([4, 4], [], [(0, 8)], 16) == [8, 12]
    assert place_slots([4, 4, 4], [], [(0, 8)], 16) == [8, 12, 0]
    assert place_slots([4], [(8, 16)], [(0, 8)], 16) == [0]
    assert place_slots([4], [(4, 16)], [], 16) == [0]
    assert place_slots([5], [(4, 16)], [], 16) is None


def test_keeping_clear_never_keeps_a_slot_from_its_place() -> None:
    """60 bytes behind the 30 to keep clear of would leave 30 and 10 for the other 40."""
    assert place_slots([60, 40], [], [(0, 30)], 100) == [0, 60]

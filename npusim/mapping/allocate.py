"""SRAM addresses: feature maps that stay between layers, and the slots of each layer in what they leave free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Interval = tuple[int, int]
"""Byte addresses lo <= a < hi."""


class Lifetime(NamedTuple):
    """A value that stays in SRAM from layer ``first`` to layer ``last``, both included."""

    value: str
    nbytes: int
    first: int
    last: int


def place_lifetimes(lifetimes: Iterable[Lifetime], capacity: int) -> dict[str, int] | None:
    """Offsets such that values alive at the same time do not overlap, or None if this order finds no place for one.

    Greedy by size, lowest offset first (as in Pisarchyk and Lee, "Efficient memory management for deep neural net
    inference", arXiv:2001.03288, section 5.2).
    """
    placed: list[tuple[Lifetime, int]] = []
    for v in sorted(lifetimes, key=lambda v: (-v.nbytes, v.first, v.value)):
        busy = [(o, o + w.nbytes) for w, o in placed if w.first <= v.last and v.first <= w.last]
        offset = first_fit(v.nbytes, gaps(busy, capacity))
        if offset is None:
            return None
        placed.append((v, offset))
    return {v.value: o for v, o in placed}


def gaps(busy: Iterable[Interval], capacity: int) -> list[Interval]:
    """The free intervals between ``busy`` ones, in order of address.

    >>> gaps([(4, 6), (0, 2)], 10)
    [(2, 4), (6, 10)]
    """
    free, at = [], 0
    for lo, hi in sorted(busy):
        if lo > at:
            free.append((at, lo))
        at = max(at, hi)
    if at < capacity:
        free.append((at, capacity))
    return free


def first_fit(nbytes: int, free: Sequence[Interval]) -> int | None:
    """The lowest offset at which ``nbytes`` fit."""
    return next((lo for lo, hi in free if hi - lo >= nbytes), None)


def place_side_by_side(lifetimes: Iterable[Lifetime], capacity: int) -> dict[str, int] | None:
    """Offsets at which no two values share a byte, so that none ever waits for another to die; None if too large.

    >>> place_side_by_side([Lifetime("b", 2, 1, 2), Lifetime("a", 4, 0, 1)], 6)
    {'a': 0, 'b': 4}
    """
    found, at = {}, 0
    for v in sorted(lifetimes, key=lambda v: (v.first, v.value)):
        found[v.value] = at
        at += v.nbytes
    return found if at <= capacity else None


def place_slots(
    sizes: Sequence[int],
    busy: Sequence[Interval],
    avoid: Sequence[Interval],
    capacity: int,
    used: Sequence[Interval] = (),
) -> list[int] | None:
    """Offsets for slots of ``sizes`` outside ``busy``, the largest first; outside ``avoid`` too where possible.

    ``avoid`` is what the layer before still uses: a slot that stays clear of it can be loaded while that layer
    computes. ``used`` is what any layer uses: a slot that stays clear of that as well waits for none of them. None if
    some slot finds no place; with nothing ``busy``, slots that fit together do find one.
    """
    taken = list(busy)
    offsets = [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        offset = first_fit(sizes[i], gaps([*taken, *avoid, *used], capacity)) if used else None
        if offset is None:
            offset = first_fit(sizes[i], gaps([*taken, *avoid], capacity))
        if offset is None:
            offset = first_fit(sizes[i], gaps(taken, capacity))
        if offset is None:
            return place_slots(sizes, busy, (), capacity) if avoid or used else None
        offsets[i] = offset
        taken.append((offset, offset + sizes[i]))
    return offsets

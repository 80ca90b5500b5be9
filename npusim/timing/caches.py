"""Which lines of the transfers of a program miss in the caches in front of the DRAM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npusim.hardware.memory import Cache
from npusim.ir.box import Box

Lines = NDArray[np.int64]
"""Numbers of lines of memory, in the order in which they are accessed."""


def lines_of(shape: tuple[int, ...], box: Box, bits: int, base: int, line_bytes: int) -> Lines:
    """Lines that ``box`` of a row-major tensor of ``shape`` at byte address ``base`` touches, run by run.

    Each contiguous run touches every line between its first byte and its last.
    """
    extents = box.shape
    inner = len(shape)
    while inner and (inner == len(shape) or extents[inner] == shape[inner]):
        inner -= 1  # axes from ``inner`` on are one run
    strides = np.cumprod([1, *reversed(shape[1:])])[::-1] if shape else np.ones(1, np.int64)
    starts = np.zeros(1, np.int64)
    for lo, hi, stride in zip(box.lo[:inner], box.hi[:inner], strides[:inner], strict=True):
        starts = (starts[:, None] + np.arange(lo, hi, dtype=np.int64) * stride).reshape(-1)
    length = 1
    for axis in range(inner, len(shape)):
        starts = starts + box.lo[axis] * strides[axis]
        length *= extents[axis]
    first = (base + starts * bits // 8) // line_bytes
    last = (base + ((starts + length) * bits - 1) // 8) // line_bytes
    span = first[:, None] + np.arange(int((last - first).max(initial=0)) + 1, dtype=np.int64)
    return span[span <= last[:, None]]


def misses(lines: Lines, cache: Cache) -> NDArray[np.bool_]:
    """Whether each access misses in ``cache``, which is empty at first.

    The k-th accesses of all sets are looked up at once, for k = 0, 1, 2, ...
    """
    where = lines % cache.sets
    by_set = np.argsort(where, kind="stable")
    counts = np.bincount(where, minlength=cache.sets)
    turn = np.empty(len(lines), np.int64)
    turn[by_set] = np.arange(len(lines)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    held = np.full((cache.sets, cache.ways), -1, np.int64)  # the most recent line first
    found = np.empty(len(lines), np.bool_)
    way = np.arange(cache.ways)
    begin = 0
    for end in ends:
        now = order[begin:end]
        rows, line = where[now], lines[now]
        old = held[rows]
        same = old == line[:, None]
        hit = same.any(1)
        depth = np.where(hit, same.argmax(1), cache.ways - 1)
        new = np.where(way <= depth[:, None], np.roll(old, 1, 1), old)
        new[:, 0] = line
        held[rows] = new
        found[now] = hit
        begin = end
    return ~found


def miss_cycles(
    touched: Sequence[Sequence[Lines]], stores: Sequence[bool], caches: Sequence[Cache], warm: bool
) -> list[int]:
    """Bus cycles that the misses of each transfer add; ``touched`` are the lines of its parts, ``stores`` if it writes.

    ``warm``: the caches hold what the same transfers left before.
    """
    count = len(touched)
    lines = np.concatenate([*(part for parts in touched for part in parts), np.zeros(0, np.int64)])
    owner = np.repeat(np.arange(count), [sum(map(len, parts)) for parts in touched])
    if warm:
        lines, owner = np.concatenate([lines, lines]), np.concatenate([owner - count, owner])
    twice = np.where(np.asarray(stores, np.bool_), 2, 1)
    total = np.zeros(count, np.int64)
    for cache in caches:
        missed = misses(lines, cache)
        lines, owner = lines[missed], owner[missed]
        total += cache.miss_cycles * twice * np.bincount(owner[owner >= 0], minlength=count)
    return [int(n) for n in total]

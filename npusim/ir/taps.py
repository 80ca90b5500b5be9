"""How many points of an iteration space read inside an operand: the taps that are not on padding."""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.ir.work import Access, Axis, Work


def points_inside(work: Work, access: Access, shape: tuple[int, ...]) -> int:
    """Points of the space whose index in the operand of ``shape`` exists.

    Exact for accesses whose axes share no dimension and have divisor 1 (convolutions, pools); other accesses are
    taken as inside everywhere.
    """
    extents = {d.name: d.extent for d in work.dims}
    used = [name for a in access.axes for name, _ in a.terms]
    if len(used) != len(set(used)) or any(a.divisor != 1 or a.whole >= 0 for a in access.axes):
        return dense_points(work)
    inside = prod(_inside(a, n, extents) for a, n in zip(access.axes, shape, strict=True))
    return inside * prod(n for name, n in extents.items() if name not in used)


def dense_points(work: Work) -> int:
    """Points that do work, those on padding included (one in ``every`` of a strided transposed convolution)."""
    return prod(-(-d.extent // d.every) for d in work.dims)


def _inside(axis: Axis, n: int, extents: dict[str, int]) -> int:
    """Combinations of the axis's dimensions whose index lies in 0..n-1."""
    positions = np.asarray([axis.offset], np.int64)
    counts = np.asarray([1], np.int64)
    for name, c in sorted(axis.terms, key=lambda t: extents[t[0]])[:-1]:
        positions = (positions[:, None] + c * np.arange(extents[name])).reshape(-1)
    if not axis.terms:
        return int(counts.sum()) if 0 <= axis.offset < n else 0
    name, c = max(axis.terms, key=lambda t: extents[t[0]])
    if c < 0:
        positions, c = positions + c * (extents[name] - 1), -c
    if c == 0:
        return int(((positions >= 0) & (positions < n)).sum()) * extents[name]
    first = np.maximum(0, -(positions // c))  # smallest d with positions + c*d >= 0
    last = np.minimum(extents[name] - 1, (n - 1 - positions) // c)
    return int(np.maximum(0, last - first + 1).sum())

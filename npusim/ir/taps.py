"""How an iteration space meets an operand: the taps that are not on padding, and the elements that are touched."""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.ir.work import Access, Axis, Loop, Work


def points_inside(work: Work, access: Access, shape: tuple[int, ...]) -> int:
    """Points of the space whose index in the operand of ``shape`` exists.

    Exact for accesses of one index a point whose axes share no dimension and whose points all do real work
    (convolutions, products, pools); other accesses, such as a transposed convolution's, are taken as inside everywhere.
    """
    extents = {d.name: d.extent for d in work.dims if d.loop is not Loop.BIT_PLANE}
    used = [name for a in access.axes for name, _ in a.terms]
    single = all(a.extra == 0 and a.whole < 0 for a in access.axes)
    if len(used) != len(set(used)) or not single or any(d.every > 1 for d in work.dims):
        return dense_points(work)
    inside = prod(_inside(a, n * a.divisor, extents) for a, n in zip(access.axes, shape, strict=True))
    return inside * prod(n for name, n in extents.items() if name not in used)


def dense_points(work: Work) -> int:
    """Points that do work, those on padding included (one in ``every`` of a strided transposed convolution).

    A point counts once, however many bit planes it is made of.
    """
    return prod(-(-d.extent // d.every) for d in work.dims if d.loop is not Loop.BIT_PLANE)


def elements_touched(work: Work, access: Access, shape: tuple[int, ...]) -> int:
    """Elements of the operand of ``shape`` that the points of the whole space touch; a stride above the kernel skips
    some. Exact where the axes share no dimension, as in convolutions, products and pools; where they do, 0.
    """
    extents = {d.name: d.extent for d in work.dims}
    used = [name for a in access.axes for name in {name for name, _ in a.terms}]
    if len(used) != len(set(used)):
        return 0
    return prod(_indices(a, n, extents) for a, n in zip(access.axes, shape, strict=True))


def _indices(axis: Axis, n: int, extents: dict[str, int]) -> int:
    """Indices 0..n-1 of the axis that are touched."""
    if axis.whole >= 0:
        return min(axis.whole, n)
    if not axis.terms and not axis.extra:
        return int(0 <= axis.offset // axis.divisor < n)
    if len(axis.terms) == 1 and abs(axis.terms[0][1]) == axis.divisor == 1 and not axis.extra:
        (name, c), first = axis.terms[0], axis.offset
        last = first + c * (extents[name] - 1)
        return max(0, min(max(first, last), n - 1) - max(min(first, last), 0) + 1)
    found = np.array([axis.offset], np.int64)
    for name in {name for name, _ in axis.terms}:
        step = sum(c for other, c in axis.terms if other == name)
        found = np.unique(found[:, None] + step * np.arange(extents[name]))
    found = np.unique(found // axis.divisor)
    found = np.unique(found[:, None] + np.arange(axis.extra + 1))
    return int(((found >= 0) & (found < n)).sum())


def _inside(axis: Axis, n: int, extents: dict[str, int]) -> int:
    """Combinations of the axis's dimensions for which offset + sum(coefficient * dim) lies in 0..n-1.

    All but the longest dimension are enumerated; along that one the inside is an interval.
    """
    if not axis.terms:
        return int(0 <= axis.offset < n)
    *others, (name, c) = sorted(axis.terms, key=lambda t: extents[t[0]])
    positions = np.asarray([axis.offset], np.int64)
    for other, k in others:
        positions = (positions[:, None] + k * np.arange(extents[other])).reshape(-1)
    if c < 0:
        positions, c = positions + c * (extents[name] - 1), -c
    if c == 0:
        return int(((positions >= 0) & (positions < n)).sum()) * extents[name]
    first = np.maximum(0, -(positions // c))  # smallest d with positions + c*d >= 0
    last = np.minimum(extents[name] - 1, (n - 1 - positions) // c)
    return int(np.maximum(0, last - first + 1).sum())

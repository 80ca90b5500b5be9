"""Pareto fronts: the points of a sweep than which no other is better in every respect."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.explore.sweep import Number, Point


def pareto(points: Sequence[Point], objectives: Sequence[str]) -> tuple[int, ...]:
    """The positions of the points on the front of some of their objectives, ascending; those with errors are on none.

    A point is on the front if no other one has at most as much of every objective and less of one; equal points are on
    it together.
    """
    values = {i: tuple(p.objectives[o] for o in objectives) for i, p in enumerate(points) if not p.errors}
    front: list[int] = []
    # Whatever beats a point comes before it in this order, so that it is enough to look at the front so far.
    for i in sorted(values, key=lambda i: (values[i], i)):
        if not any(_beats(values[j], values[i]) for j in front):
            front.append(i)
    return tuple(sorted(front))


def _beats(a: Sequence[Number], b: Sequence[Number]) -> bool:
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))

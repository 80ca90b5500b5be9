"""Random operators that move elements, each a function that appends one operator of TOSA to a graph."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from .writer import MOST_ELEMENTS, GraphWriter, Shape

MOVED = ("INT8", "BOOL", "INT16", "INT32")
RANKS = (1, 5)


def concat(g: GraphWriter) -> None:
    """CONCAT of up to three values, or of a value with itself."""
    first = g.operand(MOVED, RANKS)
    shape = g.shape(first)
    axis = g.choices.integer(0, len(shape) - 1)

    def alike(other: Shape) -> bool:
        return len(other) == len(shape) and all(
            i == axis or m == n for i, (m, n) in enumerate(zip(shape, other, strict=True))
        )

    parts = [first]
    for _ in range(g.choices.integer(0, 2)):
        old = [v for v in g.values if g.dtype(v) == g.dtype(first) and alike(g.shape(v))]
        if g.choices.chance(1, 2):
            size = g.choices.integer(1, 4)
            parts.append(g.fresh((*shape[:axis], size, *shape[axis + 1 :]), g.dtype(first)))
        else:
            parts.append(g.choices.sample(old[::-1]) if old else first)
    total = sum(g.shape(v)[axis] for v in parts)
    g.emit("CONCAT", parts, (*shape[:axis], total, *shape[axis + 1 :]), g.dtype(first), {"axis": axis})


def pad(g: GraphWriter) -> None:
    """PAD."""
    a = g.operand(MOVED, RANKS)
    dtype = g.dtype(a)
    padding: list[int] = []
    shape: list[int] = []
    for n in g.shape(a):
        room = max(0, MOST_ELEMENTS // prod((*shape, *g.shape(a)[len(shape) :])) - 1) * n
        before, after = (g.choices.integer(0, min(4, room // 2)) for _ in range(2))
        padding += [before, after]
        shape.append(before + n + after)
    value = g.constant(g.elements((1,), dtype), dtype)
    g.emit("PAD", (a, g.constant_shape(padding), value), tuple(shape), dtype)


def reshape(g: GraphWriter) -> None:
    """RESHAPE to a random split of the elements."""
    a = g.operand(MOVED, (0, 5))
    left = prod(g.shape(a))
    shape: list[int] = []
    while left > 1 and len(shape) < 4:
        n = g.choices.sample([k for k in range(1, left + 1) if left % k == 0])
        shape.append(n)
        left //= n
    if left > 1 or g.choices.chance(1, 4):
        shape.append(left)
    g.emit("RESHAPE", (a, g.constant_shape(shape)), tuple(shape), g.dtype(a))


def reverse(g: GraphWriter) -> None:
    """REVERSE."""
    a = g.operand(MOVED, RANKS)
    g.emit("REVERSE", (a,), g.shape(a), g.dtype(a), {"axis": g.choices.integer(0, len(g.shape(a)) - 1)})


def slice_(g: GraphWriter) -> None:
    """SLICE."""
    a = g.operand(MOVED, RANKS)
    start = [g.choices.integer(0, n - 1) for n in g.shape(a)]
    size = [g.choices.integer(1, n - s) for n, s in zip(g.shape(a), start, strict=True)]
    g.emit("SLICE", (a, g.constant_shape(start), g.constant_shape(size)), tuple(size), g.dtype(a))


def tile(g: GraphWriter) -> None:
    """TILE."""
    a = g.operand(MOVED, RANKS)
    multiples: list[int] = []
    for _ in g.shape(a):
        room = MOST_ELEMENTS // (prod(g.shape(a)) * prod(multiples))
        multiples.append(g.choices.integer(1, max(1, min(4, room))))
    shape = tuple(n * m for n, m in zip(g.shape(a), multiples, strict=True))
    g.emit("TILE", (a, g.constant_shape(multiples)), shape, g.dtype(a))


def transpose(g: GraphWriter) -> None:
    """TRANSPOSE."""
    a = g.operand(MOVED, RANKS)
    left = list(range(len(g.shape(a))))
    perms = []
    while left:
        perms.append(left.pop(g.choices.integer(0, len(left) - 1)))
    g.emit("TRANSPOSE", (a,), tuple(g.shape(a)[p] for p in perms), g.dtype(a), {"perms": tuple(perms)})


def gather(g: GraphWriter) -> None:
    """GATHER, seldom with an index outside."""
    values = g.operand(MOVED, (3, 3))
    n, k, c = g.shape(values)
    w = g.choices.integer(1, max(1, min(9, MOST_ELEMENTS // (n * c))))
    outside = g.choices.chance(1, 16)
    indices = g.fresh((n, w), "INT32", -outside, k - 1 + outside)
    g.emit("GATHER", (values, indices), (n, w, c), g.dtype(values))


def scatter(g: GraphWriter) -> None:
    """SCATTER, seldom with indices that may repeat or lie outside."""
    values = g.operand(MOVED, (3, 3))
    n, k, c = g.shape(values)
    if g.choices.chance(1, 12):
        w = g.choices.integer(1, 5)
        indices = g.fresh((n, w), "INT32", -1, k)
    else:
        w = g.choices.integer(1, k)
        rng = np.random.default_rng(g.choices.integer(0, (1 << 32) - 1))
        distinct = [rng.permutation(k)[:w] for _ in range(n)]
        indices = g.constant(np.asarray(distinct, np.int32), "INT32")
    rows = g.fresh((n, w, c), g.dtype(values))
    g.emit("SCATTER", (values, indices, rows), (n, k, c), g.dtype(values))


def resize(g: GraphWriter) -> None:
    """RESIZE with scales from one sixteenth to 16, both modes."""
    a = g.operand(("INT8", "INT16"), (4, 4))
    n, height, width, c = g.shape(a)
    room = int((MOST_ELEMENTS // (n * c)) ** 0.5)
    axes = [_sampling(g, size, max(1, room)) for size in (height, width)]
    scale = [x for numerator, denominator, _, _, _ in axes for x in (numerator, denominator)]
    mode = g.choices.sample(("NEAREST", "BILINEAR"))
    dtype = g.dtype(a)
    output = {"INT8": "INT32", "INT16": "INT48"}[dtype] if mode == "BILINEAR" else dtype
    shapes = [g.constant_shape(values) for values in (scale, [x[2] for x in axes], [x[3] for x in axes])]
    g.emit("RESIZE", (a, *shapes), (n, axes[0][4], axes[1][4], c), output, {"mode": mode})


def _sampling(g: GraphWriter, size: int, room: int) -> tuple[int, int, int, int, int]:
    """(numerator, denominator, offset, border, output size) along one axis; no more outputs than ``room`` or inputs."""
    numerator = g.choices.sample((1, 2, g.choices.integer(1, 16), g.choices.integer(1, 128)))
    denominator = g.choices.integer(1, min(16 * numerator - 1, 40))
    offset = g.choices.sample((0, -numerator, g.choices.integer(-numerator, 16 * numerator - 1)))
    start = (size - 1) * numerator - offset
    fitting = [
        b
        for b in range(-16 * numerator, numerator)
        if start + b >= 0 and (start + b) % denominator == 0 and (start + b) // denominator < room
    ]
    if not fitting:
        return 1, 1, 0, 0, size
    border = g.choices.sample(fitting)
    return numerator, denominator, offset, border, (start + border) // denominator + 1


OPERATORS: dict[str, Callable[[GraphWriter], None]] = {
    "CONCAT": concat,
    "PAD": pad,
    "RESHAPE": reshape,
    "REVERSE": reverse,
    "SLICE": slice_,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "GATHER": gather,
    "SCATTER": scatter,
    "RESIZE": resize,
}
"""By TOSA's name."""

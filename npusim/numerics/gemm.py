"""Exact products of integer matrices through BLAS, and their accumulation under an accumulator's overflow policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import Array, DType, first_outside

Locate = Callable[[tuple[int, ...]], tuple[int, ...]]
"""From an index in the array that is being accumulated to the index in the operator's output, for messages."""

EXACT_FLOAT32, EXACT_FLOAT64 = 1 << 24, 1 << 53
"""Every integer up to this magnitude is a float of that width."""

SHORTEST_FLOAT32_PIECE = 128
"""Below this length adding up float32 products costs more than multiplying in float64 does."""

BLOCK = 1 << 20
"""Elements of one block of the left factor, of the result or of products that need a look one by one (8 MiB)."""

PANEL = 1 << 24
"""Elements of the right factor that are held as floats at a time (128 MiB at most)."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One side of a product: the values ``array - zero_point``, none larger than ``magnitude``."""

    array: Array
    zero_point: int
    magnitude: int

    @staticmethod
    def of(array: Array, dtype: DType, zero_point: int = 0) -> Factor:
        """A tensor of ``dtype`` less its zero point; the magnitude follows from the type.

        >>> from npusim.numerics.types import I8
        >>> Factor.of(np.zeros(3, np.int8), I8, -128).magnitude
        255
        """
        return Factor(array, zero_point, max(abs(dtype.minimum - zero_point), abs(dtype.maximum - zero_point)))

    def widened(self, at: tuple[slice, ...], dtype: np.dtype[np.generic]) -> Array:
        """The values at ``at`` as a new C-ordered array of ``dtype``."""
        out = np.array(self.array[at], dtype, order="C")
        if self.zero_point:
            out -= out.dtype.type(self.zero_point)
        return out


def magnitude(x: Array) -> int:
    """Largest absolute value, 0 if there is none; exact (abs of the smallest integer of a numpy type overflows)."""
    return max(-int(x.min()), int(x.max()), 0) if x.size else 0


def blocks(shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Boxes that tile ``shape`` in row-major order, each of at most ``limit`` elements (at least one).

    >>> [tuple((s.start, s.stop) for s in b) for b in blocks((2, 3), 2)]
    [((0, 1), (0, 2)), ((0, 1), (2, 3)), ((1, 2), (0, 2)), ((1, 2), (2, 3))]
    """
    if not shape:
        yield ()
        return
    inner = prod(shape[1:])
    if inner <= limit:
        step = max(1, limit // max(1, inner))
        rest = tuple(slice(0, n) for n in shape[1:])
        for a in range(0, shape[0], step):
            yield (slice(a, min(a + step, shape[0])), *rest)
    else:
        for a in range(shape[0]):
            for tail in blocks(shape[1:], limit):
                yield (slice(a, a + 1), *tail)


def float_for(max_a: int, max_b: int, length: int) -> np.dtype[np.generic]:
    """The float type in which :func:`exact_matmul` multiplies factors of these magnitudes over this length.

    float32 where at least SHORTEST_FLOAT32_PIECE products (or all) can be added exactly, else float64.

    >>> str(float_for(128, 128, 576)), str(float_for(255, 255, 576)), str(float_for(1 << 15, 128, 576))
    ('float32', 'float32', 'float64')
    """
    enough = min(length, SHORTEST_FLOAT32_PIECE)
    return np.dtype(np.float32 if max_a * max_b * enough <= EXACT_FLOAT32 else np.float64)


def exact_matmul(a: Array, b: Array, max_a: int, max_b: int) -> Array:
    """``a @ b`` in exact integers, for matrices or equal batches of them: [..., M, K] @ [..., K, N] -> [..., M, N].

    The factors hold integers (as integers or floats) with ``|a| <= max_a``, ``|b| <= max_b``; ValueError if a single
    product might exceed 2**53 or the result int64. Returns int32 where the bound K * max_a * max_b fits, else int64.

    Exact because K is cut into pieces so short that *every* sum of *any* of a piece's products is an integer that the
    float type holds: in whatever order BLAS adds, fused or not, nothing is ever rounded.
    """
    length = a.shape[-1]
    product = max(1, max_a * max_b)
    if product > EXACT_FLOAT64 or product * length >= 1 << 63:
        raise ValueError(f"products of magnitude {product}, {length} of them, cannot be added exactly")
    kind = float_for(max_a, max_b, length)
    piece = (EXACT_FLOAT32 if kind == np.float32 else EXACT_FLOAT64) // product
    result = np.int32 if product * length < 1 << 31 else np.int64
    total: Array | None = None
    for k in range(0, max(1, length), piece):
        left = a[..., k : k + piece].astype(kind, copy=False)
        right = b[..., k : k + piece, :].astype(kind, copy=False)
        part = np.matmul(left, right).astype(result)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    return total


def accumulate(
    acc: Array | None,
    a: Array,
    b: Array,
    max_a: int,
    max_b: int,
    dtype: DType,
    overflow: Overflow,
    locate: Locate,
    what: str = "partial sum",
) -> Array:
    """``acc + a @ b`` (``acc`` None: 0) as an accumulator of ``dtype`` adds it: one product at a time, K ascending.

    Factors as in :func:`exact_matmul`; the result has ``dtype``'s storage type. A partial sum outside ``dtype`` is
    refused, wrapped to ``dtype.bits`` or clamped, as ``overflow.policy`` says, and counted once per addition; a refusal
    names the first output (row-major) with such a sum and its first such sum, under the name ``what``. The same numbers
    as a loop over Python integers, but outputs are only looked at one product at a time when no bound clears them: by
    the types, by the largest factors, by the sum of the magnitudes of their own products.
    """
    length = a.shape[-1]
    start = 0 if acc is None else magnitude(acc)
    bound = start + length * max_a * max_b
    total = exact_matmul(a, b, max_a, max_b)
    if acc is not None:
        total = np.add(total, acc, dtype=np.int32 if bound < 1 << 31 else np.int64, casting="unsafe")
    if bound > dtype.maximum:
        suspects = _suspects(acc, a, b, start, dtype.maximum)
        if suspects[0].size:
            total = _add_in_order(total, acc, a, b, suspects, dtype, overflow, locate, what)
    return total.astype(dtype.storage, copy=False)


def accumulate_float(acc: Array | None, a: Array, b: Array) -> Array:
    """``acc + a @ b`` in float32, one rounded product after another along K, as a plain loop adds them."""
    out = np.zeros((a.shape[0], b.shape[1]), np.float32) if acc is None else acc.astype(np.float32)
    product = np.empty_like(out)
    for k in range(a.shape[1]):
        np.multiply(a[:, k, None], b[k, None, :], out=product)
        out += product
    return out


def contract(
    acc: Array | None,
    left: Factor,
    right: Factor,
    dtype: DType,
    overflow: Overflow,
    locate: Locate,
    what: str = "partial sum",
) -> Array:
    """Fold ``sum over r of left[*p, *r] * right[n, *r]`` into ``acc``, which has the shape [*p, n]; a new array.

    ``left.array`` is [*positions, *reduction] (for a convolution a view of overlapping windows), ``right.array``
    [columns, *reduction]; the products of one output are added in row-major order of the reduction. The arithmetic is
    :func:`accumulate`'s, or :func:`accumulate_float`'s for a float ``dtype``. Works in blocks: apart from the result
    it needs a few times BLOCK and PANEL elements, whatever the sizes.
    """
    columns, *rest = right.array.shape
    reduction = tuple(rest)
    positions = left.array.shape[: left.array.ndim - len(reduction)]
    out = np.empty((*positions, columns), dtype.storage)
    for piece in blocks(reduction, BLOCK):
        length = prod(s.stop - s.start for s in piece)
        kind = float_for(left.magnitude, right.magnitude, length) if dtype.is_integer else dtype.storage
        for (panel,) in blocks((columns,), max(1, PANEL // length)):
            width = panel.stop - panel.start
            b = right.widened((panel, *piece), kind).reshape(width, length).T
            for block in blocks(positions, max(1, BLOCK // max(length, width))):
                at = (*block, panel)
                a = left.widened((*block, *piece), kind).reshape(-1, length)
                before = None if acc is None else acc[at].reshape(-1, width)
                if dtype.is_integer:
                    here = _within(locate, at)
                    sums = accumulate(before, a, b, left.magnitude, right.magnitude, dtype, overflow, here, what)
                else:
                    sums = accumulate_float(before, a, b)
                out[at] = sums.reshape(out[at].shape)
        acc = out
    return out


def add_checked(acc: Array, addend: Array, dtype: DType, overflow: Overflow, locate: Locate, what: str) -> Array:
    """``acc + addend`` (broadcast to ``acc``) in an accumulator of ``dtype``: TOSA's apply_add, or the policy.

    Floats are added as they are.
    """
    if not dtype.is_integer:
        return np.add(acc, addend, dtype=dtype.storage)
    total = np.add(acc, addend, dtype=np.int64)
    first = first_outside(total, dtype)
    if first is not None:
        events = int(np.count_nonzero((total < dtype.minimum) | (total > dtype.maximum)))
        overflow.record(events, what, locate(first), int(total[first]), dtype)
        total = _settle(total, dtype, overflow.policy)
    return total.astype(dtype.storage)


def _suspects(acc: Array | None, a: Array, b: Array, start: int, limit: int) -> tuple[Array, ...]:
    """Indices of the outputs some partial sum of which might exceed ``limit``, by bounds taken from the data."""
    length, max_a, max_b = a.shape[-1], magnitude(a), magnitude(b)
    if start + length * max_a * max_b <= limit:
        return (np.empty(0, np.int64),)
    kind = float_for(max_a, max_b, length)
    reach = exact_matmul(np.abs(a.astype(kind)), np.abs(b.astype(kind)), max_a, max_b).astype(np.int64, copy=False)
    if acc is not None:
        reach += np.abs(acc.astype(np.int64))
    return np.nonzero(reach > limit)


def _within(locate: Locate, at: tuple[slice, ...]) -> Locate:
    """``locate`` for a flattened [positions, columns] block at ``at``."""
    shape = tuple(s.stop - s.start for s in at)

    def located(index: tuple[int, ...]) -> tuple[int, ...]:
        row, column = index
        inner = np.unravel_index(row * shape[-1] + column, shape)
        return locate(tuple(s.start + int(i) for s, i in zip(at, inner, strict=True)))

    return located


def _settle(x: Array, dtype: DType, policy: Policy) -> Array:
    """Values outside ``dtype`` brought back as the policy does: clamped or, in two's complement, wrapped."""
    if policy == "saturate":
        return np.asarray(np.clip(x, dtype.minimum, dtype.maximum))
    return np.asarray(((x - dtype.minimum) & ((1 << dtype.bits) - 1)) + dtype.minimum)


def _add_in_order(
    total: Array,
    acc: Array | None,
    a: Array,
    b: Array,
    suspects: tuple[Array, ...],
    dtype: DType,
    overflow: Overflow,
    locate: Locate,
    what: str,
) -> Array:
    """``total`` with the suspect outputs added up product by product under the policy."""
    total = total.astype(np.int64)
    columns = np.swapaxes(b, -1, -2)
    step = max(1, BLOCK // a.shape[-1])
    for i in range(0, suspects[0].size, step):
        at = tuple(s[i : i + step] for s in suspects)
        products = a[at[:-1]].astype(np.int64) * columns[(*at[:-2], at[-1])].astype(np.int64)
        start = np.zeros(len(at[0]), np.int64) if acc is None else acc[at].astype(np.int64)
        if overflow.policy == "saturate":
            total[at], events, row, value = _saturating_sums(start, products, dtype)
        else:
            total[at], events, row, value = _plain_sums(start, products, dtype)
        if events:
            overflow.record(events, what, locate(tuple(int(s[row]) for s in at)), value, dtype)
    return total


def _plain_sums(start: Array, products: Array, dtype: DType) -> tuple[Array, int, int, int]:
    """Wrapped sums of each row; overflowing additions; row and value of the first one.

    An addition overflows exactly when the unbounded sum passes into another window of 2**bits values, however often
    the accumulator has wrapped before.
    """
    sums = np.cumsum(products, axis=1)
    sums += start[:, None]
    windows = (sums - dtype.minimum) >> dtype.bits
    crossed = np.diff(windows, axis=1, prepend=0) != 0
    last = _settle(sums[:, -1], dtype, "wrap")
    rows, steps = np.nonzero(crossed)
    if not rows.size:
        return last, 0, 0, 0
    return last, rows.size, int(rows[0]), int(sums[rows[0], steps[0]])


def _saturating_sums(start: Array, products: Array, dtype: DType) -> tuple[Array, int, int, int]:
    """Clamped sums of each row; clamped additions; row and value of the first one."""
    sums = start
    events, row, value = 0, len(start), 0
    for addend in np.ascontiguousarray(products.T):
        reached = sums + addend
        sums = np.clip(reached, dtype.minimum, dtype.maximum)
        clamped = np.flatnonzero(sums != reached)
        events += clamped.size
        if clamped.size and clamped[0] < row:
            row, value = int(clamped[0]), int(reached[clamped[0]])
    return sums, events, row, value

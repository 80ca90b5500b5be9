"""The master property of every operator: folding any tiling through step and finish equals the whole operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Dim, Work
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import Array
from npusim.ops import Bound, Op, evaluate_bound, read_padded

TileSizes = Mapping[str, int] | Sequence[int]
"""Extent of a tile along each dimension: by name (missing: whole) or one number per dimension, in order."""


def random_tiles(rng: np.random.Generator, work: Work) -> dict[str, int]:
    """A random tile extent for every splittable dimension, often 1, odd or the whole."""
    return {d.name: int(rng.integers(1, d.extent + 1)) for d in work.dims if d.splittable}


def check_tiled(
    op: Op, arrays: Sequence[Array], types: Sequence[TensorType], tile_sizes: TileSizes, policy: Policy = "refuse"
) -> Array:
    """Fold the operator tile by tile, each operand cut to exactly its footprint, and compare with the whole.

    Also asserts what the contract promises of every step: shapes, storage types, operands left alone. Returns the
    output, to be compared with an oracle.
    """
    bound = op.bind(types)
    check_accesses(bound)
    whole = evaluate_bound(bound, arrays, Overflow(policy, op.name))
    tiled = fold_tiles(bound, arrays, tile_sizes, Overflow(policy, op.name))
    assert whole.shape == bound.output.shape
    assert whole.dtype == bound.output.dtype.storage
    np.testing.assert_array_equal(tiled, whole)
    return whole


def check_accesses(bound: Bound) -> None:
    """The write has one plain parallel dimension or a constant 0 per axis, and the space covers the output once."""
    work = bound.work
    parallel = {d.name for d in work.dims if not d.reduce}
    for axis in work.write.axes:
        assert axis.offset == 0 and axis.divisor == 1 and axis.extra == 0 and axis.whole == -1
        assert all(name in parallel and c == 1 for name, c in axis.terms) and len(axis.terms) <= 1
    assert work.write.footprint(work.index, work.space) == Box.whole(bound.output.shape)
    assert prod(d.extent for d in work.dims if not d.reduce) == prod(bound.output.shape)
    assert sorted({a.operand for a in work.reads}) == list(range(len(bound.operands)))
    assert all(len(a.axes) == len(bound.operands[a.operand].shape) for a in work.reads)


def fold_tiles(bound: Bound, arrays: Sequence[Array], tile_sizes: TileSizes, overflow: Overflow) -> Array:
    """The output, computed tile by tile: reductions in the order of the dimensions, operands only where needed."""
    work = bound.work
    out = np.empty(bound.output.shape, bound.output.dtype.storage)
    written = np.zeros(bound.output.shape, np.int64)
    ranges = [_tiles(d, _extent(d, i, tile_sizes)) for i, d in enumerate(work.dims)]
    outer = [r if not d.reduce else [(0, d.extent)] for d, r in zip(work.dims, ranges, strict=True)]
    for parallel in product(*outer):
        inner = [r if d.reduce else [p] for d, r, p in zip(work.dims, ranges, parallel, strict=True)]
        acc: Array | None = None
        for spans in product(*inner):
            box = Box(tuple(a for a, _ in spans), tuple(b for _, b in spans))
            acc = _step(bound, acc, arrays, box, overflow)
        assert acc is not None
        box = Box(tuple(a for a, _ in parallel), tuple(b for _, b in parallel))
        at = work.write.footprint(work.index, box)
        result = bound.op.finish(bound, acc, _operands(bound, arrays, box, final=True), box, overflow)
        assert result.shape == at.shape and result.dtype == out.dtype
        out[at.slices] = result
        written[at.slices] += 1
    assert (written == 1).all()
    return out


def _step(bound: Bound, acc: Array | None, arrays: Sequence[Array], box: Box, overflow: Overflow) -> Array:
    operands = _operands(bound, arrays, box, final=False)
    before = [x.copy() for x in operands]
    result = bound.op.step(bound, acc, operands, box, overflow)
    assert result.shape == bound.work.write.footprint(bound.work.index, box).shape
    assert result.dtype == bound.accumulator.storage
    for x, y in zip(operands, before, strict=True):
        np.testing.assert_array_equal(x, y, "step modified an operand")
    return result


def _operands(bound: Bound, arrays: Sequence[Array], box: Box, final: bool) -> list[Array]:
    """Footprints of ``box``; empty where the operand is of the other phase, so that nobody relies on it."""
    out: list[Array] = [np.empty(0, a.dtype) for a in arrays]
    for access in bound.work.reads:
        if access.final == final:
            out[access.operand] = _footprint(bound, arrays, access, box)
    return out


def _footprint(bound: Bound, arrays: Sequence[Array], access: Access, box: Box) -> Array:
    i = access.operand
    want = access.footprint(bound.work.index, box)
    return read_padded(arrays[i], (0,) * arrays[i].ndim, want, bound.op.outside_value(bound, i)).copy()


def _extent(dim: Dim, i: int, tile_sizes: TileSizes) -> int:
    if not dim.splittable:
        return dim.extent
    return tile_sizes.get(dim.name, dim.extent) if isinstance(tile_sizes, Mapping) else tile_sizes[i]


def _tiles(dim: Dim, extent: int) -> list[tuple[int, int]]:
    return [(a, min(a + extent, dim.extent)) for a in range(0, dim.extent, extent)]


def random_array(rng: np.random.Generator, kind: TensorType) -> Array:
    """Random elements over the whole legal range of the type, both extremes likely."""
    dtype = kind.dtype
    if dtype.storage.kind == "f":
        return rng.standard_normal(kind.shape).astype(dtype.storage)
    x = rng.integers(dtype.minimum, dtype.maximum, kind.shape, np.int64, endpoint=True)
    extreme = rng.random(kind.shape)
    x = np.where(extreme < 0.1, dtype.minimum, np.where(extreme > 0.9, dtype.maximum, x))
    return x.astype(dtype.storage)


def indices(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every index of a tensor of ``shape``, row-major: the loops of an oracle."""
    return product(*map(range, shape))

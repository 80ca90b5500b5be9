"""Exhaustive search of the mapping of one layer, judged by simulation: what the tile search is held against.

**The space.** For a graph of one layer whose operands all lie in DRAM: every distinct tile size ceil(extent / n) of
every dimension but kernel dimensions, which stay whole; every loop order of the dimensions that are split, reduced ones
outside parallel ones included, up to swapping neighbours that the same operands depend on (which changes no reuse);
one, two and three buffers. What does not fit the SRAM is no candidate.

**Pruning.** A candidate whose lower bound is not less than the cycles of one that is known cannot be better, so it is
not simulated. Each part of the bound is a chain of events of which none can begin before the one ahead has ended:

* compute: operands of the first box, all boxes one after the other on the one instance of the unit, the last store;
* bus: latency, then the bytes of all transfers at the rate of the bus; or those of all loads, the last box, its store;
* queue: latency, then the bytes and set-ups of all loads of a queue, the last box, the last store; and likewise the
  first operands, the first box, and all stores;
* slots: contents of a slot come in, are used and are replaced, none beside the other. The chains of the slots of an
  operand together hold all its loads, latencies included, and all boxes, so the longest is no shorter than their share.

Edge tiles, pads and operands that are still in a slot count as what they are. The argument needs a chip whose DMA has
an SRAM port of its own, where loads and stores share the bus, and a unit of one instance; others are refused. That the
bound holds is asserted for every candidate that is simulated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from itertools import product as cartesian

import numpy as np
from numpy.typing import NDArray

from npusim.errors import DoesNotFitError
from npusim.graph import Graph
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.work import Access, Axis, Dim
from npusim.mapping.candidates import open_sums
from npusim.mapping.cost import RegionCost, TransferCost
from npusim.mapping.mapper import partition
from npusim.numerics.types import DType, ceil_div
from npusim.session import map_and_time

Ints = NDArray[np.int64]

BUFFERS = (1, 2, 3)


@dataclass(frozen=True)
class Best:
    """What the search found: the fewest cycles (those given where nothing is better) and how it got there."""

    cycles: int
    options: LayerOptions | None
    candidates: int
    simulated: int
    bound: int


def simulated_cycles(graph: Graph, chip: Chip, options: LayerOptions | None = None) -> int:
    """Cycles of a graph of one layer under the mapper's choice, or under a mapping of it."""
    (region,) = partition(graph, chip, MappingOptions())
    layers = {} if options is None else {region.name: options}
    mapping = MappingOptions(smaller_memories=False, layers=layers)
    return map_and_time(graph, chip, mapping)[2].cycles


def fewest_cycles(graph: Graph, chip: Chip, below: int, at_most: int = 1 << 62) -> Best:
    """The fewest cycles of any candidate, if less than ``below``; ``at_most`` so many are simulated."""
    layer = _Layer(graph, chip)
    found = list(layer.candidates())
    count = sum(n for n, *_ in found)
    bound = min(int(b.min()) for _, b, *_ in found if b.size)
    ranked = sorted(
        (int(b), i, int(k)) for i, (_, bounds, *_) in enumerate(found) for k, b in enumerate(bounds) if b < below
    )
    best: LayerOptions | None = None
    simulated = 0
    for b, i, k in ranked:
        if b >= below or simulated >= at_most:
            break
        _, _, tiles, order, buffers = found[i]
        options = layer.options(tiles[k], order, buffers)
        try:
            cycles = simulated_cycles(graph, chip, options)
        except DoesNotFitError:
            continue
        simulated += 1
        assert cycles >= b, f"{options}: {cycles} cycles, less than the bound {b}"
        if cycles < below:
            below, best = cycles, options
    return Best(below, best, count, simulated, bound)


class _Layer:
    """The layer of a graph, and what every tiling of it computes and moves, whatever the order and the buffers.

    Arrays run over the tilings: rows of ``tiles``.
    """

    def __init__(self, graph: Graph, chip: Chip) -> None:
        (self.region,) = partition(graph, chip, MappingOptions())
        self.chip, self.cost, self.transfer = chip, RegionCost(self.region, chip), TransferCost(chip)
        assert self.cost.unit.instances == 1 and not self.cost.unit.overlapped and not self.cost.streamed_bytes
        assert chip.sram.dma_port != self.cost.port and chip.dram.write_channel is None and chip.dma.channels > 1
        self.dims = self.region.work.dims
        self.sizes = [_sizes(d) for d in self.dims]
        axes = np.meshgrid(*(np.arange(len(s)) for s in self.sizes), indexing="ij")
        self.chosen = [a.reshape(-1) for a in axes]
        self.tiles = np.stack([np.asarray(s)[c] for s, c in zip(self.sizes, self.chosen, strict=True)], -1)
        self.trips = np.stack([ceil_div(d.extent, t) for d, t in zip(self.dims, self.tiles.T, strict=True)], -1)

    def options(self, tile: Ints, order: Sequence[int], buffers: int) -> LayerOptions:
        names = [d.name for d in self.dims]
        rest = [i for i in range(len(names)) if i not in order]  # not split: anywhere
        return LayerOptions(
            tile=dict(zip(names, map(int, tile), strict=True)),
            order=tuple(names[i] for i in (*order, *rest)),
            buffers=buffers,
        )

    # -- what is the same in all orders --------------------------------------------------------------------------

    @cached_property
    def compute(self) -> tuple[Ints, Ints, Ints]:
        """At least: cycles of all boxes, of the first and of the last one; of a split reduction its parts."""
        last_extents = [d.extent - (n - 1) * t for d, n, t in zip(self.dims, self.trips.T, self.tiles.T, strict=True)]
        reduced = [i for i, d in enumerate(self.dims) if d.reduce]
        split = [i for i, s in enumerate(self.sizes) if len(s) > 1]
        whole = np.prod([self.trips[:, i] for i in reduced], 0) == 1
        total = np.zeros(len(self.tiles), np.int64)
        ends = {}
        for edges in cartesian((False, True), repeat=len(split)):
            at = dict(zip(split, edges, strict=True))
            count = np.ones_like(total)
            for i in split:
                count = count * (1 if at[i] else self.trips[:, i] - 1)
            extents = [last_extents[i] if at.get(i, True) else t for i, t in enumerate(self.tiles.T)]
            closing = all(at.get(i, True) for i in reduced)
            cycles = self._box(extents, whole if closing else None, closing)
            total = total + count * cycles
            ends[edges] = cycles
        first = self._box(list(self.tiles.T), whole, False)
        return total, first, ends[(True,) * len(split)]

    def _box(self, extents: list[Ints], whole: NDArray[np.bool_] | None, closing: bool) -> Ints:
        """Cycles of a box that closes its sums, or of one that may not; ``whole``: where it opens and closes them."""
        part = np.asarray(self.cost.box_cycles(extents, not closing, closing))
        if whole is None:
            return part
        return np.where(whole, self.cost.box_cycles(extents), part)

    def moves(self, access: Access, shape: tuple[int, ...], dtype: DType) -> _Moves:
        """What moves if each tile of an operand moves once."""
        index = self.region.work.index
        used = sorted({index[name] for a in access.axes for name, _ in a.terms})
        axes = [self._extents(a, n, used) for a, n in zip(access.axes, shape, strict=True)]
        grid = [len(self.sizes[i]) for i in used]
        nbytes, number = np.zeros(grid, np.int64), np.ones(grid, np.int64)
        for kinds in cartesian(*(range(len(extents)) for extents, *_ in axes)):
            box = tuple(axis[0][k] for axis, k in zip(axes, kinds, strict=True))
            times = np.prod(np.broadcast_arrays(*(axis[1][k] for axis, k in zip(axes, kinds, strict=True))), 0)
            nbytes = nbytes + times * self._bytes(shape, box, dtype)
        for extents, counts, *_ in axes:
            number = number * (counts * (extents > 0)).sum(0)
        first, last = (self._bytes(shape, tuple(axis[k] for axis in axes), dtype) for k in (2, 3))
        at = tuple(self.chosen[i] for i in used)
        whole = [np.broadcast_to(np.broadcast_to(x, grid)[at], len(self.tiles)) for x in (nbytes, number, first, last)]
        nbytes, number, first, last = whole
        return _Moves(nbytes, number, first, last, frozenset(used))

    def _bytes(self, shape: tuple[int, ...], box: tuple[Ints, ...], dtype: DType) -> Ints:
        box = tuple(np.broadcast_arrays(*box))
        some = np.minimum.reduce([np.minimum(b, 1) for b in box])  # a tile in the pads alone is not moved
        return np.asarray(some * self.transfer.bytes_moved(shape, tuple(np.maximum(b, 1) for b in box), dtype))

    def _extents(self, axis: Axis, n: int, used: Sequence[int]) -> tuple[Ints, Ints, Ints, Ints]:
        """Of an axis of n indices, over the sizes of the dimensions ``used``: the different extents of its tiles (at
        most so many along the first axis), how many have each, and those of the first and of the last tile."""
        assert axis.divisor == 1 and not axis.extra and axis.whole < 0, "tiles of such an axis may be the same"
        terms = [(self.region.work.index[name], c) for name, c in axis.terms]
        shape = [len(self.sizes[i]) if i in [t for t, _ in terms] else 1 for i in used]
        rows = []
        for at in np.ndindex(*shape):
            sizes = [self.sizes[i][at[used.index(i)]] for i, _ in terms]
            tiles = [
                [(s, min(s + size, self.dims[i].extent)) for s in range(0, self.dims[i].extent, size)]
                for (i, _), size in zip(terms, sizes, strict=True)
            ]
            found = []
            for tile in cartesian(*tiles):
                ends = [sorted((c * lo, c * (hi - 1))) for (_, c), (lo, hi) in zip(terms, tile, strict=True)]
                lo, hi = (axis.offset + sum(e[k] for e in ends) for k in (0, 1))
                found.append(max(0, min(hi + 1, n) - max(lo, 0)))
            rows.append((Counter(found), found[0], found[-1]))
        most = max(len(c) for c, *_ in rows)
        padded = np.zeros((2, most, len(rows)), np.int64)
        for r, (counter, *_) in enumerate(rows):
            for k, (extent, times) in enumerate(sorted(counter.items())):
                padded[:, k, r] = extent, times
        extents, counts = padded.reshape(2, most, *shape)
        first, last = (np.reshape([row[k] for row in rows], shape) for k in (1, 2))
        return extents, counts, first, last

    # -- candidates ----------------------------------------------------------------------------------------------

    def candidates(self) -> Iterator[tuple[int, Ints, Ints, tuple[int, ...], int]]:
        """(number that fit, bounds, tiles, order of the split dimensions, buffers), group by group."""
        sram, work = self.chip.sram, self.region.work
        inputs = [self.moves(x.access, x.type.shape, x.type.dtype) for x in self.region.inputs]
        output = self.moves(work.write, self.cost.output.shape, self.cost.output.dtype)
        slots = [
            self._slot(self.cost.tile_shape(x.access, x.type.shape, list(self.tiles.T)), x.type.dtype)
            for x in self.region.inputs
        ]
        out_shape = self.cost.output_shape(list(self.tiles.T))
        out_slot, sums = (self._slot(out_shape, t) for t in (self.cost.output.dtype, self.cost.accumulator))
        capacity = sram.size_bytes // sram.granule_bytes * sram.granule_bytes
        split: NDArray[np.bool_] = np.asarray(self.trips > 1)
        reduced = [i for i, d in enumerate(self.dims) if d.reduce]
        splits = np.asarray(split[:, reduced].any(1))
        alike = {i: (d.reduce, *(i in m.used for m in inputs)) for i, d in enumerate(self.dims)}
        able = [i for i, s in enumerate(self.sizes) if len(s) > 1]
        for dims in (c for n in range(len(able) + 1) for c in combinations(able, n)):
            rows = np.flatnonzero((split[:, able] == [i in dims for i in able]).all(1))
            for order in permutations(dims):
                if any(alike[a] == alike[b] and a > b for a, b in zip(order, order[1:], strict=False)):
                    continue
                opened = np.asarray(open_sums(self.dims, order, list(self.trips[rows].T)))
                opened = np.broadcast_to(opened, len(rows)) * splits[rows]
                for buffers in BUFFERS:
                    loads = [self._loads(m, order, rows, buffers) for m in inputs]
                    held = [self._held(m, order, rows, buffers) for m in inputs]
                    stores = output.number[rows]
                    needed = opened * sums[rows] + np.minimum(stores, buffers) * out_slot[rows]
                    needed = needed + sum(h * s[rows] for h, s in zip(held, slots, strict=True))
                    fits = needed <= capacity
                    kept = rows[fits]
                    times = [x[fits] for x in loads]
                    bounds = self._bound(kept, inputs, times, [h[fits] for h in held], output, buffers, splits[kept])
                    yield len(kept), bounds, self.tiles[kept], order, buffers

    def _slot(self, shape: Sequence[object], dtype: DType) -> Ints:
        return np.broadcast_to(np.asarray(self.cost.slot_bytes(shape, dtype)), len(self.tiles))

    def _loads(self, moves: _Moves, order: tuple[int, ...], rows: Ints, buffers: int) -> Ints:
        """How often the tiles of an input are moved: once for each trip of a loop that does not move it, unless all
        tiles inside that loop are still in its slots."""
        times, inside = np.ones(len(rows), np.int64), np.ones(len(rows), np.int64)
        for i in reversed(order):
            if i in moves.used:
                inside = inside * self.trips[rows, i]
            else:
                times = times * np.where(inside > buffers, self.trips[rows, i], 1)
        return times

    def _held(self, moves: _Moves, order: tuple[int, ...], rows: Ints, buffers: int) -> Ints:
        """Slots of an input: one a buffer, but no more than its tiles change."""
        changes = running = np.ones(len(rows), np.int64)
        for i in order:
            running = running * self.trips[rows, i]
            if i in moves.used:
                changes = running
        return np.minimum(changes, buffers)

    def _bound(self, rows: Ints, inputs: Sequence[_Moves], times: Sequence[Ints], held: Sequence[Ints],
               output: _Moves, buffers: int, splits: NDArray[np.bool_]) -> Ints:  # fmt: skip
        """No more cycles than any simulation of these candidates takes."""
        dma, latency, transfer = self.chip.dma, self.chip.dram.latency_cycles, self.transfer
        total, first_box, last_box = (x[rows] for x in self.compute)
        zero = np.zeros(len(rows), np.int64)

        def bus(nbytes: Ints, store: bool = False) -> Ints:
            return np.asarray(transfer.bus_cycles(nbytes, store))

        def alone(nbytes: Ints, store: bool = False) -> Ints:
            """Cycles of a transfer of so many bytes that waits for nothing, set-up and latency aside."""
            return np.maximum(bus(nbytes, store), transfer.channel_cycles(nbytes, store))

        stores = output.number[rows]
        end = dma.setup_cycles + latency + alone(output.last[rows], True)
        first = zero
        queues: dict[int, list[int]] = {}
        for i, x in enumerate(self.region.inputs):
            queues.setdefault(self._queue(i, x.constant), []).append(i)
            needed = ~splits | (not x.access.final)
            first = np.maximum(first, needed * (dma.setup_cycles + latency + alone(inputs[i].first[rows])))
        moved = [m.bytes[rows] * t for m, t in zip(inputs, times, strict=True)]
        loads = [m.number[rows] * t for m, t in zip(inputs, times, strict=True)]
        ahead = dma.setup_cycles + latency if queues else 0
        bounds = [first + total + end]
        bounds.append(ahead + bus(sum(moved, zero)) + bus(output.bytes[rows], True))
        bounds.append(ahead + bus(sum(moved, zero)) + last_box + end)
        for members in queues.values():
            busy = np.maximum.reduce([loads[i] for i in members]) * dma.setup_cycles
            busy = busy + alone(sum((moved[i] for i in members), zero))
            bounds.append(latency + busy + last_box + end)
        storing = stores * dma.setup_cycles + alone(output.bytes[rows], True)
        bounds.append(first + first_box + storing + latency)
        for i, x in enumerate(self.region.inputs):
            bring = loads[i] * (dma.setup_cycles + latency) + alone(moved[i])
            used = np.where(splits, 0, total) if x.access.final else total
            bounds.append(ceil_div(bring + used, held[i]))
        leave = stores * (dma.setup_cycles + latency) + alone(output.bytes[rows], True)
        bounds.append(ceil_div(leave + np.where(splits, 0, total), np.minimum(stores, buffers)))
        return np.asarray(np.maximum.reduce(bounds))

    def _queue(self, number: int, constant: bool) -> int:
        """The load queue of an input: constants have the first of three or more channels to themselves."""
        between = self.chip.dma.channels - 2
        return 0 if constant or not between else 1 + number % between


@dataclass(frozen=True)
class _Moves:
    """Each tile of an operand moved once: bytes in all, number of transfers, bytes of the first and of the last one.

    ``used``: the dimensions that it depends on.
    """

    bytes: Ints
    number: Ints
    first: Ints
    last: Ints
    used: frozenset[int]


def _sizes(dim: Dim) -> list[int]:
    """The distinct tile sizes of a dimension, the largest first."""
    if not dim.splittable or dim.loop.value.startswith("kernel"):
        return [dim.extent]
    return sorted({int(ceil_div(dim.extent, n)) for n in range(1, dim.extent + 1)}, reverse=True)

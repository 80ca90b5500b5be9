"""How long the tiles of one layer take: its loop nest played through, command by command, as the simulation would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.ir.work import Access
from npusim.mapping.cost import RegionCost, TransferCost
from npusim.numerics.types import DType

Ints = NDArray[np.int64]


class Nest(NamedTuple):
    """A loop nest: tile size per dimension, all dimensions from the outermost loop in, slots of each operand."""

    tile: tuple[int, ...]
    order: tuple[int, ...]
    buffers: int


_Tile = tuple[tuple[int, ...], bool, bool]
"""Extents of a box, and whether it opens and closes its sums."""


class _Walk(NamedTuple):
    """The steps of a loop nest: trips of all dimensions, the loops of more than one trip, their counters (a row each),
    the different boxes, which of them each step does, and whether it closes its sums."""

    trips: list[int]
    order: tuple[int, ...]
    at: Ints
    boxes: list[_Tile]
    kinds: list[int]
    closes: list[bool]


class Pace:
    """Times loop nests of one region on one chip, the operands in ``resident`` already in SRAM.

    The recurrence is that of docs/timing-model.md for commands in the order of :mod:`npusim.mapping.emit`: a layer
    that runs alone takes exactly these cycles. It holds where :meth:`holds` says so.
    """

    def __init__(self, cost: RegionCost, resident: Sequence[bool], output_resident: bool, store_output: bool) -> None:
        self.cost, self.chip, self.work = cost, cost.chip, cost.work
        self.output_resident, self.store_output = output_resident, store_output
        self.transfer = TransferCost(cost.chip)
        between = [*range(1, self.chip.dma.channels - 1)] or [0]  # the channels that load feature maps
        self.inputs = [
            (0 if x.constant else between[i % len(between)], x)
            for i, (x, stays) in enumerate(zip(cost.region.inputs, resident, strict=True))
            if not stays
        ]
        self._boxes: dict[_Tile, int] = {}
        self._walks: dict[Nest, _Walk] = {}
        self._moved: dict[object, tuple[Ints, Ints]] = {}

    @staticmethod
    def holds(cost: RegionCost) -> bool:
        """Whether the recurrence covers what the chip does with such a region."""
        chip, dram = cost.chip, cost.chip.dram
        axes = [a for x in cost.region.inputs for a in x.access.axes]
        return (
            cost.unit.instances == 1
            and not (cost.unit.overlapped or cost.streamed_bytes or cost.rows_ahead)
            and not (dram.fair or dram.caches or dram.row_buffer or dram.layouts or dram.write_channel)
            and not (chip.host_link or chip.dma.run_cycles or chip.sram.preloaded_constants)
            and chip.sram.dma_port != cost.port
            and all(a.divisor == 1 for a in axes)
        )

    def split(self, nest: Nest) -> tuple[int, ...]:
        """The loops of more than one trip, from the outermost one in."""
        return tuple(i for i in nest.order if nest.tile[i] < self.work.dims[i].extent)

    def prepare(self, nests: Iterable[Nest]) -> None:
        """Cost the boxes of several loop nests at once, which takes less time than one by one."""
        missing: dict[tuple[bool, bool], dict[tuple[int, ...], None]] = {}
        for nest in nests:
            for extents, first, last in self._walk(nest).boxes:
                if (extents, first, last) not in self._boxes:
                    missing.setdefault((first, last), {})[extents] = None
        for (first, last), boxes in missing.items():
            columns = list(np.asarray(list(boxes), np.int64).T)
            cycles = np.broadcast_to(np.asarray(self.cost.box_cycles(columns, first, last)), len(boxes)).tolist()
            self._boxes.update({(extents, first, last): c for extents, c in zip(boxes, cycles, strict=True)})

    def cycles(self, nest: Nest) -> int:
        """Cycles from the first load to the end of the last store, or of the last tile if none is stored."""
        self.prepare([nest])
        walk = self._walk(nest)
        known = [self._boxes[box] for box in walk.boxes]
        parts = [
            (queue, x.access.final, *self._parts(k, x.access, x.type.shape, x.type.dtype, nest, walk))
            for k, (queue, x) in enumerate(self.inputs)
        ]
        out = self.cost.output
        stores = self._parts(-1, self.work.write, out.shape, out.dtype, nest, walk)[1] if self.store_output else None
        return self._play(nest, [known[k] for k in walk.kinds], walk.closes, parts, stores)

    def _walk(self, nest: Nest) -> _Walk:
        if nest in self._walks:
            return self._walks[nest]
        dims = self.work.dims
        trips = [-(-d.extent // t) for d, t in zip(dims, nest.tile, strict=True)]
        order = self.split(nest)
        at = np.indices([trips[i] for i in order]).reshape(len(order), prod(trips))
        ends = np.asarray([trips[i] - 1 for i in order], np.int64)[:, None]
        reduced = [k for k, i in enumerate(order) if dims[i].reduce]
        firsts, lasts = (at[reduced] == 0).all(0), (at[reduced] == ends[reduced]).all(0)
        code = ((4 << np.arange(len(order), dtype=np.int64)) @ (at == ends)) + 2 * firsts + lasts
        codes, kinds = np.unique(code, return_inverse=True)
        boxes = []
        for c in codes.tolist():
            extents = [min(t, d.extent) for t, d in zip(nest.tile, dims, strict=True)]
            for k, i in enumerate(order):
                if c >> 2 + k & 1:
                    extents[i] = dims[i].extent - (trips[i] - 1) * nest.tile[i]
            boxes.append((tuple(extents), bool(c & 2), bool(c & 1)))
        walk = self._walks[nest] = _Walk(trips, order, at, boxes, kinds.reshape(-1).tolist(), lasts.tolist())
        return walk

    def _parts(
        self, which: int, access: Access, shape: tuple[int, ...], dtype: DType, nest: Nest, walk: _Walk
    ) -> tuple[list[int], list[int]]:
        """Of each step, the number of an operand's tile and the bytes that move for it."""
        index, trips, order = self.work.index, walk.trips, walk.order
        used = sorted(i for i in order if any(index[n] == i for a in access.axes for n, _ in a.terms))
        key = which, *((i, nest.tile[i]) for i in used)
        if key not in self._moved:
            self._moved[key] = self._tiles(access, shape, dtype, nest, trips, used)
        numbers, moved = self._moved[key]
        at = np.zeros(walk.at.shape[1], np.int64)
        for i in used:
            at = at * trips[i] + walk.at[order.index(i)]
        return numbers[at].tolist(), moved[at].tolist()

    def _tiles(
        self, access: Access, shape: tuple[int, ...], dtype: DType, nest: Nest, trips: list[int], used: list[int]
    ) -> tuple[Ints, Ints]:
        """Over the counters of the loops ``used``: numbers of tiles, equal where their boxes are, and bytes moved."""
        grid = [trips[i] for i in used]
        ends, joint = [], False
        for axis, n in zip(access.axes, shape, strict=True):
            if axis.whole >= 0:
                ends.append((np.zeros(grid, np.int64), np.full(grid, min(axis.whole, n), np.int64)))
                continue
            lo = hi = np.full([1] * len(grid), axis.offset, np.int64)
            for name, c in axis.terms:
                i = self.work.index[name]
                first = np.arange(trips[i], dtype=np.int64) * nest.tile[i]
                last = np.minimum(first + nest.tile[i], self.work.dims[i].extent) - 1
                along = [-1 if k == i else 1 for k in used]
                first, last = (c * x.reshape(along) for x in (first, last))
                lo, hi = (lo + first, hi + last) if c >= 0 else (lo + last, hi + first)
            ends.append((np.maximum(lo, 0), np.minimum(hi + axis.extra + 1, n)))
            joint |= sum(trips[self.work.index[name]] > 1 for name, _ in axis.terms) > 1
        extents = [hi - lo for lo, hi in ends]
        moved = np.asarray(self.transfer.bytes_moved(shape, tuple(np.maximum(x, 1) for x in extents), dtype))
        for x in extents:
            moved = moved * (x > 0)
        numbers = np.arange(int(np.prod(grid)), dtype=np.int64)
        if joint:  # along such an axis different tiles may touch the same indices
            boxes = np.stack([np.broadcast_to(x, grid).reshape(-1) for end in ends for x in end])
            numbers = np.unique(boxes, axis=1, return_inverse=True)[1].reshape(-1)
        return numbers, np.broadcast_to(moved, grid).reshape(-1)

    def _play(
        self, nest: Nest, computes: list[int], closes: list[bool],
        parts: Sequence[tuple[int, bool, list[int], list[int]]], stores: list[int] | None
    ) -> int:  # fmt: skip
        chip, transfer = self.chip, self.transfer
        latency, setup = chip.dram.latency_cycles, chip.dma.setup_cycles
        ahead, turnaround = setup + latency, chip.dram.turnaround_cycles
        costs: dict[tuple[int, bool], tuple[int, int]] = {}
        channels = [chip.control.run_cycles] * chip.dma.channels
        bus, loaded_last = 0, True
        slots = [([-1] * nest.buffers, [-1] * nest.buffers) for _ in parts]
        places = [0] * len(parts)
        finished = [0] * len(computes)
        ready = [0] * len(computes)
        results = [0] * (1 if self.output_resident else nest.buffers)
        unit, result, done, pending = chip.control.run_cycles, 0, 0, -1
        end = 0

        def transferred(nbytes: int, channel: int, start: int, store: bool) -> int:
            """The end of a transfer that may start at ``start`` as far as its own dependencies go."""
            nonlocal bus, loaded_last, end
            cost = costs.get((nbytes, store))
            if cost is None:
                on_bus = int(transfer.bus_cycles(nbytes, store))
                alone = max(on_bus, int(transfer.channel_cycles(nbytes, store)))
                cost = costs[nbytes, store] = on_bus, alone
            start = max(start, channels[channel])
            first = bus + turnaround if loaded_last is store and bus else bus
            loaded_last = not store
            bus = max(start + ahead, first) + cost[0]
            finish = max(bus, start + ahead + cost[1])
            channels[channel] = finish - latency
            end = max(end, finish)
            return finish

        def stored() -> None:
            nonlocal pending
            if pending >= 0 and stores is not None:
                finish = transferred(stores[pending], -1, finished[pending], True)
                if not self.output_resident:
                    results[result - 1] = finish
            pending = -1

        def computed() -> None:
            """The next box, behind the store of the one before."""
            nonlocal unit, result, done, pending
            stored()
            start = max(unit, ready[done])
            if closes[done] and not self.output_resident:
                start = max(start, results[result])
                result = (result + 1) % len(results)
            unit = finished[done] = start + computes[done] + (0 if done else chip.control.layer_cycles)
            if closes[done]:
                pending = done
            done += 1

        for step, closing in enumerate(closes):
            missing: dict[int, tuple[int, int]] = {}
            for k, (queue, final, numbers, moved) in enumerate(parts):
                if (final and not closing) or not moved[step]:
                    continue
                held, users = slots[k]
                number = numbers[step]
                if number in held:
                    users[held.index(number)] = step
                    continue
                place = places[k]
                places[k] = (place + 1) % nest.buffers
                nbytes, after = missing.get(queue, (0, -1))
                missing[queue] = nbytes + moved[step], max(after, users[place])
                held[place], users[place] = number, step
            for queue, (nbytes, after) in missing.items():
                while done <= after:
                    computed()
                finish = transferred(nbytes, queue, finished[after] if after >= 0 else 0, False)
                ready[step] = max(ready[step], finish)
        while done < len(computes):
            computed()
        stored()
        return max(end, unit)

"""Candidate tilings of a region, all weighed at once with the cost functions of the chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from npusim.graph.region import Region
from npusim.hardware import Chip, product
from npusim.hardware.base import Count
from npusim.ir.mapping_options import LayerOptions
from npusim.ir.work import Dim
from npusim.mapping.cost import RegionCost, TransferCost
from npusim.mapping.pace import Nest
from npusim.numerics.types import ceil_div

Ints = NDArray[np.int64]

NEVER = 1 << 48
"""Bytes that no memory has: what a candidate needs that can never fit."""


@dataclass(frozen=True)
class Candidates:
    """All weighed tilings of one region; rows are candidates, columns dimensions or inputs.

    ``tile`` numbers the tiles. Loop orders and numbers of buffers that make no difference to a tile are left out.
    """

    tile: Ints
    tiles: Ints
    order: Ints
    orders: tuple[tuple[int, ...], ...]
    buffers: Ints
    slot_bytes: Ints
    fetches: Ints
    loads: Ints
    bus: Ints
    channel: Ints
    output_bytes: Ints
    accumulator_bytes: Ints
    stores: Ints
    store_bus: Ints
    store_channel: Ints
    compute: Ints
    commands: Ints
    constant: NDArray[np.bool_]
    instances: int
    accumulator_memory: int
    streamed: bool
    reload: bool
    chip: Chip
    frontiers: dict[object, tuple[Ints, Ints]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def copies(self) -> Ints:
        """Most slots of an operand: one a buffer, and one for each further instance that works at the same time."""
        return self.buffers + self.instances - 1

    def weigh(self, resident: Sequence[bool], output_resident: bool, store_output: bool) -> (
        tuple[Ints, Ints, Ints]
    ):  # fmt: skip
        """(estimated cycles, SRAM bytes of the working set, cycles of the DRAM bus) of every candidate.

        The tiles of a layer pass its stages (load, compute, store, the bus) like a pipeline: it takes as long as its
        longest stage and what the first and the last tile spend in the others. But a buffer is filled, used and
        emptied before it is filled again, so it takes no less than the sum of all stages, latencies included, over
        the number of copies. And the bus carries loads in the order of the tiles, so an operand that changes once in
        many tiles is not loaded before all but a few of the tiles ahead have theirs.
        """
        dma, dram = self.chip.dma, self.chip.dram
        zero = np.zeros(len(self.tiles), np.int64)
        away = ~np.asarray(resident, np.bool_)
        slots = self.slot_bytes * np.minimum(self.fetches, self.copies[:, None])
        slots = slots[:, away].sum(1) + self.accumulator_bytes
        if not output_resident:
            slots = slots + self.output_bytes * np.minimum(self.stores, self.copies)
        loads = self.loads
        if self.chip.sram.preloaded_constants:  # those for slots that nothing has used before are there
            loads = np.where(self.constant, np.maximum(loads - self.copies[:, None], 0), loads)
        at_first = loads == self.loads
        bus, waits = zero, zero
        queues, firsts, first_bus = [], [], zero
        for kind in (self.constant & away, ~self.constant & away):
            if kind.any():
                commands = loads[:, kind].max(1)
                queues.append((loads * self.channel)[:, kind].sum(1) + commands * dma.setup_cycles)
                firsts.append((at_first * self.channel)[:, kind].sum(1) + at_first[:, kind].any(1) * dma.setup_cycles)
                first_bus = first_bus + (at_first * self.bus)[:, kind].sum(1)
                waits = np.maximum(waits, commands * dram.latency_cycles)
                bus = bus + (loads * self.bus)[:, kind].sum(1)
        side_by_side = len(queues) == 2 and dma.channels > 2  # constants and feature maps have channels of their own
        loading = np.maximum(*queues) if side_by_side else sum(queues, zero)
        first = np.maximum(*firsts) if side_by_side else sum(firsts, zero)
        ahead = behind = 0
        if queues:
            ahead = dma.setup_cycles + dram.latency_cycles
            first = np.maximum(first, first_bus + dma.setup_cycles) + dram.latency_cycles
        storing = last = zero
        if store_output or not output_resident:
            one = np.maximum(self.store_channel, self.store_bus) + dma.setup_cycles
            storing = self.stores * one
            if not self.streamed:
                behind = dma.setup_cycles + dram.latency_cycles
                last = one + dram.latency_cycles
                waits = waits + self.stores * dram.latency_cycles
            if dram.write_channel is None:
                bus = bus + self.stores * (self.store_bus + 2 * dram.turnaround_cycles)
        tile = self.compute * self.instances // self.commands
        stages = [
            first + self.compute + last,
            ahead + loading + tile + last,
            first + tile + storing,
            ahead + bus + tile + behind,
        ]
        if queues:
            step = np.maximum(self.compute, storing) // self.commands
            often = np.maximum(loads[:, away], 1)
            inside = np.minimum(often.max(1), self.commands)[:, None] // often  # tiles between two loads of an operand
            stages.append(ahead + (often * self.channel[:, away] + inside * step[:, None]).max(1) + last)
            held_up = self.bus[:, away] + np.maximum(inside - self.copies[:, None], 0) * step[:, None]
            stages.append(first + (often * np.where(inside > 1, held_up, 0)).max(1) + last)
        overlapped = np.maximum.reduce(stages)
        moving = np.maximum(loading + (0 if self.streamed else storing), bus)
        serial = self.compute * self.instances + moving + waits
        return np.maximum(overlapped, serial // self.copies), slots, bus

    def fewest_cycles(self, resident: Sequence[bool], output_resident: bool, store: bool, budget: int) -> int | None:
        """The estimate of the fastest candidate within ``budget``."""
        flags = tuple(resident), output_resident, store
        if flags not in self.frontiers:
            cycles, slots, _ = self.weigh(resident, output_resident, store)
            order = np.argsort(slots, kind="stable")
            self.frontiers[flags] = slots[order], np.minimum.accumulate(cycles[order])
        nbytes, fewest = self.frontiers[flags]
        fitting = int(np.searchsorted(nbytes, budget, "right"))
        return int(fewest[fitting - 1]) if fitting else None

    def nest(self, i: int) -> Nest:
        """The loop nest of candidate ``i``."""
        return Nest(tuple(self.tiles[i].tolist()), self.orders[int(self.order[i])], int(self.buffers[i]))


def weighed(
    region: Region, cost: RegionCost, options: LayerOptions, grid: Ints, orders: tuple[tuple[int, ...], ...],
    buffers: Sequence[int], exact: bool = True
) -> Candidates:  # fmt: skip
    """Candidates with the tiles ``grid`` (row by row, a size per dimension) in all orders with all numbers of buffers.

    ``exact``: the cycles of boxes at the edges are those of their extents, not a share of those of whole tiles.
    """
    dims, chip = cost.work.dims, cost.chip
    extents = [grid[:, i] for i in range(len(dims))]
    trips = np.stack([ceil_div(d.extent, e) for d, e in zip(dims, extents, strict=True)], -1) if dims else grid
    transfer = TransferCost(chip)
    count = len(grid)

    def column(x: object) -> Ints:
        return np.broadcast_to(np.asarray(x, np.int64), (count,))

    def stack(columns: list[Ints]) -> Ints:
        return np.stack(columns, -1) if columns else np.zeros((count, 0), np.int64)

    inputs = region.inputs
    shapes = [cost.tile_shape(i.access, i.type.shape, extents) for i in inputs]
    dram = [cost.in_dram(i.access, i.type.shape, i.constant) for i in inputs]
    boxes = [(a.shape, a.extents(s)) for a, s in zip(dram, shapes, strict=True)]
    moved = [column(transfer.bytes_moved(*b, i.type.dtype)) for i, b in zip(inputs, boxes, strict=True)]
    bus = [
        transfer.bus_cycles(m) + transfer.row_miss_cycles(*b, i.type.dtype)
        for i, b, m in zip(inputs, boxes, moved, strict=True)
    ]
    channel = [transfer.channel_cycles(m) + transfer.run_cycles(*b) for b, m in zip(boxes, moved, strict=True)]
    slot_bytes = stack([column(cost.slot_bytes(s, i.type.dtype)) for i, s in zip(inputs, shapes, strict=True)])
    out_shape = cost.output_shape(extents)
    arrangement = cost.in_dram(cost.work.write, cost.output.shape, constant=False)
    out_box = arrangement.shape, arrangement.extents(out_shape)
    out_moved = column(transfer.bytes_moved(*out_box, cost.output.dtype))
    store_bus = transfer.bus_cycles(out_moved, store=True) + transfer.row_miss_cycles(*out_box, cost.output.dtype)
    store_channel = transfer.channel_cycles(out_moved, store=True) + transfer.run_cycles(*out_box)
    reduced = [i for i, d in enumerate(dims) if d.reduce]
    splits = column(product(trips[:, i] for i in reduced))
    outputs = column(product(trips[:, i] for i in range(len(dims)) if i not in reduced))
    compute = ceil_div((_exactly if exact else _roughly)(cost, grid, trips, splits, outputs), cost.unit.instances)
    sums = np.where(splits > 1, column(cost.slot_bytes(out_shape, cost.accumulator)), 0)
    output_bytes = column(cost.slot_bytes(out_shape, cost.output.dtype))
    if cost.streamed_bytes:  # no SRAM, but what is under way is limited
        under_way = output_bytes * np.minimum(outputs, streamed_copies(cost))
        output_bytes = np.where(under_way > cost.streamed_bytes, NEVER + under_way, 0)
    fetches = [_fetches(region, order, trips, options.reload) for order in orders]
    instances = cost.unit.instances
    kinds: list[tuple[int, int, Ints]] = []  # order, buffers, tiles that no kind before has in the same way
    walks: list[Ints] = []
    for k, order in enumerate(orders):
        walk = np.zeros(count, np.int64)  # the loops of more than one trip
        for i in order:
            walk = np.where(trips[:, i] > 1, walk * (len(dims) + 1) + i + 1, walk)
        new = np.logical_and.reduce([walk != w for w in walks]) if walks else np.ones(count, np.bool_)
        walks.append(walk)
        most = np.maximum(fetches[k].max(1, initial=1), outputs)
        used: list[Ints] = []
        for b in buffers:
            used.append(np.minimum(most, b + instances - 1))
            other = np.logical_and.reduce([u != used[-1] for u in used[:-1]]) if used[:-1] else True
            kinds.append((k, b, np.flatnonzero(new & other)))
    rows = np.concatenate([r for *_, r in kinds])
    loads = [
        fetches[k][r] if options.reload else _loads(region, orders[k], trips[r], b + instances - 1) for k, b, r in kinds
    ]
    accumulators = [
        _accumulator_bytes(cost, sums[r], open_sums(dims, orders[k], list(trips[r].T))) * np.ones(len(r), np.int64)
        for k, b, r in kinds
    ]
    return Candidates(
        tile=rows,
        tiles=grid[rows],
        order=np.concatenate([np.full(len(r), k) for k, _, r in kinds]),
        orders=orders,
        buffers=np.concatenate([np.full(len(r), b) for _, b, r in kinds]),
        slot_bytes=slot_bytes[rows],
        fetches=np.concatenate([fetches[k][r] for k, _, r in kinds]),
        loads=np.concatenate(loads),
        bus=stack([column(b) for b in bus])[rows],
        channel=stack([column(c) for c in channel])[rows],
        output_bytes=output_bytes[rows],
        accumulator_bytes=np.concatenate(accumulators),
        stores=outputs[rows],
        store_bus=column(store_bus)[rows],
        store_channel=column(store_channel)[rows],
        compute=compute[rows],
        commands=(outputs * splits)[rows],
        constant=np.asarray([i.constant for i in inputs], np.bool_),
        instances=instances,
        accumulator_memory=cost.accumulator_bytes * instances,
        streamed=cost.streamed_bytes is not None,
        reload=options.reload,
        chip=chip,
    )


def open_sums(dims: Sequence[Dim], order: Sequence[int], trips: Sequence[Count]) -> Count:
    """Output tiles whose sums are open at once: those of all loops inside the outermost one that splits a reduction."""
    count: Count = 1
    split: Count = 0
    for i in order:
        if dims[i].reduce:
            split = split | ((trips[i] > 1) * 1)
        else:
            count = count * (1 + split * (trips[i] - 1))
    return count


def _accumulator_bytes(cost: RegionCost, tile: Ints, tiles: Ints) -> Ints:
    """SRAM bytes for the sums of so many open tiles, one an instance at least; NEVER and they if they do not fit."""
    instances = cost.unit.instances
    if not cost.accumulator_bytes:
        return tile * np.maximum(tiles, instances)
    needed = ceil_div(tiles, instances) * tile  # a memory of their own: no SRAM
    return np.where(needed > cost.accumulator_bytes, NEVER + needed * instances, 0)


def streamed_copies(cost: RegionCost) -> int:
    """Tiles whose results may be under way to DRAM at once: one that leaves and one that is made, per instance."""
    return 1 + cost.unit.instances


def _fetches(region: Region, order: Sequence[int], trips: Ints, reload: bool) -> Ints:
    """How often each input's tile changes: trips of every loop down to the innermost one that moves it.

    With ``reload`` of every loop, or of every parallel one for an input that only finished sums need.
    """
    columns = []
    for x in region.inputs:
        used = {region.work.index[name] for a in x.access.axes for name, _ in a.terms if a.whole < 0}
        total = np.ones(len(trips), np.int64)
        running = np.ones(len(trips), np.int64)
        for i in order:
            if reload and x.access.final and region.work.dims[i].reduce:
                continue
            running = running * trips[:, i]
            if i in used or reload:
                total = np.where(trips[:, i] > 1, running, total)
        columns.append(total)
    return np.stack(columns, -1) if columns else np.zeros((len(trips), 0), np.int64)


def _loads(region: Region, order: Sequence[int], trips: Ints, copies: int) -> Ints:
    """How often each input's tiles are loaded: as they change, but for those that are still in one of its slots.

    The slots take tiles in turn, so a loop that does not move the operand finds all tiles of the loops inside it there,
    or none.
    """
    columns = []
    for x in region.inputs:
        used = {region.work.index[name] for a in x.access.axes for name, _ in a.terms if a.whole < 0}
        inside, again = np.ones(len(trips), np.int64), np.ones(len(trips), np.int64)
        for i in reversed(order):
            if i in used:
                inside = inside * trips[:, i]
            else:
                again = again * np.where(inside > copies, trips[:, i], 1)
        columns.append(inside * again)
    return np.stack(columns, -1) if columns else np.zeros((len(trips), 0), np.int64)


def _roughly(cost: RegionCost, grid: Ints, trips: Ints, splits: Ints, outputs: Ints) -> Ints:
    """Cycles of all boxes of each tiling, those at the edges in proportion to their points."""
    dims = cost.work.dims
    columns = [grid[:, i] for i in range(len(dims))]
    whole = np.broadcast_to(np.asarray(cost.box_cycles(columns), np.int64), len(grid))
    share = np.ones(len(grid))
    for i, d in enumerate(dims):
        share = share * d.extent / (grid[:, i] * trips[:, i])
    return (whole * outputs * splits * share).astype(np.int64)


def _exactly(cost: RegionCost, grid: Ints, trips: Ints, splits: Ints, outputs: Ints) -> Ints:
    """Cycles of all boxes of each tiling; those at the edges count as what they are."""
    dims = cost.work.dims
    part = np.flatnonzero(splits > 1)
    total = np.zeros(len(grid), np.int64)
    uneven = np.asarray([d.extent for d in dims], np.int64) % grid
    boxes: list[tuple[Ints, Ints, Ints]] = [(np.arange(len(grid)), grid, np.ones(len(grid), np.int64))]
    for i in range(len(dims)):
        halves = []
        for rows, extents, count in boxes:
            edge = uneven[rows, i]
            inner = np.flatnonzero((trips[rows, i] > 1) | (edge == 0))
            halves.append((rows[inner], extents[inner], count[inner] * (trips[rows, i] - (edge > 0))[inner]))
            outer = np.flatnonzero(edge > 0)
            at_edge = extents[outer].copy()
            at_edge[:, i] = edge[outer]
            halves.append((rows[outer], at_edge, count[outer]))
        boxes = [h for h in halves if len(h[0])]
    rows, extents, count = (np.concatenate(x) for x in zip(*boxes, strict=True))
    columns = list(extents.T)
    cycles = np.array(np.broadcast_to(np.asarray(cost.box_cycles(columns)), len(rows)))
    split = np.flatnonzero(splits[rows] > 1)
    if len(split):
        cycles[split] = cost.box_cycles(list(extents[split].T), False, False)
    np.add.at(total, rows, cycles * count)
    if len(part):
        columns = list(grid[part].T)
        closing = np.asarray(cost.box_cycles(columns, False, True)) - cost.box_cycles(columns, False, False)
        total[part] += outputs[part] * closing
    return total

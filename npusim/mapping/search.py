"""The tile search: every candidate tiling of a region weighed at once with the cost functions of the chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npusim.errors import DoesNotFitError, InputError
from npusim.graph.region import Region
from npusim.hardware import Chip, largest, product
from npusim.hardware.base import Count
from npusim.ir.mapping_options import LayerOptions
from npusim.ir.work import Dim
from npusim.mapping.cost import RegionCost, TransferCost
from npusim.numerics.types import ceil_div

Ints = NDArray[np.int64]

NEVER = 1 << 48
"""Bytes that no memory has: what a candidate needs that can never fit."""


@dataclass(frozen=True)
class LayerMapping:
    """A chosen mapping: tile size per dimension, loop order (all dimensions, outermost first), slots per operand.

    ``reload``: every tile loads its operands anew.
    """

    tile: tuple[int, ...]
    order: tuple[int, ...]
    buffers: int
    estimate_cycles: int
    sram_bytes: int
    reload: bool = False


@dataclass(frozen=True)
class Candidates:
    """All weighed tilings of one region; rows are candidates, columns dimensions or inputs."""

    tiles: Ints
    order: Ints
    orders: tuple[tuple[int, ...], ...]
    buffers: Ints
    slot_bytes: Ints
    fetches: Ints
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
        the number of copies. An upper bound where edge tiles are smaller.
        """
        dma, dram = self.chip.dma, self.chip.dram
        zero = np.zeros(len(self.tiles), np.int64)
        away = ~np.asarray(resident, np.bool_)
        slots = self.slot_bytes * np.minimum(self.fetches, self.copies[:, None])
        slots = slots[:, away].sum(1) + self.accumulator_bytes
        if not output_resident:
            slots = slots + self.output_bytes * np.minimum(self.stores, self.copies)
        loads = self.fetches
        if self.chip.sram.preloaded_constants:  # those for slots that nothing has used before are there
            loads = np.where(self.constant, np.maximum(loads - self.copies[:, None], 0), loads)
        at_first = loads == self.fetches
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
        overlapped = np.maximum.reduce(
            [
                first + self.compute + last,
                ahead + loading + tile + last,
                first + tile + storing,
                ahead + bus + tile + behind,
            ]
        )
        moving = np.maximum(loading + (0 if self.streamed else storing), bus)
        serial = self.compute * self.instances + moving + waits
        return np.maximum(overlapped, serial // self.copies), slots, bus

    def pick(
        self, resident: Sequence[bool], output_resident: bool, store_output: bool, budget: int
    ) -> LayerMapping | None:
        """The best candidate within ``budget`` bytes; None if none fits.

        Of those within 1/64 of the fewest cycles: one that leaves half the budget to the next layer's first loads if
        there is one, then the least DRAM traffic, the fewest commands, the smallest working set.
        """
        cycles, slots, traffic = self.weigh(resident, output_resident, store_output)
        fits = slots <= budget
        if not fits.any():
            return None
        best = int(cycles[fits].min())
        near = np.flatnonzero(fits & (cycles <= best + best // 64))
        keys = (slots[near], self.commands[near], traffic[near], slots[near] > budget // 2)
        i = int(near[np.lexsort(keys)[0]])
        return LayerMapping(
            tuple(int(t) for t in self.tiles[i]),
            self.orders[int(self.order[i])],
            int(self.buffers[i]),
            int(cycles[i]),
            int(slots[i]),
            self.reload,
        )

    def fewest_cycles(self, resident: Sequence[bool], output_resident: bool, store: bool, budget: int) -> int | None:
        """The estimate of the fastest candidate within ``budget``."""
        cycles, slots, _ = self.weigh(resident, output_resident, store)
        fits = slots <= budget
        return int(cycles[fits].min()) if fits.any() else None


def candidates(region: Region, cost: RegionCost, options: LayerOptions, limit: int) -> Candidates:
    """Weigh tilings of ``region``: at most ``limit`` per loop order and buffering.

    Tile sizes tried per dimension: ceil(extent / k) for k = 1, 2, 3, 4, 6, 8, 12, ... (powers of two and 1.5 times
    them), thinned evenly until their product is at most ``limit``. Kernel dimensions are split only if long.
    """
    dims, chip = cost.work.dims, cost.chip
    _check_options(region, options)
    sizes = _sizes(dims, options, limit)
    corners = np.stack(np.meshgrid(*sizes, indexing="ij"), -1).reshape(-1, len(dims)) if dims else np.zeros((1, 0))
    grid = corners.astype(np.int64)
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
    whole = column(cost.box_cycles(extents))
    part = column(largest(cost.box_cycles(extents, first=False, last=True), cost.box_cycles(extents, False, False)))
    compute = ceil_div(outputs * np.where(splits > 1, part, whole) * splits, cost.unit.instances)
    sums = np.where(splits > 1, column(cost.slot_bytes(out_shape, cost.accumulator)), 0)
    output_bytes = column(cost.slot_bytes(out_shape, cost.output.dtype))
    if cost.streamed_bytes:  # no SRAM, but what is under way is limited
        under_way = output_bytes * np.minimum(outputs, streamed_copies(cost))
        output_bytes = np.where(under_way > cost.streamed_bytes, NEVER + under_way, 0)
    orders = _orders(region, dims, options)
    fetches = [_fetches(region, order, trips, options.reload) for order in orders]
    accumulators = [_accumulator_bytes(cost, sums, open_sums(dims, order, list(trips.T))) for order in orders]
    buffers = [options.buffers] if options.buffers is not None else [2, 1]
    n = len(orders) * len(buffers)

    def repeat(x: Ints) -> Ints:
        return np.concatenate([x] * n)

    return Candidates(
        tiles=repeat(grid),
        order=np.repeat(np.arange(len(orders)), count * len(buffers)),
        orders=orders,
        buffers=np.concatenate([np.full(count, b) for _ in orders for b in buffers]),
        slot_bytes=repeat(slot_bytes),
        fetches=np.concatenate([f for f in fetches for _ in buffers]),
        bus=repeat(stack([column(b) for b in bus])),
        channel=repeat(stack([column(c) for c in channel])),
        output_bytes=repeat(output_bytes),
        accumulator_bytes=np.concatenate([column(a) for a in accumulators for _ in buffers]),
        stores=repeat(outputs),
        store_bus=repeat(column(store_bus)),
        store_channel=repeat(column(store_channel)),
        compute=repeat(compute),
        commands=repeat(outputs * splits),
        constant=np.asarray([i.constant for i in inputs], np.bool_),
        instances=cost.unit.instances,
        accumulator_memory=cost.accumulator_bytes * cost.unit.instances,
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


def does_not_fit(region: Region, found: Candidates, resident: Sequence[bool], output_resident: bool, budget: int,
                 total: int) -> DoesNotFitError:  # fmt: skip
    """The error for a layer none of whose candidates fits: what the smallest needs, tensor by tensor."""
    _, slots, _ = found.weigh(resident, output_resident, True)
    i = int(np.argmin(slots))
    names = ", ".join(f"{d.name} {int(t)}" for d, t in zip(region.work.dims, found.tiles[i], strict=True))
    if found.output_bytes[i] >= NEVER and not output_resident:
        return DoesNotFitError(
            f"layer {region.name!r}: the results of its smallest tile ({names}) put "
            f"{int(found.output_bytes[i]) - NEVER} bytes under way to DRAM, but at most "
            f"{found.chip.output_pipeline.streamed_bytes} may be; enlarge output_pipeline.streamed_bytes or allow "
            "smaller tiles"
        )
    if slots[i] >= NEVER:
        return DoesNotFitError(
            f"layer {region.name!r}: the partial sums of its smallest tile ({names}) need "
            f"{int(found.accumulator_bytes[i]) - NEVER} bytes, but the unit has {found.accumulator_memory} for them; "
            "enlarge its accumulator_bytes or allow smaller tiles"
        )
    needs = found.slot_bytes[i] * np.minimum(found.fetches[i], found.copies[i])
    parts = [f"{x.value} {int(n)}" for x, n, r in zip(region.inputs, needs, resident, strict=True) if not r]
    if not output_resident:
        parts.append(f"{region.output} {int(found.output_bytes[i] * min(found.stores[i], found.copies[i]))}")
    if found.accumulator_bytes[i]:
        parts.append(f"partial sums {int(found.accumulator_bytes[i])}")
    have = f"{budget} of {total} bytes are free" if budget < total else f"there are {total}"
    return DoesNotFitError(
        f"layer {region.name!r}: its smallest tile ({names}) needs {int(slots[i])} bytes of SRAM "
        f"(bytes by tensor: {', '.join(parts)}), but {have}; enlarge sram.size_bytes or allow smaller tiles"
    )


def _sizes(dims: Sequence[Dim], options: LayerOptions, limit: int) -> list[list[int]]:
    sizes = []
    for d in dims:
        if d.name in options.tile:
            sizes.append([min(options.tile[d.name], d.extent)])
        elif not d.splittable or (d.loop.value.startswith("kernel") and d.extent <= 16):
            sizes.append([d.extent])
        else:
            ks = sorted({k for p in range(31) for k in (1 << p, 3 << p) if k <= d.extent} | {d.extent})
            sizes.append(sorted({int(ceil_div(d.extent, k)) for k in ks}, reverse=True))
    while int(product(len(s) for s in sizes)) > limit:
        longest = max(sizes, key=len)
        if len(longest) == 2:
            longest[:] = longest[1:]  # only the smallest size: always feasible if anything is
        else:
            longest[:] = [s for k, s in enumerate(longest) if k % 2 == 0 or k == len(longest) - 1]
    return sizes


def _orders(region: Region, dims: Sequence[Dim], options: LayerOptions) -> tuple[tuple[int, ...], ...]:
    """Loop orders worth trying: for each input, the one that walks what the input does not depend on innermost."""
    parallel = [i for i, d in enumerate(dims) if not d.reduce]
    reduced = tuple(i for i, d in enumerate(dims) if d.reduce)
    if options.order is not None:
        index = region.work.index
        named = [index[name] for name in options.order]
        return ((*named, *(i for i in (*parallel, *reduced) if i not in named)),)
    found: dict[tuple[int, ...], None] = {}
    for x in region.inputs:
        used = {region.work.index[name] for a in x.access.axes for name, _ in a.terms}
        outer = [i for i in parallel if i in used]
        inner = [i for i in parallel if i not in used]
        found[(*outer, *inner, *reduced)] = None
    return tuple(found) or ((*parallel, *reduced),)


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


def _check_options(region: Region, options: LayerOptions) -> None:
    dims = {d.name: d for d in region.work.dims}
    problems = []
    for name in (*options.tile, *(options.order or ())):
        if name not in dims:
            problems.append(f"mapping of layer {region.name!r}: unknown dimension {name!r}; it has {', '.join(dims)}")
    order = options.order or ()
    for name in dict.fromkeys(order):
        if order.count(name) > 1:
            problems.append(f"mapping of layer {region.name!r}: 'order' lists {name!r} {order.count(name)} times")
    for name, size in options.tile.items():
        if name in dims and not dims[name].splittable and size < dims[name].extent:
            problems.append(
                f"mapping of layer {region.name!r}: {name!r} cannot be split; leave it out or give {dims[name].extent}"
            )
    if problems:
        raise InputError(problems)

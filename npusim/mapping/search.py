"""The tile search: every candidate tiling of a region weighed at once with the cost functions of the chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npusim.errors import DoesNotFitError, InputError
from npusim.graph.region import Region
from npusim.hardware import Chip, largest, product
from npusim.ir.work import Dim
from npusim.mapping.cost import RegionCost, TransferCost
from npusim.ir.mapping_options import LayerOptions
from npusim.numerics.types import ceil_div

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LayerMapping:
    """A chosen mapping: tile size per dimension, loop order (all dimensions, outermost first), slots per operand."""

    tile: tuple[int, ...]
    order: tuple[int, ...]
    buffers: int
    estimate_cycles: int
    sram_bytes: int


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
    chip: Chip

    def weigh(self, resident: Sequence[bool], output_resident: bool, store_output: bool) -> (
        tuple[Ints, Ints, Ints]
    ):  # fmt: skip
        """(estimated cycles, SRAM bytes of the working set, cycles of the DRAM bus) of every candidate.

        Estimate: with two or more buffers, the longest of compute, load, store and bus time, plus the first loads and
        the last store that nothing hides; with one buffer their sum. An upper bound where edge tiles are smaller.
        """
        dma, dram = self.chip.dma, self.chip.dram
        away = ~np.asarray(resident, np.bool_)
        copies = self.buffers + self._more_instances
        slots = (self.slot_bytes * np.minimum(self.fetches, copies[:, None]))[:, away].sum(1) + self.accumulator_bytes
        if not output_resident:
            slots = slots + self.output_bytes * np.minimum(self.stores, copies)
        busy = []
        lead = np.zeros(len(self.tiles), np.int64)
        bus = np.zeros(len(self.tiles), np.int64)
        for kind in (self.constant & away, ~self.constant & away):
            if kind.any():
                commands = self.fetches[:, kind].max(1)
                busy.append((self.fetches * self.channel)[:, kind].sum(1) + commands * dma.setup_cycles)
                lead += self.channel[:, kind].sum(1) + dma.setup_cycles
                bus += (self.fetches * self.bus)[:, kind].sum(1)
        if busy:
            lead += dram.latency_cycles
        loading = np.maximum(*busy) if len(busy) == 2 and dma.channels > 2 else sum(busy, np.zeros_like(lead))
        storing = np.zeros_like(lead)
        if store_output or not output_resident:
            storing = self.stores * (self.store_channel + dma.setup_cycles)
            lead = lead + self.store_channel + dma.setup_cycles + dram.latency_cycles
            bus = bus + self.stores * self.store_bus
        overlapped = np.maximum.reduce([self.compute, loading, storing, bus])
        serial = self.compute + np.maximum(loading + storing, bus)
        return np.where(self.buffers > 1, overlapped, serial) + lead, slots, bus

    @property
    def _more_instances(self) -> int:
        return max((u.instances for u in self.chip.units), default=1) - 1

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
    grid = np.stack(np.meshgrid(*sizes, indexing="ij"), -1).reshape(-1, len(dims)).astype(np.int64)
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
    moved = [
        column(transfer.bytes_moved(i.type.shape, s, i.type.dtype)) for i, s in zip(inputs, shapes, strict=True)
    ]
    slot_bytes = stack([column(cost.slot_bytes(s, i.type.dtype)) for i, s in zip(inputs, shapes, strict=True)])
    out_shape = cost.output_shape(extents)
    out_moved = column(transfer.bytes_moved(cost.output.shape, out_shape, cost.output.dtype))
    reduced = [i for i, d in enumerate(dims) if d.reduce]
    splits = column(product(trips[:, i] for i in reduced))
    outputs = column(product(trips[:, i] for i in range(len(dims)) if i not in reduced))
    whole = column(cost.box_cycles(extents))
    part = column(largest(cost.box_cycles(extents, first=False, last=True), cost.box_cycles(extents, False, False)))
    compute = ceil_div(outputs * np.where(splits > 1, part, whole) * splits, cost.unit.instances)
    accumulator = np.where(splits > 1, column(cost.slot_bytes(out_shape, cost.accumulator)), 0) * cost.unit.instances
    orders = _orders(region, dims, options)
    fetches = [_fetches(region, order, trips) for order in orders]
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
        bus=repeat(stack([column(transfer.bus_cycles(m)) for m in moved])),
        channel=repeat(stack([column(transfer.channel_cycles(m)) for m in moved])),
        output_bytes=repeat(column(cost.slot_bytes(out_shape, cost.output.dtype))),
        accumulator_bytes=repeat(accumulator),
        stores=repeat(outputs),
        store_bus=repeat(column(transfer.bus_cycles(out_moved))),
        store_channel=repeat(column(transfer.channel_cycles(out_moved))),
        compute=repeat(compute),
        commands=repeat(outputs * splits),
        constant=np.asarray([i.constant for i in inputs], np.bool_),
        chip=chip,
    )


def does_not_fit(region: Region, found: Candidates, resident: Sequence[bool], output_resident: bool, budget: int,
                 total: int) -> DoesNotFitError:  # fmt: skip
    """The error for a layer none of whose candidates fits: what the smallest needs, tensor by tensor."""
    _, slots, _ = found.weigh(resident, output_resident, True)
    i = int(np.argmin(slots))
    parts = [
        f"{x.value} {int(found.slot_bytes[i, k])}" for k, x in enumerate(region.inputs) if not resident[k]
    ] + [f"{region.output} {int(found.output_bytes[i])}"]
    if found.accumulator_bytes[i]:
        parts.append(f"partial sums {int(found.accumulator_bytes[i])}")
    names = ", ".join(f"{d.name} {int(t)}" for d, t in zip(region.work.dims, found.tiles[i], strict=True))
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
        return ((*named, *(i for i in parallel if i not in named), *reduced),)
    found: dict[tuple[int, ...], None] = {}
    for x in region.inputs:
        used = {region.work.index[name] for a in x.access.axes for name, _ in a.terms}
        outer = [i for i in parallel if i in used]
        inner = [i for i in parallel if i not in used]
        found[(*outer, *inner, *reduced)] = None
    return tuple(found) or ((*parallel, *reduced),)


def _fetches(region: Region, order: Sequence[int], trips: Ints) -> Ints:
    """How often each input's tile changes: trips of every loop down to the innermost one that moves it."""
    columns = []
    for x in region.inputs:
        used = {region.work.index[name] for a in x.access.axes for name, _ in a.terms if a.whole < 0}
        total = np.ones(len(trips), np.int64)
        running = np.ones(len(trips), np.int64)
        for i in order:
            running = running * trips[:, i]
            if i in used:
                total = np.where(trips[:, i] > 1, running, total)
        columns.append(total)
    return np.stack(columns, -1) if columns else np.zeros((len(trips), 0), np.int64)


def _check_options(region: Region, options: LayerOptions) -> None:
    dims = {d.name: d for d in region.work.dims}
    problems = []
    for name in (*options.tile, *(options.order or ())):
        if name not in dims:
            problems.append(f"mapping of layer {region.name!r}: unknown dimension {name!r}; it has {', '.join(dims)}")
    for name in options.order or ():
        if name in dims and dims[name].reduce:
            problems.append(f"mapping of layer {region.name!r}: {name!r} is reduced; 'order' lists parallel dimensions")
    for name, size in options.tile.items():
        if name in dims and not dims[name].splittable and size < dims[name].extent:
            problems.append(
                f"mapping of layer {region.name!r}: {name!r} cannot be split; leave it out or give {dims[name].extent}"
            )
    if problems:
        raise InputError(problems)

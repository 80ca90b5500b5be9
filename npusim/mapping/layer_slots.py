"""The slots of a mapped layer: how many of which size, and where those lie that are not in SRAM."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from npusim.graph.region import Region
from npusim.mapping.candidates import open_sums, streamed_copies
from npusim.mapping.cost import RegionCost
from npusim.mapping.search import LayerMapping


def own_accumulators(cost: RegionCost, mapping: LayerMapping) -> tuple[int, ...]:
    """Offsets of partial sums in the memory their unit has for them: tile i in that of instance i % instances."""
    dims = cost.work.dims
    split = any(d.reduce and t < d.extent for d, t in zip(dims, mapping.tile, strict=True))
    if not split or not cost.accumulator_bytes:
        return ()
    base, instances = cost.chip.accumulator_base(cost.unit), cost.unit.instances
    nbytes = int(cost.slot_bytes(cost.output_shape(mapping.tile), cost.accumulator))
    trips = [-(-d.extent // t) for d, t in zip(dims, mapping.tile, strict=True)]
    return tuple(
        base + i % instances * cost.accumulator_bytes + i // instances * nbytes
        for i in range(max(open_sums(dims, mapping.order, trips), instances))
    )


def streamed_offsets(cost: RegionCost, mapping: LayerMapping) -> tuple[int, ...]:
    """Offsets of results that leave for DRAM while they are computed; none where they go to SRAM."""
    if not cost.streamed_bytes:
        return ()
    shape = cost.output_shape(mapping.tile)
    nbytes = int(cost.slot_bytes(shape, cost.output.dtype))
    dims = zip(cost.work.dims, mapping.tile, strict=True)
    outputs = prod(-(-d.extent // t) for d, t in dims if not d.reduce)
    return tuple(cost.chip.streamed_base + i * nbytes for i in range(min(outputs, streamed_copies(cost))))


def slot_sizes(
    cost: RegionCost, mapping: LayerMapping, resident: Sequence[bool], output_resident: bool
) -> tuple[list[int], list[int]]:
    """Bytes of every slot of a layer and whose it is: input i, -1 the output, -2 partial sums."""
    dims = cost.work.dims
    more = cost.unit.instances - 1
    sizes: list[int] = []
    owners: list[int] = []

    def add(owner: int, nbytes: int, copies: int) -> None:
        sizes.extend([nbytes] * copies)
        owners.extend([owner] * copies)

    trips = [-(-d.extent // t) for d, t in zip(dims, mapping.tile, strict=True)]
    for i, x in enumerate(cost.region.inputs):
        if not resident[i]:
            shape = cost.tile_shape(x.access, x.type.shape, mapping.tile)
            copies = min(fetches(cost.region, i, mapping, trips), mapping.buffers + more)
            add(i, int(cost.slot_bytes(shape, x.type.dtype)), copies)
    out = cost.output_shape(mapping.tile)
    splits = outputs = 1
    for d, n in zip(dims, trips, strict=True):
        splits, outputs = (splits * n, outputs) if d.reduce else (splits, outputs * n)
    if not output_resident and not cost.streamed_bytes:
        add(-1, int(cost.slot_bytes(out, cost.output.dtype)), min(outputs, mapping.buffers + more))
    if splits > 1 and not cost.accumulator_bytes:
        tiles = max(open_sums(dims, mapping.order, trips), cost.unit.instances)
        add(-2, int(cost.slot_bytes(out, cost.accumulator)), tiles)
    return sizes, owners


def fetches(region: Region, which: int, mapping: LayerMapping, trips: Sequence[int]) -> int:
    """How often the tile of input ``which`` changes over the loops of ``mapping``."""
    access = region.inputs[which].access
    used = {region.work.index[n] for a in access.axes for n, _ in a.terms}
    total = running = 1
    for i in mapping.order:
        if mapping.reload and access.final and region.work.dims[i].reduce:
            continue
        running *= trips[i]
        if (i in used or mapping.reload) and trips[i] > 1:
            total = running
    return total

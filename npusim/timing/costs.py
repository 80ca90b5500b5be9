"""Cycles of every command of a program on a chip, before anything waits."""

from __future__ import annotations

from typing import NamedTuple

from npusim.hardware import Chip
from npusim.mapping.cost import RegionCost, TransferCost
from npusim.numerics.types import ceil_div
from npusim.program.program import Compute, Load, TileProgram


class ComputeCost(NamedTuple):
    """Cycles of a compute command: in its unit, and holding its SRAM port; ``limit`` says what sets them."""

    cycles: int
    port_cycles: int
    port: int
    limit: str = "compute"


class DmaCost(NamedTuple):
    """Cycles of a DMA command: in its channel, holding the DRAM bus, holding an SRAM port; DRAM bytes, bursts included."""

    channel_cycles: int
    bus_cycles: int
    port_cycles: int
    bytes_moved: int


def command_costs(program: TileProgram, chip: Chip) -> list[ComputeCost | DmaCost]:
    """The cost of each command; boxes of equal extents in a layer are costed once."""
    regions = [RegionCost(r, chip) for r in program.regions]
    transfer = TransferCost(chip)
    known: dict[object, ComputeCost] = {}
    moved: dict[object, int] = {}
    types = program.graph.types
    costs: list[ComputeCost | DmaCost] = []
    for c in program:
        if isinstance(c, Compute):
            shape = c.box.shape
            key = (c.layer, shape, c.first, c.last)
            cost = known.get(key)
            if cost is None:
                region = regions[c.layer]
                cost = known[key] = ComputeCost(
                    int(region.compute_cycles(shape, c.last)),
                    int(region.port_cycles(shape, c.first, c.last)),
                    region.port,
                    region.limit(shape, c.first, c.last),
                )
            costs.append(cost)
            continue
        nbytes = 0
        for ref in c.parts if isinstance(c, Load) else (c.ref,):
            slot = program.slots[ref.slot]
            box = ref.box.shape
            part = (slot.value, box)
            if part not in moved:
                moved[part] = int(transfer.bytes_moved(types[slot.value].shape, box, slot.dtype))
            nbytes += moved[part]
        port = int(ceil_div(nbytes, chip.sram.bytes_per_cycle))
        costs.append(DmaCost(int(transfer.channel_cycles(nbytes)), int(transfer.bus_cycles(nbytes)), port, nbytes))
    return costs

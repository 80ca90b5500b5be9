"""Cycles of every command of a program on a chip, before anything waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from npusim.hardware import Chip
from npusim.hardware.layout import Arrangement
from npusim.ir.box import Box
from npusim.mapping.cost import RegionCost, TransferCost, region_costs
from npusim.numerics.types import ceil_div
from npusim.program.program import Command, Compute, Load, Ref, Store, TileProgram
from npusim.timing.caches import Lines, lines_of, miss_cycles


class ComputeCost(NamedTuple):
    """Cycles of a compute command: in its unit, and holding its SRAM port; ``limit`` says what sets them.

    On a unit that overlaps commands, ``reload_cycles`` are those in which it takes up what stays in it, beside the
    command before, and ``result_cycles`` those until the results are there, beside the command behind. In
    ``stream_cycles`` of the cycles operands stream through the unit, in ``fill_cycles`` it fills or drains.
    """

    cycles: int
    port_cycles: int
    port: int
    limit: str = "compute"
    reload_cycles: int = 0
    result_cycles: int = 0
    stream_cycles: int = 0
    fill_cycles: int = 0


class DmaCost(NamedTuple):
    """Cycles of a DMA command: in its channel, holding the DRAM bus, and of these holding an SRAM port.

    ``bytes_moved`` are DRAM bytes, bursts included. ``last_cycles``: of a store whose data leave while the tile before
    it is computed, the cycles that the last burst still needs; None: data leave once the store has started.
    ``preloaded``: of a load that has been done before the run. ``host``: it goes over the host link, whose cycles are
    then those of the bus.
    """

    channel_cycles: int
    bus_cycles: int
    port_cycles: int
    bytes_moved: int
    last_cycles: int | None = None
    preloaded: bool = False
    host: bool = False


def command_costs(program: TileProgram, chip: Chip, warm: bool = False) -> list[ComputeCost | DmaCost]:
    """The cost of each command; boxes of equal extents in a layer are costed once.

    ``warm``: the caches in front of the DRAM hold what a run of the same program left there; else they are empty.
    """
    regions = region_costs(program, chip)
    begun: set[int] = set()
    transfer = TransferCost(chip)
    places = _Places(program, regions)
    known: dict[object, ComputeCost] = {}
    moved: dict[object, tuple[int, int, int]] = {}
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
                    int(region.reload_cycles(shape)),
                    int(region.result_cycles(shape, c.last)),
                    *region.stream_and_fill_cycles(shape, c.first, c.last),
                )
            if chip.control.layer_cycles and c.layer not in begun:
                begun.add(c.layer)
                cost = cost._replace(cycles=cost.cycles + chip.control.layer_cycles)
            costs.append(cost)
            continue
        if _preloaded(c, program, chip):
            costs.append(DmaCost(0, 0, 0, 0, preloaded=True))
            continue
        nbytes = misses = starts = 0
        store = not isinstance(c, Load)
        for ref in c.parts if isinstance(c, Load) else (c.ref,):
            slot = program.slots[ref.slot]
            arrangement, box = places.of(c, ref)
            part = (c.layer, slot.value, box.shape)
            if part not in moved:
                shape = arrangement.shape
                moved[part] = (
                    int(transfer.bytes_moved(shape, box.shape, slot.dtype)),
                    int(transfer.row_miss_cycles(shape, box.shape, slot.dtype)),
                    int(transfer.run_cycles(shape, box.shape)),
                )
            nbytes += moved[part][0]
            misses += moved[part][1]
            starts += moved[part][2]
        port = int(ceil_div(nbytes, chip.sram.bytes_per_cycle))
        if chip.host_link is not None and _with_host(c, program):
            rate = chip.host_link.bytes_per_cycle
            link = max(int(ceil_div(nbytes * rate.denominator, rate.numerator)), port)
            costs.append(DmaCost(link, link, port, nbytes, host=True))
            continue
        bus = int(transfer.bus_cycles(nbytes, store)) + misses
        cost_of_move = DmaCost(int(transfer.channel_cycles(nbytes, store)) + starts, bus, port, nbytes)
        if store and regions[c.layer].streamed_bytes:
            (after,) = c.deps
            made = program.commands[after]
            assert isinstance(made, Compute), "a streamed store waits for its tile alone"
            last = int(regions[c.layer].drain_cycles(made.box.shape))
            last += int(transfer.bus_cycles(min(nbytes, chip.dram.burst_bytes), store))
            cost_of_move = cost_of_move._replace(port_cycles=0, last_cycles=last)
        costs.append(cost_of_move)
    return _with_misses(program, chip, places, costs, warm) if chip.dram.caches else costs


class _Places:
    """Where the parts of values lie in DRAM."""

    def __init__(self, program: TileProgram, regions: Sequence[RegionCost]) -> None:
        self.program, self.regions = program, regions
        self._known: dict[tuple[int, str], Arrangement] = {}

    def of(self, command: Load | Store, ref: Ref) -> tuple[Arrangement, Box]:
        """How the value of a part lies in DRAM for the layer of ``command``, and where the part does."""
        value = self.program.slots[ref.slot].value
        key = command.layer, value
        if key not in self._known:
            region, shape = self.regions[command.layer], self.program.graph.types[value].shape
            reads = next((x for x in region.region.inputs if x.value == value), None)
            if isinstance(command, Load) and reads is not None:
                self._known[key] = region.in_dram(reads.access, shape, reads.constant)
            else:
                self._known[key] = region.in_dram(region.work.write, shape, constant=False)
        return self._known[key], self._known[key].box(ref.box)


def _with_misses(
    program: TileProgram, chip: Chip, places: _Places, costs: list[ComputeCost | DmaCost], warm: bool
) -> list[ComputeCost | DmaCost]:
    """``costs`` with the bus cycles of what misses in the caches; values lie one behind the other in DRAM."""
    line, types = chip.dram.caches[0].line_bytes, program.graph.types
    bases: dict[str, int] = {}
    end = 0
    moves = [
        c
        for c, cost in zip(program, costs, strict=True)
        if isinstance(cost, DmaCost) and not (cost.preloaded or cost.host)
    ]
    touched: list[list[Lines]] = [[] for _ in moves]
    for c, lines in zip(moves, touched, strict=True):
        assert not isinstance(c, Compute), "a compute command has no cost of a transfer"
        for ref in c.parts if isinstance(c, Load) else (c.ref,):
            slot = program.slots[ref.slot]
            home = program.home[slot.value]
            arrangement, box = places.of(c, ref)
            if home not in bases:
                bases[home] = end
                whole = int(ceil_div(Box.whole(arrangement.shape).size * types[home].dtype.bits, 8))
                end += int(ceil_div(whole, line)) * line
            lines.append(lines_of(arrangement.shape, box, slot.dtype.bits, bases[home], line))
    extra = miss_cycles(touched, [isinstance(c, Store) for c in moves], chip.dram.caches, warm)
    for c, cycles in zip(moves, extra, strict=True):
        cost = costs[c.id]
        assert isinstance(cost, DmaCost), "only transfers are moves"
        costs[c.id] = cost._replace(bus_cycles=cost.bus_cycles + cycles)
    return costs


def _with_host(command: Load | Store, program: TileProgram) -> bool:
    """Whether a command loads graph inputs or stores a graph output."""
    graph, home = program.graph, program.home
    if isinstance(command, Load):
        return all(program.slots[ref.slot].value in graph.inputs for ref in command.parts)
    return program.slots[command.ref.slot].value in {home[v] for v in graph.outputs}


def _preloaded(command: Command, program: TileProgram, chip: Chip) -> bool:
    """Whether a command loads constants into bytes that nothing uses before it, on a chip that has them there."""
    if not chip.sram.preloaded_constants or not isinstance(command, Load) or command.deps:
        return False
    return all(program.slots[ref.slot].value in program.graph.constants for ref in command.parts)

"""From a plan to commands: the loop nest of every layer, what each tile must wait for, and the order of the loads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as cartesian
from math import prod

from npusim.graph.graph import Graph
from npusim.graph.passes.fold_aliases import Aliases
from npusim.hardware import Chip
from npusim.ir.box import Box
from npusim.ir.work import Loop, Work
from npusim.mapping.interleave import EVERY_LAYER, Lane, in_ideal_order, lane_of, loads_early
from npusim.mapping.plan import LayerPlan, Plan
from npusim.mapping.slot_states import Bytes, Resident, SlotState, merge
from npusim.numerics.types import DType
from npusim.program.program import Command, Compute, Load, Queue, Ref, Slot, Store, TileProgram


class Emitter:
    """Emits the commands of a plan; :meth:`program` returns them as a tile program."""

    def __init__(self, graph: Graph, aliases: Aliases, plan: Plan, chip: Chip, overlap: bool = True) -> None:
        self.overlap, self.layers_before = overlap, dict[Lane, int]()
        self.graph, self.root, self.plan, self.chip = graph, aliases.root, plan, chip
        self.slots: list[Slot] = []
        self.bytes = Bytes()
        self.commands: list[Command] = []
        self.residents: dict[str, Resident] = {}
        self.box_cycles: dict[object, int] = {}
        self.stored: dict[str, list[tuple[Box, int]]] = {}
        channels = chip.dma.channels
        self.store_queue = Queue("dma", channels - 1)
        self.constant_queue = Queue("dma", 0)
        self.data_queues = [Queue("dma", i) for i in range(1, channels - 1)] or [Queue("dma", 0)]

    def program(self) -> TileProgram:
        """The whole program: independent layers side by side, loads as early as their dependencies allow."""
        for number, layer in enumerate(self.plan.layers):
            if not self.overlap:
                self.layers_before = {lane_of(c): c.id for c in self.commands if not isinstance(c, Load)}
            self._layer(number, layer)
        commands = loads_early(in_ideal_order(self.commands, self._cycles))
        layers = self.plan.layers
        demanded = {k: u for k, p in enumerate(layers) if (u := p.cost.task.unrolling) is not None}
        return TileProgram(
            self.graph,
            tuple(p.region for p in layers),
            self.root,
            self.chip.on_chip_bytes,
            tuple(self.slots),
            tuple(commands),
            demanded,
        )

    def _cycles(self, command: Compute) -> int:
        cost = self.plan.layers[command.layer].cost
        key = command.layer, command.box.shape, command.first, command.last
        if key not in self.box_cycles:
            self.box_cycles[key] = int(cost.box_cycles(command.box.shape, command.first, command.last))
        return self.box_cycles[key]

    # -- slots ------------------------------------------------------------------------------------------------

    def _slot(self, value: str, dtype: DType, shape: tuple[int, ...], offset: int, nbytes: int, whole: bool) -> (
        SlotState
    ):  # fmt: skip
        index = len(self.slots)
        slot = Slot(index, offset, nbytes, value, dtype, shape, self.chip.sram.stored_shape(shape), whole, index)
        self.slots.append(slot)
        state = SlotState(slot)
        self.bytes.place(state, offset, offset + nbytes)
        return state

    def _view(self, resident: Resident, value: str) -> Slot:
        """The slot through which ``value``, a reshape of the resident value, is read."""
        base = resident.state.slot
        if value == base.value:
            return base
        if value not in resident.views:
            shape = self.graph.types[value].shape
            stored = self.chip.sram.stored_shape(shape)
            view = Slot(len(self.slots), base.offset, base.nbytes, value, base.dtype, shape, stored, True, base.index)
            self.slots.append(view)
            resident.views[value] = view
        return resident.views[value]

    # -- one layer --------------------------------------------------------------------------------------------

    def _layer(self, number: int, plan: LayerPlan) -> None:
        region, cost, mapping = plan.region, plan.cost, plan.mapping
        work = region.work
        pools: list[list[SlotState]] = []
        for x, offsets in zip(region.inputs, plan.input_slots, strict=True):
            shape = tuple(int(n) for n in cost.tile_shape(x.access, x.type.shape, mapping.tile))
            nbytes = int(cost.slot_bytes(shape, x.type.dtype))
            pools.append([self._slot(x.value, x.type.dtype, shape, o, nbytes, False) for o in offsets])
        out = region.output
        out_shape = tuple(int(n) for n in cost.output_shape(mapping.tile))
        out_bytes = int(cost.slot_bytes(out_shape, cost.output.dtype))
        out_pool = [self._slot(out, cost.output.dtype, out_shape, o, out_bytes, False) for o in plan.output_slots]
        acc_bytes = int(cost.slot_bytes(out_shape, cost.accumulator))
        acc_pool = [self._slot(out, cost.accumulator, out_shape, o, acc_bytes, False) for o in plan.accumulator_slots]
        if plan.output_resident:
            offset, life = self.plan.residents[out]
            shape = cost.output.shape
            self.residents[out] = Resident(self._slot(out, cost.output.dtype, shape, offset, life.nbytes, True))

        for tile_number, box, first, last in _steps(plan):
            sums = tile_number % max(len(acc_pool), cost.unit.instances)
            queue = Queue(cost.engine, sums % cost.unit.instances)
            accumulator = acc_pool[sums] if acc_pool else None
            lane = queue, EVERY_LAYER
            refs, waits = self._operands(number, plan, pools, box, last)
            merge(waits, self.layers_before)
            command = len(self.commands)
            out_box = work.write.footprint(work.index, box)
            acc_ref = result = None
            target: SlotState | None = None
            if accumulator is not None:
                acc_ref = Ref(accumulator.slot.index, out_box)
                merge(waits, {other: c for other, c in accumulator.waits().items() if other != lane})
            if last:
                if plan.output_resident:
                    target = self.residents[out].state
                    merge(waits, self.residents[out].before)
                else:
                    target = out_pool[0]
                    out_pool.append(out_pool.pop(0))
                    merge(waits, target.waits())
                result = Ref(target.slot.index, out_box)
            self.commands.append(
                Compute(
                    command,
                    queue,
                    number,
                    _deps(waits, lane, cost.unit.overlapped),
                    box,
                    refs,
                    acc_ref,
                    result,
                    first,
                    last,
                )
            )
            for ref, pool in zip(refs, pools, strict=True):
                if ref is not None:
                    for s in pool:
                        if s.slot.index == ref.slot:
                            s.users[lane] = command
            for x, r in zip(region.inputs, plan.resident, strict=True):
                if r:
                    self.residents[self.root[x.value]].state.users[lane] = command
            if accumulator is not None:
                if last:
                    accumulator.users[lane] = command
                else:
                    accumulator.wrote(lane, command, out_box)
            if last and target is not None:
                if plan.output_resident:
                    resident = self.residents[out]
                    resident.make(out_box, lane, command)
                    target.users[lane] = command
                    target.written = True
                else:
                    target.wrote(lane, command, out_box)
                if plan.store_output:
                    self._store(number, target, out_box, command)

    def _store(self, number: int, target: SlotState, box: Box, after: int) -> None:
        command = len(self.commands)
        self.commands.append(Store(command, self.store_queue, number, (after,), Ref(target.slot.index, box)))
        target.users[lane_of(self.commands[command])] = command
        self.stored.setdefault(target.slot.value, []).append((box, command))

    def _operands(
        self, number: int, plan: LayerPlan, pools: list[list[SlotState]], box: Box, last: bool
    ) -> tuple[tuple[Ref | None, ...], dict[Lane, int]]:
        """Where the operands of a box lie, emitting the loads that bring them, and what the box must wait for."""
        region = plan.region
        refs: list[Ref | None] = []
        waits: dict[Lane, int] = {}
        missing: dict[tuple[Queue, bool], list[tuple[SlotState, Box]]] = {}
        for i, x in enumerate(region.inputs):
            if x.access.final and not last:
                refs.append(None)
                continue
            want = x.access.footprint(region.work.index, box).clip(x.type.shape)
            if not want.size:
                refs.append(None)
                continue
            if plan.resident[i]:
                resident = self.residents[self.root[x.value]]
                slot = self._view(resident, x.value)
                made = x.access.footprint(region.work.index, _ahead(region.work, box, plan.cost.rows_ahead))
                merge(waits, resident.makers(made if slot is resident.state.slot else None))
                refs.append(Ref(slot.index, want))
                continue
            pool = pools[i]
            state = None if plan.mapping.reload else next((s for s in pool if s.holds == want), None)
            if state is None:
                state = pool[0]
                pool.append(pool.pop(0))
                load_queue = self.constant_queue if x.constant else self.data_queues[i % len(self.data_queues)]
                there = x.constant and self.chip.sram.preloaded_constants  # apart from what has to be loaded
                missing.setdefault((load_queue, there), []).append((state, want))
                state.holds = want
            elif state.filled_by >= 0:
                merge(waits, {lane_of(self.commands[state.filled_by]): state.filled_by})
            refs.append(Ref(state.slot.index, want))
        for (load_queue, there), parts in missing.items():
            before = {} if there else dict(self.layers_before)
            for state, want in parts:
                merge(before, state.waits())
                home = self.root[state.slot.value]
                reshaped = state.slot.value != home  # whose boxes are not those of the stores: it waits for the last
                stores = reversed(self.stored.get(home, ()))
                last_store = next((c for b, c in stores if reshaped or b.intersects(want)), None)
                if last_store is not None:
                    merge(before, {lane_of(self.commands[last_store]): last_store})
            command = len(self.commands)
            refs_in = tuple(Ref(s.slot.index, want) for s, want in parts)
            lane = load_queue, number
            self.commands.append(Load(command, load_queue, number, tuple(sorted(before.values())), refs_in))
            for state, want in parts:
                state.wrote(lane, command, want)
            waits[lane] = command
        return tuple(refs), waits


def _ahead(work: Work, box: Box, rows: int) -> Box:
    """``box`` and so many more output rows."""
    return Box(box.lo, tuple(hi + rows * (d.loop is Loop.ROW) for hi, d in zip(box.hi, work.dims, strict=True)))


def _deps(waits: dict[Lane, int], lane: Lane, overlapped: bool) -> tuple[int, ...]:
    """What a computation in ``lane`` waits for: one command a lane, as lanes finish in order; its own runs one at a
    time. On an ``overlapped`` unit results come after the command, and the next must be told to wait for them.
    """
    return tuple(sorted(c for other, c in waits.items() if other != lane or overlapped))


def _steps(plan: LayerPlan) -> Iterator[tuple[int, Box, bool, bool]]:
    """The boxes in the mapping's loop order: number of the output tile, box, whether it opens, and closes, the sums.

    Numbers are such that the tiles whose sums are open at once follow each other.
    """
    dims, mapping = plan.region.work.dims, plan.mapping
    starts = [range(0, dims[i].extent, mapping.tile[i]) for i in mapping.order]
    reduces = [dims[i].reduce for i in mapping.order]
    split = next((k for k, s in enumerate(starts) if reduces[k] and len(s) > 1), len(starts))
    boxes_of_a_tile = prod(len(s) for s, r in zip(starts, reduces, strict=True) if r)
    seen: dict[tuple[int, ...], int] = {}
    number: dict[tuple[int, ...], int] = {}
    inner = []
    for at in cartesian(*starts[split:]):
        tile = tuple(a for a, r in zip(at, reduces[split:], strict=True) if not r)
        done = seen[tile] = seen.get(tile, 0) + 1
        number.setdefault(tile, len(number))
        inner.append((at, number[tile], done == 1, done == boxes_of_a_tile))
    for group, outer in enumerate(cartesian(*starts[:split])):
        for at, tile_number, first, last in inner:
            lo = [0] * len(dims)
            for i, a in zip(mapping.order, (*outer, *at), strict=True):
                lo[i] = a
            hi = tuple(min(a + t, d.extent) for a, t, d in zip(lo, mapping.tile, dims, strict=True))
            yield group * len(seen) + tile_number, Box(tuple(lo), hi), first, last

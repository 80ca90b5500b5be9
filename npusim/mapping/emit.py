"""From a plan to commands: the loop nest of every layer, what each tile must wait for, and the order of the loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as cartesian
from math import prod

from npusim.graph.graph import Graph
from npusim.graph.passes.fold_aliases import Aliases
from npusim.hardware import Chip
from npusim.ir.box import Box
from npusim.ir.work import Loop, Work
from npusim.mapping.plan import LayerPlan, Plan
from npusim.numerics.types import DType
from npusim.program.program import Command, Compute, Load, Queue, Ref, Slot, Store, TileProgram

_STORES = Queue("store", 0)
"""Stands for the stores in bookkeeping: where they share a channel with loads, loads may still overtake them."""


class _Bytes:
    """Who used each byte last, at the granularity of slots: what a new slot must wait for."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, int, _SlotState]] = []

    def place(self, state: _SlotState, lo: int, hi: int) -> None:
        kept: list[tuple[int, int, _SlotState]] = []
        for a, b, other in self.pieces:
            if b <= lo or hi <= a:
                kept.append((a, b, other))
                continue
            state.under.append(other)
            if a < lo:
                kept.append((a, lo, other))
            if hi < b:
                kept.append((hi, b, other))
        kept.append((lo, hi, state))
        self.pieces = kept


class _SlotState:
    """A slot while commands are emitted: its contents and the last command of each queue that used it."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.holds: Box | None = None
        self.filled_by = -1
        self.users: dict[Queue, int] = {}
        self.written = False
        self.under: list[_SlotState] = []

    def waits(self) -> dict[Queue, int]:
        """What must have finished before the slot is written again."""
        found = dict(self.users)
        if not self.written:
            for other in self.under:
                for q, c in other.waits().items():
                    found[q] = max(c, found.get(q, -1))
        return found

    def wrote(self, queue: Queue, command: int, box: Box) -> None:
        self.users = {queue: command}
        self.holds, self.filled_by, self.written = box, command, True
        self.under = []


class _Resident:
    """A value that stays in SRAM: its slot, who used the bytes before, and which command made which box."""

    def __init__(self, state: _SlotState) -> None:
        self.state = state
        self.before = state.waits()
        self.made: list[tuple[Box, Queue, int]] = []
        self.views: dict[str, Slot] = {}

    def makers(self, box: Box | None) -> dict[Queue, int]:
        """The last maker per queue of what a read of ``box`` touches (None: all of it)."""
        found: dict[Queue, int] = {}
        for made, queue, command in self.made:
            if box is None or made.intersects(box):
                found[queue] = command
        return found


class Emitter:
    """Emits the commands of a plan; :meth:`program` returns them as a tile program."""

    def __init__(self, graph: Graph, aliases: Aliases, plan: Plan, chip: Chip, overlap: bool = True) -> None:
        self.overlap, self.layers_before = overlap, dict[Queue, int]()
        self.graph, self.root, self.plan, self.chip = graph, aliases.root, plan, chip
        self.slots: list[Slot] = []
        self.bytes = _Bytes()
        self.commands: list[Command] = []
        self.residents: dict[str, _Resident] = {}
        self.stored: dict[str, list[tuple[Box, int]]] = {}
        channels = chip.dma.channels
        self.store_queue = Queue("dma", channels - 1)
        self.constant_queue = Queue("dma", 0)
        self.data_queues = [Queue("dma", i) for i in range(1, channels - 1)] or [Queue("dma", 0)]

    def program(self) -> TileProgram:
        """The whole program, loads moved as early as their dependencies allow."""
        for number, layer in enumerate(self.plan.layers):
            if not self.overlap:
                self.layers_before = {
                    _STORES if isinstance(c, Store) else c.queue: c.id for c in self.commands if not isinstance(c, Load)
                }
            self._layer(number, layer)
        commands = _loads_early(self.commands)
        regions = tuple(p.region for p in self.plan.layers)
        return TileProgram(self.graph, regions, self.root, self.chip.on_chip_bytes, tuple(self.slots), tuple(commands))

    # -- slots ------------------------------------------------------------------------------------------------

    def _slot(self, value: str, dtype: DType, shape: tuple[int, ...], offset: int, nbytes: int, whole: bool) -> (
        _SlotState
    ):  # fmt: skip
        index = len(self.slots)
        slot = Slot(index, offset, nbytes, value, dtype, shape, self.chip.sram.stored_shape(shape), whole, index)
        self.slots.append(slot)
        state = _SlotState(slot)
        self.bytes.place(state, offset, offset + nbytes)
        return state

    def _view(self, resident: _Resident, value: str) -> Slot:
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
        pools: list[list[_SlotState]] = []
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
            self.residents[out] = _Resident(self._slot(out, cost.output.dtype, shape, offset, life.nbytes, True))

        for tile_number, box, first, last in _steps(plan):
            sums = tile_number % max(len(acc_pool), cost.unit.instances)
            queue = Queue(cost.engine, sums % cost.unit.instances)
            accumulator = acc_pool[sums] if acc_pool else None
            refs, waits = self._operands(number, plan, pools, box, queue, last)
            _merge(waits, self.layers_before)
            command = len(self.commands)
            out_box = work.write.footprint(work.index, box)
            acc_ref = result = None
            target: _SlotState | None = None
            if accumulator is not None:
                acc_ref = Ref(accumulator.slot.index, out_box)
                _merge(waits, {q: c for q, c in accumulator.waits().items() if q != queue})
            if last:
                if plan.output_resident:
                    target = self.residents[out].state
                    _merge(waits, self.residents[out].before)
                else:
                    target = out_pool[0]
                    out_pool.append(out_pool.pop(0))
                    _merge(waits, target.waits())
                result = Ref(target.slot.index, out_box)
            self.commands.append(
                Compute(
                    command,
                    queue,
                    number,
                    _deps(waits, queue, cost.unit.overlapped),
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
                            s.users[queue] = command
            for x, r in zip(region.inputs, plan.resident, strict=True):
                if r:
                    self.residents[self.root[x.value]].state.users[queue] = command
            if accumulator is not None:
                if last:
                    accumulator.users[queue] = command
                else:
                    accumulator.wrote(queue, command, out_box)
            if last and target is not None:
                if plan.output_resident:
                    resident = self.residents[out]
                    resident.made.append((out_box, queue, command))
                    target.users[queue] = command
                    target.written = True
                else:
                    target.wrote(queue, command, out_box)
                if plan.store_output:
                    self._store(number, target, out_box, queue, command)

    def _store(self, number: int, target: _SlotState, box: Box, queue: Queue, after: int) -> None:
        command = len(self.commands)
        self.commands.append(Store(command, self.store_queue, number, (after,), Ref(target.slot.index, box)))
        target.users[_STORES] = command
        self.stored.setdefault(target.slot.value, []).append((box, command))

    def _operands(
        self, number: int, plan: LayerPlan, pools: list[list[_SlotState]], box: Box, queue: Queue, last: bool
    ) -> tuple[tuple[Ref | None, ...], dict[Queue, int]]:
        """Where the operands of a box lie, emitting the loads that bring them, and what the box must wait for."""
        region = plan.region
        refs: list[Ref | None] = []
        waits: dict[Queue, int] = {}
        missing: dict[tuple[Queue, bool], list[tuple[_SlotState, Box]]] = {}
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
                _merge(waits, resident.makers(made if slot is resident.state.slot else None))
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
                waits[self.commands[state.filled_by].queue] = max(
                    state.filled_by, waits.get(self.commands[state.filled_by].queue, -1)
                )
            refs.append(Ref(state.slot.index, want))
        for (load_queue, there), parts in missing.items():
            before = {} if there else dict(self.layers_before)
            for state, want in parts:
                _merge(before, state.waits())
                stores = [c for b, c in self.stored.get(self.root[state.slot.value], ())
                          if state.slot.value != self.root[state.slot.value] or b.intersects(want)]  # fmt: skip
                if stores:
                    _merge(before, {_STORES: stores[-1]})
            command = len(self.commands)
            refs_in = tuple(Ref(s.slot.index, want) for s, want in parts)
            self.commands.append(Load(command, load_queue, number, _deps(before, load_queue), refs_in))
            for state, want in parts:
                state.wrote(load_queue, command, want)
            waits[load_queue] = command
        return tuple(refs), waits


def _ahead(work: Work, box: Box, rows: int) -> Box:
    """``box`` and so many more output rows."""
    return Box(box.lo, tuple(hi + rows * (d.loop is Loop.ROW) for hi, d in zip(box.hi, work.dims, strict=True)))


def _merge(into: dict[Queue, int], more: dict[Queue, int]) -> None:
    for q, c in more.items():
        into[q] = max(c, into.get(q, -1))


def _deps(waits: dict[Queue, int], queue: Queue, overlapped: bool = False) -> tuple[int, ...]:
    """One dependency a queue is enough, as queues finish in order; a compute queue runs one command at a time.

    On an ``overlapped`` unit results come after the command, and the next must be told to wait for them.
    """
    return tuple(sorted(c for q, c in waits.items() if q != queue or q.engine == "dma" or overlapped))


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


def _loads_early(commands: Sequence[Command]) -> list[Command]:
    """Move each load to just behind the last command it depends on, keeping the loads' own order; renumber.

    DMA commands hold the DRAM bus in the order of the program, so this is what lets a load run ahead of stores
    that still wait for their tile.
    """
    loads = [c for c in commands if isinstance(c, Load)]
    others = [c for c in commands if not isinstance(c, Load)]
    number: dict[int, int] = {}
    out: list[Command] = []
    a = b = 0

    def emit(c: Command) -> None:
        number[c.id] = len(out)
        out.append(c._replace(id=len(out), deps=tuple(sorted(number[d] for d in c.deps))))

    while a < len(loads) or b < len(others):
        if a < len(loads) and all(d in number for d in loads[a].deps):
            emit(loads[a])
            a += 1
        else:
            emit(others[b])
            b += 1
    return out

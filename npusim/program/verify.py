"""The verifier: every tile program passes it at the mapper's exit, or the mapper is at fault."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod

import numpy as np

from npusim.errors import ProgramError
from npusim.ir.box import Box
from npusim.program.order import Order
from npusim.program.program import Command, Compute, Load, Queue, Ref, Slot, Store, TileProgram, reads_of, writes_of


def verify(program: TileProgram) -> None:
    """Raise ProgramError unless the program is sound.

    Checked: dependencies point backwards; slots lie inside SRAM and boxes inside slots; nothing is read, from SRAM or
    DRAM, that no command sure to have finished wrote; every two conflicting accesses to the same bytes are ordered by
    dependencies and queues; each layer's boxes cover its iteration space exactly once and each accumulation is opened,
    continued and closed in order; every graph output is stored exactly once.
    """
    order = Order(program)
    sram = _Sram(program, order)
    dram = _Dram(program, order)
    for command in program:
        for ref in reads_of(command):
            sram.read(command, ref)
        for ref in writes_of(command):
            sram.write(command, ref)
        if isinstance(command, Load):
            for ref in command.parts:
                dram.load(command, ref)
        elif isinstance(command, Store):
            dram.store(command, command.ref)
    dram.finish()
    _check_layers(program)


class _Users:
    """The last command of each queue that touched something."""

    __slots__ = ("by_queue",)

    def __init__(self) -> None:
        self.by_queue: dict[Queue, int] = {}

    def add(self, command: Command) -> None:
        self.by_queue[command.queue] = command.id

    def merge(self, other: _Users) -> None:
        for queue, command in other.by_queue.items():
            self.by_queue[queue] = max(command, self.by_queue.get(queue, -1))

    def all_before(self, order: Order, command: Command) -> bool:
        return all(order.before(earlier, command.id) for earlier in self.by_queue.values())

    def require(self, order: Order, command: Command, hazard: str, what: str) -> None:
        for earlier in self.by_queue.values():
            if earlier != command.id and not order.before(earlier, command.id):
                raise ProgramError(f"{hazard}: command {command.id} is not ordered after command {earlier} ({what})")


class _Contents:
    """What a slot holds: the boxes written, who wrote and read them, and who used the bytes ``before``."""

    __slots__ = ("before", "covered", "readers", "writers", "writes")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.writes: dict[Box, int] = {}
        self.covered = 0
        self.writers = _Users()
        self.readers = _Users()
        self.before = _Users()


class _Sram:
    def __init__(self, program: TileProgram, order: Order) -> None:
        self.order = order
        self.slots = program.slots
        self.contents = [_Contents() for _ in program.slots]
        self.neighbours: list[list[int]] = [[] for _ in program.slots]
        live: list[Slot] = []
        for s in program.slots:
            if s.offset < 0 or s.offset + s.nbytes > program.sram_bytes:
                raise ProgramError(
                    f"slot {s.index} ({s.value}) lies at {s.offset}..{s.offset + s.nbytes}, outside the SRAM of "
                    f"{program.sram_bytes} bytes"
                )
        for s in sorted((s for s in program.slots if s.base == s.index), key=lambda s: (s.offset, s.index)):
            live = [t for t in live if t.offset + t.nbytes > s.offset]
            for t in live:
                self.neighbours[s.index].append(t.index)
                self.neighbours[t.index].append(s.index)
            live.append(s)

    def _resolve(self, command: Command, ref: Ref) -> tuple[Slot, Box]:
        slot = self.slots[ref.slot]
        box = ref.box
        if len(box.lo) != len(slot.shape) or any(b > n for b, n in zip(box.shape, slot.shape, strict=True)):
            raise ProgramError(f"command {command.id}: box {box} does not fit slot {slot.index} of {list(slot.shape)}")
        if slot.whole and not Box.whole(slot.shape).contains(box):
            raise ProgramError(f"command {command.id}: box {box} lies outside slot {slot.index} of {list(slot.shape)}")
        if slot.base != slot.index:
            base = self.slots[slot.base]
            return base, Box.whole(base.shape)
        return slot, box

    def read(self, command: Command, ref: Ref) -> None:
        slot, box = self._resolve(command, ref)
        contents = self.contents[slot.index]
        if not box.size:
            return
        full = contents.covered == prod(slot.shape)
        if not (full and contents.writers.all_before(self.order, command)):
            covered = 0
            for written, by in contents.writes.items():
                if written.intersects(box):
                    if not self.order.before(by, command.id):
                        raise ProgramError(
                            f"read after write: command {command.id} is not ordered after command {by} ({slot.value})"
                        )
                    covered += _overlap(written, box)
            if covered < box.size:
                raise ProgramError(
                    f"command {command.id} reads {box} of {slot.value} in slot {slot.index}, of which only {covered} of "
                    f"{box.size} elements have been written"
                )
        contents.readers.add(command)

    def write(self, command: Command, ref: Ref) -> None:
        slot, box = self._resolve(command, ref)
        contents = self.contents[slot.index]
        for t in self.neighbours[slot.index]:
            other = self.contents[t]
            if other.writes or other.readers.by_queue:
                what = f"slot {slot.index} over slot {t}"
                other.readers.require(self.order, command, "write after read", what)
                other.writers.require(self.order, command, "write after write", what)
                # boxes of a slot may be written in any order: each write must come after what lay here before
                contents.before.merge(other.readers)
                contents.before.merge(other.writers)
                other.clear()
        contents.before.require(self.order, command, "write over an earlier slot", slot.value)
        if not slot.whole:
            contents.readers.require(self.order, command, "write after read", slot.value)
            contents.writers.require(self.order, command, "write after write", slot.value)
            contents.clear()
        elif (by := contents.writes.get(box)) is not None:
            contents.readers.require(self.order, command, "write after read", slot.value)
            if by != command.id and not self.order.before(by, command.id):
                raise ProgramError(f"write after write: command {command.id} is not ordered after {by} ({slot.value})")
            contents.covered -= box.size
        contents.writes[box] = command.id
        contents.covered += box.size
        if contents.covered > prod(slot.shape):
            raise ProgramError(f"command {command.id} writes {box} of {slot.value} over other boxes of it")
        contents.writers.add(command)


class _Dram:
    def __init__(self, program: TileProgram, order: Order) -> None:
        self.program, self.order = program, order
        self.stores: dict[str, list[tuple[Box, int]]] = {}
        self.stored: dict[str, int] = {}
        self.writers: dict[str, _Users] = {}
        self.given = {*program.graph.inputs, *program.graph.constants}

    def load(self, command: Load, ref: Ref) -> None:
        value = self.program.slots[ref.slot].value
        if not Box.whole(self.program.graph.types[value].shape).contains(ref.box):
            raise ProgramError(f"command {command.id} loads {ref.box} of {value}, which is outside it")
        home = self.program.home[value]
        if home in self.given:
            return
        stores = self.stores.get(home, [])
        if self.stored.get(home, 0) == self.program.graph.types[home].size:
            if self.writers[home].all_before(self.order, command):
                return
            if home != value:
                self.writers[home].require(self.order, command, "load after store", value)
        elif home != value:
            raise ProgramError(f"command {command.id} loads {value} before all of {home} is stored")
        covered = 0
        for stored, by in stores:
            if stored.intersects(ref.box):
                if not self.order.before(by, command.id):
                    raise ProgramError(f"load after store: command {command.id} is not ordered after {by} ({value})")
                covered += _overlap(stored, ref.box)
        if covered < ref.box.size:
            raise ProgramError(f"command {command.id} loads {ref.box} of {value}, which is not stored before")

    def store(self, command: Store, ref: Ref) -> None:
        value = self.program.slots[ref.slot].value
        self.stores.setdefault(value, []).append((ref.box, command.id))
        self.stored[value] = self.stored.get(value, 0) + ref.box.size
        self.writers.setdefault(value, _Users()).add(command)

    def finish(self) -> None:
        for value, stores in self.stores.items():
            shape = self.program.graph.types[value].shape
            if not _covers_once(Box.whole(shape), [b for b, _ in stores]):
                raise ProgramError(f"the stores of {value} do not cover its {list(shape)} exactly once")
        for value in self.program.graph.outputs:
            home = self.program.home[value]
            if home not in self.given and home not in self.stores:
                raise ProgramError(f"graph output {value} is never stored")


def _check_layers(program: TileProgram) -> None:
    boxes: list[list[Compute]] = [[] for _ in program.regions]
    for c in program:
        if isinstance(c, Compute):
            boxes[c.layer].append(c)
    for region, commands in zip(program.regions, boxes, strict=True):
        space = region.work.space
        if not _covers_once(space, [c.box for c in commands]):
            raise ProgramError(f"layer {region.name}: its tiles do not cover {space} exactly once")
        reduced = [i for i, d in enumerate(region.work.dims) if d.reduce]
        whole = prod(region.work.dims[i].extent for i in reduced)
        done: dict[tuple[int, ...], int] = {}
        for c in commands:
            key = tuple(x for i, x in enumerate(c.box.lo) if i not in reduced)
            before = done.get(key, 0)
            now = before + prod(c.box.hi[i] - c.box.lo[i] for i in reduced)
            if c.first != (before == 0) or c.last != (now == whole):
                raise ProgramError(
                    f"command {c.id} of layer {region.name}: first={c.first}, last={c.last}, with {before} of {whole} "
                    f"points folded before and {now} after"
                )
            if (c.result is None) == c.last or (c.accumulator is None and not (c.first and c.last)):
                raise ProgramError(f"command {c.id} of layer {region.name} lacks an accumulator or a result")
            done[key] = now


def _overlap(a: Box, b: Box) -> int:
    return prod(max(0, min(p, q) - max(m, n)) for m, p, n, q in zip(a.lo, a.hi, b.lo, b.hi, strict=True))


def _covers_once(space: Box, boxes: Iterable[Box]) -> bool:
    """Whether the boxes are a partition of ``space``: a grid of intervals, or else counted point by point."""
    found = list(boxes)
    if sum(b.size for b in found) != space.size or len(set(found)) != len(found):
        return False
    axes = [sorted({(b.lo[i], b.hi[i]) for b in found}) for i in range(len(space.lo))]
    tidy = all(
        cuts[0][0] == lo and cuts[-1][1] == hi and all(p[1] == q[0] for p, q in zip(cuts, cuts[1:], strict=False))
        for cuts, lo, hi in zip(axes, space.lo, space.hi, strict=True)
    )
    if tidy and prod(map(len, axes)) == len(found):
        grid = {Box(tuple(c[0] for c in cell), tuple(c[1] for c in cell)) for cell in product(*axes)}
        return grid == set(found)
    count = np.zeros(space.shape, np.uint8)
    for b in found:
        if not space.contains(b):
            return False
        count[b.relative_to(space.lo).slices] += 1
    return bool((count == 1).all())

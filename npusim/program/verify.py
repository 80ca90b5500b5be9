"""The verifier: every tile program passes it at the mapper's exit, or the mapper is at fault."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npusim.errors import ProgramError
from npusim.graph.region import Region, RegionInput
from npusim.ir.box import Box
from npusim.ir.tensor import packed_bytes
from npusim.numerics.types import DType
from npusim.program.order import Order
from npusim.program.program import Command, Compute, Load, Queue, Ref, Slot, Store, TileProgram, reads_of, writes_of


def verify(program: TileProgram) -> None:
    """Raise ProgramError unless the program is sound.

    Checked: dependencies point backwards; slots lie inside SRAM and boxes inside slots; each layer's boxes cover its
    iteration space exactly once, read and write what its region says, and each accumulation is opened, continued and
    closed in order; nothing is read, from SRAM or DRAM, that no command sure to have finished wrote; every two
    conflicting accesses to the same bytes are ordered by dependencies and queues; every graph output is stored exactly
    once.
    """
    order = Order(program)
    _check_slots(program)
    _check_layers(program)
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


def _check_slots(program: TileProgram) -> None:
    for s in program.slots:
        if s.offset < 0 or s.offset + s.nbytes > program.sram_bytes:
            raise ProgramError(
                f"slot {s.index} ({s.value}) lies at {s.offset}..{s.offset + s.nbytes}, outside the SRAM of "
                f"{program.sram_bytes} bytes"
            )
        needed = packed_bytes(prod(s.stored), s.dtype)
        if s.nbytes < needed or any(n > m for n, m in zip(s.shape, s.stored, strict=True)):
            raise ProgramError(
                f"slot {s.index} ({s.value}) has {s.nbytes} bytes; {list(s.shape)} stored as {list(s.stored)} of "
                f"{s.dtype} takes {needed}"
            )
        base = program.slots[s.base]
        same = (s.offset, s.nbytes, s.dtype, s.whole, prod(s.shape))
        if same != (base.offset, base.nbytes, base.dtype, base.whole, prod(base.shape)):
            raise ProgramError(f"slot {s.index} ({s.value}) is no view of slot {base.index} ({base.value})")


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
    """What a slot holds: the boxes written, who wrote and read them, and who used the bytes ``before``.

    ``partial``: sums of a reduction that is still open.
    """

    __slots__ = ("before", "covered", "partial", "readers", "writers", "writes")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.writes: dict[Box, int] = {}
        self.covered = 0
        self.partial = False
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
        for s in sorted((s for s in program.slots if s.base == s.index), key=lambda s: (s.offset, s.index)):
            live = [t for t in live if t.offset + t.nbytes > s.offset]
            for t in live:
                self.neighbours[s.index].append(t.index)
                self.neighbours[t.index].append(s.index)
            live.append(s)

    def _resolve(self, command: Command, ref: Ref) -> tuple[Slot, Box]:
        slot = self.slots[ref.slot]
        box = ref.box
        if len(box.lo) != len(slot.shape) or any(b - a > n for a, b, n in zip(*box, slot.shape, strict=True)):
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
        size = box.size
        if not size:
            return
        if contents.partial and not (isinstance(command, Compute) and ref == command.accumulator):
            raise ProgramError(f"command {command.id} reads partial sums of {slot.value} in slot {slot.index}")
        full = slot.whole and contents.covered == prod(slot.shape)
        if not (full and contents.writers.all_before(self.order, command)):
            covered = 0
            for written, by in contents.writes.items():
                # only a slot of the whole value keeps its layout: another is laid out for the very box it holds
                if written.intersects(box) if slot.whole else written == box:
                    if not self.order.before(by, command.id):
                        raise ProgramError(
                            f"read after write: command {command.id} is not ordered after command {by} ({slot.value})"
                        )
                    covered += size if written == box else _overlap(written, box)
            if covered < size:
                raise ProgramError(
                    f"command {command.id} reads {box} of {slot.value} in slot {slot.index}, of which only {covered} "
                    f"of {size} elements have been written"
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
                raise ProgramError(
                    f"write after write: command {command.id} is not ordered after command {by} ({slot.value})"
                )
            contents.covered -= box.size
        elif isinstance(command, Load) and any(written.intersects(box) for written in contents.writes):
            # (results of a layer do not overlap, as its tiles do not)
            raise ProgramError(f"command {command.id} loads {box} of {slot.value} over other boxes of it")
        contents.writes[box] = command.id
        contents.partial = isinstance(command, Compute) and not command.last
        contents.covered += box.size
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
                    raise ProgramError(
                        f"load after store: command {command.id} is not ordered after command {by} ({value})"
                    )
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
        done: dict[Box, int] = {}
        for c in commands:
            out = region.work.write.footprint(region.work.index, c.box)
            before = done.get(out, 0)
            now = before + prod(c.box.hi[i] - c.box.lo[i] for i in reduced)
            if c.first != (before == 0) or c.last != (now == whole):
                raise ProgramError(
                    f"command {c.id} of layer {region.name}: first={c.first}, last={c.last}, with {before} of {whole} "
                    f"points folded before and {now} after"
                )
            if (c.result is None) == c.last or (c.accumulator is None and not (c.first and c.last)):
                raise ProgramError(f"command {c.id} of layer {region.name} lacks an accumulator or a result")
            done[out] = now
            _check_refs(program.slots, region, c, out)
        if any(n < whole for n in done.values()):
            raise ProgramError(f"layer {region.name}: an accumulation is never closed")


def _check_refs(slots: tuple[Slot, ...], region: Region, c: Compute, out: Box) -> None:
    """Every operand is the box of the value that the region needs for ``c.box``, and ``out`` is what is written."""

    def check(ref: Ref, what: str, value: str, dtype: DType, box: Box) -> None:
        slot = slots[ref.slot]
        if slot.value != value or slot.dtype is not dtype or ref.box != box:
            raise ProgramError(
                f"command {c.id} of layer {region.name}: its {what} is {slot.value}{ref.box} of {slot.dtype}, the "
                f"region needs {value}{box} of {dtype}"
            )

    for x, ref in zip(region.inputs, c.operands, strict=True):
        if ref is not None:
            check(ref, "operand", x.value, x.type.dtype, _needed(region, x, c.box))
        elif (c.last or not x.access.final) and _needed(region, x, c.box).size:
            raise ProgramError(f"command {c.id} of layer {region.name} lacks its operand {x.value}")
    if c.accumulator is not None:
        check(c.accumulator, "accumulator", region.output, region.anchor.bound.accumulator, out)
    if c.result is not None:
        check(c.result, "result", region.output, region.output_type.dtype, out)


def _needed(region: Region, x: RegionInput, box: Box) -> Box:
    return x.access.footprint(region.work.index, box).clip(x.type.shape)


def _overlap(a: Box, b: Box) -> int:
    return prod(max(0, min(p, q) - max(m, n)) for m, p, n, q in zip(a.lo, a.hi, b.lo, b.hi, strict=True))


def _covers_once(space: Box, boxes: Sequence[Box]) -> bool:
    """Whether the boxes are a partition of ``space``, counted on the grid that their edges make."""
    if sum(b.size for b in boxes) != space.size:
        return False
    edges = [sorted({x for b in boxes for x in (b.lo[i], b.hi[i])}) for i in range(len(space.lo))]
    if any((e[0], e[-1]) != (lo, hi) for e, lo, hi in zip(edges, space.lo, space.hi, strict=True)):
        return False
    position = [{x: i for i, x in enumerate(e)} for e in edges]
    covered = np.zeros([len(e) - 1 for e in edges], np.bool_)
    for b in boxes:
        covered[tuple(slice(p[m], p[n]) for p, m, n in zip(position, b.lo, b.hi, strict=True))] = True
    return bool(covered.all())  # all points, with no more points in the boxes than there are: each of them once

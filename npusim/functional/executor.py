"""Run a tile program on real bytes, in the order in which it was timed or in program order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from npusim.errors import ProgramError
from npusim.functional.memory import SramBytes
from npusim.graph.region import Region
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import Array
from npusim.ops import evaluate_box
from npusim.program.program import CommandId, Compute, Load, Store, TileProgram

Moment = tuple[Literal["start", "finish"], CommandId]


def program_order(program: TileProgram) -> Iterable[Moment]:
    """One command after the other."""
    for c in program:
        yield "start", c.id
        yield "finish", c.id


def execute(
    program: TileProgram,
    inputs: Mapping[str, Array],
    moments: Iterable[Moment],
    policies: Mapping[str, Policy] | None = None,
) -> tuple[dict[str, Array], dict[str, int]]:
    """(graph outputs by name, overflow events by layer).

    A command samples what it reads when it starts and writes its effect when it finishes, so a missing dependency, a
    wrong address or an early overwrite gives wrong bits or a ReadinessError, as on silicon. ``inputs`` are in storage
    types; ``policies`` name what overflow of an accumulator type does (default: refuse).
    """
    return _Execution(program, inputs, policies or {}).run(moments)


class _Execution:
    def __init__(self, program: TileProgram, inputs: Mapping[str, Array], policies: Mapping[str, Policy]) -> None:
        self.program = program
        self.sram = SramBytes(program)
        graph = program.graph
        self.dram: dict[str, Array] = {**graph.constants, **inputs}
        self.sampled: dict[CommandId, list[Array | None]] = {}
        # one a member, so that a refusal names the operator at fault
        self.overflow = [
            [
                Overflow(policies.get(m.bound.accumulator.name, "refuse"), f"layer {r.name!r}: {m.op.name}")
                for m in r.members
            ]
            for r in program.regions
        ]

    def run(self, moments: Iterable[Moment]) -> tuple[dict[str, Array], dict[str, int]]:
        for what, command in moments:
            if what == "start":
                self._start(command)
            else:
                self._finish(command)
        if self.sampled:
            raise ProgramError(f"commands {sorted(self.sampled)[:10]} started and never finished")
        outputs = {v: self._view(v).copy() for v in self.program.graph.outputs}
        return outputs, {
            r.name: sum(o.events for o in found) for r, found in zip(self.program.regions, self.overflow, strict=True)
        }

    def _view(self, value: str) -> Array:
        """The DRAM contents of a value, which may share its buffer with a value of another shape."""
        tensor = self.program.graph.types[value]
        home = self.program.home[value]
        if home not in self.dram:
            self.dram[home] = np.zeros(self.program.graph.types[home].shape, tensor.dtype.storage)
        return self.dram[home].reshape(tensor.shape)

    def _start(self, command: CommandId) -> None:
        c = self.program.commands[command]
        if isinstance(c, Load):
            parts = [(self.program.slots[r.slot].value, r.box) for r in c.parts]
            self.sampled[command] = [self._view(v)[box.slices].copy() for v, box in parts]
        elif isinstance(c, Store):
            self.sampled[command] = [self.sram.read(c.ref, command)]
        else:
            old = None if c.first or c.accumulator is None else self.sram.read(c.accumulator, command)
            self.sampled[command] = [*(None if r is None else self.sram.read(r, command) for r in c.operands), old]

    def _finish(self, command: CommandId) -> None:
        c = self.program.commands[command]
        data = self.sampled.pop(command)
        if isinstance(c, Load):
            for ref, array in zip(c.parts, data, strict=True):
                assert array is not None
                self.sram.write(ref, array)
        elif isinstance(c, Store):
            (array,) = data
            self._view(self.program.slots[c.ref.slot].value)[c.ref.box.slices] = array
        else:
            self._compute(c, data)

    def _compute(self, c: Compute, data: list[Array | None]) -> None:
        region, overflow = self.program.regions[c.layer], self.overflow[c.layer]
        anchor, tiles = region.anchor, self._tiles(region, c, data)
        result = evaluate_box(anchor.bound, data[-1], *tiles[0], c.box, overflow[0], c.last)
        if not c.last:
            assert c.accumulator is not None
            self.sram.write(c.accumulator, result)
            return
        values = {anchor.output: result}
        out = region.work.write.footprint(region.work.index, c.box)
        for k, member in enumerate(region.tail, 1):
            arrays, origins = tiles[k]
            for i, v in enumerate(member.inputs):
                if v in values:
                    arrays[i], origins[i] = values[v], out.lo
            box = region.member_box(k, out)
            values[member.output] = evaluate_box(member.bound, None, arrays, origins, box, overflow[k])
        assert c.result is not None
        self.sram.write(c.result, values[region.output])

    def _tiles(
        self, region: Region, c: Compute, data: list[Array | None]
    ) -> list[tuple[list[Array], list[tuple[int, ...]]]]:
        """Per member its operands' parts in SRAM, and where each begins; members' results are filled in later."""
        tiles = [([_NOTHING] * len(m.inputs), [_NOWHERE] * len(m.inputs)) for m in region.members]
        for x, ref, array in zip(region.inputs, c.operands, data, strict=False):
            if ref is None or array is None:  # all padding, or not needed yet
                origin = x.access.footprint(region.work.index, c.box).lo
                array = np.empty((0,) * len(origin), x.type.dtype.storage)
            else:
                origin = ref.box.lo
            for member, operand in x.uses:
                arrays, origins = tiles[member]
                arrays[operand], origins[operand] = array, origin
        return tiles


_NOTHING: Array = np.empty(0)
_NOWHERE: tuple[int, ...] = ()

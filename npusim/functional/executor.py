"""Run a tile program on real bytes, in the order in which it was timed or in program order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from npusim.errors import ProgramError
from npusim.functional.memory import SramBytes
from npusim.graph.region import Region
from npusim.ir.box import Box
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import Array
from npusim.ops import read_padded
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
        self.overflow = [
            Overflow(policies.get(r.anchor.bound.accumulator.name, "refuse"), f"layer {r.name!r}: {r.anchor.op.name}")
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
        return outputs, {r.name: o.events for r, o in zip(self.program.regions, self.overflow, strict=True)}

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
        operands = self._operands(region, c, data)
        anchor = region.anchor
        acc = anchor.op.step(anchor.bound, data[-1], operands[0], c.box, overflow)
        if not c.last:
            assert c.accumulator is not None
            self.sram.write(c.accumulator, acc)
            return
        values = {anchor.output: anchor.op.finish(anchor.bound, acc, operands[0], c.box, overflow)}
        out = region.work.write.footprint(region.work.index, c.box)
        for k, member in enumerate(region.members[1:], 1):
            mine = operands[k]
            for i, v in enumerate(member.inputs):
                if v in values:
                    mine[i] = values[v]
            box = region.member_box(k, out)
            acc = member.op.step(member.bound, None, mine, box, overflow)
            values[member.output] = member.op.finish(member.bound, acc, mine, box, overflow)
        assert c.result is not None
        self.sram.write(c.result, values[region.output])

    def _operands(self, region: Region, c: Compute, data: list[Array | None]) -> list[list[Array]]:
        """Per member its operand tiles, padded to the footprints of its box; members' own results are filled in later."""
        tiles: list[list[Array]] = [[_NOTHING] * len(m.inputs) for m in region.members]
        for x, ref, array in zip(region.inputs, c.operands, data, strict=False):
            if x.access.final and not c.last:
                continue
            want = x.access.footprint(region.work.index, c.box)
            for member, operand in x.uses:
                m = region.members[member]
                pad = m.op.pad_value(m.bound, operand)
                have: Box = ref.box if ref is not None else Box(want.lo, want.lo)
                tile = array if array is not None else np.zeros(have.shape, x.type.dtype.storage)
                tiles[member][operand] = read_padded(tile, have.lo, want, pad)
        return tiles


_NOTHING: Array = np.empty(0)

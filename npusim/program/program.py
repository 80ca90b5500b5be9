"""Tile programs: the one interface between the mapper, the functional executor and the timing model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from npusim.graph.graph import Graph
from npusim.graph.region import Region
from npusim.ir.box import Box
from npusim.numerics.types import DType

CommandId = int


class Queue(NamedTuple):
    """The in-order queue of one engine: ``engine`` is ``dma``, ``mac``, ``popcount`` or ``vector``."""

    engine: str
    instance: int

    def __str__(self) -> str:
        return f"{self.engine}{self.instance}"


@dataclass(frozen=True, slots=True)
class Slot:
    """A byte range of SRAM that holds one box of a value at a time, packed row by row.

    ``shape`` is the largest box it holds, ``stored`` that shape as laid out (the last axis may be rounded up to a
    granule), ``nbytes`` what it occupies. ``whole``: it holds the entire value, so parts of it can be read and written.
    ``base`` is the slot whose bytes it views under another shape (its own index where it is no such view).
    """

    index: int
    offset: int
    nbytes: int
    value: str
    dtype: DType
    shape: tuple[int, ...]
    stored: tuple[int, ...]
    whole: bool
    base: int


class Ref(NamedTuple):
    """A part of a slot, in the index space of the slot's value."""

    slot: int
    box: Box


class Load(NamedTuple):
    """DRAM to SRAM: each part brings ``ref.box`` of its slot's value into the slot."""

    id: CommandId
    queue: Queue
    layer: int
    deps: tuple[CommandId, ...]
    parts: tuple[Ref, ...]


class Store(NamedTuple):
    """SRAM to DRAM: ``ref.box`` of the slot's value."""

    id: CommandId
    queue: Queue
    layer: int
    deps: tuple[CommandId, ...]
    ref: Ref


class Compute(NamedTuple):
    """One box of a region's iteration space.

    ``operands[i]`` is where region input i lies (None: not needed by this command). ``accumulator`` holds the partial
    sums of a split reduction (None: the reduction is whole). ``first`` starts the accumulation, ``last`` ends it:
    then the region's tail runs and the result goes to ``result``.
    """

    id: CommandId
    queue: Queue
    layer: int
    deps: tuple[CommandId, ...]
    box: Box
    operands: tuple[Ref | None, ...]
    accumulator: Ref | None
    result: Ref | None
    first: bool
    last: bool


Command = Load | Store | Compute


@dataclass(frozen=True)
class TileProgram:
    """Commands in an order in which every dependency points backwards.

    ``regions[layer]`` is what the commands of a layer compute. ``home`` maps values to the value whose DRAM buffer
    they share. DMA commands hold the DRAM bus in the order of the commands. ``unrollings[layer]`` is how the mapping
    demands that the unit lay out the loops of a layer; layers not in it take the fastest way.
    """

    graph: Graph
    regions: tuple[Region, ...]
    home: Mapping[str, str]
    sram_bytes: int
    slots: tuple[Slot, ...]
    commands: tuple[Command, ...]
    unrollings: Mapping[int, str | int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Command]:
        return iter(self.commands)

    def __len__(self) -> int:
        return len(self.commands)


def reads_of(command: Command) -> tuple[Ref, ...]:
    """The SRAM a command reads when it starts."""
    if isinstance(command, Load):
        return ()
    if isinstance(command, Store):
        return (command.ref,)
    refs = tuple(r for r in command.operands if r is not None)
    if command.accumulator is not None and not command.first:
        return (*refs, command.accumulator)
    return refs


def writes_of(command: Command) -> tuple[Ref, ...]:
    """The SRAM a command writes when it finishes."""
    if isinstance(command, Load):
        return command.parts
    if isinstance(command, Store):
        return ()
    if command.last:
        assert command.result is not None
        return (command.result,)
    assert command.accumulator is not None
    return (command.accumulator,)

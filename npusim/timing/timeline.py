"""What the simulation made of a program: when every command was ready, ran and finished, and what it waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from npusim.program.program import CommandId, Queue

Moment = tuple[Literal["start", "finish"], CommandId]


class Span(NamedTuple):
    """One command in time, in cycles.

    ``start``: it got its engine, with all it depends on finished. ``release``: the engine can take the next command.
    ``finish``: its effect is in memory (later than ``release`` for DMA, whose latency overlaps the next command, and on
    units that take a command while the one before drains).
    ``busy`` of the cycles start..release are its own work; the rest it waited inside, ``bus_wait`` for the DRAM bus,
    ``port_wait`` for an SRAM port, ``reload_wait`` for a stationary operand on its way into the unit. ``waited_for`` is
    the dependency that let it start last (-1: none delayed it).
    """

    command: CommandId
    queue: Queue
    layer: int
    start: int
    release: int
    finish: int
    bus_wait: int
    port_wait: int
    waited_for: CommandId
    reload_wait: int = 0

    @property
    def busy(self) -> int:
        """Cycles of its own work."""
        return self.release - self.start - self.bus_wait - self.port_wait - self.reload_wait


@dataclass(frozen=True)
class Timeline:
    """All spans, by command, and the order in which commands started and finished."""

    spans: tuple[Span, ...]
    moments: tuple[Moment, ...]

    @property
    def cycles(self) -> int:
        """Cycle at which the last command finishes."""
        return max((s.finish for s in self.spans), default=0)

    def by_queue(self) -> dict[Queue, list[Span]]:
        """The spans of each queue, in its order; queues sorted by name. What was done before the run is in none."""
        found: dict[Queue, list[Span]] = {}
        for s in self.spans:
            if not s.finish:
                continue
            found.setdefault(s.queue, []).append(s)
        return {q: found[q] for q in sorted(found)}

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)

"""Where the cycles went: every engine's time split into busy, stalled by cause and idle, in total and per layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from npusim.program.program import Compute, Load, Queue, TileProgram
from npusim.timing.costs import ComputeCost, DmaCost
from npusim.timing.timeline import Span, Timeline

Activity = Literal["busy", "load", "store", "compute", "dram_bus", "sram_port", "reload", "launch", "idle"]
"""``busy``, ``idle``, or the cause of a stall: waiting for the launch of the run, for a load or a store to finish, for
another compute command, for the DRAM bus, for an SRAM port, for a stationary operand on its way into the unit."""

STALLS: tuple[Activity, ...] = ("load", "store", "compute", "dram_bus", "sram_port", "reload", "launch")

CAUSE_OF_STALL = {"load": "dram_read", "store": "dram_write", "compute": "dependency", "idle": "last_results"}
"""What a layer's cycles went to when its engine was in that state; other states name their cause themselves."""


class Segment(NamedTuple):
    """Cycles ``start`` <= t < ``end`` of one engine; ``cause`` says what a layer's cycles go to meanwhile."""

    start: int
    end: int
    activity: Activity
    cause: str


@dataclass(frozen=True)
class LayerWindow:
    """The cycles between the completion of the layers before and the layer's own: windows partition the run."""

    start: int
    end: int

    @property
    def cycles(self) -> int:
        """Length of the window."""
        return self.end - self.start


def segments(
    program: TileProgram, timeline: Timeline, costs: Sequence[ComputeCost | DmaCost]
) -> dict[Queue, list[Segment]]:
    """For each queue, segments that cover 0..total without gap or overlap."""
    queues = timeline.by_queue()
    launch = min((spans[0].start for spans in queues.values()), default=0)  # some first command waits for nothing else
    return {q: _segments(program, spans, costs, launch, timeline.cycles) for q, spans in queues.items()}


def _segments(
    program: TileProgram, spans: Sequence[Span], costs: Sequence[ComputeCost | DmaCost], launch: int, total: int
) -> list[Segment]:
    out = [Segment(0, launch, "launch", "launch")] if launch else []
    at = launch
    for s in spans:
        if s.start > at:
            blamed = program.commands[s.waited_for]
            cause: Activity = (
                "load" if isinstance(blamed, Load) else "compute" if isinstance(blamed, Compute) else "store"
            )
            out.append(Segment(at, s.start, cause, CAUSE_OF_STALL.get(cause, cause)))
        at = s.start
        cost = costs[s.command]
        if isinstance(cost, ComputeCost):
            own, fill = cost.limit, min(cost.fill_cycles, s.busy)
        else:
            fill = 0
            own = "dram_read" if isinstance(program.commands[s.command], Load) else "dram_write"
        parts: tuple[tuple[int, Activity, str], ...] = (
            (s.reload_wait, "reload", "reload"),
            (s.bus_wait, "dram_bus", "dram_bus"),
            (s.port_wait, "sram_port", "sram_port"),
            (s.busy - fill, "busy", own),
            (fill, "busy", "fill_drain"),
        )
        for length, activity, why in parts:
            if length:
                out.append(Segment(at, at + length, activity, why))
                at += length
    if at < total:
        out.append(Segment(at, total, "idle", CAUSE_OF_STALL["idle"]))
    return out


def windows(program: TileProgram, timeline: Timeline) -> list[LayerWindow]:
    """One window a layer, in order; a layer that ends before an earlier one has an empty window."""
    ends = [0] * len(program.regions)
    for s in timeline.spans:
        ends[s.layer] = max(ends[s.layer], s.finish)
    found, at = [], 0
    for end in ends:
        found.append(LayerWindow(at, max(at, end)))
        at = max(at, end)
    return found


def split_by_layer(
    parts: Sequence[Segment], found: Sequence[LayerWindow]
) -> list[tuple[dict[Activity, int], dict[str, int]]]:
    """(cycles by activity, cycles by cause) of one engine in each window; both sum to the window's length."""
    table: list[tuple[dict[Activity, int], dict[str, int]]] = [({}, {}) for _ in found]
    k = 0
    for s in parts:
        at = s.start
        while at < s.end:
            while found[k].end <= at:
                k += 1
            end = min(s.end, found[k].end)
            activities, causes = table[k]
            activities[s.activity] = activities.get(s.activity, 0) + end - at
            causes[s.cause] = causes.get(s.cause, 0) + end - at
            at = end
    return table

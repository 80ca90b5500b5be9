"""Which slots of SRAM are in use when, and how many bytes at once."""

from __future__ import annotations

from collections.abc import Iterable

from npusim.program.program import Slot, TileProgram, reads_of, writes_of
from npusim.timing.timeline import Timeline


def slots_in_use(program: TileProgram, timeline: Timeline) -> list[tuple[Slot, int, int]]:
    """(slot, first cycle, end) for every slot that a command uses; uses of a view count for the slot it views."""
    spans = {s.command: s for s in timeline}
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for c in program:
        span = spans[c.id]
        written = writes_of(c)
        for ref in written:
            slot = program.slots[ref.slot].base
            starts[slot] = min(starts.get(slot, span.start), span.start)
        for ref in (*written, *reads_of(c)):
            slot = program.slots[ref.slot].base
            ends[slot] = max(ends.get(slot, 0), span.finish)
    return [(program.slots[s], starts[s], ends[s]) for s in sorted(starts)]


def most_at_once(steps: Iterable[tuple[int, int]]) -> int:
    """Largest running sum of (cycle, change in bytes); of those in one cycle, what goes out of use goes first."""
    now = most = 0
    for _, change in sorted(steps):
        now += change
        most = max(most, now)
    return most


def peak_bytes(program: TileProgram, timeline: Timeline, sram_bytes: int) -> int:
    """Most bytes of SRAM in use at once; slots behind ``sram_bytes`` lie in memories of the units' own."""
    used = [s for s in slots_in_use(program, timeline) if s[0].offset < sram_bytes]
    return most_at_once(step for slot, start, end in used for step in ((start, slot.nbytes), (end, -slot.nbytes)))

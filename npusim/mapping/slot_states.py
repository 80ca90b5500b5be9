"""Who uses which bytes of SRAM while commands are emitted: what a command must wait for before it reads or writes."""

from __future__ import annotations

from npusim.ir.box import Box
from npusim.mapping.interleave import Lane
from npusim.program.program import Slot


class Bytes:
    """Who used each byte last, at the granularity of slots: what a new slot must wait for."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, int, SlotState]] = []

    def place(self, state: SlotState, lo: int, hi: int) -> None:
        kept: list[tuple[int, int, SlotState]] = []
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


class SlotState:
    """A slot while commands are emitted: its contents and the last command of each lane that used it."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.holds: Box | None = None
        self.filled_by = -1
        self.users: dict[Lane, int] = {}
        self.written = False
        self.under: list[SlotState] = []

    def waits(self) -> dict[Lane, int]:
        """What must have finished before the slot is written again."""
        found = dict(self.users)
        if not self.written:
            for other in self.under:
                merge(found, other.waits())
        return found

    def wrote(self, lane: Lane, command: int, box: Box) -> None:
        self.users = {lane: command}
        self.holds, self.filled_by, self.written = box, command, True
        self.under = []


class Resident:
    """A value that stays in SRAM: its slot, who used the bytes before, and which command made which box."""

    def __init__(self, state: SlotState) -> None:
        self.state = state
        self.before = state.waits()
        self.made: list[tuple[Box, Lane, int]] = []
        self.lanes: set[Lane] = set()
        self.views: dict[str, Slot] = {}

    def make(self, box: Box, lane: Lane, command: int) -> None:
        """Note that a command makes ``box``; commands come in their order."""
        self.made.append((box, lane, command))
        self.lanes.add(lane)

    def makers(self, box: Box | None) -> dict[Lane, int]:
        """The last maker per queue of what a read of ``box`` touches (None: all of it)."""
        found: dict[Lane, int] = {}
        for made, lane, command in reversed(self.made):
            if lane not in found and (box is None or made.intersects(box)):
                found[lane] = command
                if len(found) == len(self.lanes):
                    break
        return found


def merge(into: dict[Lane, int], more: dict[Lane, int]) -> None:
    for lane, c in more.items():
        into[lane] = max(c, into.get(lane, -1))

"""Queues between units that stream: what must have been read before a tile may start, so that its results find room."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate

from npusim.hardware import Chip
from npusim.hardware.units.popcount import PopcountUnit
from npusim.program.program import CommandId, Compute, TileProgram


def rooms(program: TileProgram, chip: Chip) -> Mapping[CommandId, CommandId]:
    """For each tile that may have to wait for room, the command of the reading layer that must have finished first.

    A unit with ``fifo_elements`` stops when so many of its results wait to be taken in. A reader takes in what its
    next command needs, and gives it up when no later command needs it. So at the start of a tile, the tile and all
    before it that are still needed are at most the queue and the most that a command of the reader needs. (A queue
    smaller than a tile holds one.) Only for values that stay in SRAM and that one other layer reads, on one instance.
    """
    limits = {u.label: u.fifo_elements for u in chip.units if isinstance(u, PopcountUnit) and u.fifo_elements}
    found: dict[CommandId, CommandId] = {}
    if not limits:
        return found
    makers: dict[int, list[Compute]] = {}
    readers: dict[int, list[tuple[Compute, int]]] = {}
    for c in program:
        if not isinstance(c, Compute):
            continue
        if c.last and c.result is not None and program.slots[c.result.slot].whole:
            makers.setdefault(program.slots[c.result.slot].base, []).append(c)
        for i, ref in enumerate(c.operands):
            if ref is not None and program.slots[ref.slot].whole:
                readers.setdefault(program.slots[ref.slot].base, []).append((c, i))
    for slot, tiles in makers.items():
        limit = limits.get(tiles[0].queue.engine)
        reading = readers.get(slot, [])
        if limit is not None and len({(c.layer, c.queue) for c, _ in reading}) == 1:
            found |= _rooms(program, tiles, reading, limit)
    return found


def _rooms(
    program: TileProgram, tiles: Sequence[Compute], readers: Sequence[tuple[Compute, int]], limit: int
) -> dict[CommandId, CommandId]:
    """:func:`rooms` of the ``tiles`` that make a value, in the order in which they do."""
    place = {c.id: k for k, c in enumerate(tiles)}
    boxes = [c.result.box for c in tiles if c.result is not None]
    ends = list(accumulate((b.size for b in boxes), initial=0))
    last_reader = [-1] * len(tiles)
    window = 0
    for command, i in readers:
        ref = command.operands[i]
        assert ref is not None
        view = program.slots[ref.slot].value != program.slots[program.slots[ref.slot].base].value
        needed = [k for k, b in enumerate(boxes) if view or b.intersects(ref.box)]
        for k in needed:
            last_reader[k] = max(last_reader[k], command.id)
        newest = max([*needed, *(place[d] for d in command.deps if d in place)])
        window = max(window, ends[newest + 1] - ends[needed[0]])
    room = max(limit, max(b.size for b in boxes)) + window
    found = {}
    given_up = list(accumulate(last_reader, max))  # reading this has finished: all tiles so far are given up
    for k, c in enumerate(tiles):
        first = bisect_left(ends, ends[k + 1] - room)  # the first tile that may still be there
        if first > 0 and given_up[first - 1] >= 0:
            found[c.id] = given_up[first - 1]
    return found

"""The order of commands across layers: layers that do not depend on each other run side by side on their units."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npusim.program.program import Command, Compute, Load, Queue

_STORES = Queue("store", 0)

Lane = tuple[Queue, int]
"""Commands that keep their order: those of a unit's queue, or the loads, or the stores, of one layer in a channel."""

EVERY_LAYER = -1
"""In the lanes of units, which take the commands of all layers in their order."""


def in_ideal_order(commands: Sequence[Command], cycles: Callable[[Compute], int]) -> list[Command]:
    """``commands``, which follow each other layer by layer, in the order of a schedule without transfer times.

    In that schedule every unit takes its commands in the order given, each as soon as what it depends on is done, for
    ``cycles``; transfers take no time. Computations are sorted by their start, stores by the end of what they store,
    loads by the first start that needs them; of equals the order given holds. A load is needed no earlier than what it
    depends on is done, which is after the start of what made that, so in the new order too each command stands behind
    those that it depends on, the loads of a layer and channel keep their order, and so do the computations of a unit.
    Ids stay; a chain of layers on one unit stays as it is.
    """
    done = [0] * len(commands)
    key = [0] * len(commands)
    free: dict[Lane, int] = {}
    for c in commands:
        lane = lane_of(c)
        key[c.id] = start = max([free.get(lane, 0), *(done[d] for d in c.deps)])
        done[c.id] = free[lane] = start + (cycles(c) if isinstance(c, Compute) else 0)
    needed = {c.id: -1 for c in commands if isinstance(c, Load)}
    later: dict[Lane, int] = {}
    for c in reversed(commands):
        if isinstance(c, Load):
            # a command depends on the last load of a lane that it needs: those before it are needed as early
            times = [t for t in (needed[c.id], later.get(lane_of(c), -1)) if t >= 0]
            key[c.id] = later[lane_of(c)] = min(times, default=key[c.id])
        for d in c.deps:
            if d in needed and not isinstance(c, Load):
                needed[d] = key[c.id] if needed[d] < 0 else min(needed[d], key[c.id])
    return sorted(commands, key=lambda c: (key[c.id], c.id))


def lane_of(command: Command) -> Lane:
    """The lane of a command; loads and stores have lanes of their own where they share a channel."""
    if isinstance(command, Compute):
        return command.queue, EVERY_LAYER
    return command.queue if isinstance(command, Load) else _STORES, command.layer


def loads_early(commands: Sequence[Command]) -> list[Command]:
    """Move each load to just behind the last command it depends on, keeping the loads' own order; renumber.

    DMA commands hold the DRAM bus in the order of the program, so this is what lets a load run ahead of stores
    that still wait for their tile.
    """
    loads = [c for c in commands if isinstance(c, Load)]
    others = [c for c in commands if not isinstance(c, Load)]
    number: dict[int, int] = {}
    out: list[Command] = []
    a = b = 0

    def emit(c: Command) -> None:
        number[c.id] = len(out)
        out.append(c._replace(id=len(out), deps=tuple(sorted(number[d] for d in c.deps))))

    while a < len(loads) or b < len(others):
        if a < len(loads) and all(d in number for d in loads[a].deps):
            emit(loads[a])
            a += 1
        else:
            emit(others[b])
            b += 1
    return out

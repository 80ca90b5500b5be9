"""The DRAM bus in time: granted in the order of the program, or shared in equal parts by whoever has data to move."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from fractions import Fraction
from math import ceil
from typing import Protocol

import simpy

from npusim.program.program import CommandId

Carrying = Generator[simpy.Event, object, int]


class Bus(Protocol):
    """What moves data between DRAM and chip."""

    def carry(self, command: CommandId, loads: bool, earliest: int, cycles: int) -> Carrying:
        """Move what takes ``cycles`` of the whole bus, the first no earlier than ``earliest``; returns its end."""


class OrderedBus:
    """One transfer after the other, in the order of ``commands``; ``turnaround_cycles`` between reads and writes.

    A transfer that waits for its turn holds back those behind it. The first of a transfer may have moved before its
    turn (``earliest`` in the past), as far as nothing before it was moving then.
    """

    def __init__(self, env: simpy.Environment, commands: Sequence[CommandId], turnaround_cycles: int) -> None:
        self._env, self._turnaround = env, turnaround_cycles
        self._place = {c: i for i, c in enumerate(commands)}
        self._granted = [env.event() for _ in commands]
        self._free = 0
        self._loads: bool | None = None

    def carry(self, command: CommandId, loads: bool, earliest: int, cycles: int) -> Carrying:
        place = self._place[command]
        if place and not self._granted[place - 1].triggered:
            yield self._granted[place - 1]
        turnaround = self._turnaround if self._loads not in (None, loads) else 0
        self._loads = loads
        self._free = max(earliest, self._free + turnaround) + cycles
        self._granted[place].succeed()
        return self._free


class FairBus:
    """All transfers side by side, each at an equal share of the rate, as a memory that serves burst by burst does.

    Shares are taken at the requests: ``latency_cycles`` later come the data.
    """

    def __init__(self, env: simpy.Environment, latency_cycles: int) -> None:
        self._env, self._latency = env, latency_cycles
        self._left: dict[CommandId, Fraction] = {}
        self._since = 0
        self._changed = env.event()

    def carry(self, command: CommandId, loads: bool, earliest: int, cycles: int) -> Carrying:
        env = self._env
        yield env.timeout(max(0, earliest - self._latency - int(env.now)))
        self._advance()
        self._left[command] = Fraction(cycles)
        self._change()
        while self._left[command] > 0:
            yield env.timeout(ceil(self._left[command] * len(self._left))) | self._changed
            self._advance()
        del self._left[command]
        self._change()
        return int(env.now) + self._latency

    def _advance(self) -> None:
        """Take off what every transfer has moved since the last change."""
        now = int(self._env.now)
        for command in self._left:
            self._left[command] -= Fraction(now - self._since, len(self._left))
        self._since = now

    def _change(self) -> None:
        """Let all transfers work out their end anew."""
        self._changed.succeed()
        self._changed = self._env.event()

"""The discrete-event simulation: one simpy process per queue, shared DRAM bus and SRAM ports, integer cycles.

Every start is the maximum of earlier finishes, and the DRAM bus is granted in the order of the program, so where no
SRAM port is shared the model is a max-plus system: faster memories or units never make a program slower.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import simpy

from npusim.errors import DeadlockError
from npusim.hardware import Chip
from npusim.program.program import Command, Compute, Queue, TileProgram
from npusim.timing.costs import ComputeCost, DmaCost, command_costs
from npusim.timing.timeline import Moment, Span, Timeline

Process = Generator[simpy.Event, object, None]


def simulate(program: TileProgram, chip: Chip) -> Timeline:
    """Time ``program`` on ``chip``. DeadlockError if some command never becomes ready."""
    return simulate_costed(program, chip, command_costs(program, chip))


def simulate_costed(program: TileProgram, chip: Chip, costs: Sequence[ComputeCost | DmaCost]) -> Timeline:
    """Time ``program`` with the cost of each command given."""
    return _Simulation(program, chip, costs).run()


class _Simulation:
    def __init__(self, program: TileProgram, chip: Chip, costs: Sequence[ComputeCost | DmaCost]) -> None:
        self.program, self.chip, self.costs = program, chip, costs
        self.env = simpy.Environment()
        self.done = [self.env.event() for _ in program.commands]
        self.spans: list[Span | None] = [None] * len(program.commands)
        self.moments: list[Moment] = []
        self.port_free = [0] * chip.sram.ports
        self.port_shared = chip.sram.dma_port == chip.sram.compute_port
        self.bus_free = 0
        # turn[i]: the i-th DMA command has its place on the bus, so the next may take its own
        dma = [c.id for c in program if not isinstance(c, Compute)]
        self.turn = [self.env.event() for _ in dma]
        self.turn_of = {c: i for i, c in enumerate(dma)}

    def run(self) -> Timeline:
        queues: dict[Queue, list[Command]] = {}
        for c in self.program:
            queues.setdefault(c.queue, []).append(c)
        for commands in queues.values():
            serve = self._compute if isinstance(commands[0], Compute) else self._transfer
            self.env.process(self._serve(commands, serve))
        self.env.run()
        stuck = [i for i, s in enumerate(self.spans) if s is None]
        if stuck:
            raise DeadlockError(f"deadlock: commands {stuck[:10]} of {len(self.spans)} never became ready")
        return Timeline(tuple(s for s in self.spans if s is not None), tuple(self.moments))

    def _serve(self, commands: Sequence[Command], serve: Callable[[Any, int], Process]) -> Process:
        env, done = self.env, self.done
        for c in commands:
            free = int(env.now)
            blamed = -1
            for d in c.deps:
                event = done[d]
                if not event.triggered:
                    yield event
            if env.now > free:
                blamed = max(c.deps, key=lambda d: (self._finish(d), d))
            yield from serve(c, blamed)

    def _finish(self, command: int) -> int:
        span = self.spans[command]
        assert span is not None
        return span.finish

    def _compute(self, c: Compute, blamed: int) -> Process:
        cost = self.costs[c.id]
        assert isinstance(cost, ComputeCost)
        start = int(self.env.now)
        self.moments.append(("start", c.id))
        own = max(cost.cycles, cost.port_cycles)
        begin = max(start, self.port_free[cost.port])
        self.port_free[cost.port] = begin + cost.port_cycles
        finish = max(start + own, begin + cost.port_cycles)
        yield self.env.timeout(finish - start)
        self.spans[c.id] = Span(c.id, c.queue, c.layer, start, finish, finish, 0, finish - start - own, blamed)
        self._finished(c.id)

    def _transfer(self, c: Command, blamed: int) -> Process:
        cost = self.costs[c.id]
        assert isinstance(cost, DmaCost)
        env, latency = self.env, self.chip.dram.latency_cycles
        start = int(env.now)
        self.moments.append(("start", c.id))
        turn = self.turn_of[c.id]
        if turn and not self.turn[turn - 1].triggered:
            yield self.turn[turn - 1]
        now = int(env.now)
        ready = start + self.chip.dma.setup_cycles + latency
        alone = ready + max(cost.bus_cycles, cost.channel_cycles)
        self.bus_free = max(ready, self.bus_free, now) + cost.bus_cycles
        on_bus = max(self.bus_free, alone)
        self.turn[turn].succeed()
        finish = on_bus
        if self.port_shared:
            port = self.chip.sram.dma_port
            self.port_free[port] = max(ready, self.port_free[port]) + cost.port_cycles
            finish = max(on_bus, self.port_free[port])
        release = max(now, finish - latency)
        yield env.timeout(release - now)
        # waits are counted in the time the channel is held: what is not covered by the latency of the next request
        waited = release - start - max(0, alone - latency - start)
        bus_wait = min(waited, on_bus - alone)
        self.spans[c.id] = Span(c.id, c.queue, c.layer, start, release, finish, bus_wait, waited - bus_wait, blamed)
        if finish > release:
            env.process(self._later(finish - release, c.id))
        else:
            self._finished(c.id)

    def _later(self, cycles: int, command: int) -> Process:
        yield self.env.timeout(cycles)
        self._finished(command)

    def _finished(self, command: int) -> None:
        self.moments.append(("finish", command))
        self.done[command].succeed()

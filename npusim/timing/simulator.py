"""The discrete-event simulation: one simpy process per queue, shared DRAM bus and SRAM ports, integer cycles.

Every start is the maximum of earlier finishes, and the DRAM bus is granted in the order of the program, so where no
SRAM port is shared the model is a max-plus system: faster memories or units never make a program slower.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Generator, Sequence
from typing import Any

import simpy

from npusim.errors import DeadlockError, InputError
from npusim.hardware import Chip
from npusim.program.program import Command, Compute, Load, Queue, Store, TileProgram
from npusim.timing.bus import Bus, FairBus, OrderedBus
from npusim.timing.costs import ComputeCost, DmaCost, command_costs
from npusim.timing.fifos import rooms
from npusim.timing.timeline import Moment, Span, Timeline

Process = Generator[simpy.Event, object, None]


def simulate(program: TileProgram, chip: Chip) -> Timeline:
    """Time ``program`` on ``chip``.

    DeadlockError if some command never becomes ready; InputError if that is for want of SRAM to stream through.
    """
    return simulate_costed(program, chip, command_costs(program, chip))


def simulate_costed(program: TileProgram, chip: Chip, costs: Sequence[ComputeCost | DmaCost]) -> Timeline:
    """Time ``program`` with the cost of each command given."""
    return _Simulation(program, chip, costs).run()


class _Port:
    """An SRAM port, held by one access at a time; each takes the first time at which it is free for long enough.

    A transfer claims the port for when its data will come, and until then others may use it.
    """

    def __init__(self) -> None:
        self.claims: list[tuple[int, int]] = []

    def claim(self, now: int, earliest: int, cycles: int) -> int:
        """The cycle at which an access of ``cycles`` ends that may begin at ``earliest`` >= ``now``."""
        self.claims = [c for c in self.claims if c[1] > now]
        begin = earliest
        for lo, hi in self.claims:
            if begin + cycles <= lo:
                break
            begin = max(begin, hi)
        insort(self.claims, (begin, begin + cycles))
        return begin + cycles


class _Simulation:
    def __init__(self, program: TileProgram, chip: Chip, costs: Sequence[ComputeCost | DmaCost]) -> None:
        self.program, self.chip, self.costs = program, chip, costs
        self.env = simpy.Environment()
        self.done = [self.env.event() for _ in program.commands]
        self.spans: list[Span | None] = [None] * len(program.commands)
        self.overlapped: dict[Queue, tuple[int, int]] = {}  # of the command before: began with its operands, finish
        self.moments: list[Moment] = []
        self.ports = [_Port() for _ in range(chip.sram.ports)]
        self.port_shared = chip.sram.dma_port == chip.sram.compute_port
        dram, write = chip.dram, chip.dram.write_channel
        host = [c.id for c in program if self._with_host(c)]
        stores = [c.id for c in program if isinstance(c, Store) and not self._with_host(c)]
        loads = [c.id for c in program if isinstance(c, Load) and not (self._with_host(c) or self._preloaded(c))]
        others = loads if write else sorted([*loads, *stores])
        self.bus: Bus = (
            FairBus(self.env, dram.latency_cycles)
            if dram.fair
            else OrderedBus(self.env, others, dram.turnaround_cycles)
        )
        self.store_bus: Bus = OrderedBus(self.env, stores, 0) if write else self.bus
        self.store_latency = write.latency_cycles if write else dram.latency_cycles
        self.host_bus = OrderedBus(self.env, host, 0)
        self.rooms = rooms(program, chip)

    def run(self) -> Timeline:
        queues: dict[Queue, list[Command]] = {}
        for c in self.program:
            if self._preloaded(c):
                self.moments.append(("start", c.id))
                self.spans[c.id] = Span(c.id, c.queue, c.layer, 0, 0, 0, 0, 0, -1)
                self._finished(c.id)
            else:
                queues.setdefault(c.queue, []).append(c)
        for commands in queues.values():
            serve = self._compute if isinstance(commands[0], Compute) else self._transfer
            self.env.process(self._serve(commands, serve))
        self.env.run()
        stuck = [i for i, s in enumerate(self.spans) if s is None]
        if stuck and self.rooms:
            raise InputError(
                f"chip {self.chip.name!r}: layers that stream through queues (fifo_elements) wait for each other's "
                "bytes of SRAM; enlarge sram.size_bytes so that all feature maps lie side by side, or map a smaller "
                "batch"
            )
        if stuck:
            raise DeadlockError(f"deadlock: commands {stuck[:10]} of {len(self.spans)} never became ready")
        return Timeline(tuple(s for s in self.spans if s is not None), tuple(self.moments))

    def _with_host(self, c: Command) -> bool:
        cost = self.costs[c.id]
        return isinstance(cost, DmaCost) and cost.host

    def _preloaded(self, c: Command) -> bool:
        cost = self.costs[c.id]
        return isinstance(cost, DmaCost) and cost.preloaded

    def _serve(self, commands: Sequence[Command], serve: Callable[[Any, int], Process]) -> Process:
        env, done = self.env, self.done
        if self.chip.control.run_cycles:
            yield env.timeout(self.chip.control.run_cycles)
        for c in commands:
            free = int(env.now)
            blamed = -1
            waits = (*c.deps, self.rooms[c.id]) if c.id in self.rooms else c.deps
            for d in waits:
                event = done[d]
                if not event.triggered:
                    yield event
            if env.now > free:
                blamed = max(waits, key=lambda d: (self._finish(d), d))
            yield from serve(c, blamed)

    def _finish(self, command: int) -> int:
        span = self.spans[command]
        assert span is not None
        return span.finish

    def _compute(self, c: Compute, blamed: int) -> Process:
        cost = self.costs[c.id]
        assert isinstance(cost, ComputeCost)
        start = begin = int(self.env.now)
        self.moments.append(("start", c.id))
        begun, finished = self.overlapped.get(c.queue, (0, 0))
        if cost.reload_cycles:  # from when the operand is there, and the command before has begun with its own
            loaded = max((self._finish(d) for d in c.deps if isinstance(self.program.commands[d], Load)), default=0)
            begin = max(start, max(loaded, begun) + cost.reload_cycles)
        own = max(cost.cycles, cost.port_cycles)
        release = max(begin + own, self.ports[cost.port].claim(start, begin, cost.port_cycles))
        finish = max(release + cost.result_cycles, finished)
        self.overlapped[c.queue] = begin, finish
        yield self.env.timeout(release - start)
        wait = release - begin - own
        self.spans[c.id] = Span(c.id, c.queue, c.layer, start, release, finish, 0, wait, blamed, begin - start)
        # The unit works in order, so what the next command makes of this one's results is right from here on; who else
        # waits for them waits until they are there.
        self.moments.append(("finish", c.id))
        if finish > release:
            self.env.timeout(finish - release).callbacks.append(lambda _: self._there(c.id))
        else:
            self._there(c.id)

    def _transfer(self, c: Command, blamed: int) -> Process:
        cost = self.costs[c.id]
        assert isinstance(cost, DmaCost)
        env, loads = self.env, isinstance(c, Load)
        bus, latency = (self.bus, self.chip.dram.latency_cycles) if loads else (self.store_bus, self.store_latency)
        if cost.host and self.chip.host_link is not None:
            bus, latency = self.host_bus, self.chip.host_link.latency_cycles
        start = int(env.now)
        self.moments.append(("start", c.id))
        ahead = self.chip.dma.setup_cycles + latency
        earliest, alone = start + ahead, start + ahead + max(cost.bus_cycles, cost.channel_cycles)
        if cost.last_cycles is not None:  # data have left since the tile's computation began
            computed = self.spans[c.deps[0]]
            assert computed is not None
            earliest = computed.start + ahead
            alone = max(earliest + max(cost.bus_cycles, cost.channel_cycles), start + ahead + cost.last_cycles)
        on_bus = max((yield from bus.carry(c.id, loads, earliest, cost.bus_cycles)), alone)
        now = int(env.now)
        finish = on_bus
        if self.port_shared:
            port = self.ports[self.chip.sram.dma_port]
            finish = port.claim(now, max(now, on_bus - cost.port_cycles), cost.port_cycles)
        release = max(now, finish - latency)
        yield env.timeout(release - now)
        # waits are counted in the time the channel is held: what is not covered by the latency of the next request
        waited = release - start - max(0, alone - latency - start)
        bus_wait = min(waited, on_bus - alone)
        self.spans[c.id] = Span(c.id, c.queue, c.layer, start, release, finish, bus_wait, waited - bus_wait, blamed)
        if finish > release:
            env.timeout(finish - release).callbacks.append(lambda _: self._finished(c.id))
        else:
            self._finished(c.id)

    def _finished(self, command: int) -> None:
        self.moments.append(("finish", command))
        self._there(command)

    def _there(self, command: int) -> None:
        self.done[command].succeed()

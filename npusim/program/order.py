"""Which commands are sure to have finished before another starts: vector clocks over the in-order queues."""

from __future__ import annotations

from npusim.errors import ProgramError
from npusim.program.program import Queue, TileProgram


class Order:
    """``before(a, b)``: command a has finished when command b starts, whatever the timing.

    A queue starts its commands in order and finishes them in order. Compute queues also run one command at a time;
    DMA queues may start a command while the one before is still in flight, so queue order alone says nothing about
    what a DMA command has finished. The clock of a command gives, for each queue, how many of its commands have
    finished; memory is commands x queues, time is dependencies x queues.
    """

    def __init__(self, program: TileProgram) -> None:
        queues: dict[Queue, int] = {}
        for c in program:
            queues.setdefault(c.queue, len(queues))
        width = len(queues)
        self._queue: list[int] = []
        self._position: list[int] = []
        self._clock: list[list[int]] = []
        filled = [0] * width
        last: list[list[int] | None] = [None] * width
        serial = [q.engine != "dma" for q in queues]
        for i, c in enumerate(program):
            if c.id != i:
                raise ProgramError(f"command at position {i} has id {c.id}")
            q = queues[c.queue]
            clock = list(previous) if (previous := last[q]) is not None else [0] * width
            if serial[q]:
                clock[q] = filled[q]
            for d in c.deps:
                if not 0 <= d < i:
                    raise ProgramError(f"command {i} depends on {d}, which is not an earlier command")
                theirs = self._clock[d]
                for k in range(width):
                    if theirs[k] > clock[k]:
                        clock[k] = theirs[k]
                k, p = self._queue[d], self._position[d] + 1
                if p > clock[k]:
                    clock[k] = p
            self._queue.append(q)
            self._position.append(filled[q])
            self._clock.append(clock)
            filled[q] += 1
            last[q] = clock

    def before(self, a: int, b: int) -> bool:
        """Whether ``a`` has finished when ``b`` starts."""
        return self._position[a] < self._clock[b][self._queue[a]]

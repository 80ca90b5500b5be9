"""Spans and timelines."""

from __future__ import annotations

from npusim.program import Queue
from npusim.timing import Span, Timeline

MAC, DMA, DMA10 = Queue("mac", 0), Queue("dma", 2), Queue("dma", 10)


def span(command: int, queue: Queue, start: int, release: int, finish: int, bus: int = 0, port: int = 0) -> Span:
    return Span(command, queue, 0, start, release, finish, bus, port, -1)


def test_busy_is_what_was_not_waited_for_while_the_engine_was_held() -> None:
    assert span(0, DMA, 10, 40, 90, bus=7, port=3).busy == 20


def test_cycles_end_with_the_last_finish_not_the_last_command() -> None:
    timeline = Timeline((span(0, DMA, 0, 5, 99), span(1, MAC, 0, 50, 50)), ())
    assert timeline.cycles == 99
    assert Timeline((), ()).cycles == 0


def test_queues_come_sorted_and_their_spans_in_order() -> None:
    spans = (span(0, MAC, 0, 5, 5), span(1, DMA10, 0, 5, 5), span(2, DMA, 0, 1, 1), span(3, MAC, 5, 6, 6))
    by_queue = Timeline(spans, ()).by_queue()
    assert list(by_queue) == [DMA, DMA10, MAC]
    assert [s.command for s in by_queue[MAC]] == [0, 3]


def test_iteration_is_by_command() -> None:
    timeline = Timeline((span(0, MAC, 0, 5, 5), span(1, DMA, 0, 1, 1)), ())
    assert [s.command for s in timeline] == [0, 1]

"""The order that holds whatever the timing, against reachability in the graph of all starts and finishes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.errors import ProgramError
from npusim.graph import Graph, GraphBuilder
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8
from npusim.program import Command, Compute, Load, Queue, Ref, Store, TileProgram
from npusim.program.order import Order

QUEUES = (Queue("mac", 0), Queue("mac", 1), Queue("vector", 0), Queue("dma", 0), Queue("dma", 1))
NOWHERE = Ref(0, Box((), ()))


def empty_graph() -> Graph:
    builder = GraphBuilder("empty")
    builder.input("x", TensorType((), I8))
    return builder.finish(("x",))


def program(commands: list[tuple[Queue, tuple[int, ...]]]) -> TileProgram:
    """A program of which only queues and dependencies matter."""
    made: list[Command] = []
    for i, (queue, deps) in enumerate(commands):
        if queue.engine != "dma":
            made.append(Compute(i, queue, 0, deps, Box((), ()), (), None, NOWHERE, True, True))
        else:
            made.append(Load(i, queue, 0, deps, ()) if i % 2 else Store(i, queue, 0, deps, NOWHERE))
    return TileProgram(empty_graph(), (), {}, 0, (), tuple(made))


def finished_when_started(commands: list[tuple[Queue, tuple[int, ...]]]) -> set[tuple[int, int]]:
    """Every (a, b) such that a path leads from the finish of a to the start of b, by plain search.

    Edges: start to finish of each command; finish of a dependency to the start; along a queue, start to start and
    finish to finish, and on engines that run one command at a time finish to start.
    """
    edges: dict[tuple[str, int], list[tuple[str, int]]] = {}
    before: dict[Queue, int] = {}

    def edge(a: tuple[str, int], b: tuple[str, int]) -> None:
        edges.setdefault(a, []).append(b)

    for i, (queue, deps) in enumerate(commands):
        edge(("start", i), ("finish", i))
        for d in deps:
            edge(("finish", d), ("start", i))
        if queue in before:
            edge(("start", before[queue]), ("start", i))
            edge(("finish", before[queue]), ("finish", i))
            if queue.engine != "dma":
                edge(("finish", before[queue]), ("start", i))
        before[queue] = i
    found = set()
    for a in range(len(commands)):
        seen, work = set(), [("finish", a)]
        while work:
            for moment in edges.get(work.pop(), ()):
                if moment not in seen:
                    seen.add(moment)
                    work.append(moment)
        found |= {(a, i) for what, i in seen if what == "start"}
    return found


@st.composite
def schedules(draw: st.DrawFn) -> list[tuple[Queue, tuple[int, ...]]]:
    queues = draw(st.lists(st.sampled_from(QUEUES), min_size=1, max_size=24))
    return [
        (q, tuple(sorted(draw(st.sets(st.integers(0, i - 1), max_size=2))))) if i else (q, ())
        for i, q in enumerate(queues)
    ]


@settings(deadline=None, max_examples=300)
@given(schedules())
def test_order_is_reachability(commands: list[tuple[Queue, tuple[int, ...]]]) -> None:
    order = Order(program(commands))
    everything = range(len(commands))
    assert {(a, b) for a in everything for b in everything if order.before(a, b)} == finished_when_started(commands)


def test_a_compute_queue_runs_one_command_at_a_time() -> None:
    mac = QUEUES[0]
    order = Order(program([(mac, ()), (mac, ()), (mac, ())]))
    assert order.before(0, 1) and order.before(0, 2) and order.before(1, 2)
    assert not order.before(1, 1) and not order.before(2, 0)


def test_a_dma_queue_starts_a_command_before_the_last_one_has_finished() -> None:
    dma, mac = QUEUES[3], QUEUES[0]
    order = Order(program([(dma, ()), (dma, ()), (mac, (1,)), (dma, ())]))
    assert not order.before(0, 1)
    # but it finishes in order: who waits for the second has the first
    assert order.before(0, 2) and order.before(1, 2)
    assert not order.before(0, 3) and not order.before(2, 3)


def test_engines_wait_for_each_other_only_through_dependencies() -> None:
    mac, vector = QUEUES[0], QUEUES[2]
    order = Order(program([(mac, ()), (vector, ()), (vector, (0,)), (mac, ()), (vector, ())]))
    assert not order.before(0, 1) and order.before(0, 2)
    assert order.before(0, 4), "the queue's command before it waited"
    assert not order.before(3, 4)


@pytest.mark.parametrize("dependency", [1, 2, -1], ids=["itself", "a later one", "none there is"])
def test_a_dependency_must_point_backwards(dependency: int) -> None:
    broken = program([(QUEUES[0], ()), (QUEUES[3], (dependency,)), (QUEUES[0], ())])
    with pytest.raises(ProgramError, match=f"command 1 depends on {dependency}, which is not an earlier command"):
        Order(broken)


def test_a_command_bears_its_position_as_id() -> None:
    good = program([(QUEUES[0], ()), (QUEUES[3], ())])
    first, second = good.commands
    swapped = TileProgram(good.graph, (), {}, 0, (), (second, first))
    with pytest.raises(ProgramError, match="command at position 0 has id 1"):
        Order(swapped)

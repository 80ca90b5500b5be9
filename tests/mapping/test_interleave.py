"""The order of commands across layers: what may move, what may not, and what that buys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings

from npusim.api import make_job
from npusim.frontends.chip import load_chip
from npusim.graph import Graph
from npusim.hardware import Chip
from npusim.mapping.interleave import EVERY_LAYER, in_ideal_order, lane_of
from npusim.mapping.mapper import Mapped
from npusim.program import Command, Compute, Load, Queue, Store
from npusim.session import map_and_time
from tests.plain import compute, load, store
from tests.properties.mapped_graphs import SLOW, mapped_graphs

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"
MAC, POPCOUNT = Queue("mac", 0), Queue("popcount", 0)


def two_branches() -> list[Command]:
    """Layer 0 on the MAC array, layer 1 on the popcount unit: two tiles each, a load before and a store behind."""
    commands: list[Command] = []
    for layer, queue in enumerate((MAC, POPCOUNT)):
        for _ in range(2):
            i = len(commands)
            commands += [
                load(i, 0, (), layer),
                compute(i + 1, queue.engine, deps=(i,), layer=layer),
                store(i + 2, 2, (i + 1,), layer),
            ]
    return commands


def names(commands: list[Command]) -> list[str]:
    kinds = {Load: "load", Store: "store", Compute: "compute"}
    return [f"{kinds[type(c)]} {c.layer}" for c in commands]


def test_independent_layers_on_two_units_take_turns() -> None:
    order = in_ideal_order(two_branches(), lambda c: 10)
    assert names(order) == [
        "load 0", "compute 0", "load 1", "compute 1",
        "store 0", "load 0", "compute 0", "store 1", "load 1", "compute 1",
        "store 0", "store 1",
    ]  # fmt: skip


def test_a_slow_layer_lets_the_other_go_ahead() -> None:
    order = in_ideal_order(two_branches(), lambda c: 100 if c.layer == 0 else 10)
    assert names([c for c in order if isinstance(c, Compute)]) == ["compute 0", "compute 1", "compute 1", "compute 0"]
    assert names([c for c in order if isinstance(c, Load)]) == ["load 0", "load 1", "load 1", "load 0"]


def test_layers_on_one_unit_stay_one_after_the_other() -> None:
    commands = [c._replace(queue=MAC) if isinstance(c, Compute) else c for c in two_branches()]
    assert [c.layer for c in in_ideal_order(commands, lambda c: 10)] == [0] * 6 + [1] * 6


def test_a_load_that_others_stand_for_is_needed_as_early_as_they_are() -> None:
    """A tile depends on the last load of a lane: the bias before it, which nothing names, comes first all the same."""
    commands: list[Command] = [
        load(0, 0, (), 0), compute(1, deps=(0,)),
        load(2, 0, (), 1), load(3, 0, (), 1), compute(4, "popcount", deps=(3,), layer=1),
    ]  # fmt: skip
    order = in_ideal_order(commands, lambda c: 10)
    assert [c.id for c in order] == [0, 1, 2, 3, 4]
    assert lane_of(commands[2]) == lane_of(commands[3]) != lane_of(commands[0])
    assert lane_of(commands[1]) == (MAC, EVERY_LAYER)


def test_loads_and_stores_of_one_channel_have_lanes_of_their_own() -> None:
    assert lane_of(load(0, 0, (), 3)) != lane_of(store(1, 0, (), 3))


@settings(SLOW, max_examples=40)
@given(mapped_graphs())
def test_commands_stand_behind_what_they_depend_on_and_units_keep_their_order(case: tuple[Graph, Chip, Mapped]) -> None:
    program = case[2].program
    order = in_ideal_order(program.commands, lambda c: 1 + c.box.size % 7)
    place = {c.id: i for i, c in enumerate(order)}
    assert sorted(place) == list(range(len(program)))
    last: dict[object, int] = {}
    for c in program:
        assert all(place[d] < place[c.id] for d in c.deps)
        lane = lane_of(c)
        if not isinstance(c, Store):
            assert place[c.id] > last.get(lane, -1)
        last[lane] = place[c.id]


def test_the_mac_array_and_the_popcount_unit_work_at_the_same_time() -> None:
    """Two branches of 56,000 and 45,000 cycles take 64,000 together, not 101,000."""
    job = make_job(WORKLOADS / "mixed_branches.yaml")
    mapped, _, timeline = map_and_time(job.graph, job.chip, job.mapping)
    busy = {q: [(s.start, s.release) for s in timeline if s.queue == q] for q in (MAC, POPCOUNT)}
    work = {q: sum(b - a for a, b in spans) for q, spans in busy.items()}
    both = sum(max(0, min(b, d) - max(a, c)) for a, b in busy[MAC] for c, d in busy[POPCOUNT])
    assert both >= 0.8 * min(work.values())
    assert timeline.cycles < 1.2 * max(work.values()) < sum(work.values())
    alone = replace(job.mapping, overlap=False)
    assert map_and_time(job.graph, load_chip("binary"), alone)[2].cycles > sum(work.values())

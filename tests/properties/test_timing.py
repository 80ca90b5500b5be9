"""Timing sanity, whatever graph, chip and tiling: bounds, monotonicity, accounts that add up, few events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
import simpy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim.errors import DoesNotFitError
from npusim.frontends.chip import load_chip
from npusim.graph import Graph
from npusim.hardware import Chip
from npusim.hardware.units.vector import VectorUnit
from npusim.ir.mapping_options import MappingOptions
from npusim.mapping.mapper import Mapped, map_graph
from npusim.program import Compute, Queue, TileProgram
from npusim.report.build import adds_up, figures, tile_macs
from npusim.session import Job, run
from npusim.timing import simulate
from npusim.timing.costs import ComputeCost, DmaCost, command_costs
from npusim.timing.simulator import simulate_costed
from tests.properties.chains import convolution_chain, small_chip
from tests.properties.mapped_graphs import SLOW, mapped_graphs
from tests.properties.random_graphs import mapping_options, random_input


def own_cycles(chip: Chip, cost: ComputeCost | DmaCost) -> int:
    """Cycles for which a command holds its engine when it waits for nothing."""
    if isinstance(cost, ComputeCost):
        return max(cost.cycles, cost.port_cycles)
    return chip.dma.setup_cycles + max(cost.bus_cycles, cost.channel_cycles)


def longest(chip: Chip, cost: ComputeCost | DmaCost) -> int:
    """Cycles that a command can add to a run at most: its own, its latency, and a turn of the bus."""
    if isinstance(cost, ComputeCost):
        return own_cycles(chip, cost) + cost.reload_cycles + cost.result_cycles
    latency = chip.host_link.latency_cycles if cost.host and chip.host_link else chip.dram.latency_cycles
    return own_cycles(chip, cost) + latency + chip.dram.turnaround_cycles


@settings(SLOW, max_examples=60)
@given(mapped_graphs())
def test_the_total_lies_between_its_bounds(case: tuple[Graph, Chip, Mapped]) -> None:
    """At least the work of the busiest engine and of the bus; at most everything one after the other."""
    _, chip, mapped = case
    costs = command_costs(mapped.program, chip)
    timeline = simulate_costed(mapped.program, chip, costs)
    launch = chip.control.run_cycles
    work: Counter[Queue] = Counter()
    for c, s, cost in zip(mapped.program, timeline, costs, strict=True):
        assert s.busy == own_cycles(chip, cost)
        assert min(s.start, s.bus_wait, s.port_wait, s.finish - s.release) >= 0
        work[c.queue] += s.busy
    for host in (True, False):
        bus = sum(k.bus_cycles for k in costs if isinstance(k, DmaCost) and k.host is host)
        assert launch + max(*work.values(), bus) <= timeline.cycles
    assert timeline.cycles <= launch + sum(longest(chip, k) for k in costs)


def every_port_has_one_client(program: TileProgram, chip: Chip) -> bool:
    """Whether no two queues share an SRAM port (all DMA channels count as one: the bus orders them)."""
    sram, clients = chip.sram, {}
    for c in program:
        if isinstance(c, Compute):
            port = sram.vector_port if c.queue.engine == "vector" else sram.compute_port
            clients.setdefault(port, set()).add(str(c.queue))
        else:
            clients.setdefault(sram.dma_port, set()).add("dma")
    return all(len(queues) == 1 for queues in clients.values())


def better_chips(chip: Chip) -> Iterator[tuple[str, Chip]]:
    """Chips that are better in one thing, on which the program of ``chip`` runs unchanged."""
    dram, dma, sram, control = chip.dram, chip.dma, chip.sram, chip.control
    for factor in (Fraction(2), Fraction(4, 3)):
        yield (
            f"DRAM bandwidth x {factor}",
            replace(chip, dram=replace(dram, bytes_per_cycle=dram.bytes_per_cycle * factor)),
        )
    for latency in (0, dram.latency_cycles // 2):
        yield f"DRAM latency {latency}", replace(chip, dram=replace(dram, latency_cycles=latency))
    yield "no turnaround", replace(chip, dram=replace(dram, turnaround_cycles=0))
    yield "DMA rate", replace(chip, dma=replace(dma, bytes_per_cycle=dma.bytes_per_cycle + 1))
    yield "DMA set-up", replace(chip, dma=replace(dma, setup_cycles=dma.setup_cycles // 2))
    yield "bursts in flight", replace(chip, dma=replace(dma, outstanding_bursts=dma.outstanding_bursts + 1))
    yield "SRAM rate", replace(chip, sram=replace(sram, bytes_per_cycle=sram.bytes_per_cycle * 2))
    yield "launch", replace(chip, control=replace(control, run_cycles=control.run_cycles // 2))
    units = tuple(replace(u, lanes=u.lanes * 2) if isinstance(u, VectorUnit) else u for u in chip.units)
    yield "vector lanes", replace(chip, units=units)


@settings(SLOW, max_examples=40)
@given(mapped_graphs(3))
def test_the_same_program_is_never_slower_on_a_better_chip(case: tuple[Graph, Chip, Mapped]) -> None:
    """Exact where every start is a maximum of earlier finishes, that is where no SRAM port has two clients."""
    _, chip, mapped = case
    assume(every_port_has_one_client(mapped.program, chip))
    cycles = simulate(mapped.program, chip).cycles
    for better, changed in better_chips(chip):
        assert simulate(mapped.program, changed).cycles <= cycles, better


@pytest.mark.parametrize("preset", ["micro", "edge", "server"])
def test_a_chain_is_never_slower_on_a_better_preset(preset: str) -> None:
    chip = load_chip(preset, ["sram.ports=3", "sram.size_bytes=8192"])
    program = map_graph(convolution_chain(0), chip, MappingOptions()).program
    assert every_port_has_one_client(program, chip)
    cycles = simulate(program, chip).cycles
    found = {better: simulate(program, changed).cycles for better, changed in better_chips(chip)}
    assert max(found.values()) <= cycles
    assert min(found.values()) < cycles


@settings(SLOW, max_examples=30)
@given(mapped_graphs(3), st.integers(1, 1 << 20))
def test_the_same_program_takes_as_long_with_a_larger_sram(case: tuple[Graph, Chip, Mapped], more: int) -> None:
    _, chip, mapped = case
    larger = replace(chip, sram=replace(chip.sram, size_bytes=chip.sram.size_bytes + more))
    assert simulate(mapped.program, larger) == simulate(mapped.program, chip)


@settings(SLOW, max_examples=60)
@given(mapped_graphs())
def test_the_accounts_add_up(case: tuple[Graph, Chip, Mapped]) -> None:
    """Busy, stalled and idle cycles make up the run and every layer's window; windows make up the run."""
    _, chip, mapped = case
    costs = command_costs(mapped.program, chip)
    timeline = simulate_costed(mapped.program, chip, costs)
    totals, engines, layers = figures(mapped.program, mapped.plan, timeline, costs, chip, {})
    assert totals.cycles == timeline.cycles == sum(x.cycles for x in layers)
    assert adds_up(engines, totals.cycles)
    assert [e.engine for e in engines] == sorted(str(q) for q in timeline.by_queue())
    for x, done, region in zip(layers, tile_macs(mapped.program), mapped.program.regions, strict=True):
        assert adds_up(x.engines, x.cycles)
        assert sum(x.cycles_by_cause.values()) == x.cycles
        assert 0 <= x.utilization <= 1
        assert 0 <= x.useful_macs <= x.macs
        assert done == region.work.points
    for e in engines:
        mine = [next(y for y in x.engines if y.engine == e.engine) for x in layers]
        assert sum(y.busy_cycles for y in mine) == e.busy_cycles <= totals.cycles
        assert sum(y.idle_cycles for y in mine) == e.idle_cycles
    assert all(0 < u <= 1 for u in totals.utilization.values())
    assert totals.dram_read_bytes + totals.dram_write_bytes == sum(
        k.bytes_moved for k in costs if isinstance(k, DmaCost)
    )
    assert totals.sram_peak_bytes <= totals.sram_bytes


@settings(SLOW, max_examples=50)
@given(mapped_graphs())
def test_there_are_at_most_four_events_a_command(case: tuple[Graph, Chip, Mapped]) -> None:
    """And three for each queue: its first step, its launch and its end."""
    _, chip, mapped = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("npusim.timing.simulator.simpy.Environment", counting := counting_environment())
        simulate(mapped.program, chip)
    queues = len({c.queue for c in mapped.program})
    assert len(mapped.program) < counting.steps() <= 4 * len(mapped.program) + 3 * queues


def counting_environment() -> type:
    """A simpy environment that counts its events."""
    count = [0]

    class Counting(simpy.Environment):
        def step(self) -> None:
            count[0] += 1
            super().step()

        steps: Callable[[], int] = staticmethod(lambda: count[0])

    return Counting


@settings(SLOW, max_examples=20)
@given(mapped_graphs(3), mapping_options(), st.integers(0, 2**32 - 1))
def test_two_runs_give_byte_equal_reports(case: tuple[Graph, Chip, Mapped], options: MappingOptions, seed: int) -> None:
    graph, chip, _ = case
    job = Job(
        graph=graph, chip=chip, inputs=random_input(graph, seed), mapping=replace(options, smaller_memories=False)
    )
    try:
        first = run(job).report.to_json()
    except DoesNotFitError:
        assume(False)
    assert run(job).report.to_json() == first


@pytest.mark.parametrize("sram_bytes", [4096, 6144, 8192, 65536])
def test_a_chain_that_must_be_tiled_keeps_its_bounds(sram_bytes: int) -> None:
    """The properties above are not vacuous: here every engine waits for another."""
    chip = small_chip(sram_bytes)
    mapped = map_graph(convolution_chain(1), chip, MappingOptions())
    costs = command_costs(mapped.program, chip)
    timeline = simulate_costed(mapped.program, chip, costs)
    work: Counter[Queue] = Counter()
    for s, cost in zip(timeline, costs, strict=True):
        work[s.queue] += own_cycles(chip, cost)
    assert max(work.values()) < timeline.cycles < sum(longest(chip, k) for k in costs)
    _, engines, _ = figures(mapped.program, mapped.plan, timeline, costs, chip, {})
    assert all(sum(e.stalled_cycles.values()) > 0 for e in engines)

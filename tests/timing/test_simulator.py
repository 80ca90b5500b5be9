"""The simulation against cycles worked out on paper, and its deadlocks."""

from __future__ import annotations

import pytest
import simpy

from npusim.errors import DeadlockError
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.mapper import map_graph
from npusim.program import Compute, Load, TileProgram
from npusim.timing import Timeline, simulate
from npusim.timing.costs import ComputeCost, DmaCost, command_costs
from npusim.timing.simulator import simulate_costed
from tests.plain import compute, conv, load, matmul, plain_chip, program, sram_rate, store


def table(p: TileProgram, timeline: Timeline) -> str:
    """One line a command, in the order of the program: what it is, in which cycles it ran."""
    kinds = {"Load": "load", "Store": "store", "Compute": "compute"}
    return "\n".join(
        f"{kinds[type(c).__name__]:<7} {c.queue!s:<4} {s.start:>3} ..{s.finish:>4}"
        for c, s in zip(p, timeline, strict=True)
    )


# Four tiles of one row: a row of a is 4 bytes and so 4 cycles, all of b 16 cycles, a row of the int32 output 16
# cycles, and a tile 16 multiplications. The bus serves loads and stores one at a time, in the order of the program.
ONE_ROW_A_TILE = {
    1: """
load    dma1   0 ..   4
load    dma0   0 ..  20
compute mac0  20 ..  36
load    dma1  36 ..  40
store   dma2  36 ..  56
compute mac0  56 ..  72
load    dma1  72 ..  76
store   dma2  72 ..  92
compute mac0  92 .. 108
load    dma1 108 .. 112
store   dma2 108 .. 128
compute mac0 128 .. 144
store   dma2 144 .. 160""",
    2: """
load    dma1   0 ..   4
load    dma0   0 ..  20
load    dma1   4 ..  24
compute mac0  20 ..  36
load    dma1  36 ..  40
store   dma2  36 ..  56
compute mac0  36 ..  52
load    dma1  52 ..  60
store   dma2  56 ..  76
compute mac0  56 ..  72
store   dma2  76 ..  92
compute mac0  76 ..  92
store   dma2  92 .. 108""",
    3: """
load    dma1   0 ..   4
load    dma0   0 ..  20
load    dma1   4 ..  24
load    dma1  24 ..  28
compute mac0  20 ..  36
load    dma1  36 ..  40
store   dma2  36 ..  56
compute mac0  36 ..  52
store   dma2  56 ..  72
compute mac0  52 ..  68
store   dma2  72 ..  88
compute mac0  68 ..  84
store   dma2  88 .. 104""",
}


@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_a_product_in_four_tiles_with_one_two_and_three_buffers(buffers: int) -> None:
    chip = plain_chip()
    options = MappingOptions(layers={"mm": LayerOptions(tile={"h": 1, "w": 4, "c": 4}, buffers=buffers)})
    p = map_graph(matmul(4, 4, 4), chip, options).program
    assert table(p, simulate(p, chip)) == ONE_ROW_A_TILE[buffers].strip("\n")


def test_a_convolution_in_two_tiles() -> None:
    """Rows 0..2 and 1..3 of a 4x4x1 image: the second tile loads all three again, as slots hold one box each."""
    chip = plain_chip()
    options = MappingOptions(layers={"conv": LayerOptions(tile={"oy": 1, "ox": 2, "oc": 2}, buffers=2)})
    p = map_graph(conv(4, 1, 2, pad=0, rescaled=False), chip, options).program
    assert table(p, simulate(p, chip)) == (
        "load    dma1   0 ..  12\n"  # 3 rows of 4
        "load    dma0   0 ..  38\n"  # 2 x 3 x 3 weights and 2 biases of 4 bytes
        "load    dma1  12 ..  50\n"
        "compute mac0  38 ..  74\n"  # 2 outputs x 2 channels x 9 taps
        "store   dma2  74 ..  90\n"  # 4 sums of 4 bytes
        "compute mac0  74 .. 110\n"
        "store   dma2 110 .. 126"
    )


def test_a_split_reduction_stores_once_a_tile() -> None:
    chip = plain_chip()
    options = MappingOptions(layers={"mm": LayerOptions(tile={"c": 2}, buffers=1)})
    p = map_graph(matmul(1, 4, 4), chip, options).program
    assert table(p, simulate(p, chip)) == (
        "load    dma1   0 ..   2\n"
        "load    dma0   0 ..  10\n"
        "compute mac0  10 ..  18\n"
        "load    dma1  18 ..  20\n"
        "load    dma0  18 ..  28\n"
        "compute mac0  28 ..  36\n"
        "store   dma2  36 ..  52"
    )


def test_the_latency_of_one_transfer_is_hidden_behind_the_next() -> None:
    chip = plain_chip("dma.setup_cycles=3", "dram.latency_cycles=10")
    p = program(load(0), load(1))
    first, second = simulate_costed(p, chip, [DmaCost(4, 4, 1, 4)] * 2)
    assert (first.start, first.release, first.finish) == (0, 3 + 4, 3 + 10 + 4)
    assert (second.start, second.release, second.finish) == (7, 14, 24)
    assert first.busy == second.busy == 7


def test_a_slow_channel_sets_the_pace_of_a_fast_bus() -> None:
    p = program(load(0, 0), load(1, 1), load(2, 0))
    spans = simulate_costed(p, plain_chip(), [DmaCost(8, 2, 1, 8)] * 3).spans
    assert [(s.start, s.finish, s.bus_wait) for s in spans] == [(0, 8, 0), (0, 8, 0), (8, 16, 0)]


def test_the_bus_is_granted_in_the_order_of_the_program() -> None:
    """Command 2 is ready at once, but command 1 stands before it and waits for a computation."""
    p = program(compute(0), load(1, 0, [0]), load(2, 1))
    costs = [ComputeCost(50, 0, 0), DmaCost(4, 4, 1, 4), DmaCost(4, 4, 1, 4)]
    _, first, second = simulate_costed(p, plain_chip(), costs)
    assert (first.start, first.finish) == (50, 54)
    assert (second.start, second.finish, second.bus_wait) == (0, 58, 54)


def test_the_bus_turns_around_between_reads_and_writes() -> None:
    p = program(load(0, 0), store(1, 2), store(2, 2), load(3, 1))
    spans = simulate_costed(p, plain_chip("dram.turnaround_cycles=5"), [DmaCost(4, 4, 1, 4)] * 4).spans
    assert [s.finish for s in spans] == [4, 4 + 5 + 4, 13 + 4, 17 + 5 + 4]
    assert [s.bus_wait for s in spans] == [0, 9, 0, 22]


def test_a_run_starts_after_its_launch() -> None:
    spans = simulate_costed(
        program(load(0), compute(1, deps=[0])), plain_chip("control.run_cycles=100"),
        [DmaCost(4, 4, 1, 4), ComputeCost(6, 0, 0)],
    ).spans  # fmt: skip
    assert [(s.start, s.finish, s.waited_for) for s in spans] == [(100, 104, -1), (104, 110, 0)]


@pytest.mark.parametrize(
    ("ports", "cycles", "wait"),
    [
        (1, 16, 10),  # one port for all: the sum of the accesses
        (2, 16, 10),  # one port for all compute units
        (3, 10, 0),  # a port each: the longer access
    ],
)
def test_two_clients_of_one_port_take_the_sum_of_their_accesses(ports: int, cycles: int, wait: int) -> None:
    chip = plain_chip(f"sram.ports={ports}")
    costs = [ComputeCost(1, 10, chip.sram.compute_port), ComputeCost(1, 6, chip.sram.vector_port)]
    timeline = simulate_costed(program(compute(0, "mac"), compute(1, "vector")), chip, costs)
    assert timeline.cycles == cycles
    assert [s.port_wait for s in timeline] == [0, wait]


@pytest.mark.parametrize(("ports", "finish"), [(1, 20), (2, 10), (3, 10)])
def test_a_transfer_and_a_computation_share_the_only_port(ports: int, finish: int) -> None:
    chip = plain_chip(f"sram.ports={ports}")
    costs = [ComputeCost(1, 10, 0), DmaCost(10, 10, 10, 10)]
    timeline = simulate_costed(program(compute(0), load(1)), chip, costs)
    assert timeline.cycles == finish
    assert timeline.spans[1].port_wait == finish - 10


def test_a_port_is_free_for_others_until_the_data_of_a_transfer_come() -> None:
    """A load sent at 0 brings its data from 100 on; computations use the port before, around and after that."""
    chip = plain_chip("sram.ports=1", "dram.latency_cycles=100")
    p = program(load(0), *(compute(i, deps=[i - 1] if i > 1 else []) for i in range(1, 5)))
    spans = simulate_costed(p, chip, [DmaCost(10, 10, 10, 10), *[ComputeCost(1, 40, 0)] * 4]).spans
    assert (spans[0].finish, spans[0].port_wait) == (110, 0)
    assert [s.finish for s in spans[1:]] == [40, 80, 150, 190]  # the third would not fit before 100 and waits to 110
    assert [s.port_wait for s in spans[1:]] == [0, 0, 30, 0]


def test_commands_of_one_queue_run_in_order_and_others_side_by_side() -> None:
    p = program(compute(0), compute(1), compute(2, instance=1), compute(3, "vector"))
    spans = simulate_costed(p, plain_chip(), [ComputeCost(10, 0, 0)] * 4).spans
    assert [(s.start, s.finish) for s in spans] == [(0, 10), (10, 20), (0, 10), (0, 10)]


def test_a_start_is_blamed_on_the_dependency_that_finished_last() -> None:
    p = program(load(0, 0), load(1, 1), compute(2, deps=[0, 1]), compute(3, deps=[0, 2]))
    costs = [DmaCost(4, 4, 1, 4), DmaCost(4, 4, 1, 4), ComputeCost(5, 0, 0), ComputeCost(5, 0, 0)]
    assert [s.waited_for for s in simulate_costed(p, plain_chip(), costs)] == [-1, -1, 1, -1]


def test_moments_are_in_order_of_time_and_every_command_starts_before_it_finishes() -> None:
    chip = plain_chip("dram.latency_cycles=7", "dma.setup_cycles=2")
    p = map_graph(conv(6, 3, 4), chip, MappingOptions(layers={"conv": LayerOptions(tile={"oy": 2})})).program
    timeline = simulate(p, chip)
    when = {"start": lambda s: s.start, "finish": lambda s: s.finish}
    times = [when[what](timeline.spans[command]) for what, command in timeline.moments]
    assert times == sorted(times)
    assert sorted(timeline.moments) == sorted((what, c.id) for c in p for what in ("start", "finish"))
    seen: set[int] = set()
    for what, command in timeline.moments:
        if what == "finish":
            seen.add(command)
        else:
            assert seen.issuperset(p.commands[command].deps)


def test_with_unlimited_bandwidth_a_load_stalls_nobody_for_more_than_its_one_cycle() -> None:
    """Every transfer takes a whole cycle at least, so one cycle a load and none more is lost."""
    chip = plain_chip("dram.bytes_per_cycle=1000000", "dma.bytes_per_cycle=1000000", *sram_rate(1000000))
    for buffers in (1, 2, 3):
        options = MappingOptions(layers={"conv": LayerOptions(tile={"oy": 2, "oc": 3}, buffers=buffers)})
        p = map_graph(conv(8, 4, 6), chip, options).program
        timeline = simulate(p, chip)
        work = [s for c, s in zip(p, timeline, strict=True) if isinstance(c, Compute)]
        loads = sum(isinstance(c, Load) for c in p)
        stalls = timeline.cycles - sum(s.busy for s in work) - 1  # the last store
        assert 0 < stalls <= loads + (len(work) - 1 if buffers == 1 else 0)  # one buffer: stores are waited for too


class _Counting(simpy.Environment):
    steps = 0

    def step(self) -> None:
        type(self).steps += 1
        super().step()


def events(p: TileProgram, chip: object, monkeypatch: pytest.MonkeyPatch) -> int:
    counting = type("Counting", (_Counting,), {"steps": 0})
    monkeypatch.setattr("npusim.timing.simulator.simpy.Environment", counting)
    simulate(p, chip)  # type: ignore[arg-type]
    return int(counting.steps)


def test_the_number_of_events_grows_with_commands_and_not_with_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = plain_chip("dram.latency_cycles=9000"), plain_chip("dram.latency_cycles=9")
    counts = {}
    for tile in (8, 4, 2, 1):
        options = LayerOptions(tile={"oy": tile, "ox": 8, "oc": 8, "ic": 8})
        p = map_graph(conv(8, 8, 8), fast, MappingOptions(layers={"conv": options})).program
        counts[len(p)] = events(p, fast, monkeypatch)
        assert events(p, slow, monkeypatch) == counts[len(p)]
    assert len(counts) == 4
    for commands, steps in counts.items():
        assert commands < steps <= 4 * commands + 2 * 4  # and two for each of the four queues


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param((compute(0, "mac", deps=[1]), compute(1, "vector", deps=[0])), id="cycle"),
        pytest.param((compute(0, deps=[0]),), id="itself"),
        pytest.param((compute(0, deps=[1]), compute(1)), id="forward in one queue"),
        pytest.param((load(0, 0, deps=[2]), load(1, 1), compute(2, deps=[1])), id="forward over the bus"),
    ],
)
def test_a_deadlock_is_an_error(commands: tuple[Compute | Load, ...]) -> None:
    costs = [ComputeCost(1, 0, 0) if isinstance(c, Compute) else DmaCost(1, 1, 1, 1) for c in commands]
    with pytest.raises(DeadlockError, match=r"deadlock: commands \[0"):
        simulate_costed(program(*commands), plain_chip(), costs)


def test_a_mapped_program_with_a_forward_dependency_deadlocks() -> None:
    chip = plain_chip()
    p = map_graph(matmul(4, 4, 4), chip, MappingOptions(layers={"mm": LayerOptions(tile={"h": 1})})).program
    costs = command_costs(p, chip)
    simulate_costed(p, chip, costs)
    last = max(c.id for c in p if isinstance(c, Compute))
    first = min(c.id for c in p if isinstance(c, Compute))
    broken = p.commands[first]._replace(deps=(*p.commands[first].deps, last))
    q = program(*p.commands[:first], broken, *p.commands[first + 1 :])
    with pytest.raises(DeadlockError, match=rf"of {len(p)} never became ready"):
        simulate_costed(q, chip, costs)


def test_a_write_channel_leaves_the_bus_to_the_loads() -> None:
    p = program(load(0, 0), store(1, 2), load(2, 1), store(3, 2))
    own = "dram.write_channel={bytes_per_cycle: 1, latency_cycles: 3}"
    spans = simulate_costed(p, plain_chip("dram.latency_cycles=10", own), [DmaCost(4, 4, 1, 4)] * 4).spans
    assert [(s.start, s.release, s.finish) for s in spans] == [(0, 4, 14), (0, 4, 7), (0, 8, 18), (4, 8, 11)]
    assert [s.bus_wait for s in spans] == [0, 0, 4, 0]


@pytest.mark.parametrize(
    ("computed", "moved", "finish"),
    [
        (100, 20, 100 + 2),  # all but the last burst has left when the tile is done
        (100, 150, 150),  # the bus sets the pace from the first result on
        (10, 9, 10 + 2),
    ],
)
def test_a_streamed_store_moves_while_its_tile_is_computed(computed: int, moved: int, finish: int) -> None:
    p = program(compute(0), store(1, 2, [0]))
    spans = simulate_costed(p, plain_chip(), [ComputeCost(computed, 0, 0), DmaCost(1, moved, 0, moved, 2)]).spans
    assert (spans[1].start, spans[1].finish, spans[1].bus_wait) == (computed, finish, 0)


def test_streamed_stores_of_two_tiles_share_the_bus() -> None:
    p = program(compute(0), store(1, 2, [0]), compute(2), store(3, 2, [2]))
    costs = [ComputeCost(10, 0, 0), DmaCost(1, 30, 0, 30, 1)] * 2
    spans = simulate_costed(p, plain_chip(), costs).spans
    assert [s.finish for s in spans] == [10, 30, 20, 60]


def test_fair_loads_of_two_channels_slow_each_other_down() -> None:
    p = program(load(0, 0), load(1, 1))
    chip = plain_chip("dram.fair=true", "dram.latency_cycles=5", "dma.setup_cycles=2")
    spans = simulate_costed(p, chip, [DmaCost(10, 10, 1, 10), DmaCost(30, 30, 1, 30)]).spans
    assert [(s.release, s.finish, s.bus_wait) for s in spans] == [(22, 27, 10), (42, 47, 10)]


def test_a_slow_channel_keeps_its_pace_on_a_fair_bus() -> None:
    p = program(load(0, 0), load(1, 1))
    spans = simulate_costed(p, plain_chip("dram.fair=true"), [DmaCost(50, 10, 1, 10), DmaCost(10, 10, 1, 10)]).spans
    assert [(s.finish, s.bus_wait) for s in spans] == [(50, 0), (20, 10)]

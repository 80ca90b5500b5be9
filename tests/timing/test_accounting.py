"""Segments, windows and their split, on programs written by hand."""

from __future__ import annotations

from npusim.program import Command, Queue, TileProgram
from npusim.timing import Timeline
from npusim.timing.accounting import LayerWindow, Segment, segments, split_by_layer, windows
from npusim.timing.costs import ComputeCost, DmaCost
from npusim.timing.simulator import simulate_costed
from tests.plain import compute, load, plain_chip, program, store

MAC, VECTOR, LOADS, STORES = Queue("mac", 0), Queue("vector", 0), Queue("dma", 0), Queue("dma", 2)
TRANSFER = DmaCost(10, 10, 1, 10)


def timed(
    *work: tuple[Command, ComputeCost | DmaCost], overrides: tuple[str, ...] = ()
) -> tuple[TileProgram, Timeline, list[ComputeCost | DmaCost]]:
    costs = [k for _, k in work]
    p = program(*(c for c, _ in work))
    return p, simulate_costed(p, plain_chip(*overrides), costs), costs


def test_every_cycle_of_every_engine_has_its_cause() -> None:
    """A load, a long computation, another load that waits for it, a short computation, a store."""
    p, timeline, costs = timed(
        (load(0), TRANSFER),
        (compute(1, deps=[0]), ComputeCost(20, 1, 0)),
        (load(2, deps=[1]), TRANSFER),
        (compute(3, deps=[2]), ComputeCost(5, 1, 0, "output_path")),
        (store(4, 2, deps=[3]), TRANSFER),
        (compute(5, "vector", deps=[3]), ComputeCost(3, 1, 1)),
    )
    assert segments(p, timeline, costs) == {
        LOADS: [
            Segment(0, 10, "busy", "dram_read"),
            Segment(10, 30, "compute", "dependency"),
            Segment(30, 40, "busy", "dram_read"),
            Segment(40, 55, "idle", "last_results"),
        ],
        STORES: [Segment(0, 45, "compute", "dependency"), Segment(45, 55, "busy", "dram_write")],
        MAC: [
            Segment(0, 10, "load", "dram_read"),
            Segment(10, 30, "busy", "compute"),
            Segment(30, 40, "load", "dram_read"),
            Segment(40, 45, "busy", "output_path"),
            Segment(45, 55, "idle", "last_results"),
        ],
        VECTOR: [
            Segment(0, 45, "compute", "dependency"),
            Segment(45, 48, "busy", "compute"),
            Segment(48, 55, "idle", "last_results"),
        ],
    }


def test_a_wait_for_a_store_is_told_from_one_for_a_load() -> None:
    p, timeline, costs = timed((store(0, 2), TRANSFER), (compute(1, deps=[0]), ComputeCost(5, 1, 0)))
    assert segments(p, timeline, costs)[MAC][0] == Segment(0, 10, "store", "dram_write")


def test_waits_inside_a_command_are_the_bus_and_the_port() -> None:
    p, timeline, costs = timed(
        (load(0, 0), TRANSFER),
        (load(1, 1), TRANSFER),
        (compute(2, "mac"), ComputeCost(1, 4, 0)),
        (compute(3, "vector"), ComputeCost(6, 4, 0)),
        overrides=("sram.ports=2",),
    )
    found = segments(p, timeline, costs)
    assert found[Queue("dma", 1)] == [Segment(0, 10, "dram_bus", "dram_bus"), Segment(10, 20, "busy", "dram_read")]
    assert found[VECTOR][:2] == [Segment(0, 2, "sram_port", "sram_port"), Segment(2, 8, "busy", "compute")]


def test_cycles_that_fill_a_unit_have_a_cause_of_their_own() -> None:
    p, timeline, costs = timed((compute(0), ComputeCost(20, 1, 0, stream_cycles=13, fill_cycles=7)))
    assert segments(p, timeline, costs)[MAC] == [
        Segment(0, 13, "busy", "compute"),
        Segment(13, 20, "busy", "fill_drain"),
    ]


def test_who_waits_for_a_load_waited_for_the_launch_before() -> None:
    p, timeline, costs = timed(
        (load(0), TRANSFER), (compute(1, deps=[0]), ComputeCost(5, 1, 0)), overrides=("control.run_cycles=30",)
    )
    assert segments(p, timeline, costs)[MAC] == [
        Segment(0, 30, "launch", "launch"),
        Segment(30, 40, "load", "dram_read"),
        Segment(40, 45, "busy", "compute"),
    ]


def test_cycles_before_the_launch_of_the_run() -> None:
    p, timeline, costs = timed((compute(0), ComputeCost(5, 1, 0)), overrides=("control.run_cycles=30",))
    assert segments(p, timeline, costs)[MAC] == [
        Segment(0, 30, "launch", "launch"),
        Segment(30, 35, "busy", "compute"),
    ]


def test_latency_after_the_channel_is_released_is_not_its_work() -> None:
    p, timeline, costs = timed((load(0), TRANSFER), overrides=("dram.latency_cycles=100",))
    assert segments(p, timeline, costs)[LOADS] == [
        Segment(0, 10, "busy", "dram_read"),
        Segment(10, 110, "idle", "last_results"),
    ]


def test_windows_partition_the_run() -> None:
    """Layer 1 runs beside layer 0 and ends before it: its window is empty."""
    p, timeline, _ = timed(
        (compute(0, "mac", layer=0), ComputeCost(50, 1, 0)),
        (compute(1, "vector", layer=1), ComputeCost(20, 1, 0)),
        (compute(2, "mac", layer=2), ComputeCost(30, 1, 0)),
    )
    p = TileProgram(p.graph, (None,) * 3, p.home, 0, (), p.commands)  # type: ignore[arg-type]
    found = windows(p, timeline)
    assert found == [LayerWindow(0, 50), LayerWindow(50, 50), LayerWindow(50, 80)]
    assert [w.cycles for w in found] == [50, 0, 30]


def test_segments_are_cut_at_the_edges_of_windows() -> None:
    work, wait = Segment(0, 30, "busy", "compute"), Segment(30, 45, "load", "dram_read")
    parts = [work, wait, Segment(45, 60, "idle", "last_results")]
    split = split_by_layer(parts, [LayerWindow(0, 20), LayerWindow(20, 20), LayerWindow(20, 50), LayerWindow(50, 60)])
    assert split == [
        ({"busy": 20}, {"compute": 20}),
        ({}, {}),
        ({"busy": 10, "load": 15, "idle": 5}, {"compute": 10, "dram_read": 15, "last_results": 5}),
        ({"idle": 10}, {"last_results": 10}),
    ]

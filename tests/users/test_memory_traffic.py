"""What moves between memories, and what larger and faster memories change: bytes, stalls and latency."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from npusim.errors import DoesNotFitError
from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.ir.box import Box
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I16, I48
from npusim.ops import op_class
from npusim.program import Compute, Load, TileProgram
from npusim.program.program import reads_of, writes_of
from npusim.report.result import Report
from npusim.session import Job, map_and_time, run
from npusim.timing.costs import ComputeCost, command_costs
from tests.plain import chain, conv, matmul, plain_chip, sram_rate
from tests.properties.chains import convolution_chain

UNLIMITED = ("dram.bytes_per_cycle=1000000", "dma.bytes_per_cycle=1000000", *sram_rate(1000000))


def report_of(graph: Graph, chip: Chip, **layers: LayerOptions) -> Report:
    inputs = {v: np.zeros(graph.types[v].shape, graph.types[v].dtype.storage) for v in graph.data_inputs}
    mapping = MappingOptions(layers=layers, smaller_memories=False)
    return run(Job(graph=graph, chip=chip, inputs=inputs, mapping=mapping, bits="off")).report


def stalls(report: Report) -> dict[str, int]:
    """Cycles for which the MAC array waited, by cause."""
    return dict(next(e.stalled_cycles for e in report.engines if e.engine == "mac0"))


# -- stalls and bandwidth ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [1, 2, 4, 8])
def test_unlimited_bandwidth_leaves_no_stall(tile: int) -> None:
    """Does a memory without limits still stall the array? Only until the two operands of the first tile are there.

    Every transfer takes a whole cycle on the bus, so those two are seen; of all that follow nothing is.
    """
    tiles = {f"mm{i}": LayerOptions(tile={"h": tile, "w": 8, "c": 8}, buffers=2) for i in range(3)}
    report = report_of(chain(3), plain_chip(*UNLIMITED), **tiles)
    assert stalls(report) == {"load": 2}
    assert report.totals.cycles == 2 + 3 * 8 * 8 * 8 + 1  # and a cycle for the last store


PRODUCT = {"mm": LayerOptions(tile={"h": 4, "w": 16, "c": 16}, buffers=2)}
"""[64, 16] times [16, 16] in tiles of 4 rows: 64 bytes in and 256 out for 1024 cycles of work."""
FIRST = 4 * 16 + 16 * 16
"""Bytes before the first tile can begin: its rows, and all of the second operand."""


def test_enough_bandwidth_for_the_tiles_leaves_no_stall_behind_the_first() -> None:
    """Does the array wait although the memory could feed it? From 320 bytes in 1024 cycles on it never does."""
    for rate, cycles_per_byte in (("1", 1), ("1/2", 2), ("1/3", 3)):
        report = report_of(matmul(64, 16, 16), plain_chip(f"dram.bytes_per_cycle={rate}"), **PRODUCT)
        assert stalls(report) == {"load": FIRST * cycles_per_byte}
    starved = report_of(matmul(64, 16, 16), plain_chip("dram.bytes_per_cycle=1/4"), **PRODUCT)
    assert sum(stalls(starved).values()) > FIRST * 4


def test_a_layer_bound_by_memory_follows_the_bandwidth() -> None:
    """Is the bandwidth key read at all? As long as the bus is the limit, twice the rate takes half the cycles."""
    cycles = [
        report_of(matmul(64, 16, 16), plain_chip(f"dram.bytes_per_cycle=1/{n}"), **PRODUCT).totals.cycles
        for n in (64, 32, 16, 8)
    ]
    moved = 64 * 16 + 16 * 16 + 4 * 64 * 16
    for n, got in zip((64, 32, 16, 8), cycles, strict=True):
        assert moved * n <= got <= moved * n + 2 * 1024
    assert all(1.9 < a / b < 2.1 for a, b in pairwise(cycles))


@pytest.mark.parametrize("graph", [conv(14, 64, 64), matmul(96, 128, 96)], ids=["conv", "matmul"])
def test_more_sram_never_means_more_dram_traffic(graph: Graph) -> None:
    """Does the traffic depend on the SRAM? Where the bus is all that counts it only falls, down to each tensor once."""
    moved = []
    for k in range(13, 18):
        totals = report_of(graph, plain_chip("dram.bytes_per_cycle=1/1000", f"sram.size_bytes={1 << k}")).totals
        moved.append(totals.dram_read_bytes + totals.dram_write_bytes)
    assert all(after <= before for before, after in pairwise(moved)), moved
    assert moved[0] > moved[-1]
    ends = [*graph.data_inputs, *graph.constants, *graph.outputs]
    assert moved[-1] == sum(graph.types[v].packed_bytes for v in ends)


# -- every byte comes before it is used, and once ---------------------------------------------------------------------


def boxes_over_time(program: TileProgram) -> int:
    """Follow what every slot holds, command by command; how many loads there are.

    No load brings the box that its slot still holds, and whatever an array reads lies there, unharmed by other slots.
    """
    held: dict[int, dict[Box, None]] = {}
    loads = 0
    for c in program:
        for ref in reads_of(c):
            slot = program.slots[ref.slot]
            inside = held.get(slot.base, {})
            assert slot.base != slot.index or slot.whole or ref.box in inside, (c.id, slot.value)
            assert inside, (c.id, slot.value)
        for ref in writes_of(c):
            slot = program.slots[ref.slot]
            if isinstance(c, Load):
                loads += 1
                assert ref.box not in held.get(slot.base, {}), f"{slot.value} {ref.box} is loaded though it is there"
            for other in program.slots:
                if other.base != slot.base and slot.offset < other.offset + other.nbytes and (
                    other.offset < slot.offset + slot.nbytes
                ):  # fmt: skip
                    held.pop(other.base, None)
            if slot.whole:
                held.setdefault(slot.base, {})[ref.box] = None
            else:
                held[slot.base] = {ref.box: None}
    return loads


@pytest.mark.parametrize("kib", [2, 3, 4, 8, 16, 64])
@pytest.mark.parametrize("residency", [True, False])
def test_what_is_read_was_loaded_and_not_again_while_it_is_there(kib: int, residency: bool) -> None:
    """Are there reads of data in no buffer, or data fetched twice? Nothing is loaded while its slot still holds it."""
    graph = convolution_chain(0, layers=3, channels=8)
    chip = load_chip("micro", [f"sram.size_bytes={kib} KiB"])
    program = map_graph(graph, chip, MappingOptions(residency=residency)).program
    assert boxes_over_time(program) == sum(len(c.parts) for c in program if isinstance(c, Load)) > 0


def test_a_second_load_of_what_is_there_is_noticed() -> None:
    """The check above can fail."""
    program = map_graph(matmul(4, 4, 4), plain_chip(), MappingOptions()).program
    load = next(c for c in program if isinstance(c, Load))
    twice = TileProgram(
        program.graph, program.regions, program.home, program.sram_bytes, program.slots, (load, *program.commands)
    )
    with pytest.raises(AssertionError, match="is loaded though it is there"):
        boxes_over_time(twice)


# -- larger memories --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["micro", "edge", "server"])
def test_a_larger_sram_is_never_slower(preset: str) -> None:
    """Can a larger buffer make a network slower? Among powers of two it cannot: plans for less memory are tried too."""
    cycles = []
    for k in range(11, 18):
        chip = load_chip(preset, [f"sram.size_bytes={1 << k}"])
        cycles.append(map_and_time(convolution_chain(0, size=8, channels=8), chip, MappingOptions())[2].cycles)
    assert all(larger <= smaller for smaller, larger in pairwise(cycles)), cycles
    assert cycles[-1] < cycles[0]


# -- limits and widths ------------------------------------------------------------------------------------------------


def wide_product() -> Graph:
    """int16 [1, 2, 32] times [1, 32, 4]: sums of 48 bits."""
    b = GraphBuilder("wide")
    b.input("a", TensorType((1, 2, 32), I16))
    b.constant("b", TensorType((1, 32, 4), I16), np.ones((1, 32, 4), np.int16))
    b.node("mm", op_class("matmul")(), ("a", "b"), "y")
    return b.finish(("y",))


WIDE = ("units.0.macs_per_cycle={i16xi16: 1}",)


def test_partial_sums_take_the_bytes_of_their_accumulators() -> None:
    """Are partial sums taken to be as wide as the data? Sums of 48 bits take six bytes, in SRAM and on its port."""
    chip = plain_chip(*WIDE, *sram_rate(1))
    split = MappingOptions(layers={"mm": LayerOptions(tile={"h": 2, "w": 4, "c": 8}, buffers=1)})
    program = map_graph(wide_product(), chip, split).program
    work = [c for c in program if isinstance(c, Compute)]
    sums = {program.slots[c.accumulator.slot] for c in work if c.accumulator}
    assert {(s.dtype, s.nbytes) for s in sums} == {(I48, 2 * 4 * 6)}
    costs = command_costs(program, chip)
    ports = [k.port_cycles for k in costs if isinstance(k, ComputeCost)]
    # four output channels one after the other: a four times, b once, 2 bytes each; sums out, then in and out
    operands = 4 * (2 * 8 * 2) + 8 * 4 * 2
    assert ports == [operands + 48, operands + 96, operands + 96, operands + 96]


def test_a_byte_too_little_is_an_error() -> None:
    """Are the limits of a memory heeded? The working set is counted to the byte, sums in their own width."""
    options = MappingOptions(layers={"mm": LayerOptions(tile={"h": 2, "w": 4, "c": 8}, buffers=1)})
    needed = 2 * 8 * 2 + 8 * 4 * 2 + 2 * (2 * 4 * 6)  # a, b, then partial sums and the result
    program = map_graph(wide_product(), plain_chip(*WIDE, f"sram.size_bytes={needed}"), options).program
    assert max(s.offset + s.nbytes for s in program.slots) == needed
    message = f"needs {needed} bytes of SRAM .bytes by tensor: a 32, b 64, y 48, partial sums 48., .* are {needed - 1};"
    with pytest.raises(DoesNotFitError, match=message):
        map_graph(wide_product(), plain_chip(*WIDE, f"sram.size_bytes={needed - 1}"), options)

"""Tile programs: iteration, and which SRAM each command reads and writes."""

from __future__ import annotations

import pytest

from npusim.ir.box import Box
from npusim.ir.mapping_options import MappingOptions
from npusim.mapping.mapper import map_graph
from npusim.program import Compute, Load, Queue, Ref, Store
from npusim.program.program import reads_of, writes_of
from tests.properties.chains import convolution_chain, small_chip

MAC, DMA = Queue("mac", 0), Queue("dma", 1)
INPUT, WEIGHT, SUMS, OUT = (Ref(i, Box((0,), (8 + i,))) for i in range(4))


def compute(first: bool, last: bool, split: bool) -> Compute:
    accumulator, result = SUMS if split else None, OUT if last else None
    return Compute(7, MAC, 0, (1, 2), Box((0,), (4,)), (INPUT, None, WEIGHT), accumulator, result, first, last)


def test_a_queue_is_named_by_its_engine_and_number() -> None:
    assert str(MAC) == "mac0" and str(Queue("vector", 3)) == "vector3"
    assert Queue("mac", 0) == MAC and len({MAC, DMA, Queue("dma", 1)}) == 2


def test_a_load_writes_all_its_parts_and_reads_no_sram() -> None:
    load = Load(0, DMA, 0, (), (INPUT, WEIGHT))
    assert reads_of(load) == () and writes_of(load) == (INPUT, WEIGHT)


def test_a_store_reads_its_part_and_writes_no_sram() -> None:
    store = Store(0, DMA, 0, (), OUT)
    assert reads_of(store) == (OUT,) and writes_of(store) == ()


@pytest.mark.parametrize(
    ("first", "last", "split", "reads", "writes"),
    [
        (True, True, False, (INPUT, WEIGHT), (OUT,)),
        (True, False, True, (INPUT, WEIGHT), (SUMS,)),
        (False, False, True, (INPUT, WEIGHT, SUMS), (SUMS,)),
        (False, True, True, (INPUT, WEIGHT, SUMS), (OUT,)),
    ],
    ids=["whole", "opens", "continues", "closes"],
)
def test_a_compute_reads_operands_and_sums_it_continues_and_writes_sums_or_the_result(
    first: bool, last: bool, split: bool, reads: tuple[Ref, ...], writes: tuple[Ref, ...]
) -> None:
    command = compute(first, last, split)
    assert reads_of(command) == reads and writes_of(command) == writes


def test_a_program_iterates_over_its_commands_in_order() -> None:
    program = map_graph(convolution_chain(0), small_chip(), MappingOptions()).program
    assert tuple(program) == program.commands and len(program) == len(program.commands) > 4
    assert [c.id for c in program] == list(range(len(program)))
    assert [r.name for r in program.regions] == ["conv0", "conv1"]
    assert {c.layer for c in program} == {0, 1}

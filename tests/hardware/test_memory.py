"""SRAM granules and ports, contiguous runs and bursts: numbers by hand, and addresses enumerated one by one."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.config import load_text
from npusim.errors import ConfigError
from npusim.hardware.layout import Layouts
from npusim.hardware.memory import Cache, Dma, Dram, RowBuffer, Sram, WriteChannel, burst_bytes_moved, runs
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.types import DTYPES, I4, I8, I16, I32, I48, U1, DType


def sram(granule_bytes: int = 1, channel_granule: int = 1, ports: int = 1) -> Sram:
    return Sram(
        size_bytes=1 << 20,
        banks=4,
        ports=ports,
        bytes_per_cycle=16,
        granule_bytes=granule_bytes,
        channel_granule=channel_granule,
    )


# -- allocation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granule_bytes", [1, 64, 4096])
@pytest.mark.parametrize(
    ("channels", "logical", "allocated", "fill"), [(16, 262144, 262144, 1.0), (17, 278528, 524288, 0.53125)]
)
def test_a_seventeenth_channel_doubles_the_memory(
    channels: int, logical: int, allocated: int, fill: float, granule_bytes: int
) -> None:
    memory, tensor = sram(granule_bytes, channel_granule=16), TensorType((1, 128, 128, channels), I8)
    assert tensor.packed_bytes == logical
    assert memory.allocated_bytes(tensor) == allocated
    assert tensor.packed_bytes / memory.allocated_bytes(tensor) == fill


@given(
    st.lists(st.integers(1, 20), max_size=4).map(tuple),
    st.sampled_from(list(DTYPES.values())),
    st.integers(1, 70),
    st.integers(1, 20),
)
def test_an_allocation_is_the_first_granule_end_that_holds_the_padded_rows(
    shape: tuple[int, ...], dtype: DType, granule_bytes: int, channel_granule: int
) -> None:
    memory, tensor = sram(granule_bytes, channel_granule), TensorType(shape, dtype)
    stored = memory.stored_shape(shape)
    assert stored[:-1] == shape[:-1]
    if shape:
        assert stored[-1] == next(n for n in range(shape[-1], 1000) if n % channel_granule == 0)
    bits = prod(stored) * dtype.bits
    got = memory.allocated_bytes(tensor)
    assert got % granule_bytes == 0
    assert (got - granule_bytes) * 8 < bits <= got * 8
    assert got >= tensor.packed_bytes


def test_allocations_by_hand() -> None:
    assert sram(64).allocated_bytes(TensorType((65,), I8)) == 128
    assert sram(8).allocated_bytes(TensorType((3, 3), I4)) == 8
    assert sram(1, 4).allocated_bytes(TensorType((3, 3), I4)) == 6
    assert sram(16).allocated_bytes(TensorType((3,), I48)) == 32
    assert sram(16).allocated_bytes(TensorType((129,), U1)) == 32
    assert sram(16, 16).stored_shape(()) == ()
    assert sram(16, 16).allocated_bytes(TensorType((), I32)) == 16


@pytest.mark.parametrize(
    ("ports", "compute", "vector", "dma"), [(1, 0, 0, 0), (2, 0, 0, 1), (3, 0, 1, 2), (4, 0, 1, 2), (16, 0, 1, 2)]
)
def test_who_shares_a_port(ports: int, compute: int, vector: int, dma: int) -> None:
    memory = sram(ports=ports)
    assert (memory.compute_port, memory.vector_port, memory.dma_port) == (compute, vector, dma)


# -- runs and bursts --------------------------------------------------------------------------------------------------


def enumerated_runs(shape: tuple[int, ...], box: Box) -> list[int]:
    """Lengths of the runs of consecutive addresses of a box in a row-major tensor."""
    numbers = np.arange(prod(shape)).reshape(shape)
    lengths: list[int] = []
    before = -2
    for index in product(*(range(a, b) for a, b in zip(box.lo, box.hi, strict=True))):
        address = int(numbers[index])
        if address == before + 1:
            lengths[-1] += 1
        else:
            lengths.append(1)
        before = address
    return lengths


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], Box]:
    """A shape and a box in it, often whole along an axis."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    sizes = [draw(st.one_of(st.just(n), st.integers(1, n))) for n in shape]
    lo = tuple(draw(st.integers(0, n - b)) for n, b in zip(shape, sizes, strict=True))
    return shape, Box(lo, tuple(a + b for a, b in zip(lo, sizes, strict=True)))


@settings(deadline=None, max_examples=300)
@given(boxes(), st.sampled_from([1, 4, 8, 16, 32, 48]), st.integers(1, 20))
def test_runs_and_bursts_are_those_of_the_addresses(
    case: tuple[tuple[int, ...], Box], bits: int, burst_bytes: int
) -> None:
    shape, box = case
    lengths = enumerated_runs(shape, box)
    assert len(set(lengths)) == 1
    assert runs(shape, box.shape) == (len(lengths), lengths[0])
    bursts = 0
    for length in lengths:
        nbytes = -(-length * bits // 8)
        bursts += len({byte // burst_bytes for byte in range(nbytes)})
    moved = burst_bytes_moved(shape, box.shape, bits, burst_bytes)
    assert moved == bursts * burst_bytes
    assert moved * 8 >= box.size * bits


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=4), st.data())
def test_arrays_of_candidates_move_what_each_moves(axes: list[tuple[int, bool]], data: st.DataObject) -> None:
    shape, count = tuple(n for n, _ in axes), 6
    columns: list[Any] = [
        np.array(data.draw(st.lists(st.integers(1, n), min_size=count, max_size=count))) if varies else n
        for n, varies in axes
    ]
    number, length = (np.broadcast_to(r, count) for r in runs(shape, tuple(columns)))
    moved = np.broadcast_to(burst_bytes_moved(shape, tuple(columns), 48, 32), count)
    for c in range(count):
        box = tuple(int(np.broadcast_to(e, count)[c]) for e in columns)
        assert (number[c], length[c]) == runs(shape, box)
        assert moved[c] == burst_bytes_moved(shape, box, 48, 32)


def test_bursts_by_hand() -> None:
    """8 rows of 100 bytes: whole they are one run of 800; half of each row are 8 runs of 50, one burst each."""
    assert burst_bytes_moved((8, 100), (8, 100), I8.bits, 64) == 832
    assert burst_bytes_moved((8, 100), (8, 50), I8.bits, 64) == 8 * 64
    assert burst_bytes_moved((8, 100), (8, 50), I16.bits, 64) == 8 * 128
    assert burst_bytes_moved((8, 100), (8, 50), I4.bits, 16) == 8 * 32
    assert burst_bytes_moved((), (), I8.bits, 64) == 64


# -- what YAML states -------------------------------------------------------------------------------------------------

SRAM = "{size_bytes: 64 KiB, banks: 4, ports: 2, bytes_per_cycle: 32, granule_bytes: 16, channel_granule: 1}"
DMA = "{channels: 2, bytes_per_cycle: 4, setup_cycles: 0, outstanding_bursts: 4}"
DRAM = """
bytes_per_cycle: 51/5
latency_cycles: 0
burst_bytes: 32
turnaround_cycles: 0
row_buffer: {row_bytes: 2048, miss_cycles: 30}
"""


def test_memories_from_yaml() -> None:
    assert load_text(SRAM, Sram, "SRAM").size_bytes == 65536
    assert load_text(DMA, Dma, "DMA").setup_cycles == 0
    dram = load_text(DRAM, Dram, "DRAM")
    assert (dram.bytes_per_cycle, dram.row_buffer) == (Fraction(51, 5), RowBuffer(row_bytes=2048, miss_cycles=30))
    assert load_text(re.sub("{.*}", "null", DRAM), Dram, "DRAM").row_buffer is None


@pytest.mark.parametrize(
    ("text", "cls", "old", "new", "message"),
    [
        (SRAM, Sram, "64 KiB", "64 kB", "size_bytes.*unknown unit 'kB'"),
        (SRAM, Sram, "ports: 2", "ports: 0", "ports"),
        (SRAM, Sram, "banks: 4, ", "", "banks"),
        (SRAM, Sram, "banks: 4", "bansk: 4", "unknown key 'bansk'.*did you mean 'banks'"),
        (DMA, Dma, "channels: 2", "channels: 2.0", "channels"),
        (DMA, Dma, "setup_cycles: 0", "setup_cycles: -1", "setup_cycles"),
        (DRAM, Dram, "51/5", "10.2", "bytes_per_cycle"),
        (DRAM, Dram, "51/5", "51/0", "bytes_per_cycle.*divides by zero"),
        (DRAM, Dram, "burst_bytes: 32\n", "", "burst_bytes"),
        (DRAM, Dram, "turnaround_cycles: 0\n", "", "turnaround_cycles"),
        (DRAM, Dram, "row_bytes: 2048", "row_bytes: 0", "row_bytes"),
        (DRAM, Dram, "row_buffer: {row_bytes: 2048, miss_cycles: 30}\n", "", "row_buffer"),
    ],
)
def test_what_yaml_may_not_say(text: str, cls: type[Any], old: str, new: str, message: str) -> None:
    assert text.count(old) == 1
    with pytest.raises(ConfigError, match=message):
        load_text(text.replace(old, new), cls, "memory")


def test_a_write_channel_and_fair_shares_from_yaml() -> None:
    more = "write_channel: {bytes_per_cycle: 1/2, latency_cycles: 7}\nfair: true\n"
    dram = load_text(DRAM + more, Dram, "DRAM")
    assert (dram.write_channel, dram.fair) == (WriteChannel(bytes_per_cycle="1/2", latency_cycles=7), True)
    plain = load_text(DRAM, Dram, "DRAM")
    assert (plain.write_channel, plain.fair) == (None, False)


def test_caches_layouts_and_runs_from_yaml() -> None:
    caches = "caches:\n- {size_bytes: 4 KiB, ways: 4, line_bytes: 64, miss_cycles: 7}\n"
    layouts = "layouts: {features: [channel/8, row, column, channel], weights: null}\n"
    dram = load_text(DRAM + caches + layouts, Dram, "DRAM")
    assert dram.caches == (Cache(size_bytes=4096, ways=4, line_bytes=64, miss_cycles=7),)
    assert dram.caches[0].sets == 16
    assert dram.layouts == Layouts(features=("channel/8", "row", "column", "channel"), weights=None)
    plain = load_text(DRAM, Dram, "DRAM")
    assert (plain.caches, plain.layouts) == ((), None)
    assert load_text(DMA.replace("}", ", run_cycles: 3}"), Dma, "DMA").run_cycles == 3
    assert load_text(DMA, Dma, "DMA").run_cycles is None
    with pytest.raises(ConfigError, match="size_bytes: 4096 bytes are no whole number of sets of 3 ways of 64 bytes"):
        load_text(DRAM + caches.replace("ways: 4", "ways: 3"), Dram, "DRAM")
    with pytest.raises(ConfigError, match="'rows' is no axis"):
        load_text(DRAM + layouts.replace("row,", "rows,"), Dram, "DRAM")


def test_fair_shares_leave_no_turnaround() -> None:
    text = DRAM.replace("turnaround_cycles: 0", "turnaround_cycles: 3") + "fair: true\n"
    message = "fair: true mixes reads and writes burst by burst; set turnaround_cycles to 0"
    with pytest.raises(ConfigError, match=message):
        load_text(text, Dram, "DRAM")

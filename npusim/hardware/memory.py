"""Memories and the engines that move data between them: SRAM, DMA, DRAM."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from npusim.config import Bytes, NonNegative, Positive, Ratio, record
from npusim.hardware.base import Count
from npusim.hardware.layout import Layouts
from npusim.ir.tensor import TensorType
from npusim.numerics.types import ceil_div


@record
class Sram:
    """On-chip memory shared by all engines.

    An access of n bytes holds a port for ceil(n / bytes_per_cycle) cycles. Who shares a port depends on how many there
    are: one for all; two: compute units | DMA; three or more: MAC and popcount | vector | DMA.
    """

    size_bytes: Annotated[Bytes, Field(description="capacity")]
    banks: Annotated[Positive, Field(description="share bytes_per_cycle; a run of bytes takes whole words of a bank")]
    ports: Annotated[Positive, Field(description="independent ports")]
    bytes_per_cycle: Annotated[Positive, Field(description="bytes a cycle and port")]
    granule_bytes: Annotated[Positive, Field(description="allocations start and end on multiples of this")]
    channel_granule: Annotated[Positive, Field(description="elements the last axis is rounded up to when stored")]
    preloaded_constants: Annotated[
        bool, Field(description="constants are there before a run, unless something else uses their bytes before them")
    ] = False

    def __post_init__(self) -> None:
        if self.bytes_per_cycle % self.banks:
            raise ValueError(
                f"banks: {self.banks} banks cannot share {self.bytes_per_cycle} bytes_per_cycle evenly; make one a "
                "multiple of the other"
            )

    def bank_words(self, shape: tuple[int, ...], box: tuple[Count, ...], bits: int) -> Count:
        """Bank accesses for a box of a row-major tensor of ``shape``; ``banks`` of them are made a cycle and port.

        A bank delivers bytes_per_cycle / banks bytes at once. Each contiguous run takes whole words of it, so short
        runs waste the rest of their last word: the cost of a layout whose rows do not fill the banks.
        """
        count, length = runs(shape, box)
        return count * ceil_div(ceil_div(length * bits, 8), self.bytes_per_cycle // self.banks)

    def stored_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape a box takes in memory: its last axis rounded up to the channel granule."""
        if not shape or self.channel_granule == 1:
            return shape
        return (*shape[:-1], int(ceil_div(shape[-1], self.channel_granule)) * self.channel_granule)

    def allocated_bytes(self, tensor: TensorType) -> int:
        """Bytes of an allocation for ``tensor``, granules included."""
        stored = TensorType(self.stored_shape(tensor.shape), tensor.dtype).packed_bytes
        return int(ceil_div(stored, self.granule_bytes)) * self.granule_bytes

    @property
    def compute_port(self) -> int:
        """Port of the MAC array and the popcount unit."""
        return 0

    @property
    def vector_port(self) -> int:
        """Port of the vector unit."""
        return 1 if self.ports >= 3 else 0

    @property
    def dma_port(self) -> int:
        """Port of the DMA channels."""
        return min(self.ports, 3) - 1


@record
class Dma:
    """Channels between DRAM and SRAM: the last one stores, the others load; one channel does both in program order."""

    channels: Annotated[Positive, Field(description="independent queues")]
    bytes_per_cycle: Annotated[Positive, Field(description="bytes a cycle and channel")]
    setup_cycles: Annotated[NonNegative, Field(description="cycles to start a command")]
    outstanding_bursts: Annotated[Positive, Field(description="bursts in flight per channel, which hides latency")]
    run_cycles: Annotated[
        NonNegative | None, Field(description="added for every contiguous run of bytes; null: nothing")
    ] = None


@record
class Cache:
    """A cache between the DMA and the DRAM, shared by loads and stores: set-associative, the least recent line leaves.

    A write brings the line in, and takes it out again later, so a line that it misses costs twice.
    """

    size_bytes: Annotated[Bytes, Field(description="capacity")]
    ways: Annotated[Positive, Field(description="lines of a set")]
    line_bytes: Annotated[Positive, Field(description="bytes of a line")]
    miss_cycles: Annotated[NonNegative, Field(description="bus cycles that a line which is not in it adds")]

    def __post_init__(self) -> None:
        if self.size_bytes % (self.ways * self.line_bytes):
            raise ValueError(
                f"size_bytes: {self.size_bytes} bytes are no whole number of sets of {self.ways} ways of "
                f"{self.line_bytes} bytes; make it a multiple of {self.ways * self.line_bytes}"
            )

    @property
    def sets(self) -> int:
        """Sets; a line is in the set of its number modulo these."""
        return self.size_bytes // (self.ways * self.line_bytes)


@record
class RowBuffer:
    """Open-page behaviour of the DRAM: each contiguous run opens every row it touches."""

    row_bytes: Annotated[Positive, Field(description="bytes of a row")]
    miss_cycles: Annotated[NonNegative, Field(description="cycles to close a row and open the next")]


@record
class WriteChannel:
    """A way of its own for stores, as the write channels of AXI are."""

    bytes_per_cycle: Annotated[Ratio, Field(description="bytes a chip cycle")]
    latency_cycles: Annotated[NonNegative, Field(description="from the last byte sent to the end of the store")]


@record
class HostLink:
    """The way of graph inputs and outputs where they lie in the memory of a host, as behind PCIe."""

    bytes_per_cycle: Annotated[Ratio, Field(description="bytes a chip cycle")]
    latency_cycles: Annotated[NonNegative, Field(description="from request to first data, and of a store to its end")]


@record
class Dram:
    """External memory: one data bus of a fixed rate behind a fixed latency, transfers in whole bursts."""

    bytes_per_cycle: Annotated[Ratio, Field(description="bytes a chip cycle, for example 16 or 51/5")]
    latency_cycles: Annotated[NonNegative, Field(description="from request to first data")]
    burst_bytes: Annotated[Positive, Field(description="every contiguous run is moved in whole bursts")]
    turnaround_cycles: Annotated[NonNegative, Field(description="idle bus cycles between a read and a write")]
    row_buffer: Annotated[RowBuffer | None, Field(description="row misses; null: not modelled")]
    write_channel: Annotated[
        WriteChannel | None, Field(description="a bus for stores alone; null: loads and stores share one")
    ] = None
    fair: Annotated[
        bool, Field(description="channels move data side by side in equal shares; false: in the program's order")
    ] = False

    caches: Annotated[
        tuple[Cache, ...], Field(description="between DMA and DRAM, the nearest first; each holds what those before do")
    ] = ()
    layouts: Annotated[Layouts | None, Field(description="how tensors lie in it; null: row by row in axis order")] = (
        None
    )

    def __post_init__(self) -> None:
        if len({c.line_bytes for c in self.caches}) > 1:
            raise ValueError("caches: lines of several sizes; give all caches the same line_bytes")
        if self.fair and self.turnaround_cycles:
            raise ValueError("fair: true mixes reads and writes burst by burst; set turnaround_cycles to 0")


def runs(shape: tuple[int, ...], box: tuple[Count, ...]) -> tuple[Count, Count]:
    """(number of contiguous runs, elements in each) of a box of extents ``box`` in a row-major tensor of ``shape``.

    Works on ints and on arrays of candidate extents.

    >>> runs((4, 6, 8), (2, 3, 8)), runs((4, 6, 8), (2, 6, 8)), runs((4, 6, 8), (2, 6, 5))
    ((2, 24), (1, 96), (12, 5))
    """
    length: Count = 1
    count: Count = 1
    contiguous: Count = 1  # 1 while every inner axis is whole
    for n, b in zip(reversed(shape), reversed(box), strict=True):
        length = length * (contiguous * b + (1 - contiguous))
        count = count * (contiguous + (1 - contiguous) * b)
        contiguous = contiguous * (b == n)
    return count, length


def burst_bytes_moved(shape: tuple[int, ...], box: tuple[Count, ...], bits: int, burst_bytes: int) -> Count:
    """DRAM bytes moved for a box: each contiguous run rounded up to whole bursts, runs taken as aligned."""
    count, length = runs(shape, box)
    return count * ceil_div(ceil_div(length * bits, 8), burst_bytes) * burst_bytes

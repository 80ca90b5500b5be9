"""Memories and the engines that move data between them: SRAM, DMA, DRAM."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from npusim.config import Bytes, NonNegative, Positive, Ratio, record
from npusim.hardware.base import Count
from npusim.ir.tensor import TensorType
from npusim.numerics.types import ceil_div


@record
class Sram:
    """On-chip memory shared by all engines.

    An access of n bytes holds a port for ceil(n / bytes_per_cycle) cycles. Who shares a port depends on how many there
    are: one for all; two: compute units | DMA; three or more: MAC and popcount | vector | DMA.
    """

    size_bytes: Annotated[Bytes, Field(description="capacity")]
    banks: Annotated[Positive, Field(description="banks; bytes_per_cycle of a port is spread over them")]
    ports: Annotated[Positive, Field(description="independent ports")]
    bytes_per_cycle: Annotated[Positive, Field(description="bytes a cycle and port")]
    granule_bytes: Annotated[Positive, Field(description="allocations start and end on multiples of this")]
    channel_granule: Annotated[Positive, Field(description="elements the last axis is rounded up to when stored")]

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


@record
class Dram:
    """External memory: one data bus of a fixed rate behind a fixed latency, transfers in whole bursts."""

    bytes_per_cycle: Annotated[Ratio, Field(description="bytes a chip cycle, for example 16 or 51/5")]
    latency_cycles: Annotated[NonNegative, Field(description="from request to first data")]
    burst_bytes: Annotated[Positive, Field(description="every contiguous run is moved in whole bursts")]


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

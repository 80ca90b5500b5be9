"""The output pipeline: bias, requantisation and clamping of finished accumulators on their way to SRAM."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from npusim.config import Bytes, NonNegative, Positive, Ratio, record
from npusim.hardware.base import Count, largest
from npusim.numerics.types import ceil_div


@record
class DeliveryWindow:
    """A small memory in which finished sums wait for the pipeline, and the credits by which the array knows its room.

    Sums leave in groups of ``channels`` output channels. Of each group the array does the positions in stripes of
    ``positions`` (where more than one but less than two are left: half of it until one holds the rest), and begins to
    finish a stripe only when the window has room for all of it. The first sum that then arrives does so
    ``round_trip_cycles`` after the delivery that made the room. A stripe of n positions waits until positions - n are
    left to deliver, so the pipeline idles for what the round trip lasts longer than these. (Exact for a round trip of
    at most what half a window takes to deliver; of longer ones, those of small stripes overlap and take less.)

    This is the window between CSC, CACC and SDP of NVDLA (nvdla/hw, vmod/nvdla/csc/NV_NVDLA_CSC_sg.v, credit_cnt and
    stripe_up_cnt; vmod/nvdla/cacc/NV_NVDLA_CACC_delivery_buffer.v).
    """

    channels: Annotated[Positive, Field(description="output channels that leave together; fewer take as long")]
    positions: Annotated[Positive, Field(description="positions that find room; an even number")]
    round_trip_cycles: Annotated[
        NonNegative, Field(description="from the delivery of a sum to the arrival of the one that takes its place")
    ]

    def __post_init__(self) -> None:
        if self.positions % 2:
            raise ValueError(f"positions: {self.positions} has no half; give an even number")

    def stripes(self, positions: Count) -> tuple[Count, Count, Count]:
        """How ``positions`` >= 1 are cut: whole stripes, half ones after them, and the positions of the last stripe."""
        size, half = self.positions, self.positions // 2
        whole, last = (positions - 1) // size, (positions - 1) % size + 1
        recut = (whole > 0) * (last < size) * 1
        far = (last > half) * 1
        return whole - recut, recut * (1 + far), last + recut * (1 - far) * half

    def idle_cycles(self, positions: Count, cycles_per_position: Count) -> Count:
        """Cycles in which the pipeline idles while one group of channels of ``positions`` >= 1 passes."""

        def idle(stripe: Count) -> Count:
            return largest(self.round_trip_cycles - (self.positions - stripe) * cycles_per_position, 0)

        whole, halves, last = self.stripes(positions)
        return whole * idle(self.positions) + halves * idle(self.positions // 2) + idle(last)


@record
class OutputPipeline:
    """A streaming stage behind the MAC array: it runs beside the array, so a tile takes the longer of the two."""

    elements_per_cycle: Annotated[Ratio, Field(description="finished accumulators a cycle, whatever the operators")]
    operators: Annotated[tuple[str, ...], Field(description="operators it can apply; others go to the vector unit")]
    latency_cycles: Annotated[NonNegative, Field(description="from accumulator to SRAM")]
    instances_per_array: Annotated[Positive, Field(description="pipelines per MAC array")]
    window: Annotated[
        DeliveryWindow | None, Field(description="credits between array and pipeline; null: never waited for")
    ] = None
    streamed_bytes: Annotated[
        Bytes | None,
        Field(
            description="results leave for DRAM while their tile is computed, and never stay in SRAM; most bytes of "
            "results under way; null: a finished tile is stored from SRAM"
        ),
    ] = None
    after_tile: Annotated[
        bool, Field(description="takes in the sums of a tile when all are complete; false: beside the array")
    ] = False

    def cycles(self, elements: Count) -> Count:
        """Cycles to take in ``elements`` finished accumulators."""
        rate = self.elements_per_cycle * self.instances_per_array
        return ceil_div(elements * rate.denominator, rate.numerator)

    def tile_cycles(self, positions: Count, channels: Count) -> Count:
        """Cycles to take in the sums of ``positions`` times ``channels``, waits for room in the window included."""
        if self.window is None:
            return self.cycles(positions * channels)
        groups = ceil_div(channels, self.window.channels)
        idle = self.window.idle_cycles(positions, self.cycles(self.window.channels))
        return self.cycles(groups * positions * self.window.channels) + groups * idle

    def drain_cycles(self, positions: Count, channels: Count, array_cycles: Count) -> Count:
        """Cycles from the end of a tile (see RegionCost) to the delivery of the last stripe that waits in the window.

        The pipeline takes it in while the array works on the next tile. 0 without a window.
        """
        if self.window is None:
            return 0
        last = array_cycles + self.window.stripes(positions)[2] * self.cycles(self.window.channels)
        return largest(last - largest(array_cycles, self.tile_cycles(positions, channels)), 0)

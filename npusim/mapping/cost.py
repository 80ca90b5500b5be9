"""What one box of a region costs on a chip: the one place that the tile search and the timing model both ask."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.graph.region import Region
from npusim.hardware import Chip, Task, UnitSpec, largest, product
from npusim.hardware.base import Count
from npusim.hardware.memory import burst_bytes_moved
from npusim.hardware.units.vector import VectorUnit
from npusim.ir.work import Access, UnitKind
from npusim.numerics.types import DType, ceil_div


class RegionCost:
    """Costs of boxes of one region on one chip; every method takes ints or arrays of candidate extents.

    Construction raises DoesNotFitError if the chip lacks a unit or an operator.
    """

    def __init__(self, region: Region, chip: Chip) -> None:
        self.region, self.chip = region, chip
        self.work = region.work
        where = f"layer {region.name!r}"
        tasks = [
            Task(m.op.name, tuple(t.dtype for t in m.bound.operands), m.bound.accumulator, m.bound.work)
            for m in region.members
        ]
        self.task = tasks[0]
        self.unit: UnitSpec = chip.unit_for(self.task, where)
        self.on_vector = self.work.unit is UnitKind.VECTOR
        self.tail_tasks = tasks[1:]
        if self.on_vector:
            for t in self.tail_tasks:
                chip.unit_for(t, where)
        self.output = region.output_type
        self.accumulator = region.anchor.bound.accumulator
        self._parallel = [i for i, d in enumerate(self.work.dims) if not d.reduce]

    @property
    def engine(self) -> str:
        """Name of the engine whose queues take this region's commands."""
        return self.work.unit.value

    @property
    def port(self) -> int:
        """SRAM port of that engine."""
        return self.chip.sram.vector_port if self.on_vector else self.chip.sram.compute_port

    def tile_shape(self, access: Access, shape: tuple[int, ...], extents: Sequence[Count]) -> tuple[Count, ...]:
        """Largest extents that a box touches of an operand of ``shape``, wherever the box lies."""
        out: list[Count] = []
        for axis, n in zip(access.axes, shape, strict=True):
            if axis.whole >= 0:
                out.append(n)
                continue
            span: Count = 0
            for name, c in axis.terms:
                span = span + abs(c) * (extents[self.work.index[name]] - 1)
            reach = ceil_div(span, axis.divisor) + 1 + axis.extra
            out.append(reach - (reach > n) * (reach - n))
        return tuple(out)

    def slot_bytes(self, shape: Sequence[Count], dtype: DType) -> Count:
        """SRAM bytes of a slot for a box of ``shape``, granules included."""
        sram = self.chip.sram
        stored = list(shape)
        if stored:
            stored[-1] = ceil_div(stored[-1], sram.channel_granule) * sram.channel_granule
        return ceil_div(ceil_div(product(stored) * dtype.bits, 8), sram.granule_bytes) * sram.granule_bytes

    def output_shape(self, extents: Sequence[Count]) -> tuple[Count, ...]:
        """Extents of the output box."""
        return self.tile_shape(self.work.write, self.output.shape, extents)

    def compute_cycles(self, extents: Sequence[Count], last: bool) -> Count:
        """Cycles the unit is busy with a box, its SRAM traffic aside."""
        cycles = self.unit.cycles(self.task, extents)
        if self.on_vector:
            assert isinstance(self.unit, VectorUnit)
            if last:
                out = self.output_shape(extents)
                for t, axes in zip(self.tail_tasks, self.region.own_dims[1:], strict=True):
                    cycles = cycles + self.unit.cycles(t, [out[a] for a in axes])
            return largest(cycles + self.unit.startup_cycles, 1)
        if last:
            pipeline = self.chip.output_pipeline
            elements = product(extents[i] for i in self._parallel)
            cycles = largest(cycles, pipeline.cycles(elements)) + pipeline.latency_cycles
        return largest(cycles, 1)

    def limit(self, extents: Sequence[int], first: bool, last: bool) -> str:
        """What sets the cycles of one box: ``compute``, ``output_path`` or ``sram_port``."""
        cycles = self.compute_cycles(extents, last)
        if self.port_cycles(extents, first, last) > cycles:
            return "sram_port"
        if last and not self.on_vector and cycles > self.unit.cycles(self.task, extents) + (
            self.chip.output_pipeline.latency_cycles
        ):
            return "output_path"
        return "compute"

    def port_cycles(self, extents: Sequence[Count], first: bool, last: bool) -> Count:
        """Cycles the box holds its SRAM port: operands as often as the unit re-reads them, sums and results."""
        passes = self.unit.passes(self.task, extents)
        bits: Count = 0
        for i in self.region.inputs:
            if i.access.final and not last:
                continue
            times: Count = 1
            for member, operand in i.uses:
                if member == 0 and operand < len(passes):
                    times = largest(times, passes[operand])
            bits = bits + times * product(self.tile_shape(i.access, i.type.shape, extents)) * i.type.dtype.bits
        outputs = product(extents[i] for i in self._parallel)
        if not first:
            bits = bits + outputs * self.accumulator.bits
        bits = bits + outputs * (self.output.dtype.bits if last else self.accumulator.bits)
        return ceil_div(ceil_div(bits, 8), self.chip.sram.bytes_per_cycle)

    def box_cycles(self, extents: Sequence[Count], first: bool = True, last: bool = True) -> Count:
        """Cycles of a box with all its operands in SRAM and the port to itself."""
        return largest(self.compute_cycles(extents, last), self.port_cycles(extents, first, last))


class TransferCost:
    """What it costs to move a box between DRAM and SRAM."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        dram, dma = chip.dram, chip.dma
        numerator, denominator = dma.bytes_per_cycle, 1
        if dram.latency_cycles:
            # bursts in flight cover the latency: outstanding * burst bytes every latency cycles (Little's law)
            flight = dma.outstanding_bursts * dram.burst_bytes
            if flight * denominator < numerator * dram.latency_cycles:
                numerator, denominator = flight, dram.latency_cycles
        self._channel = numerator, denominator

    def bytes_moved(self, shape: tuple[int, ...], box: tuple[Count, ...], dtype: DType) -> Count:
        """DRAM bytes moved for a box, bursts included."""
        return burst_bytes_moved(shape, box, dtype.bits, self.chip.dram.burst_bytes)

    def bus_cycles(self, nbytes: Count) -> Count:
        """Cycles the DRAM bus and the DMA's SRAM port carry ``nbytes``."""
        rate = self.chip.dram.bytes_per_cycle
        bus = ceil_div(nbytes * rate.denominator, rate.numerator)
        return largest(bus, ceil_div(nbytes, self.chip.sram.bytes_per_cycle))

    def channel_cycles(self, nbytes: Count) -> Count:
        """Cycles one DMA channel moves ``nbytes``, set-up and latency aside."""
        numerator, denominator = self._channel
        return ceil_div(nbytes * denominator, numerator)

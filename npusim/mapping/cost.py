"""What one box of a region costs on a chip: the one place that the tile search and the timing model both ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npusim.graph.region import Region
from npusim.hardware import Chip, Task, UnitSpec, largest, product
from npusim.hardware.base import Count
from npusim.hardware.layout import Arrangement, plain
from npusim.hardware.memory import burst_bytes_moved, runs
from npusim.hardware.units.mac_array import MacArray
from npusim.hardware.units.popcount import PopcountUnit
from npusim.hardware.units.vector import VectorUnit
from npusim.ir.work import Access, Loop, UnitKind
from npusim.numerics.types import DType, ceil_div
from npusim.program.program import Compute, TileProgram


class RegionCost:
    """Costs of boxes of one region on one chip; every method takes ints or arrays of candidate extents.

    ``unit`` and ``unrolling`` are what the layer's mapping states. Construction raises DoesNotFitError if the chip
    lacks a unit, an operator or the unrolling.
    """

    def __init__(self, region: Region, chip: Chip, unit: str | None = None, unrolling: str | int | None = None) -> None:
        self.region, self.chip = region, chip
        self.work = region.work
        where = f"layer {region.name!r}"
        tasks = [
            Task(m.op.name, tuple(t.dtype for t in m.bound.operands), m.bound.accumulator, m.bound.work)
            for m in region.members
        ]
        self.task = tasks[0] = replace(tasks[0], unrolling=unrolling)
        self.on_vector = self.work.unit is UnitKind.VECTOR
        self.tail_tasks = tasks[1:]
        able = chip.units_for(tasks if self.on_vector else tasks[:1], where, unit)
        self.unit: UnitSpec = able[0]
        self.able = tuple(u.label for u in able)
        self.accumulator_bytes = self.unit.accumulator_bytes if isinstance(self.unit, MacArray) else 0
        self.rows_ahead = self.unit.rows_ahead if isinstance(self.unit, PopcountUnit) else 0
        self.output = region.output_type
        self.accumulator = region.anchor.bound.accumulator
        self._parallel = [i for i, d in enumerate(self.work.dims) if not d.reduce]
        self._channels = [i for i in self._parallel if self.work.dims[i].loop in (Loop.CHANNEL, Loop.OUT_CHANNEL)]
        self._positions = [i for i in self._parallel if i not in self._channels]

    @property
    def engine(self) -> str:
        """Name of the engine whose queues take this region's commands."""
        return self.unit.label

    @property
    def streamed_bytes(self) -> int | None:
        """Most bytes of results under way to DRAM if they leave while their tile is computed; None if they do not."""
        return None if self.on_vector else self.chip.output_pipeline.streamed_bytes

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

    def in_dram(self, access: Access, shape: tuple[int, ...], constant: bool) -> Arrangement:
        """How an operand of ``shape``, or the output, lies in DRAM; ``constant``: weights or other constants."""
        layouts = self.chip.dram.layouts
        return plain(shape) if layouts is None else layouts.arrange(self.work, access, shape, constant)

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
            return largest(cycles + self.unit.startup_cycles + self.chip.control.command_cycles, 1)
        if last:
            if not self.chip.output_pipeline.after_tile:
                cycles = largest(cycles, self.chip.output_pipeline.tile_cycles(*self._outputs(extents)))
            if not self.unit.overlapped:
                cycles = cycles + self._behind_tile(extents)
        return largest(cycles + self.chip.control.command_cycles, 1)

    def reload_cycles(self, extents: Sequence[Count]) -> Count:
        """Cycles to bring in what stays in the unit during a box, beside the box before."""
        return self.unit.reload_cycles(self.task, extents)

    def result_cycles(self, extents: Sequence[Count], last: bool) -> Count:
        """Cycles from when the next box may start until what this one makes is there; 0 on a unit without overlap."""
        if not self.unit.overlapped:
            return 0
        return self.unit.drain_cycles(self.task, extents) + (self._behind_tile(extents) if last else 0)

    def _behind_tile(self, extents: Sequence[Count]) -> Count:
        """Cycles of the output pipeline after the last sum of a tile."""
        pipeline = self.chip.output_pipeline
        rest = pipeline.tile_cycles(*self._outputs(extents)) if pipeline.after_tile else 0
        return rest + pipeline.latency_cycles

    def drain_cycles(self, extents: Sequence[Count]) -> Count:
        """Cycles from the end of a reduction's last box until the last of its results has left the output pipeline."""
        return self.chip.output_pipeline.drain_cycles(*self._outputs(extents), self.unit.cycles(self.task, extents))

    def _outputs(self, extents: Sequence[Count]) -> tuple[Count, Count]:
        """Positions and channels of the results of a box."""
        return product(extents[i] for i in self._positions), product(extents[i] for i in self._channels)

    def limit(self, extents: Sequence[int], first: bool, last: bool) -> str:
        """What sets the cycles of one box: ``compute``, ``output_path`` or ``sram_port``."""
        cycles = self.compute_cycles(extents, last)
        if self.port_cycles(extents, first, last) > cycles:
            return "sram_port"
        if (
            last
            and not self.on_vector
            and cycles
            > self.unit.cycles(self.task, extents)
            + (0 if self.unit.overlapped else self.chip.output_pipeline.latency_cycles)
            + self.chip.control.command_cycles
        ):
            return "output_path"
        return "compute"

    def stream_and_fill_cycles(self, extents: Sequence[int], first: bool, last: bool) -> tuple[int, int]:
        """Of the cycles of one box, those in which operands stream through its unit, and those that fill and drain it.

        Skew, reloads, pipelines and start-up fill; beside a slower output pipeline only its latency is seen, beside a
        slower SRAM port nothing. What is left of the cycles is due to ``limit``, or else overhead of the command.
        """
        fill = self.unit.fill_cycles(self.task, extents)
        if isinstance(self.unit, VectorUnit):
            fill = self.unit.startup_cycles
            stream = self.compute_cycles(extents, last) - fill - self.chip.control.command_cycles
            return int(stream), 0 if self.limit(extents, first, last) == "sram_port" else fill
        stream = self.unit.cycles(self.task, extents) - fill
        limit = self.limit(extents, first, last)
        behind = self.chip.output_pipeline.latency_cycles if last and not self.unit.overlapped else 0
        return int(stream), {"sram_port": 0, "output_path": behind, "compute": int(fill) + behind}[limit]

    def port_cycles(self, extents: Sequence[Count], first: bool, last: bool) -> Count:
        """Cycles the box holds its SRAM port: operands as often as the unit re-reads them, sums, results for SRAM."""
        read, written = self.port_words(extents, first, last)
        return ceil_div(read + written, self.chip.sram.banks)

    def port_words(self, extents: Sequence[Count], first: bool, last: bool) -> tuple[Count, Count]:
        """Words of a bank that the box reads and writes through its SRAM port."""
        passes = self.unit.passes(self.task, extents)
        sram = self.chip.sram
        words: Count = 0
        for i in self.region.inputs:
            if i.access.final and not last:
                continue
            times: Count = 1
            for member, operand in i.uses:
                if member == 0 and operand < len(passes):
                    times = largest(times, passes[operand])
            tile = self.tile_shape(i.access, i.type.shape, extents)
            words = words + times * sram.bank_words(i.type.shape, tile, i.type.dtype.bits)
        out = self.output_shape(extents)
        sums = 0 if self.accumulator_bytes else sram.bank_words(self.output.shape, out, self.accumulator.bits)
        if not first:
            words = words + sums
        results = 0 if self.streamed_bytes else sram.bank_words(self.output.shape, out, self.output.dtype.bits)
        return words, results if last else sums

    def box_cycles(self, extents: Sequence[Count], first: bool = True, last: bool = True) -> Count:
        """Cycles of a box with all its operands in SRAM and the port to itself."""
        return largest(self.compute_cycles(extents, last), self.port_cycles(extents, first, last))


def region_costs(program: TileProgram, chip: Chip) -> list[RegionCost]:
    """The costs of each layer of a program, on the unit that takes its commands and as its mapping unrolls it."""
    taken_by = {c.layer: c.queue.engine for c in program if isinstance(c, Compute)}
    return [RegionCost(r, chip, taken_by.get(k), program.unrollings.get(k)) for k, r in enumerate(program.regions)]


class TransferCost:
    """What it costs to move a box between DRAM and SRAM."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self._write = chip.dram.write_channel
        self._load = self._channel(chip.dram.latency_cycles)
        self._store = self._channel(self._write.latency_cycles) if self._write else self._load

    def _channel(self, latency: int) -> tuple[int, int]:
        """Bytes a cycle of a channel (numerator, denominator) where a burst is under way for ``latency`` cycles."""
        dma = self.chip.dma
        numerator, denominator = dma.bytes_per_cycle, 1
        if latency:
            # bursts in flight cover the latency: outstanding * burst bytes every latency cycles (Little's law)
            flight = dma.outstanding_bursts * self.chip.dram.burst_bytes
            if flight * denominator < numerator * latency:
                numerator, denominator = flight, latency
        return numerator, denominator

    def row_miss_cycles(self, shape: tuple[int, ...], box: tuple[Count, ...], dtype: DType) -> Count:
        """Bus cycles lost to opening DRAM rows: every contiguous run, taken as aligned, opens each row it touches."""
        row_buffer = self.chip.dram.row_buffer
        if row_buffer is None:
            return 0
        count, length = runs(shape, box)
        return count * ceil_div(ceil_div(length * dtype.bits, 8), row_buffer.row_bytes) * row_buffer.miss_cycles

    def run_cycles(self, shape: tuple[int, ...], box: tuple[Count, ...]) -> Count:
        """Channel cycles lost to starting every contiguous run."""
        return runs(shape, box)[0] * self.chip.dma.run_cycles if self.chip.dma.run_cycles else 0

    def bytes_moved(self, shape: tuple[int, ...], box: tuple[Count, ...], dtype: DType) -> Count:
        """DRAM bytes moved for a box, bursts included."""
        return burst_bytes_moved(shape, box, dtype.bits, self.chip.dram.burst_bytes)

    def bus_cycles(self, nbytes: Count, store: bool = False) -> Count:
        """Cycles the DRAM bus (or its write channel, for a store) and the DMA's SRAM port carry ``nbytes``."""
        dram = self.chip.dram
        rate = self._write.bytes_per_cycle if store and self._write else dram.bytes_per_cycle
        bus = ceil_div(nbytes * rate.denominator, rate.numerator)
        return largest(bus, ceil_div(nbytes, self.chip.sram.bytes_per_cycle))

    def channel_cycles(self, nbytes: Count, store: bool = False) -> Count:
        """Cycles one DMA channel moves ``nbytes``, set-up and latency aside."""
        numerator, denominator = self._store if store else self._load
        return ceil_div(nbytes * denominator, numerator)

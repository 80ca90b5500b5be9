"""The chip: its clock, compute units, output pipeline and memories, as its YAML states them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from npusim.config import Hertz, NonNegative, record
from npusim.errors import DoesNotFitError
from npusim.hardware.base import Task, UnitSpec, chosen
from npusim.hardware.energy_table import EnergyTable
from npusim.hardware.memory import Dma, Dram, HostLink, Sram
from npusim.hardware.output_pipeline import OutputPipeline
from npusim.hardware.units.mac_array import MacArray
from npusim.hardware.units.popcount import PopcountUnit
from npusim.hardware.units.vector import VectorUnit

Unit = Annotated[MacArray | PopcountUnit | VectorUnit, Field(discriminator="kind")]


@record
class Control:
    """What the host and the command processor add."""

    run_cycles: Annotated[NonNegative, Field(description="before the first command of a run")]
    layer_cycles: Annotated[NonNegative, Field(description="added to the first compute command of every layer")]
    command_cycles: Annotated[NonNegative, Field(description="added to every compute command: decoding, micro-ops")]


@record
class Chip:
    """A neural processing unit."""

    name: Annotated[str, Field(description="shown in reports")]
    clock_hz: Annotated[Hertz, Field(description="clock of everything; DRAM rates are stated in its cycles")]
    units: Annotated[tuple[Unit, ...], Field(description="compute units; of those that can, the fastest takes a layer")]
    control: Annotated[Control, Field(description="launch and command overheads")]
    output_pipeline: Annotated[OutputPipeline, Field(description="behind the MAC array and the popcount unit")]
    sram: Annotated[Sram, Field(description="on-chip memory")]
    dma: Annotated[Dma, Field(description="between DRAM and SRAM")]
    dram: Annotated[Dram, Field(description="external memory")]
    host_link: Annotated[
        HostLink | None, Field(description="way of graph inputs and outputs; null: they lie in the DRAM")
    ] = None
    energy: Annotated[
        EnergyTable | None, Field(description="what actions cost in energy, and parts in area; null: not modelled")
    ] = None

    def __post_init__(self) -> None:
        if self.output_pipeline.streamed_bytes and self.dram.fair and self.dram.write_channel is None:
            raise ValueError(
                "output_pipeline.streamed_bytes with dram.fair needs a dram.write_channel: how loads slow down "
                "results on a shared bus is not modelled"
            )
        if self.energy is not None and self.energy.femtojoules is not None and self.dram.caches:
            raise ValueError("energy: what dram.caches take is not modelled; set energy: null, or caches: []")
        labels = [u.label for u in self.units]
        for label in labels:
            if label in ("dma", "store"):
                raise ValueError(f"units: {label!r} is the name of another engine; give the unit another one")
        for unit in self.units:
            if labels.count(unit.label) > 1:
                raise ValueError(
                    f"units: {unit.kind} is given {labels.count(unit.label)} times; use 'instances' for identical "
                    "units, or give each unit a name of its own"
                )

    @property
    def on_chip_bytes(self) -> int:
        """SRAM and, behind it, the memories that units have for their partial sums, and results streamed to DRAM."""
        return self.streamed_base + (self.output_pipeline.streamed_bytes or 0)

    @property
    def streamed_base(self) -> int:
        """Address of the first byte of the results that are on their way to DRAM and have no place in SRAM."""
        return self.sram.size_bytes + sum(
            u.instances * u.accumulator_bytes for u in self.units if isinstance(u, MacArray)
        )

    def accumulator_base(self, unit: UnitSpec) -> int:
        """Address of the first byte of the memory that ``unit`` has for its partial sums."""
        base = self.sram.size_bytes
        for u in self.units:
            if u is unit:
                break
            base += u.instances * u.accumulator_bytes if isinstance(u, MacArray) else 0
        return base

    def units_for(self, tasks: Sequence[Task], where: str, name: str | None = None) -> list[UnitSpec]:
        """The units that can do all ``tasks``, which are of one kind; of these the one called ``name`` if given.

        DoesNotFitError naming ``where``, the operator and what the chip lacks, be it the unrolling of a task.
        """
        task = tasks[0]
        kind = task.work.unit
        serving = [u for u in self.units if u.serves is kind]
        if not serving:
            have = ", ".join(u.kind for u in self.units) or "no units"
            raise DoesNotFitError(
                f"{where}: {task.operator} needs a {kind.value} unit; chip {self.name!r} has {have}; add one to its "
                "units"
            )
        named = [u for u in serving if name in (None, u.label)]
        if not named:
            raise DoesNotFitError(
                f"{where}: no {kind.value} unit of chip {self.name!r} is called {name!r}; it has "
                f"{', '.join(u.label for u in serving)}"
            )
        able: list[UnitSpec] = []
        problems = []
        for unit in named:
            reason = next(((t.operator, r) for t in tasks if (r := _refusal(unit, t)) is not None), None)
            if reason is None:
                able.append(unit)
            else:
                problems.append(f"{where}: {reason[0]}: chip {self.name!r}: {reason[1]}")
        if not able:
            raise DoesNotFitError(problems)
        return able


def _refusal(unit: UnitSpec, task: Task) -> str | None:
    """Why ``unit`` cannot do ``task``; None if it can."""
    if task.unrolling is not None and not chosen(unit.unrollings, task.unrolling):
        have = f"it has {'; '.join(unit.unrollings)}" if unit.unrollings else "it has none"
        remedy = "give one of them, its place in the list from 0, or im2col" if unit.unrollings else "leave it out"
        return f"unit {unit.label!r} has no unrolling {task.unrolling!r} ({have}); {remedy}"
    return unit.refuses(task)

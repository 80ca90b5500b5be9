"""The chip: its clock, compute units, output pipeline and memories, as its YAML states them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from npusim.config import Hertz, record
from npusim.errors import DoesNotFitError
from npusim.hardware.base import Task, UnitSpec
from npusim.hardware.memory import Dma, Dram, Sram
from npusim.hardware.output_pipeline import OutputPipeline
from npusim.hardware.units.mac_array import MacArray
from npusim.hardware.units.popcount import PopcountUnit
from npusim.hardware.units.vector import VectorUnit
from npusim.ir.work import UnitKind

Unit = Annotated[MacArray | PopcountUnit | VectorUnit, Field(discriminator="kind")]


@record
class Chip:
    """A neural processing unit."""

    name: Annotated[str, Field(description="shown in reports")]
    clock_hz: Annotated[Hertz, Field(description="clock of everything; DRAM rates are stated in its cycles")]
    units: Annotated[tuple[Unit, ...], Field(description="compute units, at most one of a kind")]
    output_pipeline: Annotated[OutputPipeline, Field(description="behind the MAC array and the popcount unit")]
    sram: Annotated[Sram, Field(description="on-chip memory")]
    dma: Annotated[Dma, Field(description="between DRAM and SRAM")]
    dram: Annotated[Dram, Field(description="external memory")]

    def __post_init__(self) -> None:
        kinds = [u.kind for u in self.units]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise ValueError(f"units: {kind} is given {kinds.count(kind)} times; use 'instances' for identical units")

    def unit_of(self, kind: UnitKind) -> UnitSpec | None:
        """The unit that serves this kind of work, if the chip has one."""
        return next((u for u in self.units if u.serves is kind), None)

    def unit_for(self, task: Task, where: str) -> UnitSpec:
        """The unit for a task; DoesNotFitError naming ``where``, the operator and what the chip lacks."""
        unit = self.unit_of(task.work.unit)
        if unit is None:
            raise DoesNotFitError(
                f"{where}: {task.operator} needs a {task.work.unit.value} unit; chip {self.name!r} has "
                f"{', '.join(u.kind for u in self.units) or 'no units'}"
            )
        reason = unit.refuses(task)
        if reason is not None:
            raise DoesNotFitError(f"{where}: {task.operator}: chip {self.name!r}: {reason}")
        return unit

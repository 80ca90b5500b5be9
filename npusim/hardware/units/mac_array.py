"""The MAC array: multipliers of one of several kinds (npusim.hardware.arrays), with their rates and accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from npusim.config import NonNegative, Positive, Ratio, record
from npusim.hardware.arrays.bit_serial import BitSerial
from npusim.hardware.arrays.block_stationary import BlockStationary
from npusim.hardware.arrays.loops import Extents, Stationary
from npusim.hardware.arrays.row_stationary import RowStationary
from npusim.hardware.arrays.systolic import Systolic
from npusim.hardware.arrays.unrolled import LoopName, Unrolled
from npusim.hardware.base import Count, Task, UnitSpec, chosen, product
from npusim.ir.work import UnitKind
from npusim.numerics.overflow import Policy
from npusim.numerics.types import ceil_div

__all__ = ["LoopName", "MacArray", "Stationary", "Systolic", "Unrolled"]


@record
class MacArray(UnitSpec):
    """Multiply-accumulate units for convolutions and products."""

    kind: Literal["mac_array"]
    serves: ClassVar[UnitKind] = UnitKind.MAC
    name: Annotated[str | None, Field(description="shown in reports, used by mappings; default: what it serves")] = None
    instances: Annotated[Positive, Field(description="identical arrays, each with a queue of its own")]
    array: Annotated[
        Unrolled | Systolic | RowStationary | BitSerial | BlockStationary,
        Field(discriminator="kind", description="how the multipliers are used"),
    ]
    macs_per_cycle: Annotated[
        dict[str, Ratio],
        Field(description="per multiplier and cycle, by element types, for example i8xi4: 2; others are refused"),
    ]
    accumulators: Annotated[
        dict[Literal["i32", "i48", "f32"], Policy],
        Field(description="accumulator widths and what overflow does: refuse, wrap or saturate"),
    ]
    accumulator_bytes: Annotated[
        NonNegative, Field(description="memory of its own for partial sums of split reductions; 0: they lie in SRAM")
    ]
    pipeline_cycles: Annotated[NonNegative, Field(description="latency from operand read to first accumulation")]
    operators: Annotated[
        tuple[str, ...] | None, Field(description="the only operators it takes; null: any that its array can do")
    ] = None

    def refuses(self, task: Task) -> str | None:
        if self.operators is not None and task.operator not in self.operators:
            return f"unit {self.label!r} takes {', '.join(self.operators)}; add {task.operator} to its operators"
        types = _type_key(task)
        if types not in self.macs_per_cycle:
            rates = ", ".join(self.macs_per_cycle)
            return f"the mac_array has no rate for {types} (it has {rates}); add it to macs_per_cycle"
        if task.accumulator.name not in self.accumulators:
            return (
                f"the mac_array has no {task.accumulator} accumulator (it has {', '.join(self.accumulators)}); "
                "add it to accumulators"
            )
        return self.array.refuses(task) if isinstance(self.array, RowStationary | BitSerial) else None

    def _pairs(self, task: Task, extents: Sequence[Count]) -> Extents:
        """The dimensions with as many of their points as do real work, on a grid as the products it makes of them."""
        pairs = _useful(task, extents)
        return self.array.lowered(task, pairs) if isinstance(self.array, Systolic) else pairs

    def cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """Cycles to the last multiplication, after ``pipeline_cycles``, on an overlapped array to the next tile.

        See the kinds of arrays.
        """
        pairs, array = self._pairs(task, extents), self.array
        rate = self.macs_per_cycle[_type_key(task)]
        if isinstance(array, BitSerial):
            bits = int(ceil_div(rate.denominator, rate.numerator))
            return array.cycles(task, pairs, bits) + self.pipeline_cycles
        if isinstance(array, RowStationary):
            raw = array.map(task, pairs).cycles
        elif isinstance(array, BlockStationary):
            raw = array.cycles(pairs)
        else:
            raw = array.steps(pairs, task.unrolling)[0] if isinstance(array, Unrolled) else array.cycles(pairs)[0]
        return ceil_div(raw * rate.denominator, rate.numerator) + (0 if self.overlapped else self.pipeline_cycles)

    @property
    def unrollings(self) -> tuple[str, ...]:
        return self.array.names

    def unrolling(self, task: Task, extents: Sequence[int]) -> str:
        """On an unrolled array the fastest mode for the box, of those that the task leaves it; else the array's own."""
        array = self.array
        if isinstance(array, Unrolled):
            return array.fastest(_useful(task, extents), task.unrolling)
        return array.names[chosen(array.names, task.unrolling)[0]]

    def fill_cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """On a grid all but the streams of its folds: skew and reloads; on every array ``pipeline_cycles``."""
        if not isinstance(self.array, Systolic):
            return self.pipeline_cycles
        rate = self.macs_per_cycle[_type_key(task)]
        stream = self.array.stream_cycles(self._pairs(task, extents))
        return self.cycles(task, extents) - ceil_div(stream * rate.denominator, rate.numerator)

    @property
    def _overlapped_grid(self) -> Systolic | None:
        return self.array if isinstance(self.array, Systolic) and self.array.overlapped_commands else None

    @property
    def overlapped(self) -> bool:
        return self._overlapped_grid is not None

    def reload_cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """On an overlapped array the cycles in which the stationary operand of the first fold moves in."""
        grid = self._overlapped_grid
        return grid.reload_cycles if grid else 0

    def drain_cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """On an overlapped array the cycles from the end of the stream to the last multiplication."""
        grid = self._overlapped_grid
        return grid.cycles(self._pairs(task, extents))[1] + self.pipeline_cycles if grid else 0

    def passes(self, task: Task, extents: Sequence[Count]) -> tuple[Count, ...]:
        """The ifmap is read once per step, fold or pass over output channels, weights once per one over positions.

        The stationary operand and any operand after these two are read once.
        """
        pairs, array = self._pairs(task, extents), self.array
        if isinstance(array, BitSerial | BlockStationary):
            return array.passes(task, pairs)
        return (*array.passes(task, pairs), *[1] * (len(task.work.reads) - 2))

    def actions(self, task: Task, extents: Sequence[Count]) -> dict[str, Count]:
        """Multiply-accumulates, those on padding included, and bytes that elements pass to their neighbours."""
        pairs, array = self._pairs(task, extents), self.array
        counts = {f"mac.{_type_key(task)}": product(e for _, e in pairs)}
        if isinstance(array, Systolic):
            counts["hop_byte"] = ceil_div(array.hop_bits(task, pairs), 8)
        elif not isinstance(array, Unrolled):
            return UnitSpec.actions(self, task, extents)  # refuses: another kind of array
        return counts

    def peak_per_cycle(self, task: Task) -> tuple[int, int]:
        rate = Fraction(self.macs_per_cycle[_type_key(task)]) * self.array.macs
        return rate.numerator, rate.denominator


def _type_key(task: Task) -> str:
    return f"{task.operands[0]}x{task.operands[1]}"


def _useful(task: Task, extents: Sequence[Count]) -> Extents:
    """The dimensions, each with as many of its points as do real work."""
    return [(d, ceil_div(e, d.every)) for d, e in zip(task.work.dims, extents, strict=True)]

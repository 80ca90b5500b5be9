"""The vector unit: SIMD lanes with a rate per operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from npusim.config import NonNegative, Positive, Ratio, record
from npusim.hardware.base import Count, Task, UnitSpec, product
from npusim.ir.work import UnitKind
from npusim.numerics.types import ceil_div


@record
class OperatorRate:
    """The operators that cost a number of cycles."""

    cycles: Annotated[Ratio, Field(description="cycles of an instruction on all lanes")]
    operators: Annotated[tuple[str, ...], Field(description="the operators that cost it")]


@record
class VectorUnit(UnitSpec):
    """Element-wise work, pooling, reductions and data movement."""

    kind: Literal["vector"]
    serves: ClassVar[UnitKind] = UnitKind.VECTOR
    name: Annotated[str | None, Field(description="shown in reports, used by mappings; default: what it serves")] = None
    instances: Annotated[Positive, Field(description="identical units, each with a queue of its own")]
    lanes: Annotated[Positive, Field(description="elements a lane-wide instruction handles")]
    rates: Annotated[
        tuple[OperatorRate, ...], Field(description="cost of every operator the unit has; others are refused")
    ]
    startup_cycles: Annotated[NonNegative, Field(description="cycles before the first element of a command")]

    float32: Annotated[bool, Field(description="its lanes also do float32; without it such work is refused")] = False

    def __post_init__(self) -> None:
        named = [name for r in self.rates for name in r.operators]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise ValueError(f"rates: {', '.join(twice)} named more than once; name an operator with one cost")

    def cycles_per_instruction(self, operator: str) -> Ratio | None:
        """The cost of one lane-wide instruction of this operator; None if the unit does not have it."""
        return next((r.cycles for r in self.rates if operator in r.operators), None)

    def refuses(self, task: Task) -> str | None:
        if self.cycles_per_instruction(task.operator) is None:
            return f"the vector unit has no {task.operator}; add it to the unit's rates with its cycles"
        if not self.float32 and any(t.storage.kind == "f" for t in (*task.operands, task.accumulator)):
            return "the vector unit does integers only; quantise the model, or declare float32: true for the unit"
        return None

    def cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        rate, points = self._rate(task), _points(task, extents)
        return ceil_div(ceil_div(points, self.lanes) * rate.numerator, rate.denominator)

    def actions(self, task: Task, extents: Sequence[Count]) -> dict[str, Count]:
        """An instruction of n cycles is n operations on each lane that has a point; the other lanes rest."""
        rate, points = self._rate(task), _points(task, extents)
        return {"vector_operation": ceil_div(points * rate.numerator, rate.denominator)}

    def passes(self, task: Task, extents: Sequence[Count]) -> tuple[Count, ...]:
        return (1,) * len(task.work.reads)

    def peak_per_cycle(self, task: Task) -> tuple[int, int]:
        rate = self._rate(task)
        return self.lanes * rate.denominator, rate.numerator

    def _rate(self, task: Task) -> Ratio:
        rate = self.cycles_per_instruction(task.operator)
        assert rate is not None, "refuses() is asked first"
        return rate


def _points(task: Task, extents: Sequence[Count]) -> Count:
    return product(ceil_div(e, d.every) for d, e in zip(task.work.dims, extents, strict=True))

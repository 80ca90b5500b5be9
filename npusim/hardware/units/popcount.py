"""The popcount unit: xnor and population count over packed words, for binary layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from npusim.config import NonNegative, Positive, record
from npusim.hardware.base import Count, Task, UnitSpec, product
from npusim.ir.work import UnitKind
from npusim.numerics.types import ceil_div


@record
class PopcountUnit(UnitSpec):
    """``lanes`` outputs at once, each taking ``word_bits`` of the reduction a cycle.

    Cycles: ceil(outputs / lanes) * ceil(reduced bits / word_bits) per position (FINN, arXiv:1612.07119, section 4.2,
    with lanes = PE and word_bits = SIMD).
    """

    kind: Literal["popcount"]
    serves: ClassVar[UnitKind] = UnitKind.POPCOUNT
    instances: Annotated[Positive, Field(description="identical units, each with a queue of its own")]
    lanes: Annotated[Positive, Field(description="output channels computed at once")]
    word_bits: Annotated[Positive, Field(description="bits of the reduction taken a cycle")]
    pipeline_cycles: Annotated[NonNegative, Field(description="latency from operand read to first count")]

    def refuses(self, task: Task) -> str | None:
        return None

    def cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        dims = task.work.dims
        bits = product(e for d, e in zip(dims, extents, strict=True) if d.reduce)
        lanes = product(e for d, e in zip(dims, extents, strict=True) if d.loop.value in ("out_channel", "channel"))
        positions = product(
            e for d, e in zip(dims, extents, strict=True) if not d.reduce and "channel" not in d.loop.value
        )
        return positions * ceil_div(lanes, self.lanes) * ceil_div(bits, self.word_bits) + self.pipeline_cycles

    def passes(self, task: Task, extents: Sequence[Count]) -> tuple[Count, ...]:
        return (1,) * len(task.work.reads)

    def peak_per_cycle(self, task: Task) -> tuple[int, int]:
        return self.lanes * self.word_bits, 1

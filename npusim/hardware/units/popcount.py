"""The popcount unit: xnor and population count over packed words, for binary layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from npusim.config import NonNegative, Positive, record
from npusim.hardware.base import Count, Task, UnitSpec, product
from npusim.ir.work import Loop, UnitKind
from npusim.numerics.types import ceil_div

_CHANNELS = frozenset({Loop.OUT_CHANNEL, Loop.CHANNEL})


@record
class PopcountUnit(UnitSpec):
    """``lanes`` outputs at once, each taking ``word_bits`` of the reduction a cycle.

    Cycles: ceil(outputs / lanes) * ceil(reduced bits / word_bits) per position (FINN, arXiv:1612.07119, section 4.2,
    with lanes = PE and word_bits = SIMD), times the bit planes: numbers of b and q bits take b * q passes of one-bit
    work, ternary ones two (BISMO, arXiv:1806.08862). A unit that multiplies numbers of more bits takes several of these
    planes at once.

    With ``rows_ahead`` a tile also waits for the input rows of as many further output rows (at the end of an image, as
    far as there are any): a sliding window that lets go of a row while it takes in the next one, word by word in one
    pipeline, goes no further than the words that have come (Xilinx/finn-hlslib, slidingwindow.h: one row).
    """

    kind: Literal["popcount"]
    serves: ClassVar[UnitKind] = UnitKind.POPCOUNT
    name: Annotated[str | None, Field(description="shown in reports, used by mappings; default: what it serves")] = None
    instances: Annotated[Positive, Field(description="identical units, each with a queue of its own")]
    lanes: Annotated[Positive, Field(description="output channels computed at once")]
    word_bits: Annotated[Positive, Field(description="bits of the reduction taken a cycle")]
    pipeline_cycles: Annotated[NonNegative, Field(description="latency from operand read to first count")]
    planes: Annotated[Positive, Field(description="bit planes of a product taken at once")] = 1
    rows_ahead: Annotated[
        NonNegative, Field(description="further output rows whose inputs must be there before a tile starts")
    ] = 0
    fifo_elements: Annotated[
        Positive | None, Field(description="results that may wait for the next layer to take them in; null: any number")
    ] = None

    def refuses(self, task: Task) -> str | None:
        return None

    def cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        positions, lanes, words, planes = self._space(task, extents)
        return positions * ceil_div(lanes, self.lanes) * words * ceil_div(planes, self.planes) + self.pipeline_cycles

    def fill_cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        return self.pipeline_cycles

    def actions(self, task: Task, extents: Sequence[Count]) -> dict[str, Count]:
        positions, lanes, words, planes = self._space(task, extents)
        return {"popcount_word": positions * lanes * words * planes}

    def _space(self, task: Task, extents: Sequence[Count]) -> tuple[Count, Count, Count, Count]:
        """Positions, outputs at each of them, words that a lane takes for an output and plane, and bit planes."""
        pairs = list(zip(task.work.dims, extents, strict=True))
        planes = product(e for d, e in pairs if d.loop is Loop.BIT_PLANE)
        bits = product(e for d, e in pairs if d.reduce and d.loop is not Loop.BIT_PLANE)
        lanes = product(e for d, e in pairs if not d.reduce and d.loop in _CHANNELS)
        positions = product(e for d, e in pairs if not d.reduce and d.loop not in _CHANNELS)
        return positions, lanes, ceil_div(bits, self.word_bits), planes

    def passes(self, task: Task, extents: Sequence[Count]) -> tuple[Count, ...]:
        return (1,) * len(task.work.reads)

    def peak_per_cycle(self, task: Task) -> tuple[int, int]:
        planes = product(d.extent for d in task.work.dims if d.loop is Loop.BIT_PLANE)
        return self.lanes * self.word_bits, int(ceil_div(planes, self.planes))

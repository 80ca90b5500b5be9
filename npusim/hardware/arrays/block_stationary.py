"""The block-stationary array: a weight-stationary grid that instructions feed with short blocks of positions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from npusim.config import Positive, record
from npusim.hardware.arrays.loops import Extents
from npusim.hardware.base import Count, Task, largest, product
from npusim.ir.work import Loop
from npusim.numerics.types import ceil_div

_OUTER = frozenset({Loop.BATCH, Loop.DEPTH, Loop.ROW})


@record
class BlockStationary:
    """A grid of ``rows`` x ``columns`` elements that hold the weights of as many input and output channels: a fold.

    Each tap of a kernel, each ``rows`` input and each ``columns`` output channels are a fold of their own. Within a
    fold the positions of each line of the output (a row of a feature map, all rows of a matrix) stream in blocks of at
    most ``block_positions``, one instruction a block. A block takes a cycle a position, and at least
    ``min_block_cycles`` (until a sum that it adds to has been written). The last block of a fold takes at least
    ``rows``, as the weights of the next fold come down the columns meanwhile, a row a cycle. And an instruction can
    start only ``instruction_cycles`` after the one before: what it is in flight for over how many may be in flight.

    For n lines of k blocks each, where a full block takes f = max(block_positions, min_block_cycles) and the last one
    of a line, of b positions, l = max(b, min_block_cycles)::

        fold = max(n * ((k - 1) * f + l) + max(0, rows - l), n * k * instruction_cycles)

    This is Gemmini's array with its controller (ucb-bar/gemmini, src/main/scala/gemmini/ExecuteController.scala,
    total_rows; LoopConv.scala and LoopMatmul.scala, the order of the folds).
    """

    kind: Literal["block_stationary"]
    rows: Annotated[Positive, Field(description="rows of the grid: input channels of a fold")]
    columns: Annotated[Positive, Field(description="columns of the grid: output channels of a fold")]
    block_positions: Annotated[Positive, Field(description="most positions of an instruction")]
    min_block_cycles: Annotated[Positive, Field(description="fewest cycles of a block")]
    instruction_cycles: Annotated[Positive, Field(description="from the start of an instruction to that of the next")]

    @property
    def macs(self) -> int:
        """Multipliers of the grid."""
        return self.rows * self.columns

    @property
    def names(self) -> tuple[str, ...]:
        """What lies on its rows and columns; taps of a kernel are done one after the other."""
        return (f"in_channel on {self.rows} rows, out_channel on {self.columns} columns",)

    def cycles(self, pairs: Extents) -> Count:
        """Cycles of a box, from its first position to its last."""
        lines, length = _lines(pairs)
        blocks = ceil_div(length, self.block_positions)
        last = length - (blocks - 1) * self.block_positions
        full, ended = max(self.block_positions, self.min_block_cycles), largest(last, self.min_block_cycles)
        stream = lines * ((blocks - 1) * full + ended) + largest(self.rows - ended, 0)
        taps = product(e for d, e in pairs if d.loop.value.startswith("kernel"))
        inputs = product(e for d, e in pairs if d.reduce) // taps
        folds = taps * ceil_div(inputs, self.rows) * ceil_div(_extent(pairs, Loop.OUT_CHANNEL), self.columns)
        return _extent(pairs, Loop.CHANNEL) * folds * largest(stream, lines * blocks * self.instruction_cycles)

    def passes(self, task: Task, pairs: Extents) -> tuple[Count, ...]:
        """The ifmap is read once per ``columns`` output channels, every other operand once."""
        return (ceil_div(_extent(pairs, Loop.OUT_CHANNEL), self.columns), *[1] * (len(task.work.reads) - 1))


def _lines(pairs: Extents) -> tuple[Count, Count]:
    """(lines, positions of a line): a row of positions, or the rows of a matrix where there are no columns."""
    if any(d.loop is Loop.COLUMN for d, _ in pairs):
        return product(e for d, e in pairs if d.loop in _OUTER), _extent(pairs, Loop.COLUMN)
    return _extent(pairs, Loop.BATCH, Loop.DEPTH), _extent(pairs, Loop.ROW)


def _extent(pairs: Extents, *loops: Loop) -> Count:
    return product(e for d, e in pairs if d.loop in loops)

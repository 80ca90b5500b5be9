"""The systolic array: a grid in which operands move from element to element."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from npusim.config import NonNegative, Positive, record
from npusim.hardware.arrays.loops import KERNEL, POSITION, Extents, Stationary, extent
from npusim.hardware.base import IM2COL, Count, Task, chosen, largest, product, smallest
from npusim.ir.work import Loop
from npusim.numerics.types import ceil_div


@record
class Systolic:
    """A grid of ``rows`` x ``columns`` elements; operands move by one element a cycle.

    Row and column i get their operands i cycles after the first. The work, per channel, is a product of M positions, K
    reduced and N output channels; it is cut into folds that fit the grid, and each fold streams the rest:

    * weights stationary: K on the rows, N on the columns, M streams
    * ifmap stationary: K on the rows, M on the columns, N streams
    * output stationary: M on the rows, N on the columns, K streams

    A fold that uses r rows and c columns makes its last multiplication in cycle stream + r + c - 2, counted from 1: the
    R + C + T - 2 of SCALE-Sim (arXiv:1811.02883), whose R more cycles to fill or drain the grid are ``reload_cycles``
    here. The 2 x 2 x 2 product, output stationary on 2 x 2, by hand (which of k = 0, 1 an element multiplies)::

        cycle           1      2      3      4
        element 0,0   k = 0  k = 1
        element 0,1          k = 0  k = 1
        element 1,0          k = 0  k = 1
        element 1,1                 k = 0  k = 1

    K is all reduced loops as one (``im2col``), or the input channels alone, with folds of their own for each tap of a
    kernel (``taps``): then no hardware needs to gather the taps of a position, but few input channels use few rows.

    Folds come along the columns first. Each starts after the last multiplication of the one before, or, with
    ``overlapped_folds``, as soon as the stream of the one before has entered; then the skew of r + c - 2 is paid once a
    tile. ``reload_cycles`` is what every fold waits for its stationary operand first (0: hidden by a shadow register).

    With ``overlapped_commands`` tiles follow each other as folds do, and shadow registers take up the next stationary
    operand while the array streams: a fold is followed by the next after the longer of its stream and the reload. The
    reload of a tile's first fold starts when the operand is there and the tile before has begun to stream. (In the TPU
    weights move into the array while it computes, and take effect with the wave of the data that need them: Jouppi et
    al., "In-datacenter performance analysis of a tensor processing unit", ISCA 2017, section 2.)
    """

    kind: Literal["systolic"]
    rows: Annotated[Positive, Field(description="rows of the grid")]
    columns: Annotated[Positive, Field(description="columns of the grid")]
    stationary: Annotated[Stationary, Field(description="the operand that stays in the elements")]
    overlapped_folds: Annotated[bool, Field(description="the next fold enters while the last one drains")]
    reload_cycles: Annotated[NonNegative, Field(description="cycles a fold waits for its stationary operand")]
    overlapped_commands: Annotated[
        bool, Field(description="the next tile enters while the last one drains; reloads go on beside the stream")
    ] = False
    lowerings: Annotated[
        tuple[Literal["im2col", "taps"], ...],
        Field(min_length=1, description="how convolutions become products; the first unless the mapping says another"),
    ] = ("im2col",)

    def __post_init__(self) -> None:
        if self.overlapped_commands and not self.overlapped_folds:
            raise ValueError("overlapped_commands: tiles only follow each other where folds do; set overlapped_folds")

    @property
    def macs(self) -> int:
        """Multipliers of the grid."""
        return self.rows * self.columns

    @property
    def names(self) -> tuple[str, ...]:
        """By lowering, what lies on its rows and columns: positions (M), what is reduced (K) or output channels (N)."""
        columns = "position" if self.stationary == "ifmap" else "out_channel"
        reduced = {IM2COL: "reduction", "taps": "in_channel"}
        rows = {n: "position" if self.stationary == "output" else r for n, r in reduced.items()}
        return tuple(
            f"{name} ({rows[name]} on {self.rows} rows, {columns} on {self.columns} columns)" for name in self.lowerings
        )

    def lowered(self, task: Task, pairs: Extents) -> Extents:
        """The work as products: by ``taps``, one for each tap, as if taps were channels of their own."""
        if self.lowerings[chosen(self.names, task.unrolling)[0]] == IM2COL:
            return pairs
        return [(replace(d, loop=Loop.CHANNEL, reduce=False) if d.loop in KERNEL else d, e) for d, e in pairs]

    def _roles(self, pairs: Extents) -> tuple[Count, Count, Count]:
        """What lies on the rows, what on the columns, and what streams."""
        m, n = extent(pairs, *POSITION), extent(pairs, Loop.OUT_CHANNEL)
        k = product(e for d, e in pairs if d.reduce)
        return {"weights": (k, n, m), "ifmap": (k, m, n), "output": (m, n, k)}[self.stationary]

    def stream_cycles(self, pairs: Extents) -> Count:
        """Cycles in which operands enter: the streams of all folds, without skew and reloads."""
        on_rows, on_columns, stream = self._roles(pairs)
        folds = ceil_div(on_rows, self.rows) * ceil_div(on_columns, self.columns)
        return extent(pairs, Loop.CHANNEL) * folds * stream

    def cycles(self, pairs: Extents) -> tuple[Count, Count]:
        """Cycles until the next tile may enter, and from then until the last multiplication."""
        on_rows, on_columns, stream = self._roles(pairs)
        row_folds, column_folds = ceil_div(on_rows, self.rows), ceil_div(on_columns, self.columns)
        groups = extent(pairs, Loop.CHANNEL)
        shadow = self.overlapped_commands
        period = largest(stream, self.reload_cycles) if shadow else stream + self.reload_cycles
        folds = groups * row_folds * column_folds
        if not self.overlapped_folds:
            # The used rows of one fold after the other add up to on_rows, and so for the columns.
            return folds * (period - 2) + groups * (column_folds * on_rows + row_folds * on_columns), 0
        # The last fold, unless one row or one column of folds earlier there is one so much wider that it ends later.
        last_rows, last_columns = on_rows - (row_folds - 1) * self.rows, on_columns - (column_folds - 1) * self.columns
        used_rows = largest(last_rows, smallest(on_rows, self.rows) - column_folds * period)
        used_columns = largest(last_columns, smallest(on_columns, self.columns) - period)
        skew = used_rows + used_columns - 2
        return ((folds - 1) * period + stream, skew) if shadow else (folds * period + skew, 0)

    def passes(self, task: Task, pairs: Extents) -> tuple[Count, Count]:
        """How often ifmap and weights are read: once a fold over output channels and once a fold over positions; by
        ``taps`` the ifmap once for each tap."""
        ifmap = ceil_div(extent(pairs, Loop.OUT_CHANNEL), self.columns)
        weights = ceil_div(extent(pairs, *POSITION), self.rows if self.stationary == "output" else self.columns)
        taps = product(e for (d, e), own in zip(pairs, task.work.dims, strict=True) if d.loop is not own.loop)
        return taps if self.stationary == "ifmap" else ifmap * taps, 1 if self.stationary == "weights" else weights

    def hop_bits(self, task: Task, pairs: Extents) -> Count:
        """Bits that go from element to element in a box, each as often as it moves on.

        Of a fold on r x c elements, whatever streams in along the rows moves c - 1 times, and whatever goes down the
        columns r - 1 times: partial sums, or the weights where outputs are stationary. The stationary operand comes
        down the columns as well, and stationary outputs leave that way: of each column r (r - 1) / 2 moves.
        """
        on_rows, on_columns, stream = self._roles(pairs)
        ifmap, weights, sums = (t.bits for t in (*task.operands[:2], task.accumulator))
        along, down, kept = {
            "weights": (ifmap, sums, weights), "ifmap": (weights, sums, ifmap), "output": (ifmap, weights, sums),
        }[self.stationary]  # fmt: skip
        row_folds, column_folds = ceil_div(on_rows, self.rows), ceil_div(on_columns, self.columns)
        last = on_rows - (row_folds - 1) * self.rows
        triangles = ((row_folds - 1) * self.rows * (self.rows - 1) + last * (last - 1)) // 2
        moved = stream * (on_rows * (on_columns - column_folds) * along + on_columns * (on_rows - row_folds) * down)
        return extent(pairs, Loop.CHANNEL) * (moved + on_columns * triangles * kept)

"""The bit-serial array: one-bit multipliers that take the bits of a weight one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from npusim.config import NonNegative, Positive, Ratio, record
from npusim.hardware.base import Count, Task, product, smallest
from npusim.ir.work import Dim, Loop
from npusim.numerics.types import ceil_div

Extents = Sequence[tuple[Dim, Count]]
"""The dimensions of a task, each with how many of its points do real work."""

_SPACE = frozenset({Loop.DEPTH, Loop.ROW, Loop.COLUMN})
_WINDOW = 3
_TAPS = _WINDOW * _WINDOW


class _Phases(NamedTuple):
    """What the engine does for each subtile: ``groups`` of input channels in ``blocks`` of output channels.

    A load has ``window`` words after ``load_latency`` cycles. ``offset`` cycles and ``steps`` are those of all groups.
    """

    groups: Count
    blocks: Count
    outputs: Count
    block_channels: int
    window: int
    load_latency: int
    offset: Count
    steps: Count


@record
class BitSerial:
    """``rows`` x ``columns`` output positions at once, each of 9 taps of ``in_channels`` one-bit multipliers.

    The work is cut into subtiles of these positions and ``out_channels`` output channels (every second position at
    stride 2). For each group of ``in_channels`` input channels the engine, one phase after the other,

    * loads the inputs of the positions, halo included, a position a memory word: ``load_latency_cycles`` (1x1:
      ``pointwise_load_latency_cycles``) and the words;
    * adds up what the offset of the weights takes: ``offset_cycles``, and one more per channel if depthwise;
    * multiplies: ``product_latency_cycles`` and, a memory word of weights a step, for each output channel a step per
      weight bit (3x3), or one (1x1: the bits lie side by side on the taps), or for each ``depthwise_channels`` channels
      a step per bit (3x3 depthwise, whose groups are of ``in_channels`` channels);
    * goes on to the next group: ``next_cycles``.

    Then the subtile is requantised (``requantise_latency_cycles`` and ``requantise_channels_per_cycle``) and stored, a
    position a word: ``store_latency_cycles`` and the words. Inputs are loaded for whole subtiles at the edges too;
    results of the whole subtile are stored if ``stores_idle_positions``, else up to the last one in use.

    Products of vectors take ``linear_in_channels`` inputs at once, in whole words, and a step per bit and output.

    Memory words are read at ``words_per_cycle``; inputs and results have one byte. Phases as in NE16 (pulp-platform/
    ne16, rtl/ctrl/ne16_ctrl_fsm.sv; pulp-platform/dory, Ne16PerfModel.py) and N-EUREKA (pulp-platform/neureka,
    rtl/ctrl/neureka_ctrl.sv).
    """

    kind: Literal["bit_serial"]
    rows: Annotated[Positive, Field(description="rows of output positions of a subtile")]
    columns: Annotated[Positive, Field(description="columns of output positions of a subtile")]
    in_channels: Annotated[Positive, Field(description="input channels taken at once")]
    out_channels: Annotated[Positive, Field(description="output channels of a subtile")]
    depthwise_channels: Annotated[Positive, Field(description="channels done at once in a depthwise convolution")]
    linear_in_channels: Annotated[
        Positive | None, Field(description="inputs of a product of vectors taken at once; null: as a 1x1 convolution")
    ]
    memory_word_bytes: Annotated[Positive, Field(description="bytes of a word of inputs or results")]
    words_per_cycle: Annotated[Ratio, Field(description="words of inputs or weights read a cycle, at most 1")]
    load_latency_cycles: Annotated[NonNegative, Field(description="before the first input of a load")]
    pointwise_load_latency_cycles: Annotated[NonNegative, Field(description="that of a 1x1 convolution")]
    offset_cycles: Annotated[NonNegative, Field(description="of the sum for the weights' offset")]
    product_latency_cycles: Annotated[NonNegative, Field(description="before the first step of the products")]
    next_cycles: Annotated[NonNegative, Field(description="to update the addresses for the next group")]
    requantise_latency_cycles: Annotated[NonNegative, Field(description="before the first channel is requantised")]
    requantise_channels_per_cycle: Annotated[Ratio, Field(description="output channels, all positions at once")]
    store_latency_cycles: Annotated[NonNegative, Field(description="of a store, besides its words")]
    stores_idle_positions: Annotated[bool, Field(description="a subtile at the edge stores all its positions")]

    def __post_init__(self) -> None:
        if self.words_per_cycle > 1:
            raise ValueError(
                f"words_per_cycle: a step takes one word of weights; {self.words_per_cycle} is more than 1"
            )

    @property
    def macs(self) -> int:
        """One-bit multipliers."""
        return self.rows * self.columns * _TAPS * self.in_channels

    @property
    def names(self) -> tuple[str, ...]:
        """What it does at once, a weight bit a step."""
        space = f"row {self.rows} x column {self.columns} x in_channel {self.in_channels}"
        return (f"bit serial ({space} x {_TAPS} taps)",)

    def refuses(self, task: Task) -> str | None:
        """Why the array cannot do the task, with the remedy; None if it can."""
        other = "give the layer to another unit"
        kernel = tuple(d.extent for d in task.work.dims if d.loop.value.startswith("kernel"))
        depthwise = any(d.loop is Loop.CHANNEL for d in task.work.dims)
        wanted = {(_WINDOW, _WINDOW)} if depthwise else {(), (1, 1), (_WINDOW, _WINDOW)}
        if kernel not in wanted:
            kinds = "depthwise kernels of 3x3" if depthwise else "kernels of 1x1 and 3x3"
            return f"the bit_serial array has {kinds}, not {'x'.join(map(str, kernel)) or 'none'}; {other}"
        steps = {loop: _step(task, loop) for loop in (Loop.ROW, Loop.COLUMN, Loop.KERNEL_ROW, Loop.KERNEL_COLUMN)}
        strides = steps[Loop.ROW], steps[Loop.COLUMN]
        if strides not in {(1, 1), (2, 2)}:
            return (
                f"the bit_serial array has strides 1 and 2, the same both ways, not {strides[0]}, {strides[1]}; {other}"
            )
        if kernel == (_WINDOW, _WINDOW) and (steps[Loop.KERNEL_ROW], steps[Loop.KERNEL_COLUMN]) != (1, 1):
            return f"the bit_serial array has no dilation; {other}"
        if any(d.every > 1 for d in task.work.dims):
            return f"the bit_serial array has no transposed convolution; {other}"
        return None

    def cycles(self, task: Task, pairs: Extents, bits: int) -> Count:
        """Cycles for a box with weights of ``bits``, the last word stored."""
        p = self._phases(task, pairs, bits)
        rate = self.requantise_channels_per_cycle
        load = p.groups * (p.load_latency + self._read(p.window))
        multiply = p.groups * self.product_latency_cycles + self._read(p.steps)
        requantise = p.blocks * self.requantise_latency_cycles + ceil_div(p.outputs * rate.denominator, rate.numerator)
        inner = load + p.offset + multiply + p.groups * self.next_cycles + requantise
        words = ceil_div(smallest(p.outputs, p.block_channels), self.memory_word_bytes)
        stored = p.blocks * self._stored_positions(task, pairs) * words
        return product(self._subtiles(task, pairs)) * (inner + p.blocks * self.store_latency_cycles) + stored

    def _phases(self, task: Task, pairs: Extents, bits: int) -> _Phases:
        dims, window, latency = task.work.dims, self._window(task.work.dims), self.load_latency_cycles
        if any(d.loop is Loop.CHANNEL for d in dims):
            outputs = _extent(pairs, Loop.CHANNEL)
            groups = ceil_div(outputs, self.in_channels)
            offset = groups * self.offset_cycles + outputs
            steps = ceil_div(outputs, self.depthwise_channels) * bits
            return _Phases(groups, groups, outputs, self.in_channels, window, latency, offset, steps)
        inputs, outputs = _extent(pairs, Loop.IN_CHANNEL), _extent(pairs, Loop.OUT_CHANNEL)
        linear = self.linear_in_channels if all(d.loop not in _SPACE for d in dims) else None
        if linear is not None:
            window = int(ceil_div(linear, self.memory_word_bytes))
        elif window == self.rows * self.columns:
            latency, bits = self.pointwise_load_latency_cycles, 1
        rounds, blocks = ceil_div(inputs, linear or self.in_channels), ceil_div(outputs, self.out_channels)
        groups = blocks * rounds
        offset, steps = groups * self.offset_cycles, rounds * outputs * bits
        return _Phases(groups, blocks, outputs, self.out_channels, window, latency, offset, steps)

    def passes(self, task: Task, pairs: Extents) -> tuple[Count, ...]:
        """Inputs are read once per block of output channels, with their halo; weights once per subtile."""
        subtiles = product(self._subtiles(task, pairs))
        halo = int(ceil_div(self._window(task.work.dims), self.rows * self.columns))
        blocks = ceil_div(_extent(pairs, Loop.OUT_CHANNEL), self.out_channels)
        return (blocks * halo, subtiles, *[1] * (len(task.work.reads) - 2))

    def _window(self, dims: Sequence[Dim]) -> int:
        """Input positions of a subtile."""
        wide = any(d.loop is Loop.KERNEL_ROW and d.extent == _WINDOW for d in dims)
        halo = _WINDOW - 1 if wide else 0
        return (self.rows + halo) * (self.columns + halo)

    def _subtiles(self, task: Task, pairs: Extents) -> tuple[Count, Count, Count]:
        """(images, rows of subtiles, columns of subtiles)."""
        step = _step(task, Loop.ROW)
        rows, columns = (int(ceil_div(n, step)) for n in (self.rows, self.columns))
        return (
            _extent(pairs, Loop.BATCH, Loop.DEPTH),
            ceil_div(_extent(pairs, Loop.ROW), rows),
            ceil_div(_extent(pairs, Loop.COLUMN), columns),
        )

    def _stored_positions(self, task: Task, pairs: Extents) -> Count:
        """Positions stored in all subtiles of a block of channels.

        Up to the last one in use, in row r and column c of a subtile counted from 0 and ``step`` apart, there are
        step * (r * columns + c) + 1.
        """
        batch, row_tiles, column_tiles = self._subtiles(task, pairs)
        if self.stores_idle_positions:
            return batch * row_tiles * column_tiles * self.rows * self.columns
        rows, columns = _extent(pairs, Loop.ROW) - row_tiles, _extent(pairs, Loop.COLUMN) - column_tiles
        before = rows * column_tiles * self.columns + columns * row_tiles
        return batch * (_step(task, Loop.ROW) * before + row_tiles * column_tiles)

    def _read(self, words: Count) -> Count:
        """Cycles to read so many memory words."""
        return ceil_div(words * self.words_per_cycle.denominator, self.words_per_cycle.numerator)


def _step(task: Task, loop: Loop) -> int:
    """Indices of the ifmap from one point of a loop to the next; 1 for a loop that there is not."""
    names = {d.name for d in task.work.dims if d.loop is loop}
    return next((abs(k) for a in task.work.reads[0].axes for name, k in a.terms if name in names), 1)


def _extent(pairs: Extents, *loops: Loop) -> Count:
    return product(n for d, n in pairs if d.loop in loops)

"""The row-stationary array: elements that convolve one row of a filter with one row of an ifmap at a time."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from npusim.config import Positive, record
from npusim.hardware.arrays.loops import Extents, extent
from npusim.hardware.base import Count, Task, largest, smallest
from npusim.ir.work import Loop
from npusim.numerics.types import ceil_div

_NEVER = 1 << 48
"""Cycles of a mapping that a box cannot have."""


class RowMapping(NamedTuple):
    """How a box is spread over the elements, in the letters of Eyeriss, and its cycles.

    A set does ``e`` ofmap rows; ``r`` groups of channels times ``t`` groups of filters are the sets at work; an element
    holds rows of ``q`` channels of ``p`` filters. The box takes ``filter_passes`` times ``strips`` of ofmap rows.
    """

    cycles: Count
    e: Count
    p: Count
    q: Count
    r: Count
    t: Count
    filter_passes: Count
    strips: Count


class _Space(NamedTuple):
    """A convolution: images, ofmap rows and columns, filters, channels, filter rows and columns.

    e ofmap rows read row_step * (e - 1) + row_reach ifmap rows. ``repeats``: the channels of a depthwise convolution.
    """

    images: Count
    rows: Count
    columns: Count
    filters: Count
    channels: Count
    filter_rows: Count
    filter_columns: Count
    row_step: int
    row_reach: Count
    ifmap_columns: Count
    repeats: Count


@record
class RowStationary:
    """``rows`` x ``columns`` elements with scratch pads; filters, ifmaps and partial sums come over a bus each.

    The unit of mapping is a set of R x e elements, for R filter rows and e ofmap rows. Element (i, j) convolves filter
    row i with ifmap row i + j (for a stride of one): filter rows are shared along the rows of a set, ifmap rows along
    its diagonals, and partial sums are added up from element to element along its columns. Sets lie beside and on top
    of each other; one with e > ``columns`` is folded, its parts on top of each other. More ofmap rows than fit are done
    in strips of e.

    Sets serve r groups of channels, whose sums go on from set to set, and t groups of filters. An element interleaves
    the rows of p filters and q channels, as many as its scratch pads hold: with S filter columns p * q * S <=
    ``filter_words``, q * S <= ``ifmap_words``, p <= ``psum_words``.

    A pass does q * r channels of p * t filters for e ofmap rows of all images. First it fills the scratch pads: all its
    filter words and the first window of ifmap words come over their buses. Then it takes the longest of

    * the multiplications of an element: images * ofmap columns * p * q * S,
    * its partial sums, each in and out once: images * ofmap columns * e * p * t words,
    * its ifmap words, each sent once to all elements that need it,

    and R * r more cycles for the last sum on its way through as many elements. Passes follow each other without
    overlap; filters and channels are spread evenly over them. Of all foldings and numbers of sets the array takes the
    fastest; of equals that with the fewest parts, then the fewest groups of channels. Depthwise convolutions are done
    channel by channel.

    (Chen, Emer, Sze, "Eyeriss: a spatial architecture for energy-efficient dataflow for convolutional neural networks",
    ISCA 2016, section V; Chen, Krishna, Emer, Sze, JSSC 52(1), 2017, sections III to V.)
    """

    kind: Literal["row_stationary"]
    rows: Annotated[Positive, Field(description="rows of elements; filters have no more")]
    columns: Annotated[Positive, Field(description="columns of elements")]
    filter_words: Annotated[Positive, Field(description="weights that an element holds")]
    ifmap_words: Annotated[Positive, Field(description="ifmap values that an element holds; a filter is no wider")]
    psum_words: Annotated[Positive, Field(description="partial sums that an element holds")]
    filter_words_per_cycle: Annotated[Positive, Field(description="weights a cycle, each to any number of elements")]
    ifmap_words_per_cycle: Annotated[Positive, Field(description="ifmap values a cycle, likewise")]
    psum_words_per_cycle: Annotated[Positive, Field(description="partial sums a cycle into the array, and out of it")]

    @property
    def macs(self) -> int:
        """Multipliers: one an element."""
        return self.rows * self.columns

    @property
    def names(self) -> tuple[str, ...]:
        """What lies on its rows and columns: the rows of filters and of the ofmap."""
        return (f"row stationary (kernel_row on {self.rows} rows, row on {self.columns} columns)",)

    def refuses(self, task: Task) -> str | None:
        """Why the array cannot hold a set of the task, with the remedy; None if it can."""
        s = _space(task, [(d, ceil_div(d.extent, d.every)) for d in task.work.dims])
        if s.filter_rows > self.rows:
            return f"filters of {s.filter_rows} rows need as many rows of elements; the array has {self.rows}"
        words = min(self.ifmap_words, self.filter_words)
        if s.filter_columns > words:
            return f"filter rows of {s.filter_columns} words do not fit scratch pads of {words}; enlarge them"
        return None

    def map(self, task: Task, pairs: Extents) -> RowMapping:
        """The mapping of a box."""
        space, best = _space(task, pairs), None
        for parts in range(1, self.rows + 1):
            for r in _GROUPS:
                found = self._try(space, parts, r)
                if found is None:
                    break
                faster = True if best is None else found.cycles < best.cycles
                best = RowMapping(*(b + faster * (f - b) for f, b in zip(found, best or found, strict=True)))
        assert best is not None, "refuses() is asked first"
        return best

    def passes(self, task: Task, pairs: Extents) -> tuple[Count, Count]:
        """How often ifmap and weights of a box are read: once a pass over filters and once a strip."""
        m = self.map(task, pairs)
        return m.filter_passes, m.strips

    def _try(self, s: _Space, parts: int, groups: int) -> RowMapping | None:
        """The mapping with sets of at most ``parts`` parts for ``groups`` of channels; None if there is no such."""
        e = _share(s.rows, parts * self.columns)
        sets = self.rows // s.filter_rows // ceil_div(e, self.columns) * largest(self.columns // e, 1)
        fits = (sets >= groups) * (s.channels >= groups)
        if not np.any(fits):
            return None
        widest = min(self.ifmap_words, self.filter_words)
        channels = _share(s.channels, groups * (widest // s.filter_columns))
        q = ceil_div(channels, groups)
        most = largest(sets // groups, 1)
        filters = _share(s.filters, most * smallest(self.filter_words // (q * s.filter_columns), self.psum_words))
        p = ceil_div(filters, most)
        r, t = ceil_div(channels, q), ceil_div(filters, p)
        cycles: Count = 0
        for strips, rows in _cut(s.rows, e):
            for deep, c in _cut(s.channels, channels):
                for wide, m in _cut(s.filters, filters):
                    cycles = cycles + strips * deep * wide * self._pass_cycles(s, rows, c, r, m, t)
        cycles = fits * cycles * s.repeats + (1 - fits) * _NEVER
        return RowMapping(cycles, e, p, q, r, t, ceil_div(s.filters, filters), ceil_div(s.rows, e))

    def _pass_cycles(self, s: _Space, rows: Count, channels: Count, r: Count, filters: Count, t: Count) -> Count:
        """Cycles of one pass over ``channels`` in r groups of ``filters`` in t groups, for ``rows`` of the ofmap."""
        ifmap_rows = s.row_step * (rows - 1) + s.row_reach
        weights = filters * channels * s.filter_rows * s.filter_columns
        window = channels * ifmap_rows * s.filter_columns
        fill = ceil_div(weights, self.filter_words_per_cycle) + ceil_div(window, self.ifmap_words_per_cycle)
        positions = s.images * s.columns
        multiply = positions * ceil_div(filters, t) * ceil_div(channels, r) * s.filter_columns
        sums = ceil_div(positions * rows * filters, self.psum_words_per_cycle)
        ifmap = ceil_div(s.images * channels * ifmap_rows * s.ifmap_columns, self.ifmap_words_per_cycle)
        return fill + largest(largest(multiply, sums), ifmap) + s.filter_rows * smallest(r, channels)


_GROUPS = tuple(sorted(k for p in range(8) for k in (1 << p, 3 << p)))
"""Numbers of groups of channels that are tried: powers of two and three times them."""


def _space(task: Task, pairs: Extents) -> _Space:
    def reach(position: Loop, kernel: Loop) -> tuple[int, Count]:
        """(ifmap indices from one position to the next, indices that one position reads)."""
        loops = {d.name: (d.loop, n) for d, n in pairs}
        step, span = 1, 0
        for axis in task.work.reads[0].axes:
            if any(loops[name][0] is position for name, _ in axis.terms):
                step = next(abs(k) for name, k in axis.terms if loops[name][0] is position)
                span = sum(abs(k) * (loops[name][1] - 1) for name, k in axis.terms if loops[name][0] is kernel)
        return step, span + 1

    columns = extent(pairs, Loop.COLUMN)
    row_step, row_reach = reach(Loop.ROW, Loop.KERNEL_ROW)
    column_step, column_reach = reach(Loop.COLUMN, Loop.KERNEL_COLUMN)
    return _Space(
        images=extent(pairs, Loop.BATCH, Loop.DEPTH),
        rows=extent(pairs, Loop.ROW),
        columns=columns,
        filters=extent(pairs, Loop.OUT_CHANNEL),
        channels=extent(pairs, Loop.IN_CHANNEL, Loop.KERNEL_DEPTH),
        filter_rows=extent(pairs, Loop.KERNEL_ROW),
        filter_columns=extent(pairs, Loop.KERNEL_COLUMN),
        row_step=row_step,
        row_reach=row_reach,
        ifmap_columns=column_step * (columns - 1) + column_reach,
        repeats=extent(pairs, Loop.CHANNEL),
    )


def _share(total: Count, most: Count) -> Count:
    """What each of the fewest parts of at most ``most`` takes if ``total`` is spread evenly over them."""
    return ceil_div(total, ceil_div(total, most))


def _cut(total: Count, size: Count) -> tuple[tuple[Count, Count], tuple[Count, Count]]:
    """(number, size) of the whole parts of ``total`` and of what is left."""
    rest = total % size
    return (total // size, size), ((rest > 0) * 1, rest)

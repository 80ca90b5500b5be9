"""The row-stationary array: mappings of published layers, cycles by hand, limits of its scratch pads, refusals."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.hardware import Task
from npusim.hardware.arrays.row_stationary import RowMapping, RowStationary
from npusim.hardware.units.mac_array import MacArray
from npusim.ir.work import Axis, Dim, Loop
from npusim.numerics.types import I4
from tests.hardware.tasks import convolution_task, depthwise_task, extents, product_task, useful_points

EYERISS = RowStationary(
    kind="row_stationary", rows=12, columns=14, filter_words=224, ifmap_words=12, psum_words=24,
    filter_words_per_cycle=4, ifmap_words_per_cycle=1, psum_words_per_cycle=4,
)  # fmt: skip
FREE = replace(EYERISS, filter_words_per_cycle=1 << 20, ifmap_words_per_cycle=1 << 20, psum_words_per_cycle=1 << 20)


def convolution(n: int, e: int, f: int, m: int, r: int, s: int, c: int, stride: int = 1) -> Task:
    """n images, e x f positions, m filters of r x s x c."""
    task = convolution_task((n, e, f), m, (r, s), c)
    work = task.work
    ifmap, *others = work.reads
    axes = tuple(Axis(tuple((d, stride if d in ("oy", "ox") else k) for d, k in a.terms)) for a in ifmap.axes)
    return replace(task, work=replace(work, reads=(replace(ifmap, axes=axes), *others)))


def active_elements(array: RowStationary, task: Task) -> int:
    """Elements at work in a whole pass: r x t sets of the rows of a filter times the rows of the ofmap."""
    m = array.map(task, pairs(task))
    filter_rows = prod(d.extent for d in task.work.dims if d.loop is Loop.KERNEL_ROW)
    return int(filter_rows * m.e * m.r * m.t)


def pairs(task: Task, of: list[int] | None = None) -> list[tuple[Dim, int]]:
    return list(zip(task.work.dims, of or extents(task), strict=True))


def mapping(task: Task, array: RowStationary = EYERISS) -> RowMapping:
    return array.map(task, pairs(task))


def unit(array: RowStationary) -> MacArray:
    return MacArray(
        kind="mac_array", instances=1, array=array, macs_per_cycle={"i8xi8": 1}, accumulators={"i32": "refuse"},  # type: ignore[dict-item]
        accumulator_bytes=0, pipeline_cycles=0,
    )  # fmt: skip


# What the chip's global buffer holds of a layer of AlexNet at a time, and what Chen et al., JSSC 2017, publish of it:
# elements at work and (p, q, r, t).
ALEXNET = {
    "CONV1": (convolution(1, 7, 55, 96, 11, 11, 1, stride=4), 154, (16, 1, 1, 2)),
    "CONV2": (convolution(1, 27, 27, 64, 5, 5, 2), 135, (16, 2, 1, 1)),
    "CONV3": (convolution(4, 13, 13, 64, 3, 3, 4), 156, (16, 4, 1, 4)),
    "CONV4": (convolution(4, 13, 13, 64, 3, 3, 6), 156, (16, 3, 2, 2)),
    "CONV5": (convolution(4, 13, 13, 64, 3, 3, 6), 156, (16, 3, 2, 2)),
}


@pytest.mark.parametrize("layer", ALEXNET)
def test_the_elements_at_work_are_those_of_the_chip(layer: str) -> None:
    task, active, _ = ALEXNET[layer]
    assert active_elements(EYERISS, task) == active


@pytest.mark.parametrize("layer", ALEXNET)
def test_the_mappings_are_the_published_ones(layer: str) -> None:
    """But for p of CONV2, where three passes of 22, 22 and 20 filters take the place of four of 16."""
    task, _, published = ALEXNET[layer]
    m = mapping(task)
    assert (22 if layer == "CONV2" else 16, *published[1:]) == (m.p, m.q, m.r, m.t)


def test_a_pass_bound_by_partial_sums_by_hand() -> None:
    """CONV3: 64 filters in four sets; 52 columns finish a sum every 12 cycles, more than the bus of 4 takes."""
    fill = 64 * 4 * 3 * 3 // 4 + 4 * 15 * 3
    multiplications, sums, ifmap = 4 * 13 * 16 * 4 * 3, 4 * 13 * 13 * 64 // 4, 4 * 4 * 15 * 15
    assert ifmap < multiplications < sums
    assert mapping(ALEXNET["CONV3"][0]).cycles == fill + sums + 3


def test_three_passes_bound_by_multiplications_by_hand() -> None:
    """CONV1: 32 filters a pass; 7 ofmap rows of stride 4 read 35 ifmap rows, a window of which has 11 columns."""
    a_pass = 32 * 11 * 11 // 4 + 35 * 11 + 55 * 16 * 11 + 11
    m = mapping(ALEXNET["CONV1"][0])
    assert (m.cycles, m.filter_passes, m.strips) == (3 * a_pass, 3, 1)


def test_a_pass_bound_by_the_ifmap_by_hand() -> None:
    """One filter: 8 x 8 words of two channels for 6 x 6 x 2 x 3 multiplications an element."""
    task = convolution(1, 6, 6, 1, 3, 3, 2)
    assert mapping(task, replace(EYERISS, columns=6, rows=3)).cycles == -(-18 // 4) + 2 * 8 * 3 + 2 * 8 * 8 + 3


def test_a_folded_set_and_what_is_left_by_hand() -> None:
    """7 ofmap rows on 2 columns, room for two sets: a strip of 4 rows in two parts, one of 3; 3 filters, then 2.

    Two sets of 2 rows for 3 and 2 filters would take 4 strips as long as the longest of these passes.
    """
    array = replace(FREE, rows=4, columns=2, psum_words=3, ifmap_words=2)
    task = convolution(1, 7, 10, 5, 2, 2, 1)
    m = mapping(task, array)
    assert (m.e, m.strips, m.r, m.t) == (4, 2, 1, 1)
    assert (m.p, m.filter_passes) == (3, 2)
    # every pass: a cycle each for weights and window, 10 columns * p filters * 2 taps, 2 elements on the way
    assert m.cycles == 2 * sum(1 + 1 + 10 * p * 2 + 2 for p in (3, 2))
    assert active_elements(array, task) == 2 * 4


def test_channels_left_over_take_their_own_time() -> None:
    """5 channels of which an element holds 2 and two sets 4: 3 in the first pass, 2 in the second."""
    array = replace(FREE, rows=2, columns=1, ifmap_words=2)
    m = mapping(convolution(1, 1, 1, 1, 1, 1, 5), array)
    assert (m.r, m.q) == (2, 2)
    assert m.cycles == (1 + 1 + 1 * 2 + 2) + (1 + 1 + 1 * 1 + 2)


def test_filter_rows_are_shared_along_a_fully_connected_layer() -> None:
    """No rows to slide over: sets are single elements, and all 168 of them work."""
    task = product_task(1, 1024, 256)
    assert active_elements(EYERISS, task) <= 168
    assert mapping(task).cycles >= 1024 * 256 // 168


def test_a_depthwise_convolution_goes_channel_by_channel() -> None:
    one, seven = (mapping(depthwise_task((1, 13, 13), channels, (3, 3))).cycles for channels in (1, 7))
    assert seven == 7 * one


def test_a_wider_bus_for_partial_sums_helps_where_they_bound() -> None:
    task = ALEXNET["CONV3"][0]
    wider = replace(EYERISS, psum_words_per_cycle=8)
    assert mapping(task, wider).cycles == 576 + 180 + 9984 + 3 < mapping(task).cycles


sizes = st.tuples(
    st.integers(1, 3), st.integers(1, 40), st.integers(1, 30), st.integers(1, 70), st.integers(1, 5), st.integers(1, 5),
    st.integers(1, 40),
)  # fmt: skip
arrays = st.builds(
    RowStationary, kind=st.just("row_stationary"), rows=st.integers(5, 12), columns=st.integers(1, 14),
    filter_words=st.integers(5, 224), ifmap_words=st.integers(5, 20), psum_words=st.integers(1, 24),
    filter_words_per_cycle=st.integers(1, 4), ifmap_words_per_cycle=st.integers(1, 4),
    psum_words_per_cycle=st.integers(1, 8),
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(arrays, sizes)
def test_mappings_fit_the_array_and_do_all_the_work(array: RowStationary, size: tuple[int, ...]) -> None:
    task = convolution(*size)
    _, e, f, m, r, s, c = size
    found = array.map(task, pairs(task))
    assert found.p * found.q * s <= array.filter_words
    assert found.q * s <= array.ifmap_words and found.p <= array.psum_words
    parts = -(-found.e // array.columns)
    beside = 1 if parts > 1 else array.columns // found.e
    assert found.r * found.t <= array.rows // r // parts * beside
    assert 1 <= active_elements(array, task) <= array.macs
    assert found.e * found.strips >= e and found.p * found.t * found.filter_passes >= m
    assert found.cycles * array.macs >= useful_points(task)  # at most 100 % utilisation
    assert found.cycles >= -(-prod((size[0], e, f, m)) // array.psum_words_per_cycle)
    assert found.q * (found.r - 1) < c


@settings(max_examples=15, deadline=None)
@given(arrays, st.lists(sizes, min_size=2, max_size=6))
def test_arrays_of_candidates_cost_what_each_of_them_costs(array: RowStationary, some: list[tuple[int, ...]]) -> None:
    """Boxes of one task, weighed one by one and all at once."""
    task = convolution(3, 40, 30, 70, 5, 5, 40)
    columns = [np.asarray(column, np.int64) for column in zip(*some, strict=True)]
    together = array.map(task, list(zip(task.work.dims, columns, strict=True)))
    for i, size in enumerate(some):
        alone = array.map(task, pairs(task, list(size)))
        assert tuple(int(np.broadcast_to(x, len(some))[i]) for x in together) == alone


def test_operands_are_read_once_a_pass() -> None:
    """Of the unit: the ifmap for each pass over filters, weights for each strip, a bias once."""
    task = ALEXNET["CONV1"][0]
    assert unit(EYERISS).passes(task, extents(task)) == (3, 1, 1)
    tall = convolution(1, 70, 10, 8, 3, 3, 2)
    assert unit(EYERISS).passes(tall, extents(tall)) == (1, 2, 1)


def test_the_unit_counts_the_same_cycles_at_its_rate() -> None:
    task = ALEXNET["CONV3"][0]
    assert unit(EYERISS).cycles(task, extents(task)) == mapping(task).cycles
    assert unit(EYERISS).peak_per_cycle(task) == (168, 1)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ((13, 1), "filters of 13 rows need as many rows of elements; the array has 12"),
        ((1, 13), "filter rows of 13 words do not fit scratch pads of 12; enlarge them"),
    ],
)
def test_filters_that_fit_no_set_are_refused(kernel: tuple[int, int], message: str) -> None:
    task = convolution_task((1, 8, 8), 4, kernel, 2)
    assert unit(EYERISS).refuses(task) == message
    assert unit(replace(EYERISS, rows=13, ifmap_words=13)).refuses(task) is None


def test_rates_and_accumulators_are_asked_for_first() -> None:
    task = replace(convolution_task((1, 8, 8), 4, (13, 1), 2), operands=(I4, I4))
    refusal = unit(EYERISS).refuses(task)
    assert refusal is not None and "no rate for i4xi4" in refusal


def test_only_every_other_tap_of_a_strided_transposed_convolution_works() -> None:
    task = convolution_task((1, 8, 8), 4, (4, 4), 2, every=2)
    assert [d.loop for d in task.work.dims if d.every == 2] == [Loop.KERNEL_ROW, Loop.KERNEL_COLUMN]
    assert unit(EYERISS).cycles(task, extents(task)) == mapping(convolution_task((1, 8, 8), 4, (2, 2), 2)).cycles


def test_its_name_says_what_lies_on_rows_and_columns() -> None:
    assert EYERISS.names == ("row stationary (kernel_row on 12 rows, row on 14 columns)",)

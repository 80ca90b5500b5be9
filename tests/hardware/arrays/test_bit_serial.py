"""The bit-serial array: cycles against phases counted one after the other and by hand, what it refuses, its reads."""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.config import load_text
from npusim.errors import ConfigError
from npusim.frontends.chip import load_chip
from npusim.hardware import Task
from npusim.hardware.arrays.bit_serial import BitSerial
from npusim.hardware.units.mac_array import MacArray
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.types import I4, I8, I32
from tests.hardware.tasks import convolution_task, depthwise_task, extents


def unit(chip: str, **changes: Any) -> MacArray:
    found = load_chip(chip).units[0]
    assert isinstance(found, MacArray)
    assert isinstance(found.array, BitSerial)
    return dataclasses.replace(found, array=dataclasses.replace(found.array, **changes))  # type: ignore[call-arg]


def strided(task: Task, stride: int) -> Task:
    """The task with a stride."""
    rows, columns = (Axis(((f"o{a}", stride), (f"k{a}", 1))) for a in "yx")
    first = task.work.reads[0]
    reads = (dataclasses.replace(first, axes=(first.axes[0], rows, columns, first.axes[3])), *task.work.reads[1:])
    return dataclasses.replace(task, work=dataclasses.replace(task.work, reads=reads))


def vector_task(inputs: int, outputs: int) -> Task:
    """A fully connected layer for one vector."""
    dims = (
        Dim("n", 1, Loop.BATCH),
        Dim("oc", outputs, Loop.OUT_CHANNEL),
        Dim("ic", inputs, Loop.IN_CHANNEL, reduce=True),
    )
    reads = (Access(0, (along("n"), along("ic"))), Access(1, (along("oc"), along("ic"))))
    work = Work(UnitKind.MAC, dims, reads, Access(-1, (along("n"), along("oc"))), macs=True)
    return Task("fully_connected", (I8, I8), I32, work)


def walked(task: Task, array: BitSerial, bits: int, stride: int = 1) -> int:
    """Cycles of every phase of every subtile, one after the other; only for a word a cycle."""
    size = {d.name: d.extent for d in task.work.dims}
    depthwise, wide = "c" in size, size["ky"] == 3
    step = array.rows // stride + (array.rows % stride > 0), array.columns // stride + (array.columns % stride > 0)
    channels = size["c" if depthwise else "oc"]
    block = array.in_channels if depthwise else array.out_channels
    halo = 2 if wide else 0
    cycles = 0
    for _, top, left, first in product(
        range(size["n"]), range(0, size["oy"], step[0]), range(0, size["ox"], step[1]), range(0, channels, block)
    ):
        k = min(block, channels - first)
        for _ in range(1 if depthwise else -(-size["ic"] // array.in_channels)):
            load = array.load_latency_cycles if wide else array.pointwise_load_latency_cycles
            cycles += load + (array.rows + halo) * (array.columns + halo)
            cycles += array.offset_cycles + (k if depthwise else 0)
            words = -(-k // array.depthwise_channels) * bits if depthwise else k * (bits if wide else 1)
            cycles += array.product_latency_cycles + words + array.next_cycles
        rows, columns = min(step[0], size["oy"] - top), min(step[1], size["ox"] - left)
        used = [r * stride * array.columns + c * stride for r in range(rows) for c in range(columns)]
        stored = array.rows * array.columns if array.stores_idle_positions else max(used) + 1
        cycles += array.requantise_latency_cycles + k + array.store_latency_cycles + stored
    return cycles


sizes = st.integers(1, 9)
tasks = st.one_of(
    st.builds(depthwise_task, st.tuples(st.integers(1, 2), sizes, sizes), st.integers(1, 70), st.just((3, 3))),
    st.builds(
        convolution_task,
        st.tuples(st.integers(1, 2), sizes, sizes),
        st.integers(1, 70),
        st.sampled_from([(1, 1), (3, 3)]),
        st.integers(1, 70),
    ),
)


@settings(deadline=None, max_examples=200)
@given(tasks, st.sampled_from(["gap9", "neureka"]), st.sampled_from([1, 2]))
def test_phases_follow_each_other(task: Task, chip: str, stride: int) -> None:
    """One channel a cycle is requantised, so that no rounding hides anything."""
    engine = unit(chip, requantise_channels_per_cycle=1, words_per_cycle=1)
    assert isinstance(engine.array, BitSerial)
    task = strided(task, stride)
    assert engine.cycles(task, extents(task)) == walked(task, engine.array, 8, stride)
    numerator, denominator = engine.peak_per_cycle(task)
    points = int(np.prod([d.extent for d in task.work.dims]))
    assert points * denominator <= engine.cycles(task, extents(task)) * numerator


def test_a_3x3_subtile_of_ne16_by_hand() -> None:
    """16 input channels, 32 outputs, 3 x 3 positions: load 6 + 25, offset 6, products 6 + 32 * 8, next 2; then
    requantisation 25 + 32 / 4 + 32 / 8 and a store of 4 + 9."""
    task = convolution_task((1, 3, 3), 32, (3, 3), 16)
    assert unit("gap9").cycles(task, extents(task)) == 31 + 6 + 262 + 2 + 37 + 13
    more = convolution_task((1, 3, 3), 32, (3, 3), 17)  # another group of input channels
    assert unit("gap9").cycles(more, extents(more)) == 2 * (31 + 6 + 262 + 2) + 37 + 13
    assert unit("gap9").peak_per_cycle(task) == (162, 1)


def test_bits_count_in_3x3_and_lie_side_by_side_in_1x1() -> None:
    wide, narrow = convolution_task((1, 3, 3), 32, (3, 3), 16), convolution_task((1, 3, 3), 32, (1, 1), 16)
    for task, saved in ((wide, 32 * 4), (narrow, 0)):
        four = dataclasses.replace(task, operands=(I8, I4, I32))
        assert unit("gap9").cycles(task, extents(task)) - unit("gap9").cycles(four, extents(task)) == saved


def test_depthwise_channels_come_one_by_one_in_ne16_and_side_by_side_in_n_eureka() -> None:
    task = depthwise_task((1, 3, 3), 16, (3, 3))
    ne16 = 31 + (6 + 16) + (6 + 16 * 8) + 2 + (25 + 6) + 13
    assert unit("gap9").cycles(task, extents(task)) == ne16
    assert ne16 - unit("gap9", depthwise_channels=16).cycles(task, extents(task)) == 15 * 8


def test_every_second_position_is_lost_at_stride_2() -> None:
    task = strided(convolution_task((1, 2, 2), 32, (3, 3), 16), 2)
    one = unit("gap9").cycles(task, extents(task))
    four = strided(convolution_task((1, 4, 4), 32, (3, 3), 16), 2)
    assert unit("gap9").cycles(four, extents(four)) == 4 * one


def test_a_vector_takes_256_inputs_at_once() -> None:
    """Load 6 + 8 words, offset 6, products 6 + 10 * 8, next 2, requantisation 25 + ceil(10 * 3 / 8), store 4 + 9."""
    task = vector_task(256, 10)
    assert unit("gap9").cycles(task, extents(task)) == 14 + 6 + 86 + 2 + 29 + 13
    more = vector_task(257, 10)
    assert unit("gap9").cycles(more, extents(more)) == 2 * (14 + 6 + 86 + 2) + 29 + 13
    as_a_position = 10 + 9 + 6 + 16 + 2
    pointwise = unit("gap9", linear_in_channels=None).cycles(task, extents(task))
    assert pointwise == 16 * as_a_position + 29 + 13


def test_a_slower_memory_stretches_loads_and_products() -> None:
    task = convolution_task((1, 3, 3), 32, (3, 3), 16)
    slow = unit("gap9", words_per_cycle="2/3").cycles(task, extents(task))
    assert slow - unit("gap9").cycles(task, extents(task)) == (38 - 25) + 256 // 2


@settings(deadline=None)
@given(tasks, st.data())
def test_arrays_of_candidates_cost_what_each_costs(task: Task, data: st.DataObject) -> None:
    engine = unit(data.draw(st.sampled_from(["gap9", "neureka"])))
    fixed = [d.loop.value.startswith("kernel") for d in task.work.dims]
    boxes = [
        [d.extent if f else data.draw(st.integers(1, d.extent)) for d, f in zip(task.work.dims, fixed, strict=True)]
        for _ in range(3)
    ]
    columns = [np.asarray(c, np.int64) for c in zip(*boxes, strict=True)]
    assert engine.cycles(task, columns).tolist() == [engine.cycles(task, box) for box in boxes]
    for many, *each in zip(engine.passes(task, columns), *(engine.passes(task, box) for box in boxes), strict=True):
        assert np.broadcast_to(many, 3).tolist() == each


def test_inputs_are_read_for_every_block_and_weights_for_every_subtile() -> None:
    task = convolution_task((1, 6, 4), 64, (3, 3), 16)
    assert unit("gap9").passes(task, extents(task)) == (2 * 3, 2 * 2, 1)  # 25 words for 9 positions: 3 times


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            convolution_task((1, 3, 3), 4, (5, 5), 4),
            "has kernels of 1x1 and 3x3, not 5x5; give the layer to another unit",
        ),
        (depthwise_task((1, 3, 3), 4, (1, 1)), "has depthwise kernels of 3x3, not 1x1; give the layer to another unit"),
        (strided(convolution_task((1, 3, 3), 4, (3, 3), 4), 3), "has strides 1 and 2, the same both ways, not 3, 3"),
        (
            convolution_task((1, 3, 3), 4, (3, 3), 4, every=2),
            "has no transposed convolution; give the layer to another",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(task: Task, message: str) -> None:
    assert message in str(unit("gap9").refuses(task))


def test_dilation_is_refused() -> None:
    task = convolution_task((1, 3, 3), 4, (3, 3), 4)
    rows = Axis((("oy", 1), ("ky", 2)))
    first = task.work.reads[0]
    reads = (dataclasses.replace(first, axes=(first.axes[0], rows, *first.axes[2:])), *task.work.reads[1:])
    task = dataclasses.replace(task, work=dataclasses.replace(task.work, reads=reads))
    assert "has no dilation; give the layer to another unit" in str(unit("gap9").refuses(task))


def test_operators_that_are_not_listed_are_refused() -> None:
    cores = load_chip("gap9").units[1]
    assert cores.refuses(convolution_task((1, 3, 3), 4, (5, 5), 4)) is None
    refused = cores.refuses(depthwise_task((1, 3, 3), 4, (3, 3)))
    assert refused == "unit 'cores_mac' takes conv2d, fully_connected; add depthwise_conv2d to its operators"


def test_more_than_a_word_a_cycle_is_refused() -> None:
    values = {f.name: getattr(unit("gap9").array, f.name) for f in dataclasses.fields(BitSerial)} | {
        "words_per_cycle": 2
    }
    text = "\n".join(f"{k}: {str(v).lower() if isinstance(v, bool) else v}" for k, v in values.items())
    with pytest.raises(ConfigError, match="words_per_cycle: a step takes one word of weights; 2 is more than 1"):
        load_text(text, BitSerial, "array")

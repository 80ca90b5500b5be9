"""The popcount unit's cycles for real operators: the folding formula, times the bit planes."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest

from npusim.hardware.base import Task
from npusim.hardware.units.popcount import PopcountUnit
from npusim.ir.taps import dense_points, points_inside
from npusim.ops import Bound, Op
from npusim.ops.binary_conv2d import BinaryConv2d
from npusim.ops.bitserial_conv2d import BitserialConv2d
from npusim.ops.bitserial_matmul import BitserialMatmul
from tests.ops.popcount import bound_to

BINARY = BinaryConv2d(stride=(1, 1), dilation=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), pad_value="zero")
SERIAL = BitserialConv2d(stride=(1, 1), dilation=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), pad_value="zero")
SHAPES: list[Any] = [(2, 100, 7, 5), (70, 100, 3, 3)]


def unit(lanes: int, word_bits: int, pipeline_cycles: int = 0) -> PopcountUnit:
    return PopcountUnit(kind="popcount", instances=1, lanes=lanes, word_bits=word_bits, pipeline_cycles=pipeline_cycles)


def task(bound: Bound) -> Task:
    return Task(bound.op.name, tuple(t.dtype for t in bound.operands), bound.accumulator, bound.work)


@pytest.mark.parametrize(("lanes", "word_bits"), [(1, 1), (32, 256), (16, 64), (70, 900), (128, 1024), (33, 7)])
@pytest.mark.parametrize(
    ("op", "types", "planes"),
    [
        (BINARY, ("u1", "u1"), 1),
        (replace(BINARY, layout="nhwc"), ("u1", "u1"), 1),
        (SERIAL, ("u1", "u1"), 1),
        (SERIAL, ("u3", "u2"), 6),
        (SERIAL, ("i8", "i8"), 64),
        (replace(SERIAL, input_bits=5, weight_kind="bipolar"), ("u8", "u1"), 5),
        (replace(SERIAL, input_kind="ternary", weight_kind="ternary"), ("i2", "i2"), 2),
        (replace(SERIAL, weight_kind="ternary"), ("u4", "i2"), 8),
    ],
)
def test_cycles_are_the_folds_times_the_planes(
    lanes: int, word_bits: int, op: Any, types: tuple[str, str], planes: int
) -> None:
    shapes = SHAPES if op.layout == "nchw" else [(2, 7, 5, 100), (70, 3, 3, 100)]
    bound = bound_to(op, shapes, *types)[0]
    extents = [d.extent for d in bound.work.dims]
    positions, bits = 2 * 7 * 5, 100 * 3 * 3
    expected = ceil(70 / lanes) * ceil(bits / word_bits) * positions * planes
    assert unit(lanes, word_bits).cycles(task(bound), extents) == expected
    assert unit(lanes, word_bits, 4).cycles(task(bound), extents) == expected + 4


def test_cycles_of_many_candidates_at_once() -> None:
    bound = bound_to(SERIAL, SHAPES, "u3", "u2")[0]
    tiles = [[1, 7, 5, 70, 3, 3, 100, 3, 2], [2, 1, 5, 32, 1, 3, 7, 3, 2], [1, 1, 1, 1, 1, 1, 1, 3, 2]]
    columns = list(np.array(tiles).T)
    each = [unit(32, 64).cycles(task(bound), t) for t in tiles]
    assert unit(32, 64).cycles(task(bound), columns).tolist() == each


def test_a_product_of_matrices() -> None:
    bound = bound_to(BitserialMatmul(), [(5, 300), (300, 40)], "u2", "i4")[0]
    assert unit(16, 128).cycles(task(bound), [5, 40, 300, 2, 4]) == 5 * ceil(40 / 16) * ceil(300 / 128) * 8


@pytest.mark.parametrize(("op", "types", "planes"), [(BINARY, ("u1", "u1"), 1), (SERIAL, ("u3", "u2"), 6)])
def test_full_utilisation_is_full_lanes_and_words(op: Op, types: tuple[str, str], planes: int) -> None:
    """A multiply-accumulate counts once, and takes as many passes as it has planes."""
    bound = bound_to(op, [(1, 64, 4, 4), (32, 64, 3, 3)], *types)[0]
    popcount = unit(32, 64)
    cycles = popcount.cycles(task(bound), [d.extent for d in bound.work.dims])
    numerator, denominator = popcount.peak_per_cycle(task(bound))
    assert (numerator, denominator) == (32 * 64, planes)
    assert dense_points(bound.work) == 32 * 64 * 9 * 16
    assert dense_points(bound.work) * denominator == cycles * numerator


def test_planes_are_left_out_of_the_taps_inside_the_image() -> None:
    plain, serial = (bound_to(op, SHAPES, *t)[0] for op, t in ((BINARY, ("u1", "u1")), (SERIAL, ("u3", "u2"))))
    inside = [points_inside(b.work, b.work.reads[0], b.operands[0].shape) for b in (plain, serial)]
    assert inside[0] == inside[1] == 2 * 100 * 70 * (7 * 3 - 2) * (5 * 3 - 2)

"""Tests of the bit-serial convolution: all widths and kinds against plain loops, tilings, planes, rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.taps import dense_points
from npusim.ir.work import Loop
from npusim.ops.bitserial_conv2d import BitserialConv2d
from tests.ops.popcount import (
    AUTO_PADS,
    OPERANDS,
    bound_to,
    convolution,
    elements,
    kinds,
    levels,
    limits,
    number,
    pads,
    pair,
    random_stage,
    run,
)
from tests.ops.tiling import check_tiled, random_tiles

PLAIN = BitserialConv2d(stride=(1, 1), dilation=(1, 1), pads_begin=(0, 0), pads_end=(0, 0), pad_value="zero")
SHAPES: list[Any] = [(1, 2, 4, 4), (3, 2, 3, 3)]


def conv(x: tuple[str, str, int | None], w: tuple[str, str, int | None], **more: Any) -> BitserialConv2d:
    return replace(PLAIN, input_kind=x[0], input_bits=x[2], weight_kind=w[0], weight_bits=w[2], **more)


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", OPERANDS, ids=str)
def test_every_width_with_every_width(x: tuple[str, str, int | None]) -> None:
    rng = np.random.default_rng(len(x[1]) + (x[2] or 0))
    for w in OPERANDS:
        op = conv(x, w, pads_begin=(1, 0), pads_end=(0, 1))
        arrays = [elements(rng, (1, 3, 2, 2), x), elements(rng, (2, 3, 2, 2), w)]
        expected = convolution(*arrays, op, number(x[0]), number(w[0]))
        np.testing.assert_array_equal(run(op, arrays, x[1], w[1]), expected, str(w))


@pytest.mark.parametrize("seed", range(60))
def test_every_tiling_gives_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = (OPERANDS[int(i)] for i in rng.integers(0, len(OPERANDS), 2))
    while True:
        op = conv(
            x,
            w,
            stride=pair(rng, 1, 2),
            dilation=pair(rng, 1, 2),
            pads_begin=pair(rng, 0, 1, 3),
            pads_end=pair(rng, 0, 1, 2),
            auto_pad=str(rng.choice(AUTO_PADS)),
            groups=int(rng.choice([1, 1, 2])),
            layout=str(rng.choice(["nchw", "nhwc"])),
        )
        size, kernel = pair(rng, 1, 3, 4, 6), pair(rng, 1, 2, 3)
        around = pads(op, size, kernel)
        if all(size[i] + sum(around[i]) >= (kernel[i] - 1) * op.dilation[i] + 1 for i in (0, 1)):
            break
    low, high = (-1, 1) if x[0] == "bipolar" else limits(*x)
    legal = [p for p, v in (("minus_one", -1), ("zero", 0), ("plus_one", 1)) if low <= v <= high]
    op = replace(op, pad_value=str(rng.choice(legal)))
    depth, filters = int(rng.choice([1, 2, 9])), int(rng.integers(1, 4)) * op.groups
    arrays = [elements(rng, (2, depth * op.groups, *size), x), elements(rng, (filters, depth, *kernel), w)]
    if op.layout == "nhwc":
        arrays = [a.transpose(0, 2, 3, 1).copy() for a in arrays]
    expected = convolution(*arrays, op, number(x[0]), number(w[0]))
    names = [x[1], w[1]]
    if rng.random() < 0.3:
        stage = random_stage(rng, filters, 40, 3)
        op = replace(op, out_type="i3", offset=-2, compare=str(rng.choice(["gt", "ge"])))
        expected = levels(expected, 1 if op.layout == "nchw" else 3, stage[0], stage[1], op)
        arrays, names = [*arrays, *stage], [*names, "i32", "u1"]
    types = kinds(arrays, *names)
    got = check_tiled(op, arrays, types, random_tiles(rng, op.bind(types).work))
    np.testing.assert_array_equal(got, expected)


def test_the_largest_numbers_of_8_bits() -> None:
    ones = np.ones((1, 4, 1, 1), np.int64)
    assert run(PLAIN, [255 * ones, 255 * ones], "u8", "u8").item() == 4 * 255 * 255
    assert run(PLAIN, [-128 * ones, -128 * ones], "i8", "i8").item() == 4 * 128 * 128
    assert run(PLAIN, [255 * ones, -128 * ones], "u8", "i8").item() == -4 * 255 * 128


def test_sums_at_the_end_of_the_accumulator_are_exact() -> None:
    """33025 products of 255 * 255 are the most that int32 holds."""
    ones = np.full((1, 33025, 1, 1), 255)
    assert run(PLAIN, [ones, ones], "u8", "u8").item() == 33025 * 255 * 255
    message = r"rule accumulator_range\), got sums of 33026 products in 0..2147515650"
    with pytest.raises(InvalidGraphError, match=message):
        bound_to(PLAIN, [(1, 33026, 1, 1), (1, 33026, 1, 1)], "u8", "u8")


def test_ternary_against_the_two_counts_of_its_planes() -> None:
    """popc(z) - 2 popc((sa xor sw) and z), where z marks the places at which neither is zero."""
    rng = np.random.default_rng(4)
    a, w = rng.integers(-1, 2, (2, 300))
    z = (a != 0) & (w != 0)
    expected = int(z.sum()) - 2 * int((((a < 0) ^ (w < 0)) & z).sum())
    op = replace(PLAIN, input_kind="ternary", weight_kind="ternary")
    assert run(op, [a.reshape(1, 300, 1, 1), w.reshape(1, 300, 1, 1)], "i2", "i2").item() == expected


# -- work -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "types", "planes"),
    [
        (PLAIN, ("u1", "u1"), {}),
        (PLAIN, ("u3", "i8"), {"input_plane": 3, "weight_plane": 8}),
        (replace(PLAIN, input_bits=5), ("i8", "u1"), {"input_plane": 5}),
        (replace(PLAIN, weight_kind="bipolar"), ("u4", "u1"), {"input_plane": 4}),
        (replace(PLAIN, input_kind="ternary", weight_kind="ternary"), ("i2", "i2"), {"ternary_pass": 2}),
        (replace(PLAIN, weight_kind="ternary"), ("u2", "i2"), {"input_plane": 2, "ternary_pass": 2}),
        (replace(PLAIN, input_kind="ternary", weight_kind="bipolar"), ("i8", "u1"), {"ternary_pass": 2}),
    ],
)
def test_planes_are_dimensions_of_the_work(op: BitserialConv2d, types: tuple[str, str], planes: dict[str, int]) -> None:
    work = bound_to(op, SHAPES, *types)[0].work
    found = {d.name: d.extent for d in work.dims if d.loop is Loop.BIT_PLANE}
    assert found == planes
    assert all(d.reduce and not d.splittable for d in work.dims if d.loop is Loop.BIT_PLANE)
    assert dense_points(work) == 3 * 2 * 2 * 18


# -- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "types", "message"),
    [
        ({"input_kind": "float"}, ("u1", "u1"), r"rule kind\), got input_kind 'float'"),
        ({"weight_kind": "binary"}, ("u1", "u1"), r"rule kind\), got weight_kind 'binary'"),
        ({"input_kind": "bipolar"}, ("i2", "u1"), r"rule kind_type\), got input_kind bipolar for i2"),
        ({"weight_kind": "ternary"}, ("u1", "u2"), r"rule kind_type\), got weight_kind ternary for u2"),
        ({"input_bits": 4}, ("u3", "u1"), r"rule bits\), got input_bits 4 for input_kind integer of u3"),
        ({"weight_bits": 0}, ("u1", "i8"), r"rule bits\), got weight_bits 0"),
        (
            {"input_kind": "bipolar", "input_bits": 1},
            ("u1", "u1"),
            r"rule bits\), got input_bits 1 for input_kind bipolar",
        ),
        ({"pad_value": "minus_one"}, ("u2", "u1"), r"rule pad_range\), got pad_value minus_one for numbers in 0..3"),
        (
            {"pad_value": "plus_one", "input_bits": 1},
            ("i8", "u1"),
            r"rule pad_range\), got pad_value plus_one .* -1..0",
        ),
        ({}, ("i16", "u1"), r"rule operand_types\), got input i16 for u1, u2, u3, u4, u8, i2, i3, i4, i8"),
        ({}, ("u1", "i32"), r"rule operand_types\), got weight i32"),
        ({"out_type": "i8"}, ("u4", "u4"), r"rule sum_range\), got sums of 18 products in 0..4050 for out_type i8"),
        ({"stride": (0, 1)}, ("u1", "u1"), r"rule stride_positive\), got stride \[0, 1\]"),
    ],
)
def test_rules(change: dict[str, Any], types: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"bitserial_conv2d: .*{message}"):
        bound_to(replace(PLAIN, **change), SHAPES, *types)


@pytest.mark.parametrize(
    ("change", "types", "bad", "message"),
    [
        ({"input_bits": 3}, ("u8", "u1"), 0, r"got input 8 at index \[0, 1, 2, 3\]"),
        ({"input_bits": 4}, ("i8", "u1"), 0, r"got input 8 at index \[0, 1, 2, 3\]"),
        ({"input_kind": "ternary"}, ("i8", "u1"), 0, r"got input 8 at index \[0, 1, 2, 3\]"),
        ({"weight_bits": 2}, ("u1", "u8"), 1, r"got weight 8 at index \[0, 1, 2, 2\]"),
        ({"weight_kind": "ternary"}, ("u1", "i8"), 1, r"got weight 8 at index \[0, 1, 2, 2\]"),
    ],
)
def test_numbers_beyond_their_bits(change: dict[str, Any], types: tuple[str, str], bad: int, message: str) -> None:
    arrays = [np.zeros(s, np.int64) for s in SHAPES]
    arrays[bad][0, 1, 2, 3 - bad] = 8
    with pytest.raises(UnpredictableError, match=rf"bitserial_conv2d: elements .*\(rule number_range\), {message}"):
        run(replace(PLAIN, **change), arrays, *types)

"""Tests of CONV2D, and of the rules and arithmetic that the operators with weights share."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.box import Box
from npusim.ir.work import Loop, UnitKind
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import DTYPES, I32
from npusim.ops import evaluate_bound
from npusim.ops.conv2d import Conv2d
from tests.ops.convolution import (
    I14,
    WEIGHTED_TYPES,
    Accumulator,
    bind,
    evaluate,
    read,
    sliding_convolution,
    small_bias,
    tensors,
    zero_point,
)
from tests.ops.tiling import check_tiled, fold_tiles, indices, random_array, random_tiles

PLAIN = Conv2d(pad=(0, 0, 0, 0), stride=(1, 1), dilation=(1, 1))
I8_TYPES = ("i8", "i8", "i32")
SHAPES = ((1, 4, 4, 2), (3, 3, 3, 2), (3,))


def conv(op: Conv2d, x: Any, w: Any, bias: Any = (0,), types: tuple[str, ...] = I8_TYPES) -> list[int]:
    return evaluate(op, [x, w, bias], types).ravel().tolist()


# -- values ---------------------------------------------------------------------------------------------------------


def random_case(rng: np.random.Generator, types: tuple[str, ...]) -> tuple[Conv2d, list[tuple[int, ...]]]:
    """Attributes and shapes that are legal in both dialects or, at random, only in the seed."""
    k, s, d = rng.integers(1, 4, 2), rng.integers(1, 4, 2), rng.integers(1, 3, 2)
    pad = rng.integers(0, 4, 4)
    size = rng.integers(1, 7, 2)
    travel = [int(size[i] - 1 + pad[2 * i] + pad[2 * i + 1] - (k[i] - 1) * d[i]) for i in (0, 1)]
    for i in (0, 1):
        if travel[i] < 0:
            pad[2 * i] -= travel[i]
    exact = all(max(0, t) % s[i] == 0 for i, t in enumerate(travel))
    ic, oc = (int(c) for c in rng.integers(1, 5, 2))
    op = Conv2d(
        pad=tuple(map(int, pad)),
        stride=tuple(map(int, s)),
        dilation=tuple(map(int, d)),
        input_zp=zero_point(rng, DTYPES[types[0]]),
        weight_zp=zero_point(rng, DTYPES[types[1]]),
        dialect="tosa" if exact else "seed",
    )
    n = int(rng.integers(1, 3))
    shapes = [(n, *map(int, size), ic), (oc, *map(int, k), ic), (oc,) if rng.random() < 0.7 else (1,)]
    return op, shapes


@pytest.mark.parametrize("types", WEIGHTED_TYPES)
@pytest.mark.parametrize("seed", range(25))
def test_every_tiling_gives_the_definition(types: tuple[str, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    op, shapes = random_case(rng, types)
    kinds = tensors(shapes, types)
    arrays = [random_array(rng, kinds[0]), random_array(rng, kinds[1]), small_bias(rng, kinds[2])]
    bound = op.bind(kinds)
    got = check_tiled(op, arrays, kinds, random_tiles(rng, bound.work))
    expected = sliding_convolution(*arrays, op, bound.accumulator, bound.output.shape[1:3])
    np.testing.assert_array_equal(got, expected)


IMAGE = np.arange(1, 50).reshape(1, 7, 7, 1)
KERNEL = np.array([1, 2, 3, 4]).reshape(1, 2, 2, 1)


@pytest.mark.parametrize(
    ("pad", "stride", "dilation", "expected"),
    [
        ((0, 0, 0, 1), (2, 2), (2, 3), [126, 146, 62, 266, 286, 118, 406, 426, 174]),
        ((0, 0, 0, 0), (3, 5), (3, 1), [163, 213, 373, 423]),
        (
            (2, 1, 1, 1),
            (2, 2),
            (3, 2),
            [36, 71, 85, 39, 96, 179, 199, 87, 180, 319, 339, 143, 60, 94, 100, 34],
        ),
    ],
)
def test_stride_and_dilation_are_y_then_x(pad: Any, stride: Any, dilation: Any, expected: list[int]) -> None:
    assert conv(Conv2d(pad, stride, dilation), IMAGE, KERNEL) == expected


def test_padding_reads_as_the_zero_point() -> None:
    op = replace(PLAIN, pad=(1, 1, 1, 1), input_zp=-128)
    x, w = np.full((1, 3, 3, 1), -128), np.arange(1, 10).reshape(1, 3, 3, 1)
    assert conv(op, x, w, [7]) == [7] * 9
    both = replace(PLAIN, pad=(1, 1, 1, 1), input_zp=-3, weight_zp=2)
    assert conv(both, np.arange(4).reshape(1, 2, 2, 1), w) == [97, 79, 43, 25]


@pytest.mark.parametrize("weight", [127, -128])
def test_products_are_never_added_in_16_bits(weight: int) -> None:
    op = replace(PLAIN, input_zp=-128)
    x = np.full((1, 1, 1, 2), 127)
    assert conv(op, x, np.full((1, 1, 1, 2), weight)) == [2 * 255 * weight]


def test_16x8_accumulates_in_48_bits() -> None:
    x, w = np.full((1, 1, 1, 600), 32767), np.full((1, 1, 1, 600), 127)
    assert conv(PLAIN, x, w, [0], ("i16", "i8", "i48")) == [2496845400]
    assert conv(PLAIN, x, w, [-(1 << 40)], ("i16", "i8", "i48")) == [-1097014782376]


def test_a_kernel_larger_than_the_input_is_legal_where_padding_makes_it_so() -> None:
    w = np.full((1, 3, 3, 8), 100)
    w[0, 1, 1] = 3
    op = replace(PLAIN, pad=(1, 1, 1, 1))
    assert conv(op, np.full((1, 1, 1, 8), 2), w) == [48]
    assert op.bind(tensors([(1, 1, 1, 8), (1, 3, 3, 8), (1,)], I8_TYPES)).work.points == 72


# -- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pad", "dialect", "size"),
    [
        ((0, 0, 0, 0), "seed", 3),
        ((0, 1, 0, 1), "seed", 4),
        ((1, 1, 1, 1), "seed", 4),
        ((0, 1, 0, 1), "tosa", 4),
        ((1, 0, 1, 0), "tosa", 4),
    ],
)
def test_output_sizes_floor_in_the_seed(pad: Any, dialect: str, size: int) -> None:
    op = Conv2d(pad, (2, 2), (1, 1), dialect=dialect)
    assert bind(op, [(1, 8, 8, 1), (1, 3, 3, 1), (1,)], I8_TYPES) == (1, size, size, 1)


@pytest.mark.parametrize("pad", [(0, 0, 0, 0), (1, 1, 1, 1)])
def test_output_sizes_divide_exactly_in_tosa(pad: Any) -> None:
    op = Conv2d(pad, (2, 2), (1, 1))
    with pytest.raises(
        InvalidGraphError, match=r"rule exact_division\), got remainder 1 along spatial axis 0 .*stride"
    ):
        bind(op, [(1, 8, 8, 1), (1, 3, 3, 1), (1,)], I8_TYPES)


# -- rules ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stride": (0, 1)}, r"every stride must be at least 1 \(rule stride_positive\), got stride \[0, 1\]"),
        ({"dilation": (1, 0)}, r"rule dilation_positive\), got dilation \[1, 0\]"),
        ({"pad": (-1, 0, 0, 0)}, r"rule pad_not_negative\), got pad \[-1, 0, 0, 0\]"),
        ({"dilation": (2, 2)}, r"rule kernel_fits\), got input \[4, 4\], kernel \[3, 3\], .*dilation \[2, 2\]"),
        ({"pad": (0, 0)}, r"rule attribute_length\), got pad \[0, 0\] for 4 entries"),
        ({"stride": (1, 1, 1)}, r"rule attribute_length\), got stride \[1, 1, 1\] for 2"),
        ({"dilation": ()}, r"rule attribute_length\), got dilation \[\] for 2"),
        ({"dialect": "tflite"}, r"rule dialect\), got dialect 'tflite'"),
        ({"input_zp": 128}, r"rule zero_point_range\), got input_zp 128"),
        ({"weight_zp": -129}, r"rule zero_point_range\), got weight_zp -129"),
    ],
)
def test_attribute_rules(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"conv2d: .*{message}"):
        bind(replace(PLAIN, **change), SHAPES, I8_TYPES)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((4, 4, 2), (3, 3, 3, 2), (3,)), r"rule rank\), got input of shape \[4, 4, 2\] for \[N, H, W, C\]"),
        (((1, 4, 4, 2), (3, 3, 2), (3,)), r"rule rank\), got weight of shape \[3, 3, 2\] for \[OC, KH, KW, IC\]"),
        (((1, 4, 4, 2), (3, 3, 3, 2), (1, 3)), r"rule rank\), got bias of shape \[1, 3\] for \[OC\]"),
        (
            ((1, 4, 4, 2), (3, 3, 3, 1), (3,)),
            r"rule channels_match\), got weight \[3, 3, 3, 1\] for input \[1, 4, 4, 2\]",
        ),
        (((1, 4, 4, 2), (3, 3, 3, 2), (2,)), r"rule bias_shape\), got bias \[2\] for 3 output channels"),
        (((1, 0, 4, 2), (3, 3, 3, 2), (3,)), r"input has shape \[1, 0, 4, 2\]"),
        (((1, 4, 4, 2), (3, 0, 3, 2), (3,)), r"weight has shape \[3, 0, 3, 2\]"),
    ],
)
def test_shape_rules(shapes: Any, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"conv2d.*{message}"):
        bind(PLAIN, shapes, I8_TYPES)


@pytest.mark.parametrize(
    ("change", "types", "message"),
    [
        ({"input_zp": 1}, ("i16", "i8", "i48"), r"rule zero_point\), got input_zp 1 for i16"),
        ({"weight_zp": 1}, ("i8", "i4", "i32"), r"rule zero_point\), got weight_zp 1 for i4"),
        ({"input_zp": 1}, ("f32", "f32", "f32"), r"rule zero_point\), got input_zp 1 for f32"),
        ({}, ("i8", "i8", "i48"), "no type rule for input i8, weight i8, bias i48"),
        ({}, ("i16", "i16", "i48"), "no type rule for input i16, weight i16, bias i48"),
    ],
)
def test_type_rules(change: dict[str, Any], types: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        bind(replace(PLAIN, **change), SHAPES, types)


# -- overflow -------------------------------------------------------------------------------------------------------


def overflowing() -> tuple[Conv2d, list[np.ndarray[Any, Any]]]:
    """Output [0, 0, 1, 1] passes 2^31 - 1 by its products; its bias would bring it back."""
    x, w = np.zeros((1, 1, 2, 33026), np.int8), np.zeros((2, 1, 1, 33026), np.int8)
    x[0, 0, 1], w[1] = 127, 127
    return replace(PLAIN, input_zp=-128, weight_zp=-128), [x, w, np.array([0, -65025], np.int32)]


def test_a_partial_sum_outside_the_accumulator_is_refused() -> None:
    op, arrays = overflowing()
    with pytest.raises(
        UnpredictableError, match=r"conv2d: partial sum 2147515650 at output index \[0, 0, 1, 1\].* i32"
    ):
        evaluate(op, arrays, I8_TYPES)


def test_the_policies_wrap_and_saturate_partial_sums() -> None:
    op, arrays = overflowing()
    wrap, saturate = Overflow("wrap"), Overflow("saturate")
    assert evaluate(op, arrays, I8_TYPES, counter=wrap)[0, 0, 1, 1] == 65025 * 33025
    assert wrap.events == 2
    assert evaluate(op, arrays, I8_TYPES, counter=saturate)[0, 0, 1, 1] == I32.maximum - 65025
    assert saturate.events == 1


def test_tiles_name_the_absolute_output_index() -> None:
    op, arrays = overflowing()
    bound = op.bind(tensors([x.shape for x in arrays], I8_TYPES))
    with pytest.raises(UnpredictableError, match=r"partial sum 2147515650 at output index \[0, 0, 1, 1\]"):
        fold_tiles(bound, arrays, {"ox": 1, "oc": 1, "ic": 1000}, Overflow())


@pytest.mark.parametrize("policy", ["wrap", "saturate"])
@pytest.mark.parametrize("seed", range(8))
def test_partial_sums_follow_the_policy(policy: Policy, seed: int) -> None:
    """In a narrow accumulator the order shows: kernel row, kernel column, channel, then the bias."""
    rng = np.random.default_rng(200 + seed)
    op, shapes = random_case(rng, I8_TYPES)
    kinds = tensors(shapes, I8_TYPES)
    x, w = random_array(rng, kinds[0]), random_array(rng, kinds[1]) // 8
    bias = rng.integers(-8000, 8000, shapes[2])
    bound = replace(op.bind(kinds), accumulator=I14)
    acc, whole, tiled = Accumulator(I14, policy), Overflow(policy), Overflow(policy)
    expected = np.zeros(bound.output.shape, np.int16)
    for n, oy, ox, oc in indices(expected.shape):
        total = 0
        for ky, kx, ic in indices(w.shape[1:]):
            iy = oy * op.stride[0] + ky * op.dilation[0] - op.pad[0]
            ix = ox * op.stride[1] + kx * op.dilation[1] - op.pad[2]
            total = acc.add(total, read(x, (n, iy, ix, ic), op.input_zp) * (int(w[oc, ky, kx, ic]) - op.weight_zp))
        expected[n, oy, ox, oc] = acc.add(total, int(bias[oc % len(bias)]))
    np.testing.assert_array_equal(evaluate_bound(bound, [x, w, bias], whole), expected)
    narrow = replace(bound, output=replace(bound.output, dtype=I14))
    tiles = {"n": 1, "oy": 2, "ox": 1, "oc": 2, "ky": 1}
    np.testing.assert_array_equal(fold_tiles(narrow, [x, w, bias], tiles, tiled), expected)
    assert whole.events == tiled.events == acc.events


def test_a_bias_that_overflows_is_refused() -> None:
    x, w = np.ones((1, 1, 3, 1)), np.ones((2, 1, 1, 1))
    limit = I32.maximum - 1
    assert conv(PLAIN, x, w, [limit]) == [I32.maximum] * 6
    with pytest.raises(UnpredictableError, match=r"sum with bias 2147483648 at output index \[0, 0, 0, 1\]"):
        evaluate(PLAIN, [x, w, [0, I32.maximum]], I8_TYPES)
    counter = Overflow("saturate")
    assert evaluate(PLAIN, [x, w, [0, I32.maximum]], I8_TYPES, counter=counter).max() == I32.maximum
    assert counter.events == 3


# -- work -----------------------------------------------------------------------------------------------------------


def test_work_speaks_the_common_loops() -> None:
    work = PLAIN.bind(tensors(SHAPES, I8_TYPES)).work
    assert [d.loop for d in work.dims] == [
        Loop.BATCH,
        Loop.ROW,
        Loop.COLUMN,
        Loop.OUT_CHANNEL,
        Loop.KERNEL_ROW,
        Loop.KERNEL_COLUMN,
        Loop.IN_CHANNEL,
    ]
    assert [d.name for d in work.dims if d.reduce] == ["ky", "kx", "ic"]
    assert work.unit is UnitKind.MAC and work.macs
    assert work.points == 2 * 2 * 3 * 3 * 3 * 2
    assert [a.final for a in work.reads] == [False, False, True]


def test_only_integer_sums_may_be_split_inside() -> None:
    integer = PLAIN.bind(tensors(SHAPES, I8_TYPES)).work
    floating = PLAIN.bind(tensors(SHAPES, ("f32",) * 3)).work
    assert all(d.splittable for d in integer.dims)
    assert [d.name for d in floating.dims if not d.splittable] == ["kx", "ic"]


def test_a_large_image_is_described_without_being_made() -> None:
    shapes = [(1, 1080, 1920, 32), (8, 3, 3, 32), (8,)]
    bound = PLAIN.bind(tensors(shapes, I8_TYPES))
    assert bound.output.shape == (1, 1078, 1918, 8)
    assert bound.work.points == 4763759616


# -- cost -----------------------------------------------------------------------------------------------------------


def test_a_residual_network_layer_takes_milliseconds() -> None:
    """3x3, 64 to 64 channels on 56 x 56: milliseconds on one core; the limit leaves room for a busy one."""
    rng = np.random.default_rng(0)
    op = replace(PLAIN, pad=(1, 1, 1, 1), input_zp=-128)
    kinds = tensors([(1, 56, 56, 64), (64, 3, 3, 64), (64,)], I8_TYPES)
    arrays = [random_array(rng, kinds[0]), random_array(rng, kinds[1]), small_bias(rng, kinds[2])]
    bound = op.bind(kinds)
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        evaluate_bound(bound, arrays, Overflow())
        took.append(time.perf_counter() - begin)
    assert min(took) < 0.1


@pytest.mark.parametrize(
    ("shapes", "pad", "stride"),
    [
        ([(1, 1, 9000, 2), (3, 1, 8192, 2), (1,)], (0, 0, 0, 0), (1, 1)),
        ([(1, 65535, 1, 8), (16, 1, 1, 8), (1,)], (0, 0, 0, 0), (1, 1)),
        ([(1, 300, 300, 16), (4, 9, 9, 16), (1,)], (4, 4, 4, 4), (1, 1)),
    ],
)
def test_long_axes_stay_small(shapes: Any, pad: Any, stride: Any) -> None:
    """Step by itself: its temporaries stay below 256 MiB where the whole im2col matrix would take 470 MB."""
    bound = Conv2d(pad, stride, (1, 1)).bind(tensors(shapes, I8_TYPES))
    operands = [np.ones(a.footprint(bound.work.index, bound.work.space).shape, np.int8) for a in bound.work.reads[:2]]
    tracemalloc.start()
    out = bound.op.step(bound, None, [*operands, np.empty(0)], bound.work.space, Overflow())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    weights = shapes[1]
    assert (out == weights[1] * weights[2] * weights[3]).all()
    assert peak < 256 << 20


def test_step_needs_no_bias_and_finish_nothing_else() -> None:
    bound = PLAIN.bind(tensors(SHAPES, I8_TYPES))
    operands = [np.ones(SHAPES[0], np.int8), np.ones(SHAPES[1], np.int8), np.empty(0)]
    acc = bound.op.step(bound, None, operands, bound.work.space, Overflow())
    box = Box((0, 0, 0, 1, 0, 0, 0), (1, 2, 2, 3, 3, 3, 2))
    out = bound.op.finish(bound, acc[..., 1:], [np.empty(0), np.empty(0), np.array([5, 6], np.int32)], box, Overflow())
    assert out.shape == (1, 2, 2, 2)
    assert (out[..., 0] == 23).all() and (out[..., 1] == 24).all()

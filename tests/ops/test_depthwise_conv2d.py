"""Tests of DEPTHWISE_CONV2D; rules that it shares with CONV2D are tested there."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.work import Loop, UnitKind
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import DTYPES, I32
from npusim.ops import evaluate_bound
from npusim.ops.depthwise_conv2d import DepthwiseConv2d
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

PLAIN = DepthwiseConv2d(pad=(0, 0, 0, 0), stride=(1, 1), dilation=(1, 1))
I8_TYPES = ("i8", "i8", "i32")
SHAPES = ((1, 4, 4, 2), (3, 3, 2, 3), (6,))


def random_case(rng: np.random.Generator, types: tuple[str, ...]) -> tuple[DepthwiseConv2d, list[tuple[int, ...]]]:
    size, k, s, d = (rng.integers(1, n, 2) for n in (7, 4, 4, 3))
    pad = rng.integers(0, 3, 4)
    for i in (0, 1):
        pad[2 * i] += max(0, (k[i] - 1) * d[i] + 1 - size[i])
    op = DepthwiseConv2d(
        pad=tuple(map(int, pad)),
        stride=tuple(map(int, s)),
        dilation=tuple(map(int, d)),
        input_zp=zero_point(rng, DTYPES[types[0]]),
        weight_zp=zero_point(rng, DTYPES[types[1]]),
        dialect="seed",
    )
    n, c, m = int(rng.integers(1, 3)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    return op, [(n, *map(int, size), c), (*map(int, k), c, m), (c * m,) if rng.random() < 0.7 else (1,)]


@pytest.mark.parametrize("types", WEIGHTED_TYPES)
@pytest.mark.parametrize("seed", range(25))
def test_every_tiling_gives_the_definition(types: tuple[str, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    op, shapes = random_case(rng, types)
    kinds = tensors(shapes, types)
    arrays = [random_array(rng, kinds[0]), random_array(rng, kinds[1]), small_bias(rng, kinds[2])]
    bound = op.bind(kinds)
    got = check_tiled(op, arrays, kinds, random_tiles(rng, bound.work))
    expected = sliding_convolution(*arrays, op, bound.accumulator, bound.output.shape[1:3], depthwise=True)
    np.testing.assert_array_equal(got, expected)


def test_output_channels_are_grouped_by_input_channel() -> None:
    x = np.array([1, 10]).reshape(1, 1, 1, 2)
    w = np.arange(1, 7).reshape(1, 1, 2, 3)
    assert evaluate(PLAIN, [x, w, np.zeros(6)], I8_TYPES).ravel().tolist() == [1, 2, 3, 40, 50, 60]


@pytest.mark.parametrize("channels", [(0, 6), (1, 2), (2, 5), (3, 6), (5, 6)])
def test_a_box_of_channels_may_begin_inside_a_group(channels: tuple[int, int]) -> None:
    bound = PLAIN.bind(tensors(SHAPES, I8_TYPES))
    box = bound.work.space._replace(
        lo=(0, 0, 0, channels[0], 0, 0), hi=(*bound.work.space.hi[:3], channels[1], *bound.work.space.hi[4:])
    )
    x, w = (a.footprint(bound.work.index, box) for a in bound.work.reads[:2])
    assert (x.lo[3], x.hi[3]) == (w.lo[2], w.hi[2]) == (channels[0] // 3, (channels[1] - 1) // 3 + 1)
    assert (w.lo[3], w.hi[3]) == (0, 3)


def overflowing() -> tuple[DepthwiseConv2d, list[np.ndarray[Any, Any]]]:
    """Output [0, 0, 0, 4], fed by channel 1, passes 2^31 - 1; its bias would bring it back."""
    x, w = np.zeros((1, 5, 7000, 2), np.int8), np.zeros((5, 7000, 2, 3), np.int8)
    x[..., 1], w[..., 1, 1] = 127, 127
    op = replace(PLAIN, input_zp=-128, weight_zp=-128)
    x[..., 0] = -128
    w[..., 0], w[..., 1, [0, 2]] = -128, -128
    w[..., 1, 1] = 127
    return op, [x, w, np.array([0, 0, 0, 0, -(1 << 30), 0], np.int32)]


def test_a_partial_sum_outside_the_accumulator_is_refused() -> None:
    op, arrays = overflowing()
    text = r"depthwise_conv2d: partial sum 2147515650 at output index \[0, 0, 0, 4\] is outside i32"
    with pytest.raises(UnpredictableError, match=text):
        evaluate(op, arrays, I8_TYPES)
    bound = op.bind(tensors([a.shape for a in arrays], I8_TYPES))
    with pytest.raises(UnpredictableError, match=text):
        fold_tiles(bound, arrays, {"c": 4, "ky": 2}, Overflow("refuse", "depthwise_conv2d"))


def test_the_policies_wrap_and_saturate_partial_sums() -> None:
    op, arrays = overflowing()
    wrap, saturate = Overflow("wrap"), Overflow("saturate")
    total = 65025 * 35000
    assert evaluate(op, arrays, I8_TYPES, counter=wrap).ravel().tolist() == [0, 0, 0, 0, total - (1 << 30), 0]
    assert wrap.events == 2
    assert evaluate(op, arrays, I8_TYPES, counter=saturate).ravel()[4] == I32.maximum - (1 << 30)
    assert saturate.events == 35000 - 33025


@pytest.mark.parametrize("policy", ["wrap", "saturate"])
@pytest.mark.parametrize("seed", range(8))
def test_partial_sums_follow_the_policy(policy: Policy, seed: int) -> None:
    """In a narrow accumulator the order shows: kernel row, kernel column, then the bias."""
    rng = np.random.default_rng(200 + seed)
    op, shapes = random_case(rng, I8_TYPES)
    kinds = tensors(shapes, I8_TYPES)
    x, w, bias = random_array(rng, kinds[0]), random_array(rng, kinds[1]) // 2, rng.integers(-8000, 8000, shapes[2])
    bound = replace(op.bind(kinds), accumulator=I14)
    acc, whole, tiled = Accumulator(I14, policy), Overflow(policy), Overflow(policy)
    expected = np.zeros(bound.output.shape, np.int16)
    for n, oy, ox, oc in indices(expected.shape):
        total = 0
        c, m = divmod(oc, w.shape[3])
        for ky, kx in indices(w.shape[:2]):
            iy = oy * op.stride[0] + ky * op.dilation[0] - op.pad[0]
            ix = ox * op.stride[1] + kx * op.dilation[1] - op.pad[2]
            total = acc.add(total, read(x, (n, iy, ix, c), op.input_zp) * (int(w[ky, kx, c, m]) - op.weight_zp))
        expected[n, oy, ox, oc] = acc.add(total, int(bias[oc % len(bias)]))
    np.testing.assert_array_equal(evaluate_bound(bound, [x, w, bias], whole), expected)
    narrow = replace(bound, output=replace(bound.output, dtype=I14))
    tiles = {"n": 1, "oy": 2, "ox": 1, "c": 2, "ky": 1}
    np.testing.assert_array_equal(fold_tiles(narrow, [x, w, bias], tiles, tiled), expected)
    assert whole.events == tiled.events == acc.events


@pytest.mark.parametrize(
    ("change", "shapes", "message"),
    [
        ({"stride": (1, 0)}, SHAPES, r"rule stride_positive\), got stride \[1, 0\]"),
        ({"dilation": (0, 1)}, SHAPES, r"rule dilation_positive\), got dilation \[0, 1\]"),
        ({"pad": (0, -2, 0, 0)}, SHAPES, r"rule pad_not_negative\), got pad \[0, -2, 0, 0\]"),
        ({"stride": (2, 1)}, SHAPES, r"rule exact_division"),
        ({"dilation": (2, 2)}, SHAPES, r"rule kernel_fits"),
        ({"dialect": "TOSA"}, SHAPES, r"rule dialect\), got dialect 'TOSA'"),
        ({}, ((1, 4, 4), *SHAPES[1:]), r"rule rank\), got input of shape \[1, 4, 4\]"),
        ({}, (SHAPES[0], (3, 3, 2), SHAPES[2]), r"rule rank\), got weight of shape \[3, 3, 2\] for \[KH, KW, C, M\]"),
        ({}, (SHAPES[0], (3, 3, 3, 2), SHAPES[2]), r"rule channels_match\), got weight \[3, 3, 3, 2\] for input"),
        ({}, (*SHAPES[:2], (3,)), r"rule bias_shape\), got bias \[3\] for 6 output channels"),
        ({"input_zp": 200}, SHAPES, r"rule zero_point_range\), got input_zp 200"),
    ],
)
def test_rules(change: dict[str, Any], shapes: Any, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"depthwise_conv2d: .*{message}"):
        bind(replace(PLAIN, **change), shapes, I8_TYPES)


def test_zero_points_are_for_int8_only() -> None:
    with pytest.raises(InvalidGraphError, match=r"rule zero_point\), got weight_zp 3 for i4"):
        bind(replace(PLAIN, weight_zp=3), SHAPES, ("i8", "i4", "i32"))


@pytest.mark.parametrize(("batch", "points"), [(1, 3612672), (4, 14450688)])
def test_the_count_of_macs_is_that_of_a_depthwise_layer(batch: int, points: int) -> None:
    op = replace(PLAIN, pad=(1, 1, 1, 1))
    bound = op.bind(tensors([(batch, 112, 112, 32), (3, 3, 32, 1), (32,)], I8_TYPES))
    assert bound.output.shape == (batch, 112, 112, 32)
    assert bound.work.points == points and bound.work.macs and bound.work.unit is UnitKind.MAC
    assert bound.work.dims[3].loop is Loop.CHANNEL


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 1, 8200, 2), (1, 8192, 2, 1), (2,)),
        ((1, 8200, 2, 1), (8192, 2, 1, 3), (3,)),
        ((1, 65535, 2, 4), (3, 1, 4, 2), (1,)),
        ((1, 2, 2, 65535), (2, 2, 65535, 1), (1,)),
    ],
)
def test_long_axes_stay_small(shapes: Any) -> None:
    bound = PLAIN.bind(tensors(shapes, I8_TYPES))
    operands = [np.ones(s, np.int8) for s in shapes[:2]]
    tracemalloc.start()
    out = bound.op.step(bound, None, [*operands, np.empty(0)], bound.work.space, Overflow())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (out == shapes[1][0] * shapes[1][1]).all()
    assert peak < 256 << 20


def test_float_products_are_added_tap_after_tap() -> None:
    """1e8 + 4 - 1e8 is 0 in float32 where 1e8 - 1e8 + 4 would be 4."""
    x = np.array([1e8, 4, -1e8], np.float32)
    for order in product(range(3), repeat=3):
        if sorted(order) == [0, 1, 2]:
            taps = x[list(order)]
            total = np.float32(np.float32(taps[0] + taps[1]) + taps[2])
            got = evaluate(PLAIN, [taps.reshape(1, 1, 3, 1), np.ones((1, 3, 1, 1)), [0]], ("f32",) * 3)
            assert got.ravel().tolist() == [total]

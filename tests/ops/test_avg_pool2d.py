"""Tests of AVG_POOL2D; rules that poolings share are tested with MAX_POOL2D."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import DTYPES, I32
from npusim.ops import evaluate_bound
from npusim.ops.avg_pool2d import AvgPool2d
from tests.ops.convolution import I14, Accumulator, bind, evaluate, tensors, zero_point
from tests.ops.pooling import inside, random_attributes
from tests.ops.tiling import check_tiled, fold_tiles, indices, random_array, random_tiles

PLAIN = AvgPool2d(kernel=(2, 2), stride=(2, 2), pad=(0, 0, 0, 0))


def half_away(x: Fraction) -> int:
    return floor(x + Fraction(1, 2)) if x >= 0 else ceil(x - Fraction(1, 2))


@pytest.mark.parametrize("dtype", ["i8", "i16", "f32"])
@pytest.mark.parametrize("seed", range(30))
def test_every_tiling_gives_the_definition(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    attributes, shape = random_attributes(rng)
    zps = {"input_zp": zero_point(rng, DTYPES[dtype]), "output_zp": zero_point(rng, DTYPES[dtype])}
    op = AvgPool2d(**attributes, **zps)
    (kind,) = kinds = tensors([shape], [dtype])
    x = random_array(rng, kind)
    bound = op.bind(kinds)
    got = check_tiled(op, [x], kinds, random_tiles(rng, bound.work))
    for n, oy, ox, c in indices(got.shape):
        taps = [x[n, iy, ix, c] for iy, ix in inside(op, x.shape, oy, ox)]
        if dtype == "f32":
            total = np.float32(0)
            for v in taps:
                total = np.float32(total + v)
            assert got[n, oy, ox, c] == np.float32(total / np.float32(len(taps)))
        else:
            mean = half_away(Fraction(sum(int(v) - op.input_zp for v in taps), len(taps))) + op.output_zp
            assert got[n, oy, ox, c] == min(max(mean, kind.dtype.minimum), kind.dtype.maximum)


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([-3, -3, -2, -2], -3),
        ([3, 3, 2, 2], 3),
        ([-1, -1, -1, -3], -2),
        ([1, 1, 1, 3], 2),
        ([127, 127, 127, 126], 127),
        ([-128, -128, -128, -127], -128),
    ],
)
def test_a_half_goes_away_from_zero(values: list[int], mean: int) -> None:
    assert evaluate(PLAIN, [np.reshape(values, (1, 2, 2, 1))], ["i8"]).item() == mean


def test_the_mean_is_of_the_taps_inside_the_image() -> None:
    op = AvgPool2d((3, 3), (1, 1), (1, 1, 1, 1))
    assert evaluate(op, [np.reshape([10, 20, 30, 40], (1, 2, 2, 1))], ["i8"]).ravel().tolist() == [25] * 4
    shifted = replace(op, input_zp=-128, output_zp=5)
    x = np.reshape([-128, -100, -72, -44, -16, 12, 40, 68, 96], (1, 3, 3, 1))
    assert evaluate(shifted, [x], ["i8"]).ravel().tolist() == [61, 75, 89, 103, 117, 127, 127, 127, 127]


@pytest.mark.parametrize(
    ("change", "dtype", "message"),
    [
        ({"kernel": (0, 2)}, "i8", r"rule kernel_positive\), got kernel \[0, 2\]"),
        ({"stride": (0, 2)}, "i8", r"rule stride_positive\), got stride \[0, 2\]"),
        ({"pad": (2, 0, 0, 0)}, "i8", r"rule pad_below_kernel\), got pad \[2, 0, 0, 0\]"),
        ({"pad": (-1, 0, 0, 0)}, "i8", r"rule pad_not_negative\), got pad \[-1, 0, 0, 0\]"),
        ({"kernel": (3, 2)}, "i8", r"rule exact_division\), got remainder 1 along spatial axis 0"),
        ({"kernel": (5, 2)}, "i8", r"rule kernel_fits"),
        ({"dialect": "1.0"}, "i8", r"rule dialect\), got dialect '1.0'"),
        ({"pad": (0,)}, "i8", r"rule attribute_length\), got pad \[0\]"),
        ({"input_zp": 1}, "i16", r"rule zero_point\), got input_zp 1 for i16"),
        ({"output_zp": 1}, "f32", r"rule zero_point\), got output_zp 1 for f32"),
        ({"output_zp": 128}, "i8", r"rule zero_point_range\), got output_zp 128"),
        ({}, "i32", r"no type rule for input i32"),
    ],
)
def test_rules(change: dict[str, Any], dtype: str, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"avg_pool2d: .*{message}"):
        bind(replace(PLAIN, **change), [(1, 4, 4, 1)], [dtype])


def test_rank() -> None:
    with pytest.raises(InvalidGraphError, match=r"avg_pool2d: .*rule rank\), got input of shape \[4, 4\]"):
        bind(PLAIN, [(4, 4)], ["i8"])


def test_a_pooling_sum_outside_int32_is_refused() -> None:
    """65536 int16 values of -32768 make -2^31, which fits; one more does not."""
    x = np.full((1, 256, 257, 2), -32768, np.int16)
    x[..., 0] = 0
    fits = AvgPool2d((256, 256), (1, 1), (0, 0, 0, 0))
    assert evaluate(fits, [x[:, :, :256]], ["i16"]).ravel().tolist() == [0, -32768]
    assert evaluate(fits, [x], ["i16"]).ravel().tolist() == [0, -32768] * 2
    wide = AvgPool2d((256, 257), (1, 1), (0, 0, 0, 0))
    text = rf"avg_pool2d: pooling sum {-(1 << 31) - 32768} at output index \[0, 0, 0, 1\] is outside i32"
    with pytest.raises(UnpredictableError, match=text):
        evaluate(wide, [x], ["i16"])
    bound = wide.bind(tensors([x.shape], ["i16"]))
    with pytest.raises(UnpredictableError, match=text):
        fold_tiles(bound, [x], {"c": 1, "ky": 100}, Overflow("refuse", "avg_pool2d"))
    counter = Overflow("saturate")
    got = evaluate(wide, [x], ["i16"], counter=counter)
    assert got.ravel().tolist() == [0, half_away(Fraction(I32.minimum, 256 * 257))]
    assert counter.events == 256


@pytest.mark.parametrize("policy", ["wrap", "saturate"])
@pytest.mark.parametrize("seed", range(10))
def test_partial_sums_follow_the_policy(policy: Policy, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-32768, 32768, (1, 5, 6, 2)) // 6
    op = AvgPool2d((3, 4), (2, 2), (1, 1, 1, 1), dialect="seed")
    bound = replace(op.bind(tensors([x.shape], ["i16"])), accumulator=I14)
    acc, whole, tiled = Accumulator(I14, policy), Overflow(policy), Overflow(policy)
    expected = np.zeros(bound.output.shape, np.int16)
    for n, oy, ox, c in indices(expected.shape):
        taps, total = inside(op, x.shape, oy, ox), 0
        for iy, ix in taps:
            total = acc.add(total, int(x[n, iy, ix, c]))
        expected[n, oy, ox, c] = half_away(Fraction(total, len(taps)))
    np.testing.assert_array_equal(evaluate_bound(bound, [x.astype(np.int16)], whole), expected)
    tiles = {"oy": 2, "ox": 1, "c": 1, "ky": 1}
    np.testing.assert_array_equal(fold_tiles(bound, [x.astype(np.int16)], tiles, tiled), expected)
    assert whole.events == tiled.events == acc.events > 0


@pytest.mark.parametrize(
    ("kernel", "shape", "pad"),
    [
        ((8192, 3), (1, 8192, 3, 2), (0, 0, 0, 0)),
        ((1, 8192), (1, 2, 5, 3), (0, 0, 8191, 8187)),
        ((8192, 8192), (1, 3, 3, 1), (8191, 8190, 8191, 8190)),
    ],
)
def test_long_kernels_stay_small(kernel: tuple[int, int], shape: tuple[int, ...], pad: tuple[int, ...]) -> None:
    """Step on one output of the corner: the footprint aside, nothing of the kernel's size is made."""
    bound = AvgPool2d(kernel, (1, 1), pad, input_zp=-128).bind(tensors([shape], ["i8"]))
    box = bound.work.space._replace(hi=(1, 1, 1, shape[3], *kernel))
    x = np.full(bound.work.reads[0].footprint(bound.work.index, box).shape, -128, np.int8)
    x[:, -1, -1] = 100
    tracemalloc.start()
    acc = bound.op.step(bound, None, [x], box, Overflow())
    out = bound.op.finish(bound, acc, [x], box, Overflow())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    rows, columns = (max(0, kernel[i] - pad[2 * i]) for i in (0, 1))
    count = min(rows, shape[1]) * min(columns, shape[2])
    assert acc.ravel().tolist() == [228] * shape[3]
    assert out.ravel().tolist() == [min(127, half_away(Fraction(228, count)))] * shape[3]
    assert peak < 256 << 20

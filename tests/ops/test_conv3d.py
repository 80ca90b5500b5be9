"""Tests of CONV3D; rules and arithmetic that it shares with CONV2D are tested there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ir.work import Loop
from npusim.numerics.types import DTYPES
from npusim.ops.conv3d import Conv3d
from tests.ops.convolution import WEIGHTED_TYPES, bind, evaluate, sliding_convolution, small_bias, tensors, zero_point
from tests.ops.tiling import check_tiled, random_array, random_tiles

PLAIN = Conv3d(pad=(0,) * 6, stride=(1, 1, 1), dilation=(1, 1, 1))
I8_TYPES = ("i8", "i8", "i32")


def random_case(rng: np.random.Generator, types: tuple[str, ...]) -> tuple[Conv3d, list[tuple[int, ...]]]:
    size, k, s, d = (rng.integers(1, n, 3) for n in (5, 3, 3, 3))
    pad = rng.integers(0, 3, 6)
    for i in range(3):
        pad[2 * i] += max(0, (k[i] - 1) * d[i] + 1 - size[i])
    op = Conv3d(
        pad=tuple(map(int, pad)),
        stride=tuple(map(int, s)),
        dilation=tuple(map(int, d)),
        input_zp=zero_point(rng, DTYPES[types[0]]),
        weight_zp=zero_point(rng, DTYPES[types[1]]),
        dialect="seed",
    )
    n, ic, oc = (int(c) for c in rng.integers(1, 4, 3))
    return op, [(n, *map(int, size), ic), (oc, *map(int, k), ic), (oc,) if rng.random() < 0.7 else (1,)]


@pytest.mark.parametrize("types", WEIGHTED_TYPES)
@pytest.mark.parametrize("seed", range(12))
def test_every_tiling_gives_the_definition(types: tuple[str, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    op, shapes = random_case(rng, types)
    kinds = tensors(shapes, types)
    arrays = [random_array(rng, kinds[0]), random_array(rng, kinds[1]), small_bias(rng, kinds[2])]
    bound = op.bind(kinds)
    got = check_tiled(op, arrays, kinds, random_tiles(rng, bound.work))
    expected = sliding_convolution(*arrays, op, bound.accumulator, bound.output.shape[1:4])
    np.testing.assert_array_equal(got, expected)


def test_attributes_are_depth_then_y_then_x() -> None:
    """One input element, seen through a kernel that tells its taps apart."""
    x = np.zeros((1, 5, 5, 5, 1))
    x[0, 4, 2, 1] = 1
    w = np.arange(1, 13).reshape(1, 3, 2, 2, 1)
    op = Conv3d(pad=(0, 1, 0, 0, 1, 0), stride=(1, 2, 3), dilation=(2, 1, 1), dialect="seed")
    got = evaluate(op, [x, w, [0]], I8_TYPES)
    assert got.shape == (1, 2, 2, 2, 1)
    # Depth 4 is tap 2 of position 0; row 2 tap 0 of position 1; column 1 (2 with its pad) no tap of 0 or 3.
    assert not got.any()
    x[0, 4, 2, 1], x[0, 4, 2, 2] = 0, 1
    assert evaluate(op, [x, w, [0]], I8_TYPES).ravel().tolist() == [0, 0, 0, 9, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("change", "shapes", "message"),
    [
        ({"pad": (0, 0, 0, 0)}, None, r"rule attribute_length\), got pad \[0, 0, 0, 0\] for 6 entries"),
        ({"stride": (1, 1)}, None, r"rule attribute_length\), got stride \[1, 1\] for 3"),
        ({"stride": (1, 1, 0)}, None, r"rule stride_positive\), got stride \[1, 1, 0\]"),
        ({"dilation": (0, 1, 1)}, None, r"rule dilation_positive\), got dilation \[0, 1, 1\]"),
        ({"pad": (0, 0, 0, 0, 0, -1)}, None, r"rule pad_not_negative\), got pad"),
        ({"dilation": (3, 1, 1)}, None, r"rule kernel_fits\), got input \[4, 4, 4\], kernel \[3, 3, 3\]"),
        ({"stride": (1, 1, 2)}, None, r"rule exact_division\), got remainder 1 along spatial axis 2"),
        ({}, [(1, 4, 4, 2), (3, 3, 3, 3, 2), (3,)], r"got input of shape \[1, 4, 4, 2\] for \[N, D, H, W, C\]"),
        ({}, [(1, 4, 4, 4, 2), (3, 3, 3, 2), (3,)], r"got weight of shape .* for \[OC, KD, KH, KW, IC\]"),
        ({}, [(1, 4, 4, 4, 2), (3, 3, 3, 3, 5), (3,)], r"rule channels_match"),
        ({}, [(1, 4, 4, 4, 2), (3, 3, 3, 3, 2), (4,)], r"rule bias_shape\), got bias \[4\] for 3"),
    ],
)
def test_rules(change: dict[str, Any], shapes: Any, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"conv3d: .*{message}"):
        bind(replace(PLAIN, **change), shapes or [(1, 4, 4, 4, 2), (3, 3, 3, 3, 2), (3,)], I8_TYPES)


def test_work_has_a_depth() -> None:
    work = PLAIN.bind(tensors([(1, 4, 4, 4, 2), (3, 3, 3, 3, 2), (3,)], I8_TYPES)).work
    assert [(d.name, d.extent) for d in work.dims] == [
        ("n", 1), ("od", 2), ("oy", 2), ("ox", 2), ("oc", 3), ("kd", 3), ("ky", 3), ("kx", 3), ("ic", 2),
    ]  # fmt: skip
    assert work.dims[1].loop is Loop.DEPTH and work.dims[5].loop is Loop.KERNEL_DEPTH
    assert work.macs

"""Tests of MAX_POOL2D, and of the rules that poolings share."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ir.work import Loop, UnitKind
from npusim.numerics.overflow import Overflow
from npusim.ops.max_pool2d import MaxPool2d
from tests.ops.convolution import bind, evaluate, tensors
from tests.ops.pooling import inside, random_attributes
from tests.ops.tiling import check_tiled, indices, random_array, random_tiles

PLAIN = MaxPool2d(kernel=(2, 2), stride=(1, 1), pad=(0, 0, 0, 0))


@pytest.mark.parametrize("dtype", ["i8", "i16", "f32"])
@pytest.mark.parametrize("seed", range(25))
def test_every_tiling_gives_the_definition(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    attributes, shape = random_attributes(rng)
    op = MaxPool2d(**attributes)
    (kind,) = kinds = tensors([shape], [dtype])
    x = random_array(rng, kind)
    bound = op.bind(kinds)
    got = check_tiled(op, [x], kinds, random_tiles(rng, bound.work))
    for n, oy, ox, c in indices(got.shape):
        assert got[n, oy, ox, c] == max(x[n, iy, ix, c] for iy, ix in inside(op, x.shape, oy, ox))


def test_padded_taps_are_ignored() -> None:
    x = np.array([-100, -90, -80, -128]).reshape(1, 2, 2, 1)
    whole = MaxPool2d((3, 3), (1, 1), (1, 1, 1, 1))
    assert evaluate(whole, [x], ["i8"]).ravel().tolist() == [-80] * 4
    corners = MaxPool2d((2, 2), (1, 1), (1, 1, 1, 1))
    expected = [-100, -90, -90, -80, -80, -90, -80, -80, -128]
    assert evaluate(corners, [x], ["i8"]).ravel().tolist() == expected


def test_padded_taps_are_ignored_beside_minus_infinity() -> None:
    x = np.full((1, 2, 2, 1), -np.inf, np.float32)
    got = evaluate(MaxPool2d((2, 2), (1, 1), (1, 1, 1, 1)), [x], ["f32"])
    assert (got == -np.inf).all()


@pytest.mark.parametrize(
    ("change", "shape", "message"),
    [
        ({"kernel": (0, 2)}, (1, 4, 4, 1), r"rule kernel_positive\), got kernel \[0, 2\]"),
        ({"stride": (1, -1)}, (1, 4, 4, 1), r"rule stride_positive\), got stride \[1, -1\]"),
        ({"pad": (0, 0, -1, 0)}, (1, 4, 4, 1), r"rule pad_not_negative\), got pad \[0, 0, -1, 0\]"),
        ({"pad": (2, 0, 0, 0)}, (1, 4, 4, 1), r"rule pad_below_kernel\), got pad \[2, 0, 0, 0\] for kernel \[2, 2\]"),
        ({"pad": (2, 0, 0, 0), "dialect": "seed"}, (1, 4, 4, 1), r"rule pad_below_kernel"),
        ({"kernel": (5, 1)}, (1, 4, 4, 1), r"rule kernel_fits\), got input \[4, 4\], kernel \[5, 1\]"),
        ({"stride": (1, 3)}, (1, 4, 4, 1), r"rule exact_division\), got remainder 2 along spatial axis 1"),
        ({"kernel": (2,)}, (1, 4, 4, 1), r"rule attribute_length\), got kernel \[2\] for 2 entries"),
        ({"stride": (2,)}, (1, 4, 4, 1), r"rule attribute_length\), got stride \[2\] for 2 entries"),
        ({"pad": (0, 0)}, (1, 4, 4, 1), r"rule attribute_length\), got pad \[0, 0\] for 4 entries"),
        ({}, (4, 4, 1), r"rule rank\), got input of shape \[4, 4, 1\] for \[N, H, W, C\]"),
        ({"dialect": ""}, (1, 4, 4, 1), r"rule dialect\), got dialect ''"),
    ],
)
def test_rules(change: dict[str, Any], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"max_pool2d: .*{message}"):
        bind(replace(PLAIN, **change), [shape], ["i8"])


def test_types() -> None:
    with pytest.raises(InvalidGraphError, match="no type rule for input i32"):
        bind(PLAIN, [(1, 4, 4, 1)], ["i32"])


def test_sizes_floor_in_the_seed() -> None:
    assert bind(replace(PLAIN, stride=(1, 3), dialect="seed"), [(1, 4, 4, 1)], ["i8"]) == (1, 3, 1, 1)


def test_work() -> None:
    work = PLAIN.bind(tensors([(2, 4, 4, 3)], ["i8"])).work
    assert [(d.name, d.extent, d.loop) for d in work.dims] == [
        ("n", 2, Loop.BATCH),
        ("oy", 3, Loop.ROW),
        ("ox", 3, Loop.COLUMN),
        ("c", 3, Loop.CHANNEL),
        ("ky", 2, Loop.KERNEL_ROW),
        ("kx", 2, Loop.KERNEL_COLUMN),
    ]
    assert work.unit is UnitKind.VECTOR and not work.macs


@pytest.mark.parametrize(
    ("kernel", "shape"), [((8192, 1), (1, 8200, 3, 2)), ((1, 8192), (1, 2, 8192, 1)), ((3, 3), (1, 65535, 3, 64))]
)
def test_long_axes_stay_small(kernel: tuple[int, int], shape: tuple[int, ...]) -> None:
    bound = MaxPool2d(kernel, (1, 1), (0, 0, 0, 0)).bind(tensors([shape], ["i8"]))
    x = np.arange(np.prod(shape)).astype(np.int8).reshape(shape)
    tracemalloc.start()
    out = bound.op.step(bound, None, [x], bound.work.space, Overflow())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert out[0, 0, 0, 0] == x[0, : kernel[0], : kernel[1], 0].max()
    assert peak < 256 << 20

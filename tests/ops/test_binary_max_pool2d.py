"""Tests of the pooling of bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.graph import GraphBuilder
from npusim.graph.level import check_level
from npusim.ir.tensor import TensorType
from npusim.ir.work import UnitKind
from npusim.numerics.types import U1, Array
from npusim.ops.binary_max_pool2d import BinaryMaxPool2d
from tests.ops.popcount import AUTO_PADS, bits, bound_to, kinds, pads, pair, run
from tests.ops.tiling import check_tiled, indices, random_tiles

PLAIN = BinaryMaxPool2d(kernel=(2, 2), stride=(2, 2), pads_begin=(0, 0), pads_end=(0, 0))


def pooled(x: Array, op: BinaryMaxPool2d) -> Array:
    """The largest or smallest bit of the taps inside the image."""
    if op.layout == "nhwc":
        x = x.transpose(0, 3, 1, 2)
    n, channels, *size = x.shape
    (top, bottom), (left, right) = pads(op, (size[0], size[1]), (op.kernel[0], op.kernel[1]))
    rows = (size[0] + top + bottom - op.kernel[0]) // op.stride[0] + 1
    columns = (size[1] + left + right - op.kernel[1]) // op.stride[1] + 1
    out = np.empty((n, channels, rows, columns), np.uint8)
    for image, c, p, q in indices(out.shape):
        taps = [
            int(x[image, c, p * op.stride[0] - top + i, q * op.stride[1] - left + j])
            for i, j in indices((op.kernel[0], op.kernel[1]))
            if 0 <= p * op.stride[0] - top + i < size[0] and 0 <= q * op.stride[1] - left + j < size[1]
        ]
        out[image, c, p, q] = max(taps) if op.combine == "or" else min(taps)
    return out.transpose(0, 2, 3, 1) if op.layout == "nhwc" else out


@pytest.mark.parametrize("seed", range(50))
def test_every_tiling_gives_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    while True:
        op = BinaryMaxPool2d(
            kernel=pair(rng, 1, 2, 3),
            stride=pair(rng, 1, 2, 3),
            pads_begin=pair(rng, 0, 0, 1),
            pads_end=pair(rng, 0, 1, 2),
            auto_pad=str(rng.choice(AUTO_PADS)),
            combine=str(rng.choice(["or", "and"])),
            layout=str(rng.choice(["nchw", "nhwc"])),
        )
        size = pair(rng, 1, 2, 4, 5, 7)
        around = pads(op, size, (op.kernel[0], op.kernel[1]))
        fits = all(size[i] + sum(around[i]) >= op.kernel[i] for i in (0, 1))
        if fits and all(max(around[i]) < op.kernel[i] for i in (0, 1)):
            break
    x = bits(rng, (2, int(rng.choice([1, 7, 8, 9, 20])), *size))
    if op.layout == "nhwc":
        x = x.transpose(0, 2, 3, 1).copy()
    types = kinds([x], "u1")
    got = check_tiled(op, [x], types, random_tiles(rng, op.bind(types).work))
    np.testing.assert_array_equal(got, pooled(x, op))


def test_or_and_and() -> None:
    x = np.uint8([[[[1, 0, 1, 1], [0, 0, 1, 1]]]])
    assert run(PLAIN, [x], "u1").ravel().tolist() == [1, 1]
    assert run(replace(PLAIN, combine="and"), [x], "u1").ravel().tolist() == [0, 1]


def test_the_limits_of_tosa_are_not_for_it() -> None:
    builder = GraphBuilder("pool")
    builder.input("x", TensorType((1, 1, 9000, 4), U1))
    builder.node("pool", replace(PLAIN, kernel=(9000, 2)), ("x",), "y")
    assert check_level(builder.finish(("y",))) == []


def test_work() -> None:
    assert bound_to(PLAIN, [(1, 64, 4, 4)], "u1")[0].work.unit is UnitKind.VECTOR


@pytest.mark.parametrize(
    ("change", "shape", "kind", "message"),
    [
        ({"kernel": (2,)}, (1, 1, 4, 4), "u1", r"rule attribute_length\), got kernel \[2\] for 2 entries"),
        ({"stride": (2, 2, 2)}, (1, 1, 4, 4), "u1", r"rule attribute_length\), got stride \[2, 2, 2\]"),
        ({"pads_end": ()}, (1, 1, 4, 4), "u1", r"rule attribute_length\), got pads_end \[\]"),
        ({"kernel": (0, 2)}, (1, 1, 4, 4), "u1", r"rule kernel_positive\), got kernel \[0, 2\]"),
        ({"stride": (0, 2)}, (1, 1, 4, 4), "u1", r"rule stride_positive\), got stride \[0, 2\]"),
        ({"pads_begin": (0, -1)}, (1, 1, 4, 4), "u1", r"rule pad_not_negative\), got pads_begin \[0, -1\]"),
        ({"pads_begin": (2, 0)}, (1, 1, 4, 4), "u1", r"rule pad_below_kernel\), got pad \[2, 0, 0, 0\]"),
        ({"kernel": (5, 1)}, (1, 1, 4, 4), "u1", r"rule kernel_fits\), got input \[4, 4\], kernel \[5, 1\]"),
        ({"auto_pad": "none"}, (1, 1, 4, 4), "u1", r"rule auto_pad\), got auto_pad 'none'"),
        ({"combine": "max"}, (1, 1, 4, 4), "u1", r"rule combine\), got combine 'max'"),
        ({"layout": "chw"}, (1, 1, 4, 4), "u1", r"rule layout\), got layout 'chw'"),
        ({}, (1, 4, 4), "u1", r"rule rank\), got input of shape \[1, 4, 4\] for \[N, C, H, W\]"),
        ({"layout": "nhwc"}, (4, 4), "u1", r"rule rank\), got input of shape \[4, 4\] for \[N, H, W, C\]"),
        ({}, (1, 1, 4, 4), "i8", r"no type rule for input i8; legal: \(u1\) -> u1"),
    ],
)
def test_rules(change: dict[str, Any], shape: tuple[int, ...], kind: str, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"binary_max_pool2d: .*{message}"):
        bound_to(replace(PLAIN, **change), [shape], kind)

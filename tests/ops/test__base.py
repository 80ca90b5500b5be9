"""What every operator gets from its contract: evaluation of a box, in halves where padding would take much memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import DTYPES, Array
from npusim.ops import Op, _base, evaluate_bound, evaluate_box
from npusim.ops.avg_pool2d import AvgPool2d
from npusim.ops.conv2d import Conv2d
from npusim.ops.depthwise_conv2d import DepthwiseConv2d
from npusim.ops.max_pool2d import MaxPool2d
from npusim.ops.pad import Pad
from npusim.ops.transpose_conv2d import TransposeConv2d
from tests.ops.tiling import random_array

Shapes = tuple[tuple[tuple[int, ...], str], ...]

PADDED: dict[str, tuple[Op, Shapes]] = {
    "conv2d": (
        Conv2d((3, 2, 1, 4), (1, 2), (2, 1), input_zp=-7, weight_zp=3),
        (((2, 5, 4, 3), "i8"), ((2, 3, 3, 3), "i8"), ((2,), "i32")),
    ),
    "depthwise_conv2d": (
        DepthwiseConv2d((2, 3, 3, 2), (2, 1), (1, 2)),
        (((1, 4, 5, 3), "i16"), ((3, 2, 3, 2), "i8"), ((1,), "i48")),
    ),
    "transpose_conv2d": (
        TransposeConv2d((2, 1, 0, 3), (2, 3), input_zp=5),
        (((2, 3, 2, 2), "i8"), ((2, 3, 4, 2), "i8"), ((2,), "i32")),
    ),
    "avg_pool2d": (AvgPool2d((3, 4), (1, 1), (2, 2, 3, 3), 9, -4), (((1, 4, 5, 3), "i8"),)),
    "max_pool2d": (MaxPool2d((2, 3), (1, 2), (1, 1, 2, 2)), (((2, 5, 7, 2), "i16"),)),
    "pad": (Pad((1, 2, 0, 3), -5), (((3, 4), "i32"),)),
}


@pytest.mark.parametrize("name", PADDED)
def test_halves_give_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no memory for padding at all, every box that touches padding comes down to single points."""
    op, shapes = PADDED[name]
    types = [TensorType(shape, DTYPES[dtype]) for shape, dtype in shapes]
    rng = np.random.default_rng(3)
    arrays = [random_array(rng, t) for t in types]
    if len(arrays) == 3:
        arrays[2] >>= 8  # a bias that leaves room for the products
    bound = op.bind(types)
    want = evaluate_bound(bound, arrays, Overflow())
    steps = count_steps(op, monkeypatch)
    monkeypatch.setattr(_base, "PADDED_BYTES", 0)
    np.testing.assert_array_equal(evaluate_bound(bound, arrays, Overflow()), want)
    assert len(steps) > 4
    if name != "pad":
        assert any(box.size == 1 for box in steps)


def count_steps(op: Op, monkeypatch: pytest.MonkeyPatch) -> list[Box]:
    """The boxes that are folded from now on."""
    boxes: list[Box] = []
    step: Callable[..., Array] = type(op).step

    def counted(self: Op, bound: object, acc: object, operands: object, box: Box, overflow: object) -> Array:
        boxes.append(box)
        return step(self, bound, acc, operands, box, overflow)

    monkeypatch.setattr(type(op), "step", counted)
    return boxes


def test_parts_of_operands_serve_a_box_of_the_space() -> None:
    """Arrays may begin anywhere, so long as they hold what the box touches inside the operand."""
    op, shapes = PADDED["conv2d"]
    types = [TensorType(shape, DTYPES[dtype]) for shape, dtype in shapes]
    rng = np.random.default_rng(4)
    x, w, b = (random_array(rng, t) >> s for t, s in zip(types, (0, 0, 8), strict=True))
    bound = op.bind(types)
    whole = evaluate_bound(bound, [x, w, b], Overflow())
    n, oh, ow, oc = whole.shape
    space = bound.work.space
    top = Box(space.lo, (1, 2, *space.hi[2:]))  # rows -3..2 with a dilation of 2: the first two inside
    part = evaluate_box(bound, None, [x[:1, :3], w, b], [(0,) * 4, (0,) * 4, (0,)], top, Overflow())
    np.testing.assert_array_equal(part, whole[:1, :2])
    bottom = Box((1, oh - 1, *space.lo[2:]), space.hi)
    part = evaluate_box(bound, None, [x[1:, 2:], w, b], [(1, 2, 0, 0), (0,) * 4, (0,)], bottom, Overflow())
    np.testing.assert_array_equal(part, whole[1:, oh - 1 :])


def test_the_reduction_of_one_output_is_cut_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that overflow on the way come out the same: refused with the same value, clamped at the same places."""
    op = Conv2d((1, 1, 1, 1), (1, 1), (1, 1))
    types = [
        TensorType((1, 1, 1, 2), DTYPES["i8"]),
        TensorType((1, 3, 3, 2), DTYPES["i8"]),
        TensorType((1,), DTYPES["i32"]),
    ]
    bound = op.bind(types)
    x, w = np.full((1, 1, 1, 2), -128, np.int8), np.full((1, 3, 3, 2), -128, np.int8)
    w[..., 1] = 127
    start = np.full((1, 1, 1, 1), 2**31 - 1, np.int32)
    arrays, origins = [x, w, np.zeros(1, np.int32)], [(0,) * 4, (0,) * 4, (0,)]

    def run(policy: str) -> tuple[int, int]:
        overflow = Overflow(policy)
        return int(evaluate_box(bound, start, arrays, origins, bound.work.space, overflow)[0, 0, 0, 0]), overflow.events

    want = run("saturate")
    assert want == (2**31 - 1 - 128 * 127, 1)
    monkeypatch.setattr(_base, "PADDED_BYTES", 0)
    steps = count_steps(op, monkeypatch)
    assert run("saturate") == want
    assert [box.lo[4:] for box in steps] == sorted(box.lo[4:] for box in steps)
    assert len(steps) == 2 * 9 - 1  # the kernel's centre is on the input and needs no padding
    with pytest.raises(UnpredictableError, match=f"partial sum {2**31 - 1 + 128 * 128} at output index"):
        run("refuse")


def test_padding_of_8192_rows_and_columns_takes_little_memory() -> None:
    """A kernel as long as level 8K allows, on four rows of input: a gigabyte if it were padded at once."""
    op = DepthwiseConv2d((8189, 0, 8190, 8192), (8192, 8192), (8192, 1))
    types = [
        TensorType((1, 4, 2, 4), DTYPES["i16"]),
        TensorType((1, 8192, 4, 1), DTYPES["i8"]),
        TensorType((4,), DTYPES["i48"]),
    ]
    bound = op.bind(types)
    rng = np.random.default_rng(5)
    x, w, b = (random_array(rng, t) for t in types)
    tracemalloc.start()
    try:
        out = evaluate_bound(bound, [x, w, b], Overflow())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 28
    want = np.zeros(bound.output.shape, object)
    for (n, oy, ox, c), _ in np.ndenumerate(want):
        want[n, oy, ox, c] = int(b[c]) + sum(
            int(x[n, iy, ix, c]) * int(w[0, ix + 8190 - ox * 8192, c, 0])
            for iy in range(4)
            for ix in range(2)
            if iy + 8189 == oy * 8192 and 0 <= ix + 8190 - ox * 8192 < 8192
        )
    assert np.unique(want).size == 8
    np.testing.assert_array_equal(out, want.astype(np.int64))

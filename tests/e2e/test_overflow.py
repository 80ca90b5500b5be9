"""Accumulators that overflow, through tiles: refused by name, wrapped, or saturated in the order of the schedule."""

from __future__ import annotations

import numpy as np
import pytest

import npusim
from npusim.errors import UnpredictableError
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.ir.box import Box
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I16, I32, I48, Array, DType
from npusim.ops import op_class
from npusim.program import Compute

STRIDE = {"stride": (1, 1), "dilation": (1, 1), "input_zp": 0, "weight_zp": 0}


def chip(policy: str) -> Chip:
    """``micro`` with this policy, and an SRAM that splits long reductions."""
    return npusim.load_chip(
        "micro",
        [f"units.mac_array.accumulators.{t}={policy}" for t in ("i32", "i48")] + ["sram.size_bytes=64 KiB"],
    )


def convolution(x: Array, w: Array, b: Array, types: tuple[DType, DType, DType]) -> Graph:
    builder = GraphBuilder("overflow")
    builder.input("x", TensorType(x.shape, types[0]))
    builder.constant("w", TensorType(w.shape, types[1]), w)
    builder.constant("b", TensorType(b.shape, types[2]), b)
    builder.node("conv", op_class("conv2d")(pad=(0, 0, 0, 0), **STRIDE), ("x", "w", "b"), "y")
    return builder.finish(("y",))


def product_sum() -> tuple[Graph, Array]:
    """140,000 products of -128 x -128 in the second output: 2,293,760,000."""
    x = np.full((1, 1, 1, 140_000), -128, np.int8)
    w = np.zeros((2, 1, 1, 140_000), np.int8)
    w[1] = -128
    return convolution(x, w, np.zeros(2, np.int32), (I8, I8, I32)), x


def bias() -> tuple[Graph, Array]:
    x, w = np.full((1, 1, 2, 4), 100, np.int8), np.full((1, 1, 1, 4), 100, np.int8)
    return convolution(x, w, np.array([2**31 - 40_000], np.int32), (I8, I8, I32)), x


def int48() -> tuple[Graph, Array]:
    x, w = np.full((1, 1, 1, 8), 32767, np.int16), np.full((1, 1, 1, 8), 127, np.int8)
    return convolution(x, w, np.array([2**47 - 1], np.int64), (I16, I8, I48)), x


def pooling_sum() -> tuple[Graph, Array]:
    """257 x 257 values of 32767: 2,164,227,583."""
    x = np.full((1, 257, 257, 1), 32767, np.int16)
    builder = GraphBuilder("overflow")
    builder.input("x", TensorType(x.shape, I16))
    pool = op_class("avg_pool2d")(kernel=(257, 257), stride=(1, 1), pad=(0, 0, 0, 0), input_zp=0, output_zp=0)
    builder.node("pool", pool, ("x",), "y")
    return builder.finish(("y",)), x


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (product_sum, r"layer 'conv': conv2d: partial sum 21474\d+ at output index \[0, 0, 0, 1\] is outside i32"),
        (bias, r"layer 'conv': conv2d: sum with bias 2147483648 at output index \[0, 0, 0, 0\] is outside i32"),
        (int48, r"layer 'conv': conv2d: sum with bias 140737521646599 at output index \[0, 0, 0, 0\] is outside i48"),
        (pooling_sum, r"layer 'pool': avg_pool2d: pooling sum 2147\d+ at output index \[0, 0, 0, 0\] is outside i32"),
    ],
)
def test_the_four_kinds_are_refused(make: object, message: str) -> None:
    graph, x = make()  # type: ignore[operator]
    with pytest.raises(UnpredictableError, match=message):
        npusim.run(graph, chip("refuse"), inputs=[x])


@pytest.mark.parametrize(("make", "bits"), [(product_sum, 32), (bias, 32), (int48, 48)])
def test_wrap_is_twos_complement_and_counted(make: object, bits: int) -> None:
    graph, x = make()  # type: ignore[operator]
    result = npusim.run(graph, chip("wrap"), inputs=[x])
    w, b = (graph.constants[v] for v in "wb")
    exact = x.reshape(-1, x.shape[-1]).astype(object) @ w.reshape(len(w), -1).astype(object).T + b.astype(object)
    half = 1 << (bits - 1)
    assert result.outputs["y"].reshape(exact.shape).tolist() == ((exact + half) % (2 * half) - half).tolist()
    assert result.report.totals.overflow_events > 0
    assert result.report.layers[0].overflow_events == result.report.totals.overflow_events


def test_saturate_clamps_every_partial_sum_in_the_order_of_the_schedule() -> None:
    """A loop on Python integers over the boxes of the program, each in the operator's own order of sums."""
    rng = np.random.default_rng(5)
    channels, outputs = 300_000, 3
    x = rng.choice(np.array([-128, 127], np.int8), (1, 1, 1, channels), p=[0.99, 0.01])
    w = rng.choice(np.array([-128, 127], np.int8), (outputs, 1, 1, channels), p=[0.99, 0.01])
    w[:, :, :, channels // 2 :] = 127  # climbs past the limit, then falls again: the clamped part never comes back
    b = np.array([2**31 - 1, 2**30, -5], np.int32)
    graph = convolution(x, w, b, (I8, I8, I32))
    mapping = MappingOptions(layers={"conv": LayerOptions(tile={"ic": 9_000, "oc": 2})})
    result = npusim.run(graph, chip("saturate"), inputs=[x], mapping=mapping)
    lo, hi = I32.minimum, I32.maximum
    want = [0] * outputs
    boxes: list[Box] = [c.box for c in result.program if isinstance(c, Compute)]
    assert len(boxes) > 60
    index = result.program.regions[0].work.index
    for box in boxes:
        for o in range(box.lo[index["oc"]], box.hi[index["oc"]]):
            span = slice(box.lo[index["ic"]], box.hi[index["ic"]])
            for p in (x[0, 0, 0, span].astype(int) * w[o, 0, 0, span].astype(int)).tolist():
                want[o] = min(max(want[o] + p, lo), hi)
    want = [min(max(v + int(k), lo), hi) for v, k in zip(want, b, strict=True)]
    assert result.outputs["y"].reshape(-1).tolist() == want
    assert result.report.totals.overflow_events > 0

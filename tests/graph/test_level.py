"""The limits of level 8K, each at its value and just above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from npusim.graph import Graph, GraphBuilder
from npusim.graph.level import check_level
from npusim.ir.tensor import TensorType
from npusim.numerics.types import DTYPES
from npusim.ops import make_op


def graph_of(op: str, attributes: Mapping[str, Any], operands: Sequence[str]) -> Graph:
    """A graph of one operator on inputs of types like ``1x4xi8``."""
    builder = GraphBuilder("net")
    names = tuple(f"in{i}" for i in range(len(operands)))
    for name, text in zip(names, operands, strict=True):
        *shape, dtype = text.split("x")
        builder.input(name, TensorType(tuple(map(int, shape)), DTYPES[dtype]))
    builder.node("the_node", make_op(op, attributes), names, "out")
    return builder.finish(("out",))


CONV = {"stride": [1, 1], "pad": [0, 0, 0, 0], "dilation": [1, 1]}
CONV3D = {"stride": [1, 1, 1], "pad": [0] * 6, "dilation": [1, 1, 1]}
POOL = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0]}
RESIZE = {"scale": [1, 1, 1, 1], "offset": [0, 0], "border": [0, 0], "mode": "nearest"}
BIAS = "1xi32"


@pytest.mark.parametrize(
    ("op", "attributes", "operands"),
    [
        ("abs", {}, ["1x1x1x1x1x1xi32"]),
        ("identity", {}, ["2147483647xi8"]),
        ("identity", {}, ["2147483647xi4"]),
        ("conv2d", CONV, ["1x8192x1x1xi8", "1x8192x1x1xi8", BIAS]),
        ("conv2d", {**CONV, "dilation": [1, 4096]}, ["1x1x4097x1xi8", "1x1x2x1xi8", BIAS]),
        ("conv2d", {**CONV, "stride": [8192, 1]}, ["1x8193x1x1xi8", "1x1x1x1xi8", BIAS]),
        ("conv2d", {**CONV, "pad": [0, 0, 0, 8192]}, ["1x1x1x1xi8", "1x1x1x1xi8", BIAS]),
        ("conv3d", CONV3D, ["1x8192x1x1x1xi8", "1x8192x1x1x1xi8", BIAS]),
        ("depthwise_conv2d", CONV, ["1x1x8192x1xi8", "1x8192x1x1xi8", BIAS]),
        ("transpose_conv2d", {"stride": [8192, 1], "out_pad": [0] * 4}, ["1x1x1x1xi8", "1x8192x1x1xi8", BIAS]),
        ("transpose_conv2d", {"stride": [1, 1], "out_pad": [8192, 0, 0, 0]}, ["1x1x1x1xi8", "1x1x1x1xi8", BIAS]),
        ("max_pool2d", {**POOL, "kernel": [1, 8192]}, ["1x1x8192x1xi8"]),
        ("resize", {**RESIZE, "scale": [256, 1, 512, 2]}, ["1x1x1x1xi8"]),
        ("concat", {"axis": 0}, ["1xi8"] * 64),
        ("add", {}, ["1xi32", "1xi32"]),
    ],
)
def test_within_the_limits(op: str, attributes: Mapping[str, Any], operands: Sequence[str]) -> None:
    assert check_level(graph_of(op, attributes, operands)) == []


@pytest.mark.parametrize(
    ("op", "attributes", "operands", "problem"),
    [
        ("conv2d", CONV, ["1x8193x1x1xi8", "1x8193x1x1xi8", BIAS], "kernel * dilation [8193, 1], the limit is 8192"),
        (
            "conv2d",
            {**CONV, "dilation": [1, 4097]},
            ["1x1x4098x1xi8", "1x1x2x1xi8", BIAS],
            "kernel * dilation [1, 8194], the limit is 8192",
        ),
        (
            "conv2d",
            {**CONV, "stride": [8193, 1]},
            ["1x1x1x1xi8", "1x1x1x1xi8", BIAS],
            "stride [8193, 1], the limit is 8192",
        ),
        (
            "conv2d",
            {**CONV, "pad": [0, 0, 0, 8193]},
            ["1x1x1x1xi8", "1x1x1x1xi8", BIAS],
            "pad [0, 0, 0, 8193], the limit is 8192",
        ),
        (
            "conv3d",
            CONV3D,
            ["1x8193x1x1x1xi8", "1x8193x1x1x1xi8", BIAS],
            "kernel * dilation [8193, 1, 1], the limit is 8192",
        ),
        (
            "depthwise_conv2d",
            CONV,
            ["1x1x8193x1xi8", "1x8193x1x1xi8", BIAS],
            "kernel * dilation [1, 8193], the limit is 8192",
        ),
        (
            "transpose_conv2d",
            {"stride": [1, 1], "out_pad": [0] * 4},
            ["1x1x1x1xi8", "1x8193x1x1xi8", BIAS],
            "kernel * dilation [8193, 1], the limit is 8192",
        ),
        (
            "transpose_conv2d",
            {"stride": [1, 1], "out_pad": [8193, 0, 0, 0]},
            ["1x1x1x1xi8", "1x1x1x1xi8", BIAS],
            "out_pad [8193, 0, 0, 0], the limit is 8192",
        ),
        (
            "avg_pool2d",
            {**POOL, "kernel": [8193, 1]},
            ["1x8193x1x1xi8"],
            "kernel * dilation [8193, 1], the limit is 8192",
        ),
        ("max_pool2d", {**POOL, "stride": [1, 8193]}, ["1x1x1x1xi8"], "stride [1, 8193], the limit is 8192"),
        (
            "resize",
            {**RESIZE, "scale": [513, 2, 1, 1]},
            ["1x3x1x1xi8"],
            "scale (rounded up) [257, 1], the limit is 256",
        ),
        ("concat", {"axis": 0}, ["1xi8"] * 65, "a tensor list of size [65], the limit is 64"),
    ],
)
def test_attributes_beyond_the_limits(
    op: str, attributes: Mapping[str, Any], operands: Sequence[str], problem: str
) -> None:
    remedy = "in TOSA's level 8K; choose level 'none' to lift it"
    assert check_level(graph_of(op, attributes, operands)) == [f"net: node 'the_node' ({op}) has {problem} {remedy}"]


def test_values_beyond_the_limits() -> None:
    remedy = "in TOSA's level 8K; choose level 'none' to lift it"
    ranks = [f"net: value {v!r} has rank 7 [1, 1, 1, 1, 1, 1, 2], the limit is 6 {remedy}" for v in ("in0", "out")]
    assert check_level(graph_of("identity", {}, ["1x1x1x1x1x1x2xi8"])) == ranks
    size = f"(536870912xi32) has 2147483648 bytes, the limit is 2147483647 {remedy}"
    assert check_level(graph_of("abs", {}, ["536870912xi32"])) == [f"net: value {v!r} {size}" for v in ("in0", "out")]
    assert len(check_level(graph_of("identity", {}, ["2147483648xi4"]))) == 2
    assert len(check_level(graph_of("identity", {}, ["357913942xi48"]))) == 2

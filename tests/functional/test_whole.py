"""Graphs evaluated operator by operator."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.functional import evaluate_graph
from npusim.graph import Graph, GraphBuilder
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I32
from npusim.ops import op_class
from tests.plain import chain, matmul


def test_a_product_is_the_product() -> None:
    graph = matmul(3, 5, 4)
    a = np.arange(15, dtype=np.int8).reshape(1, 3, 5)
    got = evaluate_graph(graph, {"a": a})
    assert list(got) == ["y"]
    assert got["y"].dtype == np.int32
    np.testing.assert_array_equal(got["y"], a.astype(np.int64) @ graph.constants["b"].astype(np.int64))


def test_values_are_kept_as_long_as_somebody_reads_them() -> None:
    """x is read first and last, and twice by one operator; d is an output as well."""
    b = GraphBuilder("shared")
    b.input("x", TensorType((4,), I32))
    b.node("double", op_class("add")(), ("x", "x"), "d")
    b.node("triple", op_class("add")(), ("d", "x"), "t")
    b.node("quintuple", op_class("add")(), ("t", "d"), "q")
    b.node("six", op_class("add")(), ("q", "x"), "s")
    x = np.array([1, -2, 3, 1 << 20], np.int32)
    got = evaluate_graph(b.finish(("d", "s")), {"x": x})
    assert list(got) == ["d", "s"]
    np.testing.assert_array_equal(got["d"], 2 * x)
    np.testing.assert_array_equal(got["s"], 6 * x)


def test_outputs_may_be_inputs_and_constants() -> None:
    graph = chain(1)
    graph = Graph(graph.name, graph.types, graph.constants, graph.inputs, ("a", "b0", "y0"), graph.nodes)
    a = np.ones((1, 8, 8), np.int8)
    got = evaluate_graph(graph, {"a": a})
    np.testing.assert_array_equal(got["a"], a)
    np.testing.assert_array_equal(got["b0"], graph.constants["b0"])


def overflowing() -> Graph:
    b = GraphBuilder("top")
    b.input("x", TensorType((1, 1, 1, 1), I8))
    b.constant("w", TensorType((1, 1, 1, 1), I8), np.full((1, 1, 1, 1), 1, np.int8))
    b.constant("bias", TensorType((1,), I32), np.array([(1 << 31) - 1], np.int32))
    b.node("op", op_class("conv2d")(pad=(0,) * 4, stride=(1, 1), dilation=(1, 1)), ("x", "w", "bias"), "y")
    return b.finish(("y",))


def test_overflow_follows_the_policy_of_the_accumulator() -> None:
    one = {"x": np.ones((1, 1, 1, 1), np.int8)}
    with pytest.raises(UnpredictableError, match=r"layer 'op': conv2d"):
        evaluate_graph(overflowing(), one)
    with pytest.raises(UnpredictableError, match=r"layer 'op': conv2d"):
        evaluate_graph(overflowing(), one, {"i48": "wrap"})
    assert evaluate_graph(overflowing(), one, {"i32": "wrap"})["y"].item() == -(1 << 31)
    assert evaluate_graph(overflowing(), one, {"i32": "saturate"})["y"].item() == (1 << 31) - 1
    assert evaluate_graph(overflowing(), {"x": np.zeros((1, 1, 1, 1), np.int8)})["y"].item() == (1 << 31) - 1

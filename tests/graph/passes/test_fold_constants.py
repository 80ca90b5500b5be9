"""Constant folding: what depends on constants alone is evaluated, what no output needs is dropped."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npusim.errors import UnpredictableError
from npusim.functional import evaluate_graph
from npusim.graph import Graph, State
from npusim.graph.passes.fold_constants import FoldConstants
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I32
from tests.graph.networks import Network, random_inputs
from tests.properties.random_graphs import graphs


def names(graph: Graph) -> list[str]:
    return [n.name for n in graph.nodes]


def test_a_chain_of_constants_becomes_one_constant() -> None:
    net = Network()
    x, weights = net.input("x", 2, 3, dtype=I32), net.constant(3, 2, dtype=I32)
    doubled = net.apply("doubled", "add", weights, weights)
    turned = net.apply("turned", "transpose", doubled, perms=(1, 0))
    graph = net.finish(net.apply("y", "add", x, turned))
    folded = FoldConstants()(graph)
    assert names(folded) == ["y"]
    assert set(folded.types) == {"x", "turned", "y"} and set(folded.constants) == {"turned"}
    np.testing.assert_array_equal(folded.constants["turned"], 2 * graph.constants[weights].T)
    assert folded.constants["turned"].dtype == I32.storage
    assert folded.nodes[0] is graph.nodes[-1] and (folded.name, folded.inputs) == ("net", ("x",))


def test_the_graph_given_is_left_as_it_was() -> None:
    net = Network()
    x, k = net.input("x", 3, dtype=I32), net.constant(3, dtype=I32)
    graph = net.finish(net.apply("y", "add", x, net.apply("positive", "abs", k)))
    FoldConstants()(graph)
    assert set(graph.constants) == {k} and names(graph) == ["positive", "y"]


def test_what_no_output_needs_is_dropped_but_inputs_stay() -> None:
    net = Network()
    x, unread, k = net.input("x", 3, dtype=I32), net.input("unread", 5), net.constant(3, dtype=I32)
    dead = net.apply("dead", "add", x, k)
    net.apply("deader", "abs", dead)
    graph = net.finish(net.apply("y", "abs", x))
    folded = FoldConstants()(graph)
    assert names(folded) == ["y"] and not folded.constants
    assert folded.inputs == ("x", unread) and set(folded.types) == {"x", unread, "y"}


def test_an_output_made_of_constants_stays_a_node_and_so_do_its_readers() -> None:
    net = Network()
    k = net.constant(3, dtype=I32)
    made = net.apply("made", "abs", net.apply("inner", "abs", k))
    folded = FoldConstants()(net.finish(net.apply("y", "abs", made), made))
    assert names(folded) == ["made", "y"] and set(folded.constants) == {"inner"}


def test_a_constant_may_itself_be_an_output() -> None:
    net = Network()
    k = net.constant(3)
    folded = FoldConstants()(net.finish(k))
    assert folded.outputs == (k,) and set(folded.constants) == {k}


def test_the_value_that_a_variable_is_left_with_is_needed() -> None:
    net = Network()
    x = net.input("x", 3, dtype=I32)
    state = State("v", "old", "new", np.zeros(3, np.int32))
    net.builder.state(state, TensorType((3,), I32))
    net.apply("new", "add", "old", x)
    folded = FoldConstants()(net.finish(net.apply("y", "abs", x)))
    assert names(folded) == ["new", "y"]
    assert folded.states == (state,) and folded.outputs == ("y", "new") and "old" in folded.types


def test_an_unpredictable_constant_is_refused_and_named() -> None:
    net = Network()
    large = net.constant(3, dtype=I32, lo=2**31 - 1, hi=2**31 - 1)
    x = net.input("x", 3, dtype=I32)
    total = net.apply("total", "add", large, large)
    graph = net.finish(net.apply("y", "maximum", x, total))
    with pytest.raises(UnpredictableError, match=r"layer 'total' \(constant\): add: the sum must fit i32"):
        FoldConstants()(graph)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(graphs(4), st.integers(0, 99))
def test_outputs_keep_their_bits(graph: Graph, seed: int) -> None:
    inputs = random_inputs(graph.types, graph.inputs, seed)
    want = evaluate_graph(graph, inputs)
    # with the inputs made constants too, everything folds but the outputs and what reads them
    frozen = dataclasses.replace(graph, constants={**graph.constants, **inputs}, inputs=())
    for some, arrays in ((graph, inputs), (frozen, {})):
        folded = FoldConstants()(some)
        assert set(folded.types) == {*folded.inputs, *folded.constants, *folded.producer}
        for n in folded.nodes:
            assert n.output in graph.outputs or any(v not in folded.constants for v in n.inputs)
        got = evaluate_graph(folded, arrays)
        for v in graph.outputs:
            np.testing.assert_array_equal(got[v], want[v])
        assert FoldConstants()(folded).nodes == folded.nodes

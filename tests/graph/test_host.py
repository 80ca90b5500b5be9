"""The host's part of a model: what it makes of what it is given, and what may be given."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np

from npusim.graph.graph import Graph, GraphBuilder
from npusim.graph.host import Host, HostStep
from npusim.ir.tensor import TensorType
from npusim.numerics.types import F32, I32
from npusim.ops import make_op

VECTOR = TensorType((2,), I32)
FLOATS = TensorType((2,), F32)


def to_integers(x: np.ndarray, scale: int) -> np.ndarray:
    return (x * scale).astype(np.int32)


def graph() -> Graph:
    builder = GraphBuilder("g")
    builder.input("a", VECTOR)
    builder.input("b", VECTOR)
    builder.node("sum", make_op("add", {}, "tosa"), ("a", "b"), "sum")
    return builder.finish(("sum",))


HOST = Host(
    inputs={"x": FLOATS, "b": VECTOR},
    outputs={"inverse": FLOATS},
    before=(HostStep("Quantise 'a'", partial(to_integers, scale=4), ("x",), "a"),),
    after=(HostStep("Reciprocal 'inverse'", partial(np.divide, np.float32(1)), ("sum",), "inverse"),),
)


def test_of_a_graph_that_is_the_whole_model_nothing_is_left() -> None:
    host = Host.of(graph())
    assert (host.operators, tuple(host.inputs), tuple(host.outputs)) == ((), ("a", "b"), ("sum",))
    given = {"a": np.array([1, 2], np.int32)}
    assert host.prepare(graph(), given) == given and host.complete({}) == {}


def test_steps_make_inputs_of_the_graph_and_outputs_of_the_model() -> None:
    b = np.array([-4, 1], np.int32)
    made = HOST.prepare(graph(), {"x": np.array([0.5, 0.25], np.float32), "b": b})
    assert {v: a.tolist() for v, a in made.items()} == {"a": [2, 1], "b": [-4, 1]}
    assert HOST.complete({"sum": np.array([2, -4], np.int32)})["inverse"].tolist() == [0.5, -0.25]
    assert HOST.operators == ("Quantise 'a'", "Reciprocal 'inverse'")


def test_what_is_missing_leaves_out_what_follows_from_it() -> None:
    b = np.array([1, 1], np.int32)
    assert list(HOST.prepare(graph(), {"b": b})) == ["b"]
    assert list(HOST.prepare(graph(), {"a": b})) == ["a"]
    assert HOST.complete({}) == {}


def test_division_by_zero_is_what_ieee_says() -> None:
    assert HOST.complete({"sum": np.array([0, 1], np.int32)})["inverse"].tolist() == [np.inf, 1]


def test_both_the_models_values_and_the_graphs_may_be_named() -> None:
    assert HOST.known_inputs(graph()) == {"a": VECTOR, "b": VECTOR, "x": FLOATS}
    assert HOST.known_outputs(graph()) == {"sum": VECTOR, "inverse": FLOATS}


def test_it_can_be_sent_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(HOST))
    assert copy.complete({"sum": np.array([2, 4], np.int32)})["inverse"].tolist() == [0.5, 0.25]

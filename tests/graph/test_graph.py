"""The graph builder: what it accepts, every message it gives, and the look-ups of a finished graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.graph import Graph, GraphBuilder, State
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I16, I32
from npusim.ops import make_op

IMAGE = TensorType((2, 3), I32)
ADD = make_op("add", {})
ABS = make_op("abs", {})


def builder() -> GraphBuilder:
    """A builder with input ``x`` and constant ``k``, both 2x3xi32."""
    b = GraphBuilder("net")
    b.input("x", IMAGE)
    b.constant("k", IMAGE, np.arange(6, dtype=np.int32).reshape(2, 3))
    return b


def problems(build: Callable[[GraphBuilder], None], *outputs: str) -> tuple[str, ...]:
    b = builder()
    build(b)
    with pytest.raises(InvalidGraphError) as error:
        b.finish(outputs)
    return error.value.problems


def diamond() -> Graph:
    b = builder()
    b.node("left", ABS, ("x",), "a", declared=IMAGE)
    b.node("right", ADD, ("x", "k"), "b")
    b.node("join", ADD, ("a", "b"), "c")
    b.node("square", ADD, ("c", "c"), "d")
    return b.finish(("d", "c"))


def test_a_finished_graph_holds_what_was_built() -> None:
    g = diamond()
    assert (g.name, g.inputs, g.outputs, g.states) == ("net", ("x",), ("d", "c"), ())
    assert [n.name for n in g.nodes] == ["left", "right", "join", "square"]
    assert g.types == dict.fromkeys("xkabcd", IMAGE)
    assert list(g.constants) == ["k"] and g.constants["k"][1, 2] == 5
    assert g.data_inputs == g.inputs and g.data_outputs == g.outputs
    join = g.nodes[2]
    assert (join.op, join.inputs, join.output, join.bound.output) == (ADD, ("a", "b"), "c", IMAGE)


def test_producers_and_consumers() -> None:
    g = diamond()
    assert {v: n.name for v, n in g.producer.items()} == {"a": "left", "b": "right", "c": "join", "d": "square"}
    readers = {v: [n.name for n in nodes] for v, nodes in g.consumers.items()}
    # square reads c twice and is listed once; d has no reader
    assert readers == {"x": ["left", "right"], "k": ["right"], "a": ["join"], "b": ["join"], "c": ["square"], "d": []}


def test_the_builder_knows_what_is_defined_so_far() -> None:
    b = builder()
    b.node("left", ABS, ("x",), "a")
    assert b.type_of("a") == b.type_of("k") == IMAGE and b.type_of("later") is None
    held = b.constant_of("k")
    assert held is not None and held.shape == (2, 3) and b.constant_of("x") is None


def test_a_variable_is_an_input_and_an_output_that_callers_do_not_see() -> None:
    b = builder()
    state = State("count", "old", "new", np.zeros((2, 3), np.int32))
    b.state(state, IMAGE)
    b.node("sum", ADD, ("x", "old"), "new")
    b.node("out", ABS, ("new",), "y")
    g = b.finish(("y",))
    assert (g.inputs, g.outputs, g.states) == (("x", "old"), ("y", "new"), (state,))
    assert (g.data_inputs, g.data_outputs) == (("x",), ("y",))


def test_a_variable_that_is_only_read_leaves_its_own_input() -> None:
    b = builder()
    b.state(State("memory", "m", "m", np.zeros((2, 3), np.int32)), IMAGE)
    b.node("sum", ADD, ("x", "m"), "y")
    assert b.finish(("y",)).outputs == ("y", "m")


def test_an_input_and_a_constant_may_be_outputs() -> None:
    assert builder().finish(("x", "k")).outputs == ("x", "k")


@pytest.mark.parametrize(
    "array", [np.zeros((3, 2), np.int32), np.zeros((2, 3), np.int64)], ids=["shape", "storage type"]
)
def test_a_constant_that_is_not_of_its_type_is_the_callers_fault(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match="constant c: array .* for 2x3xi32"):
        builder().constant("c", IMAGE, array)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda b: b.input("z", TensorType((2, 0), I8)),
            "net: input 'z' has shape [2, 0]; every dimension must be at least 1",
        ),
        (lambda b: b.input("k", IMAGE), "net: input 'k' is defined twice; every value needs a name of its own"),
        (
            lambda b: b.constant("x", IMAGE, np.zeros((2, 3), np.int32)),
            "net: constant 'x' is defined twice; every value needs a name of its own",
        ),
        (
            lambda b: b.node("n", ABS, ("k",), "x"),
            "net: output 'x' is defined twice; every value needs a name of its own",
        ),
        (
            lambda b: (b.node("n", ABS, ("x",), "a"), b.node("n", ABS, ("x",), "b")),
            "net: node 'n' (abs): the name is used twice; give every node its own",
        ),
        (
            lambda b: b.node("n", ADD, ("p", "p"), "a"),
            "net: node 'n' (add): reads 'p', which no earlier node, input or constant defines",
        ),
        (
            lambda b: b.node("n", ADD, ("p", "q"), "a"),
            "net: node 'n' (add): reads 'p', 'q', which no earlier node, input or constant defines",
        ),
        (
            lambda b: b.node("n", ADD, ("x",), "a"),
            "net: node 'n' (add): add: takes 2 operands (a, b), got 1",
        ),
        (
            lambda b: b.node("n", ABS, ("x",), "a", declared=TensorType((3, 2), I16)),
            "net: node 'n' (abs): output 'a' is declared 3x2xi16, the operator gives 2x3xi32",
        ),
        (
            lambda b: b.state(State("v", "k", "x", np.zeros(0)), IMAGE),
            "net: input 'k' is defined twice; every value needs a name of its own",
        ),
        (
            lambda b: b.state(State("v", "old", "x", np.zeros(0)), TensorType((2, 3), I8)),
            "net: variable 'v' is 2x3xi8 and is written as 2x3xi32; they must agree",
        ),
        (
            lambda b: b.state(State("v", "old", "new", np.zeros(0)), IMAGE),
            "net: output 'new' is not defined by any node",
        ),
    ],
)
def test_each_fault_gives_one_message(build: Callable[[GraphBuilder], None], message: str) -> None:
    assert problems(build, "x") == (message,)


def test_an_output_that_nothing_defines_and_no_outputs_at_all() -> None:
    assert problems(lambda b: None, "x", "y") == ("net: output 'y' is not defined by any node",)
    assert problems(lambda b: None) == ("net: the graph has no outputs; name at least one",)


def test_all_faults_come_at_once_in_the_order_of_the_file() -> None:
    def build(b: GraphBuilder) -> None:
        b.input("x", TensorType((0,), I8))
        b.node("early", ABS, ("late",), "a")
        b.node("early", ADD, ("x", "k"), "late", declared=TensorType((6,), I32))
        b.state(State("v", "old", "late", np.zeros(0)), TensorType((1,), I8))

    assert problems(build, "nowhere") == (
        "net: input 'x' has shape [0]; every dimension must be at least 1",
        "net: input 'x' is defined twice; every value needs a name of its own",
        "net: node 'early' (abs): reads 'late', which no earlier node, input or constant defines",
        "net: node 'early' (add): the name is used twice; give every node its own",
        "net: node 'early' (add): output 'late' is declared 6xi32, the operator gives 2x3xi32",
        "net: variable 'v' is 1xi8 and is written as 2x3xi32; they must agree",
        "net: output 'nowhere' is not defined by any node",
    )


def test_a_fault_is_not_repeated_by_the_nodes_and_outputs_behind_it() -> None:
    def build(b: GraphBuilder) -> None:
        b.node("first", ADD, ("x",), "a")
        b.node("second", ABS, ("a",), "b")
        b.node("third", ADD, ("a", "b"), "c")

    assert problems(build, "a", "c") == ("net: node 'first' (add): add: takes 2 operands (a, b), got 1",)


def test_of_two_missing_values_only_the_one_that_nothing_would_define_is_named() -> None:
    def build(b: GraphBuilder) -> None:
        b.node("first", ADD, ("x",), "a")
        b.node("second", ADD, ("a", "p"), "b")

    assert problems(build, "b")[1:] == (
        "net: node 'second' (add): reads 'p', which no earlier node, input or constant defines",
    )


@pytest.mark.parametrize("inputs", [("x",), ("x", "p")], ids=["refused by its rules", "missing operand"])
def test_behind_a_fault_the_declared_type_is_believed_so_that_later_nodes_are_checked(inputs: tuple[str, ...]) -> None:
    def build(b: GraphBuilder) -> None:
        b.node("first", ADD, inputs, "a", declared=TensorType((2, 3), I8))
        b.node("second", ADD, ("a", "x"), "b")

    found = problems(build, "b")
    assert len(found) == 2
    assert found[1].startswith("net: node 'second' (add): add: no type rule for a i8, b i32")


@pytest.mark.parametrize("declared", [None, IMAGE])
def test_a_node_at_fault_still_may_not_define_a_value_twice(declared: TensorType | None) -> None:
    found = problems(lambda b: b.node("first", ADD, ("x",), "k", declared), "k")
    assert found[1:] == ("net: output 'k' is defined twice; every value needs a name of its own",)

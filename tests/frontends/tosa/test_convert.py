"""From a TOSA file to a graph: names, constants, variables, and everything that is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.errors import FileFormatError, InvalidGraphError
from npusim.frontends.tosa import TosaFile, TosaRegion, TosaTensor, load_tosa, to_graph, write_tosa
from npusim.functional import evaluate_graph
from npusim.graph import Graph
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I32, U8, U16
from tests.frontends.tosa.files import Operator, const, tosa_file, var

A, B, C, D = (TosaTensor(name, (2,), "INT32") for name in "abcd")


def add(x: str, y: str, out: str) -> Operator:
    return ("ADD", {}, (x, y), (out,))


def problems_of(file: TosaFile, **options: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidGraphError) as caught:
        to_graph(file, "net", **options)
    return caught.value.problems


# -- names, types, constants ---------------------------------------------------------------------------------------


def test_nodes_are_numbered_and_values_keep_their_names() -> None:
    operators = [add("a", "b", "c"), ("ABS", {}, ("c",), ("d",)), add("d", "k", "e")]
    file = tosa_file(operators, [A, B, C, D, const("k", "INT32", [5, 6]), replace(A, name="e")], "ab", "ec")
    graph = to_graph(file, "net")
    assert graph.name == "net"
    assert [n.name for n in graph.nodes] == ["add_0", "abs_1", "add_2"]
    assert [(n.inputs, n.output) for n in graph.nodes] == [(("a", "b"), "c"), (("c",), "d"), (("d", "k"), "e")]
    assert (graph.inputs, graph.outputs, graph.states) == (("a", "b"), ("e", "c"), ())
    assert graph.types == dict.fromkeys("abcdek", TensorType((2,), I32))
    assert graph.constants["k"].tolist() == [5, 6]


def test_only_operands_become_constants_of_the_graph() -> None:
    zero, unused = const("z", "INT8", [0]), const("unused", "FP32", np.zeros(3, np.float32))
    x, y = TosaTensor("x", (2,), "INT8"), TosaTensor("y", (2,), "INT8")
    graph = to_graph(tosa_file([("NEGATE", {}, "xzz", "y")], [x, y, zero, unused], "x", "y"), "net")
    assert dict(graph.constants) == {}
    assert set(graph.types) == {"x", "y"}


def test_a_constant_may_be_an_output() -> None:
    graph = to_graph(tosa_file([], [const("k", "INT48", [2**40])], "", "k"), "net")
    assert evaluate_graph(graph, {})["k"].tolist() == [2**40]


@pytest.mark.parametrize(("dtype", "unsigned"), [("INT8", U8), ("INT16", U16)])
def test_an_input_read_as_unsigned_only_is_unsigned(dtype: str, unsigned: object) -> None:
    attributes = {"scale32": True, "rounding_mode": "SINGLE_ROUND"}
    # 200 and 7 are halved and rounded; the result is written as it is.
    scales = [const("m", "INT32", [1 << 30]), const("s", "INT8", [31]), const("unit", "INT8", [30])]
    zero_points = [const("p", dtype, [0]), const("z", "INT8", [0])]
    tensors = [TosaTensor("x", (2,), dtype), TosaTensor("h", (2,), "INT8"), TosaTensor("y", (2,), dtype)]
    operators: list[Operator] = [
        ("RESCALE", {**attributes, "input_unsigned": True}, ["x", "m", "s", "p", "z"], "h"),
        ("RESCALE", {**attributes, "output_unsigned": True}, ["h", "m", "unit", "z", "p"], "y"),
    ]
    file = tosa_file(operators, [*tensors, *scales, *zero_points], "x", "y")
    graph = to_graph(file, "net")
    assert graph.types["x"].dtype is unsigned
    assert str(graph.types["y"].dtype) == dtype.lower().replace("int", "i")
    x = np.array([200, 7], graph.types["x"].dtype.storage)
    assert evaluate_graph(graph, {"x": x})["y"].tolist() == [100, 4]

    signed = dtype.lower().replace("int", "i")
    inverted: Operator = ("BITWISE_NOT", {}, "x", "n")
    tensors = [*tensors, *scales, *zero_points, TosaTensor("n", (2,), dtype)]
    also_read_as_signed = to_graph(tosa_file([*operators, inverted], tensors, "x", "yn"), "net")
    assert str(also_read_as_signed.types["x"].dtype) == signed
    also_an_output = to_graph(tosa_file(operators, tensors, "x", "yx"), "net")
    assert str(also_an_output.types["x"].dtype) == signed


# -- what no graph can have ------------------------------------------------------------------------------------------


def test_everything_unsupported_is_listed_at_once() -> None:
    floats = [TosaTensor(f"f{i}", (2,), "FP32") for i in range(4)]
    operators: list[Operator] = [
        ("CAST", {}, ("a",), ("f0",)),
        ("EXP", {}, ("f0",), ("f1",)),
        ("EXP", {}, ("f1",), ("f2",)),
        ("CAST", {}, ("f2",), ("b",)),
        ("COND_IF", {"then_graph": "yes", "else_graph": "no"}, ("b",), ("c",)),
        ("WHILE_LOOP", {"cond_graph": "go", "body_graph": "on"}, ("c",), ("d",)),
        ("CUSTOM", {"operator_name": "mine"}, ("d",), ()),
        add("d", "d", "c"),
    ]
    file = tosa_file(operators, [A, B, C, D, *floats], ["a", "f3"], ["d", "f1"])
    own = "npusim has only BOOL, INT4, INT8, INT16, INT32, INT48: quantise the whole model"
    assert problems_of(file) == (
        f"net: operator CAST uses FP32 tensors, {own} (2 in the file, the first makes 'f0')",
        "net: operator EXP is not known to npusim (2 in the file, the first makes 'f1')",
        "net: operator COND_IF is control flow (graphs 'yes', 'no'), which npusim does not run "
        "(1 in the file, the first makes 'c')",
        "net: operator WHILE_LOOP is control flow (graphs 'go', 'on'), which npusim does not run "
        "(1 in the file, the first makes 'd')",
        "net: operator CUSTOM is not known to npusim (1 in the file, the first makes 'nothing')",
        f"net: graph input 'f3' is of FP32, {own}",
        f"net: graph output 'f1' is of FP32, {own}",
    )


def test_other_regions_do_not_matter_unless_they_are_used() -> None:
    file = tosa_file([add("a", "b", "c")], [A, B, C], "ab", "c")
    body = tosa_file([("EXP", {}, "a", "b")], [A, B], "a", "b").regions[0]
    assert to_graph(replace(file, regions=(*file.regions, body)), "net") == to_graph(file, "net")


@pytest.mark.parametrize("regions", [(), (TosaRegion("main", ()),)])
def test_a_file_without_a_graph(regions: tuple[TosaRegion, ...]) -> None:
    assert problems_of(TosaFile((1, 0, 0, False), regions)) == ("net: the file has no graph; export the model again",)


# -- faults of operators and graph -----------------------------------------------------------------------------------


def test_a_fault_hides_no_other_and_causes_no_other() -> None:
    three = TosaTensor("three", (3,), "INT32")
    operators: list[Operator] = [
        ("MUL", {}, ("a", "b", "b"), ("c",)),
        add("c", "c", "d"),
        ("ABS", {}, ("d",), ("three",)),
        ("ABS", {}, ("a",), ("e", "f")),
        ("ABS", {}, ("e",), ("g",)),
        ("ABS", {}, ("a",), ("undescribed",)),
        ("ABS", {}, ("a",), ()),
    ]
    tensors = [A, B, C, D, three, *(replace(A, name=name) for name in "efg")]
    assert problems_of(tosa_file(operators, tensors, "ab", ["three", "g"])) == (
        "net: node 'mul_0' (mul) with output 'c': shift 'b' must be a constant: npusim needs its value before the run",
        "net: node 'abs_2' (abs): output 'three' is declared 3xi32, the operator gives 2xi32",
        "net: node 'abs_3' (abs) with output 'e': must have one output that the file describes, got ['e', 'f']",
        "net: node 'abs_5' (abs) with output 'undescribed': must have one output that the file describes, "
        "got ['undescribed']",
        "net: node 'abs_6' (abs): must have one output that the file describes, got []",
    )


@pytest.mark.parametrize(
    ("operators", "inputs", "outputs", "message"),
    [
        ([add("a", "b", "c")], "a", "c", r"node 'add_0' \(add\): reads 'b', which no earlier node"),
        ([add("c", "a", "d"), add("a", "a", "c")], "a", "d", r"node 'add_0' \(add\): reads 'c', which no earlier node"),
        ([add("a", "a", "c"), add("a", "a", "c")], "a", "c", r"output 'c' is defined twice"),
        ([add("a", "a", "c")], ["a", "q"], "c", r"net: input 'q': the file does not describe it; export"),
        ([add("a", "a", "c")], "a", "cd", r"net: output 'd' is not defined by any node"),
        ([add("a", "a", "c")], "a", "", r"net: the graph has no outputs"),
        ([("ADD", {}, ("a",), ("c",))], "a", "c", r"node 'add_0' \(add\): add: takes 2 operands"),
    ],
)
def test_wrong_graphs(operators: list[Operator], inputs: list[str], outputs: str, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        to_graph(tosa_file(operators, [A, B, C, D], inputs, outputs), "net")


def test_dimensions_that_are_not_fixed() -> None:
    x, y = TosaTensor("x", (-1, 2), "INT32"), TosaTensor("y", (-1, 2), "INT32")
    with pytest.raises(
        InvalidGraphError, match=r"net: input 'x' has shape \[-1, 2\]; every dimension must be at least 1"
    ):
        to_graph(tosa_file([("ABS", {}, "x", "y")], [x, y], "x", "y"), "net")


def test_an_int4_constant_never_holds_minus_eight() -> None:
    zero = const("z", "INT8", [0])
    tensors = [
        TosaTensor("x", (1, 1, 1, 2), "INT8"),
        TosaTensor("y", (1, 1, 1, 1), "INT32"),
        const("w", "INT4", [[[[7, -8]]]]),
        const("b", "INT32", [0]),
        zero,
        const("q", "INT4", [0]),
    ]
    attributes = {"pad": (0,) * 4, "stride": (1, 1), "dilation": (1, 1), "acc_type": "INT32"}
    file = tosa_file([("CONV2D", attributes, "xwbzq", "y")], tensors, "x", "y")
    assert problems_of(file) == ("net: constant 'w' at index [0, 0, 0, 1] is -8, outside i4 (-7..7)",)


def test_a_damaged_constant_names_the_file() -> None:
    short = replace(const("k", "INT32", [1, 2]), data=b"1234")
    with pytest.raises(FileFormatError, match=r"^net: constant 'k' of type INT32 and shape \[2\] wants 8 bytes, 4 are"):
        to_graph(tosa_file([add("a", "k", "c")], [A, C, short], "a", "c"), "net")


def test_level_8k_can_be_lifted() -> None:
    x, y = TosaTensor("x", (1,) * 7, "INT32"), TosaTensor("y", (1,) * 7, "INT32")
    file = tosa_file([("ABS", {}, "x", "y")], [x, y], "x", "y")
    wanted = "has rank 7 [1, 1, 1, 1, 1, 1, 1], the limit is 6 in TOSA's level 8K; choose level 'none' to lift it"
    assert problems_of(file) == (f"net: value 'x' {wanted}", f"net: value 'y' {wanted}")
    assert len(to_graph(file, "net", level="none").nodes) == 1


# -- variables -------------------------------------------------------------------------------------------------------


def read(variable: str, value: str) -> Operator:
    return ("VARIABLE_READ", {}, (variable,), (value,))


def write(value: str, variable: str) -> Operator:
    return ("VARIABLE_WRITE", {}, (value,), (variable,))


def run(graph: Graph, states: dict[str, list[int]] | None = None, **inputs: list[int]) -> dict[str, list[int]]:
    """Outputs by name, and what each variable holds afterwards by the variable's name."""
    given = {s.input: np.array(states[s.name], np.int32) if states else s.initial for s in graph.states}
    values = {name: np.array(x, np.int32) for name, x in inputs.items()}
    found = evaluate_graph(graph, {**values, **given})
    held = {s.name: found[s.output].tolist() for s in graph.states}
    return {v: found[v].tolist() for v in graph.data_outputs} | held


def test_a_variable_lives_from_run_to_run() -> None:
    operators = [read("v", "b"), add("a", "b", "c"), ("ABS", {}, "c", "d"), write("c", "v")]
    graph = to_graph(tosa_file(operators, [A, B, C, D, var("v", "INT32", [10, 20], "sum")], "a", "d"), "net")
    (state,) = graph.states
    assert (state.name, state.input, state.output, state.initial.tolist()) == ("sum", "v", "c", [10, 20])
    assert (graph.data_inputs, graph.data_outputs) == (("a",), ("d",))
    assert [n.name for n in graph.nodes] == ["variable_read_0", "add_1", "abs_2"]
    first = run(graph, a=[1, -100])
    assert first == {"d": [11, 80], "sum": [11, -80]}
    assert run(graph, {"sum": first["sum"]}, a=[1, 1]) == {"d": [12, 79], "sum": [12, -79]}


def test_a_read_gives_what_was_written_before_it() -> None:
    operators = [add("a", "a", "b"), write("b", "v"), read("v", "c"), add("c", "a", "d"), write("d", "v")]
    graph = to_graph(tosa_file(operators, [A, B, C, D, var("v", "INT32", [7, 7])], "a", "c"), "net")
    assert run(graph, a=[1, 2]) == {"c": [2, 4], "v": [3, 6]}


def test_a_declared_variable_may_never_be_written_or_used() -> None:
    variables = [var("v", "INT32", [3, 4]), var("idle", "FP32", np.zeros(1, np.float32))]
    operators: list[Operator] = [("VARIABLE", {}, (), ("v",)), read("v", "b"), add("a", "b", "c")]
    graph = to_graph(tosa_file(operators, [A, B, C, *variables], "a", "c"), "net")
    assert [(s.name, s.output) for s in graph.states] == [("v", "v")]
    assert run(graph, a=[1, 1]) == {"c": [4, 5], "v": [3, 4]}


def test_each_state_has_an_output_of_its_own() -> None:
    """A value written twice, also an output, an input or a constant is copied into a value that only the state has."""
    variables = [var(name, "INT32", [0, 0]) for name in ("u", "v", "w", "x")]
    operators = [add("a", "a", "b"), write("b", "u"), write("b", "v"), write("a", "w"), write("k", "x")]
    taken = replace(A, name="v.next")
    tensors = [A, B, const("k", "INT32", [8, 9]), taken, *variables]
    graph = to_graph(tosa_file(operators, tensors, "a", "b"), "net")
    assert [s.output for s in graph.states] == ["u.next", "v.next_", "w.next", "x.next"]
    assert run(graph, a=[1, 2]) == {"b": [2, 4], "u": [2, 4], "v": [2, 4], "w": [1, 2], "x": [8, 9]}
    alone = to_graph(tosa_file(operators[:3], [A, B, C, *variables], "a", "a"), "net")
    assert [s.output for s in alone.states] == ["b", "v.next"]


def test_variables_can_be_exchanged() -> None:
    operators = [read("u", "b"), read("v", "c"), write("c", "u"), write("b", "v")]
    variables = [var("u", "INT32", [1, 2]), var("v", "INT32", [3, 4])]
    graph = to_graph(tosa_file(operators, [A, B, C, *variables], "a", "a"), "net")
    assert run(graph, a=[0, 0]) == {"a": [0, 0], "u": [3, 4], "v": [1, 2]}


def test_tensors_with_one_variable_name_are_one_variable() -> None:
    variables = [var("v1", "INT32", [1, 2], "v"), var("v2", "INT32", [1, 2], "v")]
    operators = [read("v1", "b"), add("a", "b", "c"), write("c", "v2")]
    graph = to_graph(tosa_file(operators, [A, B, C, *variables], "a", "b"), "net")
    assert run(graph, a=[1, 1]) == {"b": [1, 2], "v": [2, 3]}


def test_a_write_may_name_its_variable_among_the_inputs() -> None:
    operators: list[Operator] = [("VARIABLE_WRITE", {}, ("v", "a"), ())]
    graph = to_graph(tosa_file(operators, [A, var("v", "INT32", [1, 2])], "a", "a"), "net")
    assert run(graph, a=[5, 6]) == {"a": [5, 6], "v": [5, 6]}


@pytest.mark.parametrize(
    ("operators", "variable", "message"),
    [
        (
            [("VARIABLE_READ", {}, (), ("b",))],
            var("v", "INT32", [0, 0]),
            r"net: operator VARIABLE_READ 0 of the file: must name one variable and one value, got \['b'\]",
        ),
        (
            [("VARIABLE_WRITE", {}, ("a", "a"), ("v",))],
            var("v", "INT32", [0, 0]),
            r"net: operator VARIABLE_WRITE 0 of the file: must name one variable and one value, got \['a', 'a', 'v'\]",
        ),
        (
            [read("v", "b")],
            replace(var("v", "INT32", [0, 0]), data=None),
            r"net: variable 'v': it has no first value; export the model with one",
        ),
        (
            [write("a", "v")],
            var("v", "INT8", [0, 0]),
            r"net: variable 'v' is 2xi8 and is written as 2xi32; they must agree",
        ),
        (
            [read("v", "b")],
            var("v", "INT8", [0, 0]),
            r"net: node 'variable_read_0' \(identity\): output 'b' is declared 2xi32, the operator gives 2xi8",
        ),
        (
            [write("b", "v")],
            var("v", "INT32", [0, 0]),
            r"net: node 'identity_0' \(identity\): reads 'b', which no earlier node, input or constant defines",
        ),
        (
            [read("v", "b")],
            var("v", "FP32", np.zeros(2, np.float32)),
            r"net: operator VARIABLE_READ uses FP32 tensors",
        ),
    ],
)
def test_wrong_variables(operators: list[Operator], variable: TosaTensor, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        to_graph(tosa_file(operators, [A, B, variable], "a", "a"), "net")


# -- files -----------------------------------------------------------------------------------------------------------


def test_load(tmp_path: Path) -> None:
    path = tmp_path / "sum.tosa"
    path.write_bytes(write_tosa(tosa_file([add("a", "b", "c")], [A, B, C], "ab", "c")))
    graph = load_tosa(path)
    assert graph.name == "sum"
    assert load_tosa(str(path)) == graph
    assert run(graph, a=[1, 2], b=[3, 4]) == {"c": [4, 6]}


def test_messages_about_a_loaded_file_name_its_path(tmp_path: Path) -> None:
    path = tmp_path / "sum.tosa"
    path.write_bytes(write_tosa(tosa_file([add("a", "q", "c")], [A, C], "a", "c")))
    with pytest.raises(InvalidGraphError, match=rf"^{path}: node 'add_0' \(add\): reads 'q'"):
        load_tosa(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none\.tosa: cannot be read \(No such file or directory\); name a TOSA"):
        load_tosa(tmp_path / "none.tosa")
    with pytest.raises(FileFormatError, match=r"cannot be read \(Is a directory\)"):
        load_tosa(tmp_path)
    (tmp_path / "text.tosa").write_text("not a flatbuffer")
    with pytest.raises(FileFormatError, match=r"text\.tosa: byte 4: graph: the identifier is"):
        load_tosa(tmp_path / "text.tosa")

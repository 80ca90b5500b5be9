"""Graphs written out in YAML: what is built, and where each fault is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from npusim.errors import InputError
from npusim.frontends.workload import Workload, random_array, tensor_type
from npusim.functional.whole import evaluate_graph

Loader = Callable[..., Workload]
Finder = Callable[..., list[str]]

CONV = "attributes: {pad: [1, 1, 1, 1], stride: [1, 1], dilation: [1, 1]}"
RESCALE = (
    "scale32: true, rounding: double, per_channel: false, input_unsigned: false, output_unsigned: false, out_type: i8"
)


def graph(
    *operators: str, inputs: str = "{x: 1x4x4x3xi8}", outputs: str = "[y]", constants: str = "{}", top: str = ""
) -> str:
    """A workload; its operators start on line 6, a line each."""
    lines = ["name: net", "graph:", f"  inputs: {inputs}", f"  constants: {constants}", "  operators:"]
    return "\n".join([*lines, *(f"    - {o}" for o in operators), f"  outputs: {outputs}", top])


# -- what is built ---------------------------------------------------------------------------------------------


def test_constants_inside_and_outside_the_operators_are_one_thing(loaded: Loader) -> None:
    inline = (
        "{name: c, op: conv2d, inputs: [x, {type: 2x3x3x3xi8, arange: [-20, 1]}, {type: 2xi32, fill: 5}], output: y, "
    )
    named = "{name: c, op: conv2d, inputs: [x, w, b], output: y, "
    a = loaded(graph(f"{inline}{CONV}}}")).graph
    b = loaded(
        graph(f"{named}{CONV}}}", constants="{w: {type: 2x3x3x3xi8, arange: [-20, 1]}, b: {type: 2xi32, fill: 5}}")
    ).graph
    assert a.nodes[0].inputs == ("x", "c.weight", "c.bias") and b.nodes[0].inputs == ("x", "w", "b")
    assert a.nodes[0].bound == b.nodes[0].bound and a.name == "net"
    assert a.inputs == ("x",) and a.outputs == ("y",) and str(a.types["y"]) == "1x4x4x2xi32"
    x = random_array(a.types["x"], 0, "x")
    np.testing.assert_array_equal(evaluate_graph(a, {"x": x})["y"], evaluate_graph(b, {"x": x})["y"])


def test_random_constants_depend_on_seed_and_name_but_not_on_the_others(loaded: Loader) -> None:
    add = "{name: y, op: add, inputs: [x, w]}"
    alone = loaded(graph(add, inputs="{x: 4xi32}", constants="{w: {type: 4xi32, random: true}}"))
    among = loaded(
        graph(add, inputs="{x: 4xi32}", constants="{v: {type: 4xi32, random: true}, w: {type: 4xi32, random: true}}")
    )
    seeded = loaded(graph(add, inputs="{x: 4xi32}", constants="{w: {type: 4xi32, random: true}}"), "seed=1")
    w = alone.graph.constants["w"]
    np.testing.assert_array_equal(w, random_array(tensor_type("4xi32"), 0, "w"))
    np.testing.assert_array_equal(w, among.graph.constants["w"])
    assert seeded.seed == 1 and not np.array_equal(w, seeded.graph.constants["w"])


def test_an_aliased_constant_is_one_recipe_for_several_constants(loaded: Loader) -> None:
    a, b = "{name: a, op: add, inputs: [x, &r {type: 9xi32, random: true}]}", "{name: y, op: add, inputs: [a, *r]}"
    constants = loaded(graph(a, b, inputs="{x: 9xi32}")).graph.constants
    assert list(constants) == ["a.b", "y.b"] and not np.array_equal(constants["a.b"], constants["y.b"])


def thresholded(thresholds: str) -> str:
    """An i32 [1,2] through thresholds of its two columns."""
    attributes = f"{{axis: 1, {thresholds}}}"
    return graph(f"{{name: y, op: threshold, inputs: [x], attributes: {attributes}}}", inputs="{x: 1x2xi32}")


def test_grouped_thresholds_are_the_operands_and_attributes_they_are_made_of(loaded: Loader) -> None:
    grouped = loaded(thresholded("thresholds: {values: [3, -4], compare: ge, invert: [false, true]}")).graph
    apart = loaded(thresholded("thresholds: [3, -4], compare: ge, invert: [0, 1]")).graph
    assert grouped.nodes == apart.nodes
    for x, bits in (([3, -4], [1, 0]), ([2, -5], [0, 1])):
        values = {"x": np.array([x], np.int32)}
        assert evaluate_graph(grouped, values)["y"].tolist() == evaluate_graph(apart, values)["y"].tolist() == [bits]


def test_faults_in_grouped_thresholds_are_reported_at_their_place(problems: Finder) -> None:
    (compare,) = problems(thresholded("thresholds: {values: [3, -4], compare: lt}"))
    assert compare.startswith("w.yaml:6:") and "compare must be 'gt' (sum > threshold) or 'ge'" in compare
    (key,) = problems(thresholded("thresholds: {values: [3, -4], compare: ge, values2: 1}"))
    assert "values2" in key and key.startswith("w.yaml:6:")
    for invert, message in (("[a, b]", "invert holds <U1 values"), ("[0.5, 0.5]", "invert holds float64 values")):
        (problem,) = problems(thresholded(f"thresholds: {{values: [3, -4], compare: ge, invert: {invert}}}"))
        assert message in problem


def test_operands_stated_as_attributes_become_constants_of_the_right_type(loaded: Loader) -> None:
    rescale = f"{{name: y, op: rescale, inputs: [x], attributes: {{multiplier: [1073741824], shift: [31], {RESCALE}}}}}"
    built = loaded(graph(rescale, inputs="{x: 4xi8}")).graph
    assert built.nodes[0].inputs == ("x", "y.multiplier", "y.shift")
    assert [str(built.types[v]) for v in built.nodes[0].inputs] == ["4xi8", "1xi32", "1xi8"]
    small = rescale.replace("scale32: true, rounding: double", "scale32: false, rounding: single").replace(
        "1073741824", "16384"
    )
    assert str(loaded(graph(small, inputs="{x: 4xi48}")).graph.types["y.multiplier"]) == "1xi16"
    table = f"{{name: y, op: table, inputs: [x], attributes: {{table: {list(range(-128, 128))}}}}}"
    assert str(loaded(graph(table, inputs="{x: 4xi8}")).graph.types["y.table"]) == "256xi8"


def test_variadic_operators_take_any_number_of_inputs(loaded: Loader) -> None:
    concat = (
        "{name: y, op: concat, inputs: [x, {type: 1xi8, fill: 1}, x, {type: 2xi8, fill: 2}], attributes: {axis: 0}}"
    )
    built = loaded(graph(concat, inputs="{x: 1xi8}")).graph
    assert evaluate_graph(built, {"x": np.int8([7])})["y"].tolist() == [7, 1, 7, 2, 2]


def test_the_dialect_reaches_the_operators(loaded: Loader, problems: Finder) -> None:
    pool = "{name: y, op: max_pool2d, inputs: [x], attributes: {kernel: [3, 3], stride: [2, 2], pad: [0, 0, 0, 0]}}"
    assert str(loaded(graph(pool, top="dialect: seed")).graph.types["y"]) == "1x1x1x3xi8"
    (fault,) = problems(graph(pool))
    assert fault.startswith("w.yaml:6:7: graph.operators.0: node 'y' (max_pool2d): max_pool2d: ")


def test_the_level_can_be_lifted(loaded: Loader, problems: Finder) -> None:
    deep = graph("{name: y, op: identity, inputs: [x]}", inputs="{x: 1x1x1x1x1x1x1xi8}")
    assert problems(deep)[0].startswith(
        "w.yaml:2:1: graph: value 'x' has rank 7 [1, 1, 1, 1, 1, 1, 1], the limit is 6 in"
    )
    assert loaded(deep, "level=none").graph.types["y"].shape == (1,) * 7


# -- faults, each at its place ---------------------------------------------------------------------------------

ADD = "{name: y, op: add, inputs: [x, x]}"
WEIGHT, BIAS = "{type: 2x3x3x3xi8, random: true}", "{type: 2xi32, fill: 0}"


CONV_OF = "{{name: y, op: conv2d, inputs: [x, {}, {}], {}}}".format


def place(text: str, at: str) -> str:
    """Line and column, from 1, of where ``at`` first stands in ``text``."""
    before = text[: text.index(at)].split("\n")
    return f"w.yaml:{len(before)}:{len(before[-1]) + 1}"


@pytest.mark.parametrize(
    ("text", "at", "fault"),
    [
        (
            graph("{name: y, op: conv2dd, inputs: [x]}"),
            "conv2dd",
            "graph.operators.0.op: operator 'conv2dd' is not known; did you mean 'conv2d'?",
        ),
        (
            graph(f"{{name: y, op: conv2d, inputs: [x, {WEIGHT}], {CONV}}}"),
            "{name: y",
            "graph.operators.0: node 'y' (conv2d): conv2d: takes 3 operands (input, weight, bias), got 2",
        ),
        (
            graph("{name: y, op: add, inputs: [xx, x]}"),
            "xx",
            "graph.operators.0.inputs.0: no input, constant or operator makes the value 'xx'; did you mean 'x'?",
        ),
        (
            graph("{name: y, op: add, inputs: [x, z]}", "{name: z, op: add, inputs: [x, x]}", inputs="{x: 4xi32}"),
            "z]}",
            "graph.operators.0.inputs.1: the value 'z' is made further down; move its operator above what reads it",
        ),
        (
            graph("{name: y, op: identity, inputs: [y]}"),
            "y]}",
            "graph.operators.0.inputs.0: the value 'y' is made further down; move its operator above what reads it",
        ),
        (
            graph(CONV_OF(WEIGHT, BIAS, CONV.replace("stride: [1", "stride: [0"))),
            "stride",
            "graph.operators.0.attributes.stride: node 'y' (conv2d): conv2d: every stride must be at least 1 "
            "(rule stride_positive), got stride [0, 1]",
        ),
        (
            graph(CONV_OF(WEIGHT.replace("3xi8", "4xi8"), BIAS, CONV)),
            "{type: 2x3x3x4xi8",
            "graph.operators.0.inputs.1: node 'y' (conv2d): conv2d: the weight's input channels must equal the "
            "channels of the input (rule channels_match), got weight [2, 3, 3, 4] for input [1, 4, 4, 3]",
        ),
        (
            graph("{name: y, op: clamp, inputs: [x], attributes: {min_val: true, max_val: 3}}"),
            "true",
            "graph.operators.0.attributes.min_val: clamp: attribute min_val must be an integer, got True",
        ),
        (
            graph("{name: y, op: clamp, inputs: [x], attributes: {min_val: 0}}"),
            "{name: y",
            "graph.operators.0: clamp: attribute max_val is missing; state it (an integer)",
        ),
        (
            graph("{name: y, op: argmax, inputs: [x], attributes: {axis: 1, axes: 3}}"),
            "3}",
            "graph.operators.0.attributes.axes: argmax: attribute 'axes' is not known; did you mean 'axis'?",
        ),
        (
            graph(f"{{name: y, op: rescale, inputs: [x], attributes: {{multiplier: [1.5], shift: [31], {RESCALE}}}}}"),
            "multiplier",
            "graph.operators.0.attributes.multiplier: rescale: multiplier holds float64 values, but its type is i32; "
            "convert them explicitly",
        ),
        (
            graph(f"{{name: y, op: rescale, inputs: [], attributes: {{multiplier: [1], shift: [31], {RESCALE}}}}}"),
            "{name: y",
            "graph.operators.0: node 'y' (rescale): rescale: takes 3 operands (input, multiplier, shift), got 2",
        ),
        (
            graph(ADD, inputs="{x: 4xi33}"),
            "4xi33",
            "graph.inputs.x: type '4xi33' has the unknown element type 'i33'; did you mean 'i3'?",
        ),
        (
            graph(ADD, inputs="{x: 0x4xi32}"),
            "0x4xi32",
            "graph.inputs.x: input 'x' has shape [0, 4]; every dimension must be at least 1",
        ),
        (
            graph(ADD, inputs="{x: 4xi32}", constants="{w: {type: 4i8, fill: 0}}"),
            "w:",
            "graph.constants.w: type '4i8' must be sizes and an element type joined by x, such as 1x32x32x3xi8",
        ),
        (
            graph(ADD, inputs="{x: 4xi32}", constants="{w: {type: 4xi8, file: w.npy}}"),
            "w:",
            "graph.constants.w: w.npy: there is no such file for constant 'w'; check the path",
        ),
        (
            graph("{name: y, op: add, inputs: [x, {type: 4xi32, fill: 2147483648}]}", inputs="{x: 4xi32}"),
            "{type",
            "graph.operators.0.inputs.1: fill of constant 'y.b' at index [] is 2147483648, outside i32 "
            "(-2147483648..2147483647)",
        ),
        (
            graph(ADD, inputs="{x: 4xi32}", constants="{x: {type: 4xi32, fill: 0}}"),
            "x: {type",
            "graph.constants.x: constant 'x' is defined twice; every value needs a name of its own",
        ),
        (
            graph(ADD, ADD.replace("name: y", "output: z, name: y"), inputs="{x: 4xi32}"),
            "{output: z",
            "graph.operators.1: node 'y' (add): the name is used twice; give every node its own",
        ),
        (
            graph(ADD, inputs="{x: 4xi32}", outputs="[yy]"),
            "yy",
            "graph.outputs.0: no input, constant or operator makes the value 'yy'; did you mean 'y'?",
        ),
        (
            graph(ADD, inputs="{x: 4xi32}", outputs="[y, y]"),
            "y]",
            "graph.outputs.1: output 'y' is listed twice; remove one",
        ),
        (
            graph(ADD, inputs="{x: 4xi32}", outputs="[]"),
            "outputs",
            "graph.outputs: the graph has no outputs; name at least one value",
        ),
    ],
)
def test_a_fault_is_reported_once_where_it_is(problems: Finder, text: str, at: str, fault: str) -> None:
    assert problems(text) == [f"{place(text, at)}: {fault}"]


def test_what_reads_a_broken_value_is_not_blamed(problems: Finder) -> None:
    operators = ("{name: a, op: addd, inputs: [x, x]}", ADD.replace("[x", "[a"), ADD.replace("y", "b"))
    (fault,) = problems(graph(*operators, inputs="{x: 4xi32}", outputs="[b, y]"))
    assert "graph.operators.0.op: operator 'addd' is not known" in fault


def test_all_faults_come_at_once_in_the_order_of_the_text(problems: Finder) -> None:
    text = graph(
        "{name: a, op: conv2dd, inputs: [q, {type: oops, fill: 1}]}",
        CONV_OF(WEIGHT, BIAS, CONV.replace("pad:", "pda:")),
        "{name: c, op: clamp, inputs: [x], attributes: {min_val: 5, max_val: 3}}",
        inputs="{x: 1x4x4x3xi8, z: 3xi9}",
        outputs="[c, nothing]",
    )
    places = [place(text, at) for at in ("3xi9", "conv2dd", "q,", "{type: oops", "{name: y", "pda", "5,", "nothing")]
    assert [p.split(": ")[0] for p in problems(text)] == places


# -- the published mistakes of others --------------------------------------------------------------------------


def case(config: pytest.Config, name: str) -> Any:
    paths = list(Path(config.getoption("cases")).glob(f"{name}-*.yaml"))
    if not paths:
        pytest.skip(f"no case file {name} in {config.getoption('cases')}")
    return yaml.safe_load(paths[0].read_text(encoding="utf-8"))


@pytest.mark.parametrize("inline", [False, True])
def test_illegal_numbers_are_refused_by_name(pytestconfig: pytest.Config, loaded: Loader, inline: bool) -> None:
    found = case(pytestconfig, "B23")
    for run in found["runs"]:
        operands = run["operands"]
        types = {n: "x".join(map(str, [*t["shape"], t["type"]])) for n, t in operands.items()}
        constants = {
            n: {"type": types[n], **{k: t[k] for k in t if k in ("fill", "values")}} for n, t in operands.items()
        }
        constants.pop("input")
        inputs = [constants.get(n, n) if inline else n for n in operands]
        operator = {"name": "y", "op": run["op"], "inputs": inputs, "attributes": run["attributes"]}
        described = {"inputs": {"input": types["input"]}, "operators": [operator], "outputs": ["y"]}
        text = yaml.safe_dump(
            {"graph": described | ({} if inline else {"constants": constants}), "dialect": run["dialect"]}
        )
        if "error" not in run["expect"]:
            assert list(loaded(text).graph.types["y"].shape) == run["expect"]["shape"]
            continue
        with pytest.raises(InputError) as caught:
            loaded(text)
        words = found["expected"]["message_contains"][run["name"]]
        assert any(all(w in p for w in words) for p in caught.value.problems), (run["name"], caught.value.problems)


def test_foreign_attributes_are_named_and_sizes_are_not(pytestconfig: pytest.Config, problems: Finder) -> None:
    found = case(pytestconfig, "B29")
    for foreign, expected in zip(
        found["input"]["workloads_with_foreign_keys"], found["expected"]["foreign_keys"], strict=True
    ):
        op, names = foreign.pop("op"), expected["names"]
        attributes = {n: foreign.pop(n) for n in names}
        inputs = {n: "x".join([*map(str, shape), "i8"]) for n, shape in foreign.items()}
        operator = {"name": "y", "op": op, "inputs": list(inputs), "attributes": attributes}
        described = {"inputs": inputs, "operators": [operator], "outputs": ["y"]}
        faults = problems(yaml.safe_dump({"graph": described}))
        assert all(any(f"{op}: attribute {n!r} is not known" in f for f in faults) for n in names)
        assert not any(word in f for f in faults for word in ("shape", "size", "kernel", "larger", str([*inputs])))

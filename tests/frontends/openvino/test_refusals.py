"""What an IR may not have: every refusal names the layer, the attribute or operand, and the value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from tests.frontends.openvino.ir import Ir, Output, run

CONVOLUTION = r"^net: layer 'conv' \(BinaryConvolution\): "


def convolution(shape: tuple[int, ...] = (1, 2, 4, 4), depth: int = 2, out: int = 2, **attributes: Any) -> Ir:
    g = Ir()
    g.result(g.convolution(g.parameter(shape), np.ones((3, depth, 3, 3)), (1, 3, out, out), **attributes))
    return g


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"strides": [0, 1]}, r"every stride must be at least 1 .* got stride \[0, 1\]"),
        ({"dilations": [1, 0]}, r"every dilation must be at least 1 .* got dilation \[1, 0\]"),
        ({"pads_begin": [0, -1]}, r"every pad must be at least 0 .* got pads_begin \[0, -1\]"),
        ({"pads_end": [-1, 0]}, r"every pad must be at least 0 .* got pads_end \[-1, 0\]"),
        ({"dilations": [2, 2]}, r"the dilated kernel must fit into the padded input .* dilation \[2, 2\]"),
        ({"depth": 1}, r"the weight must have the channels .* got weight \[3, 1, 3, 3\] for input \[1, 2, 4, 4\]"),
        (
            {"shape": (1, 2, 4)},
            r"every operand must have the rank .* got input of shape \[1, 2, 4\] for \[N, C, H, W\]",
        ),
        ({"mode": "xnor"}, "mode must be xnor-popcount .* got mode 'xnor'"),
        ({"auto_pad": "notset"}, "auto_pad must be explicit, same_upper, same_lower or valid .* got auto_pad 'notset'"),
        ({"strides": "1,x"}, "attribute strides '1,x' must be integers with commas between them"),
        ({"strides": "1"}, r"take two entries, y and x .* got stride \[1\]"),
        ({"strides": "9" * 5000 + ",1"}, "attribute strides '9+,1' must be integers"),
        ({"pads_end": None}, "attribute pads_end is missing; state it"),
        ({"dilations": None}, "attribute dilations is missing; state it"),
        ({"strides": None}, "attribute strides is missing; state it"),
        ({"mode": None}, "attribute mode is missing; state it"),
        ({"pad_value": None}, "attribute pad_value is missing; state it"),
        ({"pad_value": "none"}, "attribute pad_value 'none' must be a number"),
        ({"out": 3}, r"output port 2 is stated as \[1, 3, 3, 3\], the operator gives \[1, 3, 2, 2\]"),
        ({"element": "i32"}, "output port 2 is stated as I32, the operator gives f32"),
    ],
)
def test_convolutions(tmp_path: Path, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=CONVOLUTION + ".*" + message):
        convolution(**attributes).load(tmp_path)


@pytest.mark.parametrize("value", [0.5, 2, -1.5, "nan", "inf"])
@pytest.mark.parametrize("rule", ["plugin", "literal"])
def test_other_pad_values_are_refused_where_a_tap_is_padded(tmp_path: Path, value: Any, rule: str) -> None:
    known = {"plugin": "-1 or 0 or 1", "literal": "0 or 1"}[rule]
    message = f"attribute pad_value '{value}' must be {known} under pad_rule {rule}, as taps lie on padding"
    with pytest.raises(InvalidGraphError, match=CONVOLUTION + message):
        convolution(out=4, pads_begin=[1, 1], pads_end=[1, 1], pad_value=value).load(tmp_path, pad_rule=rule)
    for unread in (
        {"out": 2},
        {"auto_pad": "valid", "pads_begin": [7, 7]},
        {"out": 1, "pads_end": [1, 1], "strides": [4, 4]},
    ):
        convolution(pad_value=value, **unread).load(tmp_path, pad_rule=rule)


def test_the_literal_rule_knows_no_minus_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidGraphError, match="attribute pad_value '-1' must be 0 or 1 under pad_rule literal"):
        convolution(auto_pad="same_upper", out=4, pad_value=-1).load(tmp_path, pad_rule="literal")


@pytest.mark.parametrize("auto_pad", ["same_upper", "Same_Lower", "VALID"])
def test_pads_are_ignored_unless_they_are_explicit(tmp_path: Path, auto_pad: str) -> None:
    out = 2 if auto_pad == "VALID" else 4
    x = np.random.default_rng(0).integers(0, 2, (1, 2, 4, 4)).astype(np.float32)
    plain = convolution(auto_pad=auto_pad.lower(), out=out, pads_begin=None, pads_end=None)
    ignored = convolution(auto_pad=auto_pad, out=out, pads_begin=[5, -6], pads_end=[7])
    np.testing.assert_array_equal(run(plain.load(tmp_path), x=x)["y"], run(ignored.load(tmp_path), x=x)["y"])


@pytest.mark.parametrize("element", ["i8", "f16"])
def test_sums_must_fit_the_type_of_the_model(tmp_path: Path, element: str) -> None:
    depth = {"i8": 128, "f16": 2049}[element]
    for channels, fits in ((depth - 1, True), (depth, False)):
        g = Ir()
        g.result(g.convolution(g.parameter((1, channels, 1, 1), element), np.ones((1, channels, 1, 1)), (1, 1, 1, 1)))
        if fits:
            g.load(tmp_path)
        else:
            with pytest.raises(InvalidGraphError, match=rf"got sums of {depth} products in .* for out_type {element}"):
                g.load(tmp_path)


@pytest.mark.parametrize("dims", [(1, -1, 4, 4), (-1, 2, 4, 4), (1, 2, 0, 4)])
def test_shapes_must_be_static(tmp_path: Path, dims: tuple[int, ...]) -> None:
    g = convolution(shape=dims)
    with pytest.raises(
        InvalidGraphError, match=r"layer 'x' \(Parameter\): port 0 of .* has an empty or dynamic dimension"
    ):
        g.load(tmp_path)
    g = Ir()
    g.layer("Parameter", "x", (), (1, 2), "f32", {"shape": "?,2", "element_type": "f32"})
    with pytest.raises(InvalidGraphError, match=r"attribute shape '\?,2' has an empty or dynamic dimension"):
        g.load(tmp_path)


def quantized(limits: list[Any], **attributes: Any) -> Ir:
    g = Ir()
    c = g.convolution(g.parameter((1, 2, 4, 4)), np.ones((3, 2, 3, 3)), (1, 3, 2, 2))
    g.result(g.quantize(c, limits, **attributes))
    return g


def computed_limit() -> Ir:
    g = Ir()
    x = g.parameter((1, 1, 1, 1))
    c = g.constant("c", np.zeros((1, 1, 1, 1)))
    g.result(g.layer("FakeQuantize", "fq", (x, c, x, c, c), (1, 1, 1, 1), "f32", {"levels": 2}))
    return g


def with_layer(make: Callable[[Ir, Output, Output], Any], element: str = "f32") -> Ir:
    """A convolution 1x3x2x2 of the parameter 1x2x4x4, and what ``make`` makes of both."""
    g = Ir()
    x = g.parameter((1, 2, 4, 4), element)
    made = make(g, x, g.convolution(x, np.ones((3, 2, 3, 3)), (1, 3, 2, 2)))
    if made is not None:
        g.result(made)
    return g


def zero_one(g: Ir, x: Output, name: str = "fq") -> Output:
    return g.quantize(x, [[0.0], [0.0], [0.0], [1.0]], name)


KERNEL = np.ones((3, 3, 1, 1))

REFUSED: list[tuple[str, Ir, str]] = [
    ("levels", quantized([[0.0]] * 4, levels=3), r"layer 'fq' \(FakeQuantize\): attribute levels '3' must be 2"),
    ("no levels", quantized([[0.0]] * 4, levels=None), "attribute levels is missing"),
    (
        "broadcast",
        quantized([[0.0]] * 4, auto_broadcast="pdpd"),
        "attribute auto_broadcast 'pdpd' must be numpy for operands of",
    ),
    (
        "limits of a row",
        quantized([np.zeros(2), [0.0], [0.0], [1.0]]),
        r"input_low of shape \[2\] for data \[1, 3, 2, 2\]: npusim takes one number, or one for each channel",
    ),
    ("limits of rank 5", quantized([np.zeros((1, 1, 3, 1, 1)), [0.0], [0.0], [1.0]]), "input_low of shape"),
    ("crossed limits", quantized([[1.0], [0.0], [0.0], [1.0]]), "input_low 1.0 and input_high 0.0 in channel 0"),
    ("computed limit", computed_limit(), "input_high is computed; it must be a constant"),
    ("integers", with_layer(lambda g, x, c: zero_one(g, c), "i32"), "it reads i32; FakeQuantize is defined for floats"),
    (
        "odd limits",
        with_layer(
            lambda g, x, c: g.layer(
                "FakeQuantize",
                "fq",
                (c, *[g.constant(f"k{i}", [0], "i32") for i in range(4)]),
                c.shape,
                "f32",
                {"levels": 2},
            )
        ),
        "input_low is i32, the data f32: both must be the same type",
    ),
    (
        "kernel of floats",
        with_layer(
            lambda g, x, c: g.layer(
                "BinaryConvolution", "d", (x, g.constant("k", np.ones((1, 2, 1, 1)))), (1, 1, 4, 4), "f32", {}
            )
        ),
        r"layer 'd' \(BinaryConvolution\): its kernel is of f32; it must be a constant of element_type u1",
    ),
    (
        "computed kernel",
        with_layer(lambda g, x, c: g.layer("BinaryConvolution", "d", (x, c), (1, 1, 4, 4), "f32", {})),
        "its kernel is computed",
    ),
    (
        "constant input",
        with_layer(
            lambda g, x, c: g.convolution(
                g.constant("k", np.ones((1, 2, 4, 4))), np.ones((1, 2, 1, 1)), (1, 1, 4, 4), "d"
            )
        ),
        "input 0 is a constant",
    ),
    (
        "levels of -1 and 1",
        with_layer(
            lambda g, x, c: g.convolution(g.quantize(c, [[0.0], [0.0], [-1.0], [1.0]]), KERNEL, (1, 3, 2, 2), "d")
        ),
        r"layer 'd' .*: it reads the levels -1 and 1 of 'fq' in channel 0, its input must be 0 or 1",
    ),
    (
        "pool before a convolution",
        with_layer(lambda g, x, c: g.convolution(g.pool(c, (1, 3, 1, 1)), KERNEL, (1, 3, 1, 1), "d")),
        "it reads sums behind MaxPool 'pool': npusim pools sums only before a FakeQuantize or a Result",
    ),
    (
        "broken constant",
        with_layer(lambda g, x, c: g.add(c, g.add(c, g.constant("k", [0.25]), "a"), "b")),
        r"layer 'b' \(Add\): it reads sums behind the constant of Add 'a', which must be whole numbers",
    ),
    (
        "constant of a row",
        with_layer(lambda g, x, c: zero_one(g, g.add(c, g.constant("k", np.zeros(2))))),
        r"the constant of Add 'add' of shape \[2\] for data \[1, 3, 2, 2\]",
    ),
    (
        "wide constant",
        with_layer(lambda g, x, c: g.add(c, g.constant("k", np.zeros((7, 1, 1, 1))))),
        r"its constant \[7, 1, 1, 1\] widens its data \[1, 3, 2, 2\]",
    ),
    (
        "odd constant",
        with_layer(lambda g, x, c: g.add(c, g.constant("k", [1], "i32"))),
        "the second operand is i32, the data f32",
    ),
    (
        "floats and sums",
        with_layer(
            lambda g, x, c: g.add(g.pool(x, (1, 2, 2, 2)), g.convolution(x, np.ones((2, 2, 3, 3)), (1, 2, 2, 2), "d"))
        ),
        r"it adds integer sums and MaxPool 'pool', which is computed on the host: binarise that first",
    ),
    (
        "bits and sums",
        with_layer(lambda g, x, c: g.add(c, zero_one(g, c))),
        r"it reads the levels 0 and 1 of 'fq' in channel 0; npusim adds",
    ),
    (
        "float output",
        with_layer(lambda g, x, c: g.result(g.pool(x, (1, 2, 2, 2)), "z")),
        r"layer 'z' \(Result\): it reads MaxPool 'pool' with no integer operator between",
    ),
    (
        "dilated pool",
        with_layer(lambda g, x, c: g.pool(c, (1, 3, 1, 1), version="opset8", dilations=[1, 2])),
        r"attribute dilations \[1, 2\]: npusim pools windows without gaps",
    ),
    (
        "rounding",
        with_layer(lambda g, x, c: g.pool(c, (1, 3, 1, 1), rounding_type="up")),
        "attribute rounding_type 'up' must be floor or ceil",
    ),
    (
        "pool pads",
        with_layer(lambda g, x, c: g.pool(c, (1, 3, 3, 3), pads_begin=[2, 2])),
        r"got pad \[2, 0, 2, 0\] for kernel \[2, 2\]",
    ),
    ("wide pool", with_layer(lambda g, x, c: g.pool(c, (1, 3, 1, 1), kernel=[3, 3])), "the dilated kernel must fit"),
    (
        "indices",
        with_layer(
            lambda g, x, c: g.result(
                Output(g.pool(c, (1, 3, 1, 1), version="opset8", indices=True).layer, 2, (1, 3, 1, 1), "i32"), "z"
            )
        ),
        r"layer 'pool' \(MaxPool\): its indices \(output 1\) are read",
    ),
    (
        "inputs",
        with_layer(lambda g, x, c: g.layer("Add", "a", (c,), c.shape, "f32", {})),
        "has 1 inputs, its operator takes 2",
    ),
    (
        "outputs",
        with_layer(lambda g, x, c: g.layer("Result", "a", (c,), c.shape, "f32", {}) and None),
        "has 1 outputs, its operator has 0",
    ),
    (
        "input port",
        with_layer(lambda g, x, c: g.pool(Output(c.layer, c.port, (1, 3, 4, 4), "f32"), (1, 3, 2, 2))),
        r"input 0 is stated as \[1, 3, 4, 4\] and reads \[1, 3, 2, 2\]",
    ),
    (
        "no integers",
        (lambda g: [g, g.result(zero_one(g, g.parameter((1, 1, 1, 1))))][0])(Ir()),
        "^net: no integer operator lies between its inputs and outputs",
    ),
]


@pytest.mark.parametrize(("ir", "message"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused(tmp_path: Path, ir: Ir, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        ir.load(tmp_path)


def test_rules_that_say_nothing_about_unsigned_inputs(tmp_path: Path) -> None:
    g = convolution()
    unsigned = Ir()
    unsigned.result(unsigned.convolution(unsigned.parameter((1, 2, 4, 4), "u8"), np.ones((3, 2, 3, 3)), (1, 3, 2, 2)))
    g.load(tmp_path, binarize="lt0")
    with pytest.raises(InvalidGraphError, match="binarize 'lt0' says nothing about unsigned u8"):
        unsigned.load(tmp_path, binarize="lt0")


def test_a_residual_whose_sums_do_not_fit_is_refused(tmp_path: Path) -> None:
    g = Ir()
    x = g.parameter((1, 1025, 1, 1), "f16")
    a, b = (g.convolution(x, np.ones((1, 1025, 1, 1)), (1, 1, 1, 1), name) for name in "ab")
    g.result(g.add(a, b))
    with pytest.raises(InvalidGraphError, match=r"its sums in -2050\.\.2050 do not all fit f16, .* in -2048\.\.2048"):
        g.load(tmp_path)


def test_unknown_operators_are_listed_by_kind(tmp_path: Path) -> None:
    g = Ir()
    x = g.parameter((1, 2, 4, 4))
    for name in ("r1", "r2"):
        x = g.layer("Relu", name, (x,), x.shape, "f32", {})
    g.result(g.pool(x, (1, 2, 2, 2), version="opset14"))
    with pytest.raises(InvalidGraphError) as e:
        g.load(tmp_path)
    relu, pool = e.value.problems
    assert relu.startswith("net: operator Relu of opset1 is not known to npusim (2 in the file, the first is 'r1')")
    assert pool.startswith(
        "net: operator MaxPool of opset14 is not known to npusim (1 in the file, the first is 'pool')"
    )


def test_all_problems_of_a_file_at_once(tmp_path: Path) -> None:
    g = Ir()
    x = g.parameter((1, 2, 4, 4))
    for name, stride in (("a", 0), ("b", 1), ("c", -1)):
        g.result(g.convolution(x, np.ones((3, 2, 3, 3)), (1, 3, 2, 2), name, strides=[stride, 1]), f"y{name}")
    with pytest.raises(InvalidGraphError) as e:
        g.load(tmp_path)
    assert [p.split(":")[1] for p in e.value.problems] == [f" layer '{n}' (BinaryConvolution)" for n in "ac"]

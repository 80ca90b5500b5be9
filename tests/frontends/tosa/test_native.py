"""Every operator of a TOSA file whose form in npusim differs: attributes, operands and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from npusim.errors import FileFormatError, InvalidGraphError
from npusim.frontends.tosa import TosaTensor, to_graph
from npusim.frontends.tosa.native import constant_array
from npusim.graph import Node
from tests.frontends.tosa.files import const, tosa_file

CONVOLUTION = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1), "acc_type": "INT32", "local_bound": True}
RESCALE = {"scale32": True, "rounding_mode": "DOUBLE_ROUND", "per_channel": False}
MULTIPLIER, SHIFT = const("m", "INT32", [1 << 30]), const("s", "INT8", [30])


def tensor(name: str, dtype: str, *shape: int) -> TosaTensor:
    return TosaTensor(name, shape, dtype)


def convert(
    name: str,
    attributes: Mapping[str, Any],
    inputs: Sequence[TosaTensor | tuple[int, ...]],
    output: TosaTensor,
) -> Node:
    """The node of a graph of one operator; tuples among the inputs are shapes."""
    names = [t.name if isinstance(t, TosaTensor) else f"shape{i}" for i, t in enumerate(inputs)]
    tensors = [t for t in inputs if isinstance(t, TosaTensor)]
    shapes = {n: t for n, t in zip(names, inputs, strict=True) if not isinstance(t, TosaTensor)}
    given = [t.name for t in tensors if t.data is None]
    operators = [(name, attributes, names, (output.name,))]
    file = tosa_file(operators, [*{t.name: t for t in tensors}.values(), output], given, [output.name], shapes)
    (node,) = to_graph(file, "net").nodes
    return node


def check(node: Node, name: str, inputs: str, attributes: Mapping[str, Any]) -> None:
    """The node has this operator, these operands and at least these attributes."""
    assert node.op.name == name
    assert node.inputs == tuple(inputs.split())
    assert {k: v for k, v in node.op.attributes().items() if k in attributes} == attributes


@pytest.mark.parametrize(
    ("name", "weight", "output", "own"),
    [
        ("CONV2D", (5, 2, 2, 3), (1, 3, 3, 5), {}),
        ("DEPTHWISE_CONV2D", (2, 2, 3, 2), (1, 3, 3, 6), {}),
        ("CONV3D", (5, 1, 2, 2, 3), (1, 2, 3, 3, 5), {"pad": (0,) * 6, "stride": (1,) * 3, "dilation": (1,) * 3}),
    ],
)
def test_convolutions(name: str, weight: tuple[int, ...], output: tuple[int, ...], own: dict[str, Any]) -> None:
    attributes = {**CONVOLUTION, **own}
    x = tensor("x", "INT8", *((1, 2, 4, 4, 3) if name == "CONV3D" else (1, 4, 4, 3)))
    zero_points = [const("x_zp", "INT8", [-5]), const("w_zp", "INT8", [7])]
    inputs = [x, const("w", "INT8", np.zeros(weight, int)), const("b", "INT32", [3]), *zero_points]
    node = convert(name, attributes, inputs, tensor("y", "INT32", *output))
    del attributes["acc_type"], attributes["local_bound"]
    check(node, name.lower(), "x w b", {**attributes, "input_zp": -5, "weight_zp": 7, "dialect": "tosa"})


def test_convolution_of_int16_by_int8() -> None:
    inputs = [
        tensor("x", "INT16", 1, 4, 4, 3),
        const("w", "INT8", np.zeros((5, 1, 1, 3), int)),
        const("b", "INT48", [-(2**40)]),
        const("x_zp", "INT16", [0]),
        const("w_zp", "INT8", [0]),
    ]
    node = convert("CONV2D", {**CONVOLUTION, "acc_type": "INT48"}, inputs, tensor("y", "INT48", 1, 4, 4, 5))
    check(node, "conv2d", "x w b", {"input_zp": 0, "weight_zp": 0})


def test_transpose_convolution() -> None:
    attributes = {"out_pad": (0, 1, 0, -1), "stride": (2, 2), "acc_type": "INT32"}
    inputs = [
        tensor("x", "INT8", 1, 4, 4, 3),
        const("w", "INT4", np.zeros((5, 2, 2, 3), int)),
        const("b", "INT32", [1, 2, 3, 4, 5]),
        const("x_zp", "INT8", [9]),
        const("w_zp", "INT4", [0]),
    ]
    node = convert("TRANSPOSE_CONV2D", attributes, inputs, tensor("y", "INT32", 1, 9, 7, 5))
    check(node, "transpose_conv2d", "x w b", {"out_pad": (0, 1, 0, -1), "stride": (2, 2), "input_zp": 9})


def test_pools() -> None:
    attributes = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0, 0, 0)}
    x, y = tensor("x", "INT8", 1, 4, 4, 3), tensor("y", "INT8", 1, 2, 2, 3)
    inputs = [x, const("i", "INT8", [-128]), const("o", "INT8", [127])]
    node = convert("AVG_POOL2D", {**attributes, "acc_type": "INT32"}, inputs, y)
    check(node, "avg_pool2d", "x", {**attributes, "input_zp": -128, "output_zp": 127})
    node = convert("MAX_POOL2D", {**attributes, "nan_mode": "PROPAGATE"}, [x], y)
    check(node, "max_pool2d", "x", attributes)


@pytest.mark.parametrize(("name", "b"), [("MATMUL", (1, 4, 5)), ("MATMUL_T", (1, 5, 4))])
def test_products(name: str, b: tuple[int, ...]) -> None:
    inputs = [tensor("a", "INT8", 1, 3, 4), tensor("b", "INT8", *b), const("p", "INT8", [3]), const("q", "INT8", [-4])]
    check(convert(name, {}, inputs, tensor("y", "INT32", 1, 3, 5)), name.lower(), "a b", {"a_zp": 3, "b_zp": -4})


def test_inputs_that_become_attributes() -> None:
    a, b = tensor("a", "INT32", 2, 3), tensor("b", "INT32", 2, 1)
    check(convert("MUL", {}, [a, b, const("s", "INT8", [31])], tensor("y", "INT32", 2, 3)), "mul", "a b", {"shift": 31})
    x = tensor("x", "INT8", 2, 3)
    zero_points = [const("i", "INT8", [1]), const("o", "INT8", [-1])]
    node = convert("NEGATE", {}, [x, *zero_points], tensor("y", "INT8", 2, 3))
    check(node, "negate", "x", {"input_zp": 1, "output_zp": -1})
    node = convert("PAD", {}, [x, (0, 1, 2, 0), const("c", "INT8", [-7])], tensor("y", "INT8", 3, 5))
    check(node, "pad", "x", {"padding": (0, 1, 2, 0), "pad_const": -7})
    bools = [tensor("x", "BOOL", 2), (1, 0), const("c", "BOOL", [True])]
    check(convert("PAD", {}, bools, tensor("y", "BOOL", 3)), "pad", "x", {"pad_const": 1})
    check(convert("RESHAPE", {}, [x, (3, 2)], tensor("y", "INT8", 3, 2)), "reshape", "x", {"new_shape": (3, 2)})
    scalar = convert("RESHAPE", {}, [tensor("x", "INT8", 1), ()], tensor("y", "INT8"))
    check(scalar, "reshape", "x", {"new_shape": ()})
    node = convert("SLICE", {}, [x, (1, 0), (1, 2)], tensor("y", "INT8", 1, 2))
    check(node, "slice", "x", {"start": (1, 0), "size": (1, 2)})
    check(convert("TILE", {}, [x, (1, 2)], tensor("y", "INT8", 2, 6)), "tile", "x", {"multiples": (1, 2)})


@pytest.mark.parametrize(("mode", "dtype"), [("NEAREST", "INT8"), ("BILINEAR", "INT32")])
def test_resize(mode: str, dtype: str) -> None:
    inputs = [tensor("x", "INT8", 1, 2, 2, 3), (4, 2, 4, 2), (-1, 0), (1, 2)]
    node = convert("RESIZE", {"mode": mode}, inputs, tensor("y", dtype, 1, 4, 4, 3))
    wanted = {"scale": (4, 2, 4, 2), "offset": (-1, 0), "border": (1, 2), "mode": mode.lower()}
    check(node, "resize", "x", wanted)


def test_attributes_that_stay() -> None:
    x, y = tensor("x", "INT8", 2, 3), tensor("y", "INT8", 3, 2)
    check(convert("TRANSPOSE", {"perms": (1, 0)}, [x], y), "transpose", "x", {"perms": (1, 0)})
    check(convert("ARGMAX", {"axis": 1}, [x], tensor("y", "INT32", 2)), "argmax", "x", {"axis": 1})
    node = convert("ARITHMETIC_RIGHT_SHIFT", {"round": True}, [x, tensor("n", "INT8", 2, 3)], tensor("y", "INT8", 2, 3))
    check(node, "arithmetic_right_shift", "x n", {"round": True})
    check(convert("CAST", {}, [x], tensor("y", "INT32", 2, 3)), "cast", "x", {"out_type": "i32"})
    table = const("t", "INT8", range(-128, 128))
    check(convert("TABLE", {}, [x, table], tensor("y", "INT8", 2, 3)), "table", "x t", {})


@pytest.mark.parametrize(
    ("dtype", "low", "high", "wanted"),
    [
        ("INT8", b"\x80", b"\x7f", (-128, 127)),
        ("INT8", b"\xff" + bytes(7), b"\x06" + bytes(7), (-1, 6)),
        ("INT16", b"\x00\x80", b"\xff\x7f", (-32768, 32767)),
        ("INT16", b"\x00\x01" + bytes(6), b"\x00\x02" + bytes(6), (256, 512)),
    ],
)
def test_limits_of_a_clamp_are_little_endian_and_may_be_padded(
    dtype: str, low: bytes, high: bytes, wanted: tuple[int, int]
) -> None:
    node = convert("CLAMP", {"min_val": low, "max_val": high}, [tensor("x", dtype, 2)], tensor("y", dtype, 2))
    check(node, "clamp", "x", {"min_val": wanted[0], "max_val": wanted[1]})


@pytest.mark.parametrize("limit", [b"", b"\x00\x01"])
def test_limits_of_a_clamp_have_the_bytes_of_the_type(limit: bytes) -> None:
    with pytest.raises(
        FileFormatError, match=r"net: constant 'min_val of y' of type INT8 and shape \[1\] wants 1 bytes"
    ):
        convert("CLAMP", {"min_val": limit, "max_val": b"\x00"}, [tensor("x", "INT8", 2)], tensor("y", "INT8", 2))


@pytest.mark.parametrize("rounding", ["SINGLE", "DOUBLE", "INEXACT"])
def test_rescale(rounding: str) -> None:
    inputs = [tensor("x", "INT32", 2), MULTIPLIER, SHIFT, const("i", "INT32", [0]), const("o", "INT8", [-3])]
    attributes = {**RESCALE, "rounding_mode": f"{rounding}_ROUND"}
    node = convert("RESCALE", attributes, inputs, tensor("y", "INT8", 2))
    wanted = {"scale32": True, "rounding": rounding.lower(), "out_type": "i8", "input_zp": 0, "output_zp": -3}
    check(node, "rescale", "x m s", {**wanted, "input_unsigned": False, "output_unsigned": False})


def test_zero_points_of_unsigned_sides_are_unsigned() -> None:
    inputs = [tensor("x", "INT8", 2), MULTIPLIER, SHIFT, const("i", "INT8", [-128]), const("o", "INT8", [-1])]
    node = convert("RESCALE", {**RESCALE, "input_unsigned": True}, inputs, tensor("y", "INT8", 2))
    check(node, "rescale", "x m s", {"input_zp": 128, "output_zp": -1, "out_type": "i8"})
    inputs = [tensor("x", "INT8", 2), MULTIPLIER, SHIFT, const("i", "INT8", [-128]), const("o", "INT16", [-32768])]
    node = convert("RESCALE", {**RESCALE, "output_unsigned": True}, inputs, tensor("y", "INT16", 2))
    check(node, "rescale", "x m s", {"input_zp": -128, "output_zp": 32768, "out_type": "i16"})


# -- refusals ------------------------------------------------------------------------------------------------------

X, Y = tensor("x", "INT8", 2, 3), tensor("y", "INT8", 2, 3)
IMAGE, WEIGHT, BIAS = tensor("x", "INT8", 1, 4, 4, 1), const("w", "INT8", [[[[1]]]]), const("b", "INT32", [0])
ZERO = const("z", "INT8", [0])
POOL = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0, 0, 0), "acc_type": "INT48"}


@pytest.mark.parametrize(
    ("name", "attributes", "inputs", "output", "message"),
    [
        (
            "NEGATE",
            {},
            [X, ZERO],
            Y,
            r"net: node 'negate_0' \(negate\) with output 'y': takes 3 inputs in a TOSA file "
            r"\(input, input_zp, output_zp\), got 2",
        ),
        (
            "NEGATE",
            {},
            [X, ZERO, tensor("late", "INT8", 1)],
            Y,
            r"'negate_0' \(negate\) with output 'y': output_zp 'late' must be a constant: npusim needs its value",
        ),
        (
            "MUL",
            {},
            [X, X, tensor("late", "INT8", 1)],
            tensor("y", "INT32", 2, 3),
            r"'mul_0' \(mul\) with output 'y': shift 'late' must be a constant",
        ),
        (
            "PAD",
            {},
            [X, (0, 0, 0, 0), const("c", "INT16", [0])],
            Y,
            r"'pad_0' \(pad\) with output 'y': pad_const 'c' must be INT8 of shape \[1\], got INT16 \[1\]",
        ),
        (
            "MUL",
            {},
            [X, X, const("c", "INT8", [0, 0])],
            tensor("y", "INT32", 2, 3),
            r"shift 'c' must be INT8 of shape \[1\], got INT8 \[2\]",
        ),
        (
            "CONV2D",
            CONVOLUTION,
            [IMAGE, WEIGHT, BIAS, ZERO, const("q", "INT4", [0])],
            tensor("y", "INT32", 1, 4, 4, 1),
            r"weight_zp 'q' must be INT8 of shape \[1\], got INT4 \[1\]",
        ),
        (
            "RESHAPE",
            {},
            [X, tensor("s", "INT32", 1)],
            Y,
            r"'reshape_0' \(reshape\) with output 'y': new_shape must be a constant shape, and the file has none "
            r"called 's'",
        ),
        (
            "CONV2D",
            {**CONVOLUTION, "acc_type": "INT48"},
            [IMAGE, WEIGHT, BIAS, ZERO, ZERO],
            tensor("y", "INT32", 1, 4, 4, 1),
            r"'conv2d_0' \(conv2d\) with output 'y': acc_type must be INT32 for output 'y' of INT32, got INT48",
        ),
        (
            "CONV2D",
            {**CONVOLUTION, "acc_type": "UNKNOWN"},
            [IMAGE, WEIGHT, BIAS, ZERO, ZERO],
            tensor("y", "INT32", 1, 4, 4, 1),
            r"acc_type must be INT32 for output 'y' of INT32, got UNKNOWN",
        ),
        (
            "AVG_POOL2D",
            POOL,
            [IMAGE, ZERO, ZERO],
            tensor("y", "INT8", 1, 2, 2, 1),
            r"acc_type must be INT32 for output 'y' of INT8, got INT48",
        ),
        (
            "CAST",
            {},
            [X],
            tensor("y", "INT48", 2, 3),
            r"out_type must be one of bool, i8, i16, i32 .* got out_type 'i48'",
        ),
        (
            "RESIZE",
            {"mode": "UNKNOWN"},
            [IMAGE, (1, 1, 1, 1), (0, 0), (0, 0)],
            tensor("y", "INT8", 1, 4, 4, 1),
            r"mode must be nearest or bilinear .* got mode 'unknown'",
        ),
        (
            "RESCALE",
            {"rounding_mode": "UNKNOWN", "scale32": True},
            [X, MULTIPLIER, SHIFT, ZERO, ZERO],
            Y,
            r"rounding must be one of single, double, inexact .* got rounding 'unknown'",
        ),
        (
            "NEGATE",
            {},
            [tensor("x", "INT32", 1), const("p", "INT32", [1]), const("q", "INT32", [0])],
            tensor("y", "INT32", 1),
            r"only i8 tensors have zero points .* got input_zp 1 for i32",
        ),
    ],
)
def test_refused(
    name: str,
    attributes: dict[str, Any],
    inputs: list[TosaTensor | tuple[int, ...]],
    output: TosaTensor,
    message: str,
) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        convert(name, attributes, inputs, output)


def test_all_faults_of_an_operator_at_once() -> None:
    late = [tensor("p", "INT8", 1), const("q", "INT16", [0])]
    inputs = [IMAGE, WEIGHT, BIAS, *late]
    with pytest.raises(InvalidGraphError) as caught:
        convert("CONV2D", {**CONVOLUTION, "acc_type": "INT48"}, inputs, tensor("y", "INT32", 1, 4, 4, 1))
    faults = ("acc_type must be INT32", "input_zp 'p' must be a constant", "weight_zp 'q' must be INT8")
    assert len(caught.value.problems) == len(faults)
    assert all(fault in problem for fault, problem in zip(faults, caught.value.problems, strict=True))


def test_constants_have_their_storage_type() -> None:
    array = constant_array(const("w", "INT4", [[-7, 7]]))
    assert array.dtype == np.int8
    assert array.tolist() == [[-7, 7]]
    assert constant_array(const("b", "INT48", [-(2**47)])).tolist() == [-(2**47)]


def test_an_int4_constant_never_holds_minus_eight() -> None:
    with pytest.raises(InvalidGraphError, match=r"constant 'w' at index \[0, 1\] is -8, outside i4 \(-7\.\.7\)"):
        constant_array(const("w", "INT4", [[0, -8]]))

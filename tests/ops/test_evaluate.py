"""Building operators from plain attributes, checking operands, evaluating: results and every error path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.numerics.types import DTYPES, I16
from npusim.ops import as_operand, bind_arrays, evaluate, make_op
from npusim.ops.pad import Pad
from npusim.ops.resize import Resize

RESCALE: dict[str, Any] = {
    "scale32": True,
    "rounding": "single",
    "per_channel": False,
    "input_unsigned": False,
    "output_unsigned": False,
    "out_type": "i8",
}
ROW = np.int8([[1, 2, 3]])


# -- operands and results ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "element"),
    [
        (np.bool_, "bool"),
        (np.int8, "i8"),
        (np.int16, "i16"),
        (np.int32, "i32"),
        (np.int64, "i48"),
        (np.uint8, "u8"),
        (np.uint16, "u16"),
        (">i2", "i16"),  # big-endian files
    ],
)
def test_numpy_dtypes_tell_the_element_type(dtype: Any, element: str) -> None:
    bound, (x,) = bind_arrays("identity", [np.ones(3, dtype)], {})
    assert str(bound.output) == f"3x{element}"
    assert x.dtype == DTYPES[element].storage


def test_stated_types_accept_lists_and_wider_integers() -> None:
    assert evaluate("identity", [[1, -7]], types=["i4"]).dtype == np.int8
    assert evaluate("identity", [np.array([2**47 - 1])], types=["i48"]) == 2**47 - 1
    np.testing.assert_array_equal(evaluate("identity", [[[True], [False]]], types=["bool"]), [[True], [False]])


def test_result_is_a_new_array() -> None:
    out = evaluate("identity", [ROW])
    assert not np.shares_memory(out, ROW)
    out[0, 0] = 9
    assert ROW[0, 0] == 1


def test_scalars_keep_rank_0() -> None:
    assert evaluate("add", [np.int32(2), np.int32(3)]).shape == ()


def test_table_as_attribute_takes_the_type_of_the_input() -> None:
    i8 = evaluate("table", [np.int8([-128, 0, 127])], table=list(range(-128, 128)))
    np.testing.assert_array_equal(i8, np.int8([-128, 0, 127]))
    i16 = evaluate("table", [np.int16([0, 64])], table=[0] * 257 + [2] * 256)
    np.testing.assert_array_equal(i16, np.int32([0, 128]))


def test_attribute_operands_may_also_be_operands() -> None:
    x, m, s = np.int32([300, -5]), np.int32([1 << 30]), np.int8([31])
    expected = np.int8([127, -2])
    np.testing.assert_array_equal(evaluate("rescale", [x, m, s], **RESCALE), expected)
    np.testing.assert_array_equal(evaluate("rescale", [x, s], multiplier=[1 << 30], **RESCALE), expected)
    np.testing.assert_array_equal(evaluate("rescale", [x], multiplier=[1 << 30], shift=[31], **RESCALE), expected)


@pytest.mark.parametrize(("policy", "expected"), [("wrap", -(2**31)), ("saturate", 2**31 - 1)])
def test_overflow_policy(policy: Any, expected: int) -> None:
    x = np.int32([2**31 - 1, 1])
    assert evaluate("reduce_sum", [x], axis=0, overflow=policy) == expected
    with pytest.raises(UnpredictableError, match=r"reduce_sum: .* 2147483648 .* outside i32"):
        evaluate("reduce_sum", [x], axis=0)


def test_unknown_overflow_policy() -> None:
    with pytest.raises(InvalidGraphError, match="overflow policy 'saturated' is not known; did you mean 'saturate'"):
        evaluate("identity", [ROW], overflow="saturated")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "type_name", "message"),
    [
        ([0, -8], "i4", r"identity: input at index \[1\] is -8, outside i4 \(-7..7\)"),
        (np.array([[0], [2**47]]), "i48", r"identity: input at index \[1, 0\] is 140737488355328, outside i48"),
        ([0, 2**80], "i32", rf"input at index \[1\] is {2**80}, outside i32"),
        (np.uint64(2**63), "i48", rf"input at index \[\] is {2**63}, outside i48"),
        ([-1], "u1", r"input at index \[0\] is -1, outside u1 \(0..1\)"),
        ([1.0], "i8", "identity: input holds float64 values, but its type is i8; convert them explicitly"),
        (np.float32([1]), "i8", "input holds float32 values, but its type is i8"),
        ([True], "i8", "input holds bool values, but its type is i8"),
        ([0, 1], "bool", "input holds int64 values, but its type is bool"),
        (["1"], "i8", "input holds <U1 values, but its type is i8"),
        ([None], "i8", "input holds object values, but its type is i8"),
        (np.float64([1]), "f32", "input holds float64 values, but its type is f32"),
        ([[1], [1, 2]], "i8", "identity: input is ragged; its rows must have equal lengths"),
        ([1], "i64", r"identity: input has unknown type 'i64'; did you mean 'i4'\?"),
        (np.float64([1]), None, "input has dtype float64; convert it to one of bool, int8, .* or state types="),
        ([1], None, r"input has no element type; state types=\[\.\.\.\] or pass a numpy array"),
        ([], "i8", r"identity: input has shape \[0\]; every dimension must be at least 1"),
    ],
)
def test_operands_that_are_refused(value: Any, type_name: str | None, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        evaluate("identity", [value], types=None if type_name is None else [type_name])


def test_f32_takes_plain_numbers_and_either_byte_order() -> None:
    for value in ([1, 0.5], np.array([1, 0.5], ">f4")):
        x = as_operand("x", value, DTYPES["f32"])
        assert x.dtype == np.float32
        assert x.tolist() == [1.0, 0.5]


def test_attribute_operand_outside_its_type() -> None:
    with pytest.raises(InvalidGraphError, match=r"rescale: multiplier at index \[0\] is 2147483648, outside i32"):
        evaluate("rescale", [np.int32([1])], multiplier=[2**31], shift=[31], **RESCALE)


def test_operand_counts() -> None:
    with pytest.raises(InvalidGraphError, match=r"add: takes 2 operands \(a, b\), got 1"):
        evaluate("add", [np.int32([1])])
    with pytest.raises(InvalidGraphError, match=r"table: takes 2 operands \(input, table\), got 3"):
        evaluate("table", [np.int8([1]), np.int8([1])], table=[0] * 256)
    with pytest.raises(InvalidGraphError, match=r"table: takes 2 operands \(input, table\), got 1"):
        evaluate("table", [], table=[0] * 256)
    with pytest.raises(InvalidGraphError, match="identity: types must name one type per operand, got 2 for 1"):
        evaluate("identity", [ROW], types=["i8", "i8"])


# -- attributes -------------------------------------------------------------------------------------------------------


def test_lists_and_numpy_integers_become_plain_fields() -> None:
    op = make_op("pad", {"padding": np.array([0, 1]), "pad_const": np.int8(3)})
    assert op == Pad((0, 1), 3)
    assert type(op.attributes()["pad_const"]) is int
    resize = make_op("resize", {"scale": [2, 1, 2, 1], "offset": (0, 0), "border": [0, 0], "mode": "nearest"})
    assert resize == Resize((2, 1, 2, 1), (0, 0), (0, 0), "nearest")


def test_defaults_may_be_left_out() -> None:
    assert make_op("rescale", RESCALE).attributes()["input_zp"] == 0


def test_every_attribute_problem_is_listed() -> None:
    with pytest.raises(InvalidGraphError) as caught:
        make_op("resize", {"scales": [2, 1, 2, 1], "offset": 0, "mode": 1}, dialect="tosca")
    assert caught.value.problems == (
        "resize: dialect 'tosca' is not known; did you mean 'tosa'?",
        "resize: attribute 'scales' is not known; did you mean 'scale'?",
        "resize: attribute offset must be a list of integers, got 0",
        "resize: attribute mode must be a text, got 1",
        "resize: attribute scale is missing; state it (a list of integers)",
        "resize: attribute border is missing; state it (a list of integers)",
    )


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("reverse", {"axis": True}, "reverse: attribute axis must be an integer, got True"),
        ("reverse", {"axis": 1.0}, "attribute axis must be an integer, got 1.0"),
        ("reverse", {"axis": None}, "attribute axis must be an integer, got None"),
        ("tile", {"multiples": [1, 2.5]}, r"attribute multiples must be a list of integers, got \[1, 2.5\]"),
        ("tile", {"multiples": [False]}, r"attribute multiples must be a list of integers, got \[False\]"),
        ("tile", {"multiples": "12"}, "attribute multiples must be a list of integers, got '12'"),
        ("arithmetic_right_shift", {"round": 1}, "attribute round must be true or false, got 1"),
        ("identity", {"axis": 1}, "identity: attribute 'axis' is not known; there are none"),
        ("reverse", {"axis": 0, 7: 1}, "reverse: attribute 7 is not known; known: axis"),
        (
            "rescale",
            {**RESCALE, "multiplyer": [1]},
            "'multiplyer' is not known; did you mean 'multiplier'",
        ),
    ],
)
def test_attributes_that_are_refused(op: str, attributes: dict[Any, Any], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        make_op(op, attributes)


def test_dialect_reaches_the_operators_that_differ() -> None:
    x, w, bias = np.ones((1, 4, 4, 1), np.int8), np.ones((1, 3, 3, 1), np.int8), np.int32([0])
    attributes = {"pad": [0] * 4, "stride": [2, 2], "dilation": [1, 1]}
    assert evaluate("conv2d", [x, w, bias], dialect="seed", **attributes).shape == (1, 1, 1, 1)
    for dialect in ("tosa", None):
        with pytest.raises(InvalidGraphError, match="conv2d: "):
            evaluate("conv2d", [x, w, bias], dialect=dialect, **attributes)


def test_optional_list() -> None:
    attributes = {"out_pad": [0, 0, 0, 0], "stride": [1, 1]}
    assert make_op("transpose_conv2d", attributes).attributes()["out_shape"] is None
    assert make_op("transpose_conv2d", {**attributes, "out_shape": [1, 2]}).attributes()["out_shape"] == (1, 2)
    with pytest.raises(InvalidGraphError, match="out_shape must be a list of integers or left out, got 3"):
        make_op("transpose_conv2d", {**attributes, "out_shape": 3})


def test_dialect_is_ignored_where_the_dialects_agree() -> None:
    assert make_op("reverse", {"axis": 0}, "seed") == make_op("reverse", {"axis": 0}, "tosa")


def test_bound_operands_are_in_storage_types() -> None:
    bound, arrays = bind_arrays("table", [np.int16([1])], {"table": range(513)})
    assert [t.dtype for t in bound.operands] == [I16, I16]
    assert [a.dtype for a in arrays] == [np.int16, np.int16]

"""Tests of CAST."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import BOOL, DTYPES, I8, I16, I32, U8
from npusim.ops.cast import Cast
from tests.ops.elementwise import check_against, check_types, run, wrap

TYPES = ("bool", "i8", "i16", "i32")


@pytest.mark.parametrize("out_type", TYPES)
def test_types(out_type: str) -> None:
    check_types(Cast(out_type), {(t,): out_type for t in TYPES if t != out_type})


@pytest.mark.parametrize("out_type", TYPES)
@pytest.mark.parametrize("in_type", TYPES)
def test_oracle_and_tilings(in_type: str, out_type: str) -> None:
    def oracle(x: int | bool) -> int | bool:
        return x != 0 if out_type == "bool" else wrap(int(x), DTYPES[out_type].bits)

    if in_type != out_type:
        check_against(Cast(out_type), oracle, [DTYPES[in_type]])


def test_every_int16_to_int8_keeps_the_low_bits() -> None:
    x = np.arange(-32768, 32768)
    assert run(Cast("i8"), x, types=[I16]).tolist() == [wrap(v, 8) for v in range(-32768, 32768)]


def test_examples() -> None:
    assert run(Cast("i8"), [300, -129, 127, -(2**31)], types=[I32]).tolist() == [44, 127, 127, 0]
    assert run(Cast("i32"), [True, False], types=[BOOL]).tolist() == [1, 0]
    assert run(Cast("bool"), [0, -128, 1], types=[I8]).tolist() == [False, True, True]


@pytest.mark.parametrize("out_type", ["i16", "f32", "u8", "int8"])
def test_rule_out_type(out_type: str) -> None:
    with pytest.raises(
        InvalidGraphError, match=rf"^cast: .* \(rule out_type\), got out_type '{out_type}' for input i16"
    ):
        Cast(out_type).bind([TensorType((1,), I16)])


def test_an_input_outside_the_table() -> None:
    with pytest.raises(InvalidGraphError, match="^cast: no type rule for input u8"):
        Cast("i8").bind([TensorType((1,), U8)])

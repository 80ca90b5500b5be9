"""Tests of NEGATE."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I16, I32, Array, DType
from npusim.ops.negate import Negate
from tests.ops.elementwise import check_against, check_types, run


def test_types() -> None:
    check_types(Negate(), {(t,): t for t in ("i8", "i16", "i32")})


@pytest.mark.parametrize("dtype", [I8, I16], ids=str)
def test_oracle_and_tilings(dtype: DType) -> None:
    check_against(Negate(), lambda x: min(-x, dtype.maximum), [dtype])


def test_oracle_and_tilings_int32() -> None:
    def values(rng: np.random.Generator, kind: TensorType) -> Array:
        return rng.integers(1 - 2**31, 2**31, kind.shape).astype(np.int32)

    check_against(Negate(), lambda x: -x, [I32], values)


@pytest.mark.parametrize("input_zp, output_zp", [(0, 0), (-128, 127), (127, -128), (-128, -128), (127, 127), (3, -7)])
def test_every_int8_with_zero_points(input_zp: int, output_zp: int) -> None:
    x = range(-128, 128)
    out = run(Negate(input_zp, output_zp), list(x), types=[I8])
    assert out.tolist() == [min(max(output_zp - (v - input_zp), -128), 127) for v in x]


def test_the_minimum_clips_in_narrow_types_and_is_unpredictable_in_int32() -> None:
    assert run(Negate(), [-128], types=[I8]).tolist() == [127]
    assert run(Negate(), [-32768], types=[I16]).tolist() == [32767]
    with pytest.raises(UnpredictableError, match=r"^negate: the negative must fit i32, got -2147483648 at .* \[1\]"):
        run(Negate(), [0, -(2**31)], types=[I32])


@pytest.mark.parametrize(
    "op, dtype, rule, got",
    [
        (Negate(input_zp=1), I16, "zero_point_type", "input_zp 1 for i16"),
        (Negate(output_zp=-1), I32, "zero_point_type", "output_zp -1 for i32"),
        (Negate(input_zp=-129), I8, "zero_point_range", "input_zp -129 for i8"),
        (Negate(output_zp=128), I8, "zero_point_range", "output_zp 128 for i8"),
    ],
)
def test_rules(op: Negate, dtype: DType, rule: str, got: str) -> None:
    with pytest.raises(InvalidGraphError, match=rf"^negate: .* \(rule {rule}\), got {got}$"):
        op.bind([TensorType((1,), dtype)])

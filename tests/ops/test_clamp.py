"""Tests of CLAMP."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I16, DType
from npusim.ops.clamp import Clamp
from tests.ops.elementwise import check_against, check_types, run


def test_types() -> None:
    check_types(Clamp(-1, 1), {("i8",): "i8", ("i16",): "i16"})


@pytest.mark.parametrize("dtype", [I8, I16], ids=str)
def test_oracle_and_tilings(dtype: DType) -> None:
    check_against(Clamp(-100, 99), lambda x: min(max(x, -100), 99), [dtype])


@pytest.mark.parametrize("low, high", [(-32768, 32767), (0, 0), (-32768, -32768), (-5, 20000), (32767, 32767)])
def test_every_int16(low: int, high: int) -> None:
    x = np.arange(-32768, 32768).reshape(256, 256)
    out = run(Clamp(low, high), x, types=[I16])
    assert out.dtype == np.int16
    assert out.ravel().tolist() == [min(max(v, low), high) for v in range(-32768, 32768)]


def test_every_int8() -> None:
    out = run(Clamp(0, 6), list(range(-128, 128)), types=[I8])
    assert out.tolist() == [0] * 128 + [0, 1, 2, 3, 4, 5] + [6] * 122


@pytest.mark.parametrize(
    "low, high, dtype, rule",
    [
        (1, 0, I8, "limits_ordered"),
        (-129, 0, I8, "limits_in_type"),
        (0, 128, I8, "limits_in_type"),
        (-32769, 0, I16, "limits_in_type"),
    ],
)
def test_rules(low: int, high: int, dtype: DType, rule: str) -> None:
    message = rf"^clamp: .* \(rule {rule}\), got min_val {low} and max_val {high}"
    with pytest.raises(InvalidGraphError, match=message):
        Clamp(low, high).bind([TensorType((1,), dtype)])

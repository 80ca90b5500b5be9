"""INTDIV: element-wise quotient of two int32 tensors, truncated (TOSA 1.0, element-wise binary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import I32, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class IntDiv(Elementwise):
    """``a / b`` rounded towards zero; division by zero and INT32_MIN / -1 are unpredictable and refused."""

    name = "intdiv"
    operands = ("a", "b")
    rows = same_type_rows(2, I32)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        a, b = (x.astype(np.int64) for x in operands)
        place.require(b == 0, "the divisor must not be 0", b)
        quotient = (a - np.fmod(a, b)) // b  # fmod keeps the sign of a, so that the division has no remainder
        return place.require_range(quotient, I32, "the quotient")

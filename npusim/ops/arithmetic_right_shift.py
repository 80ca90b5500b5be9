"""ARITHMETIC_RIGHT_SHIFT: signed right shift, optionally rounded half up (TOSA 1.0, element-wise binary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Place
from npusim.ops._shift import Shift


@dataclass(frozen=True, slots=True)
class ArithmeticRightShift(Shift):
    """``a >> b``, plus bit ``b - 1`` of ``a`` where ``round`` is set and ``b > 0``."""

    round: bool

    name = "arithmetic_right_shift"

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        value, amount = self.checked(bound, operands, place)
        if not self.round:
            return np.asarray(value >> amount)
        # With b > 0 the result of the first shift is at most half the range, so that the sum cannot overflow.
        last_bit = (value >> np.maximum(amount - 1, 0)) & 1
        return np.asarray((value >> amount) + last_bit * (amount > 0))

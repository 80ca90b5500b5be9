"""LOGICAL_RIGHT_SHIFT: bits moved down, zeros moved in (TOSA 1.0, element-wise binary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Place
from npusim.ops._shift import Shift


@dataclass(frozen=True, slots=True)
class LogicalRightShift(Shift):
    """``a >> b`` of the bits of ``a`` read as an unsigned number."""

    name = "logical_right_shift"

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        value, amount = self.checked(bound, operands, place)
        bits = np.dtype(f"u{value.itemsize}")
        return np.asarray(value.view(bits) >> amount.view(bits)).view(value.dtype)

"""BITWISE_NOT: every bit inverted (TOSA 1.0, element-wise unary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import I8, I16, I32, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class BitwiseNot(Elementwise):
    """``~input``."""

    name = "bitwise_not"
    operands = ("input",)
    rows = same_type_rows(1, I8, I16, I32)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return np.asarray(np.bitwise_not(operands[0]))

"""CLZ: count of leading zero bits of int32 elements (TOSA 1.0, element-wise unary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import I32, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class Clz(Elementwise):
    """Zero bits above the highest set bit of the 32-bit pattern: 32 for 0, 0 for a negative value."""

    name = "clz"
    operands = ("input",)
    rows = same_type_rows(1, I32)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        bits = operands[0].view(np.uint32).astype(np.float64)  # exact: 32 bits fit a 53-bit significand
        return np.asarray(32 - np.frexp(bits)[1], np.int32)  # frexp's exponent is the bit length

"""MUL: element-wise product with a rounding right shift for int32 (TOSA 1.0, element-wise binary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.rounding import rounding_right_shift
from npusim.numerics.types import I8, I16, I32, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class Mul(Elementwise):
    """``a * b`` as int32; with ``shift > 0`` the exact ``(a * b + 2**(shift-1)) >> shift``.

    Only int32 operands may have a shift, of at most 63. A shifted product outside int32 is unpredictable and refused;
    without a shift the low 32 bits of the product are the result, by rule.
    """

    shift: int

    name = "mul"
    operands = ("a", "b")
    rows = same_type_rows(2, I8, I16, I32, output=I32)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        dtype = bound.operands[0].dtype
        last = 63 if dtype is I32 else 0
        if not 0 <= self.shift <= last:
            place.refuse(
                (0,) * len(place.origin), f"the shift of {dtype} operands must lie in 0..{last}", str(self.shift)
            )
        if not self.shift:
            return np.asarray(np.multiply(*operands, dtype=np.int32))  # wraps, and 8- and 16-bit products fit
        exact = np.multiply(*operands, dtype=np.int64)  # at most 2**62
        return place.require_range(rounding_right_shift(exact, self.shift), I32, "the shifted product")

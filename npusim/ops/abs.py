"""ABS: magnitude of int32 elements (TOSA 1.0, element-wise unary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import I32, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class Abs(Elementwise):
    """``|input|``; the magnitude of INT32_MIN does not fit and is refused as unpredictable."""

    name = "abs"
    operands = ("input",)
    rows = same_type_rows(1, I32)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        (x,) = operands
        place.require(x == I32.minimum, "the magnitude must fit i32", x)
        return np.asarray(np.abs(x))

"""BITWISE_OR: bitwise OR of two integer tensors (TOSA 1.0, element-wise binary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import I8, I16, I32, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class BitwiseOr(Elementwise):
    """``a | b``."""

    name = "bitwise_or"
    operands = ("a", "b")
    rows = same_type_rows(2, I8, I16, I32)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return np.asarray(np.bitwise_or(*operands))

"""GREATER_EQUAL: a >= b of two int32 tensors, as booleans (TOSA 1.0, comparison operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import BOOL, I32, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class GreaterEqual(Elementwise):
    """``a >= b``."""

    name = "greater_equal"
    operands = ("a", "b")
    rows = same_type_rows(2, I32, output=BOOL)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return np.asarray(np.greater_equal(*operands))

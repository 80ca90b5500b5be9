"""SELECT: element of one tensor or the other by a condition (TOSA 1.0, element-wise ternary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import BOOL, I8, I16, I32, Array
from npusim.ops._base import Bound, TypeRow
from npusim.ops._elementwise import Elementwise, Place


@dataclass(frozen=True, slots=True)
class Select(Elementwise):
    """``a`` where ``condition`` is true, else ``b``; all three broadcast."""

    name = "select"
    operands = ("condition", "a", "b")
    rows = tuple(TypeRow((BOOL, t, t), t, t) for t in (BOOL, I8, I16, I32))

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return np.where(*operands)

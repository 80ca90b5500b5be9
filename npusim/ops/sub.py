"""SUB: element-wise difference of two int32 tensors (TOSA 1.0, element-wise binary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import I32, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class Sub(Elementwise):
    """``a - b``; a difference outside int32 is unpredictable and refused."""

    name = "sub"
    operands = ("a", "b")
    rows = same_type_rows(2, I32)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return place.require_range(np.subtract(*operands, dtype=np.int64), I32, "the difference")

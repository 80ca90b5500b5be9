"""LOGICAL_OR: a or b of two boolean tensors (TOSA 1.0, element-wise binary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import BOOL, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class LogicalOr(Elementwise):
    """``a or b``."""

    name = "logical_or"
    operands = ("a", "b")
    rows = same_type_rows(2, BOOL)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return np.asarray(np.logical_or(*operands))

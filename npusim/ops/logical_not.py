"""LOGICAL_NOT: not of a boolean tensor (TOSA 1.0, element-wise unary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import BOOL, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class LogicalNot(Elementwise):
    """``not input``."""

    name = "logical_not"
    operands = ("input",)
    rows = same_type_rows(1, BOOL)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return np.asarray(np.logical_not(operands[0]))

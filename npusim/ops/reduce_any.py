"""REDUCE_ANY: whether some element along one axis is true (TOSA 1.0, reduction operators)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import BOOL
from npusim.ops._elementwise import same_type_rows
from npusim.ops._reduction import Reduction


@dataclass(frozen=True, slots=True)
class ReduceAny(Reduction):
    """Logical or along ``axis``, which stays with size 1."""

    name = "reduce_any"
    rows = same_type_rows(1, BOOL)
    ufunc = np.logical_or

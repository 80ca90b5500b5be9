"""REDUCE_MIN: smallest element along one axis (TOSA 1.0, reduction operators)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import I8, I16, I32
from npusim.ops._elementwise import same_type_rows
from npusim.ops._reduction import Reduction


@dataclass(frozen=True, slots=True)
class ReduceMin(Reduction):
    """The minimum along ``axis``, which stays with size 1."""

    name = "reduce_min"
    rows = same_type_rows(1, I8, I16, I32)
    ufunc = np.minimum

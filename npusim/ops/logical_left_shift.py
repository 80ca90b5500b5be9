"""LOGICAL_LEFT_SHIFT: bits moved up, zeros moved in (TOSA 1.0, element-wise binary operators)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Place
from npusim.ops._shift import Shift


@dataclass(frozen=True, slots=True)
class LogicalLeftShift(Shift):
    """The low bits of ``a << b``: what is shifted out is lost, by rule."""

    name = "logical_left_shift"

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return np.asarray(np.left_shift(*self.checked(bound, operands, place)))

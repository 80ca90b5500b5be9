"""CLAMP: elements limited to a range (TOSA 1.0, activation functions)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I16, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class Clamp(Elementwise):
    """``min(max(input, min_val), max_val)``; both limits are values of the input's type."""

    min_val: int
    max_val: int

    name = "clamp"
    operands = ("input",)
    rows = same_type_rows(1, I8, I16)
    rules = {
        "limits_in_type": "min_val and max_val must be values of the input's type",
        "limits_ordered": "min_val must not exceed max_val",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        (x,) = operands
        if not all(x.dtype.minimum <= v <= x.dtype.maximum for v in (self.min_val, self.max_val)):
            self.refuse("limits_in_type", f"min_val {self.min_val} and max_val {self.max_val} for {x.dtype}")
        if self.min_val > self.max_val:
            self.refuse("limits_ordered", f"min_val {self.min_val} and max_val {self.max_val}")
        return x.shape

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return np.asarray(np.clip(operands[0], self.min_val, self.max_val))

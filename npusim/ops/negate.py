"""NEGATE: elements negated around their zero points (TOSA 1.0, element-wise unary operators)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I16, I32, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


@dataclass(frozen=True, slots=True)
class Negate(Elementwise):
    """``output_zp - (input - input_zp)`` clipped to the type; zero points are for int8 only.

    It is computed in int32, so that the negative of INT32_MIN is unpredictable and refused instead of clipped.
    """

    input_zp: int = 0
    output_zp: int = 0

    name = "negate"
    operands = ("input",)
    rows = same_type_rows(1, I8, I16, I32)
    rules: ClassVar[Mapping[str, str]] = {
        "zero_point_type": "only i8 tensors have zero points",
        "zero_point_range": "a zero point must be a value of the tensor's type",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        (x,) = operands
        for name, zp in (("input_zp", self.input_zp), ("output_zp", self.output_zp)):
            if zp and x.dtype is not I8:
                self.refuse("zero_point_type", f"{name} {zp} for {x.dtype}")
            if not x.dtype.minimum <= zp <= x.dtype.maximum:
                self.refuse("zero_point_range", f"{name} {zp} for {x.dtype}")
        return x.shape

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        (x,) = operands
        dtype = bound.output.dtype
        if dtype is I32:
            place.require(x == I32.minimum, "the negative must fit i32", x)
            return np.asarray(-x)
        negative = (self.input_zp + self.output_zp) - x.astype(np.int32)
        return np.asarray(np.clip(negative, dtype.minimum, dtype.maximum).astype(dtype.storage))

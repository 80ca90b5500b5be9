"""TABLE: look-up of int8 elements, look-up with interpolation of int16 elements (TOSA 1.0, element-wise binary)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, UnitKind, Work
from npusim.numerics.types import I8, I16, I32, Array
from npusim.ops._base import Bound, TypeRow
from npusim.ops._elementwise import Elementwise, Place, aligned_access, output_access, output_dims

ENTRIES = {I8: 256, I16: 513}
"""Entries of a table by the input's type: one per int8, or the ends of 512 segments of 128 int16 values."""


@dataclass(frozen=True, slots=True)
class Table(Elementwise):
    """int8: ``table[input + 128]``. int16: linear between the ends of the segment, in 1/128 of a table step (int32).

    With i = (input + 32768) >> 7 and f = input & 127 the latter is (table[i] << 7) + (table[i+1] - table[i]) * f
    (TOSA 1.0, apply_lookup). A slope table[i+1] - table[i] outside int16 is unpredictable and refused where an input
    falls in its segment.
    """

    name = "table"
    operands = ("input", "table")
    rows = (TypeRow((I8, I8), I8, I8), TypeRow((I16, I16), I32, I32))
    rules: ClassVar[Mapping[str, str]] = {"table_size": "the table must have 256 entries for i8 and 513 for i16"}
    attribute_operands = {"table": I16}

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        x, table = operands
        if table.shape != (ENTRIES[x.dtype],):
            self.refuse("table_size", f"table {list(table.shape)} for {x.dtype}")
        return x.shape

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        x, table = operands
        reads = (aligned_access(0, x.shape), Access(1, (Axis(whole=table.size),)))
        return Work(UnitKind.VECTOR, output_dims(output.shape), reads, output_access(len(output.shape)))

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        x, table = operands
        if bound.operands[0].dtype is I8:
            return np.asarray(table[x.view(np.uint8) ^ 128])  # flipping the sign bit adds 128
        ends = table.astype(np.int32)
        slopes = np.diff(ends)
        segment = (x.view(np.uint16) ^ 32768) >> 7
        steep = (slopes < I16.minimum) | (slopes > I16.maximum)
        if steep.any():
            place.require(steep[segment], "the slope of the input's table segment must fit i16", slopes[segment])
        return np.asarray((ends[segment] << 7) + slopes[segment] * (x & 127))

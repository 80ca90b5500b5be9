"""CAST: elements converted to another integer type or to boolean (TOSA 1.0, type conversion)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from npusim.numerics.types import BOOL, I8, I16, I32, Array, DType
from npusim.ops._base import Bound, TypeRow
from npusim.ops._elementwise import Elementwise, Place

TYPES = (BOOL, I8, I16, I32)


@dataclass(frozen=True, slots=True)
class Cast(Elementwise):
    """The element as ``out_type`` (its name): to boolean whether it is not 0, to a narrower integer its low bits."""

    out_type: str

    name = "cast"
    operands = ("input",)
    rows = tuple(TypeRow((a,), b, b) for a in TYPES for b in TYPES if a is not b)
    rules: ClassVar[Mapping[str, str]] = {
        "out_type": f"out_type must be one of {', '.join(map(str, TYPES))} and another type than the input's",
    }

    def select_row(self, dtypes: tuple[DType, ...]) -> TypeRow | None:
        if dtypes[0] in TYPES and self.out_type not in {t.name for t in TYPES if t is not dtypes[0]}:
            self.refuse("out_type", f"out_type {self.out_type!r} for input {dtypes[0]}")
        return next((r for r in self.rows if r.operands == dtypes and r.output.name == self.out_type), None)

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return operands[0].astype(bound.output.dtype.storage)

"""Shared parts of the shifts: operands, type rows and the legal amounts."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.numerics.types import I8, I16, I32, Array
from npusim.ops._base import Bound
from npusim.ops._elementwise import Elementwise, Place, same_type_rows


class Shift(Elementwise):
    """``a`` shifted by ``b`` bits; an amount outside 0..width-1 is unpredictable and refused (TOSA 1.0)."""

    operands = ("a", "b")
    rows = same_type_rows(2, I8, I16, I32)

    def checked(self, bound: Bound, operands: Sequence[Array], place: Place) -> tuple[Array, Array]:
        """Values and amounts, every amount legal."""
        value, amount = operands
        last = bound.output.dtype.bits - 1
        place.require((amount < 0) | (amount > last), f"a shift of {bound.output.dtype} must lie in 0..{last}", amount)
        return value, amount

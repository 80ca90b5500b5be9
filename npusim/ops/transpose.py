"""TRANSPOSE: axes in another order (TOSA 1.0, data layout)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._movement import Movement, output_axis


@dataclass(frozen=True, slots=True)
class Transpose(Movement):
    """Output axis ``i`` is input axis ``perms[i]``; ``perms`` holds every axis once."""

    perms: tuple[int, ...]

    name = "transpose"
    rules = {
        "rank": "the input must have at least one axis",
        "perms": "perms must hold every axis of the input exactly once, counted from 0",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        self.require_axes(operands[0])
        sizes = operands[0].shape
        if sorted(self.perms) != list(range(len(sizes))):
            self.refuse("perms", f"perms {list(self.perms)} for input {list(sizes)}")
        return tuple(sizes[p] for p in self.perms)

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        return (Access(0, tuple(output_axis(self.perms.index(k)) for k in range(len(self.perms)))),)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        return np.transpose(operands[0], self.perms)

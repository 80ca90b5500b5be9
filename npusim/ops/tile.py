"""TILE: a tensor repeated along its axes (TOSA 1.0, data layout)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._movement import Movement, output_axis


@dataclass(frozen=True, slots=True)
class Tile(Movement):
    """The input repeated ``multiples[k]`` >= 1 times along every axis ``k``.

    The index along a repeated axis is taken modulo its size, which is not affine: a box reads that axis whole.
    """

    multiples: tuple[int, ...]

    name = "tile"
    rules = {
        "rank": "the input must have at least one axis",
        "one_entry_an_axis": "multiples must have one entry per axis of the input",
        "multiples": "multiples must be at least 1",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        self.require_axes(operands[0])
        sizes = operands[0].shape
        if len(self.multiples) != len(sizes):
            self.refuse("one_entry_an_axis", f"multiples {list(self.multiples)} for input {list(sizes)}")
        if min(self.multiples) < 1:
            self.refuse("multiples", f"multiples {list(self.multiples)}")
        return tuple(n * m for n, m in zip(sizes, self.multiples, strict=True))

    def reads(self, operands: Sequence[TensorType]) -> tuple[Access, ...]:
        sizes = zip(operands[0].shape, self.multiples, strict=True)
        return (Access(0, tuple(output_axis(k) if m == 1 else Axis(whole=n) for k, (n, m) in enumerate(sizes))),)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        out = operands[0]
        for k, m in enumerate(self.multiples):
            if m > 1:
                out = np.take(out, np.arange(box.lo[k], box.hi[k]) % bound.operands[0].shape[k], axis=k)
        return out

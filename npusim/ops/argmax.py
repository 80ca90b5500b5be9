"""ARGMAX: the index of the largest value along an axis (TOSA 1.0; the draft of 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Dim, Loop, UnitKind, Work, along
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import F32, I8, I16, I32, Array
from npusim.ops._base import Bound, Op, TypeRow
from npusim.ops._elementwise import AXIS_NAMES


@dataclass(frozen=True, slots=True)
class Argmax(Op):
    """The smallest index of the maximum along ``axis``; the output lacks that axis.

    A float NaN is never larger than anything; a line of nothing else gives 0.
    """

    axis: int

    name = "argmax"
    operands = ("input",)
    rows = (TypeRow((I8,), I32, I32), TypeRow((I16,), I32, I32), TypeRow((F32,), I32, I32))
    rules: ClassVar = {
        "axis_range": "axis must lie in 0..rank-1",
        "index_fits": "the size along axis must be at most 2^31 - 1, so that every index is an int32",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        shape = operands[0].shape
        if not 0 <= self.axis < len(shape):
            self.refuse("axis_range", f"axis {self.axis} for input {list(shape)}")
        if shape[self.axis] > I32.maximum:
            self.refuse("index_fits", f"input {list(shape)}")
        return shape[: self.axis] + shape[self.axis + 1 :]

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        names = AXIS_NAMES[: len(output.shape)]
        # A partial maximum would need its value beside its index: the axis stays whole.
        searched = Dim("k", operands[0].shape[self.axis], Loop.IN_CHANNEL, reduce=True, splittable=False)
        dims = (*(Dim(a, n, Loop.CHANNEL) for a, n in zip(names, output.shape, strict=True)), searched)
        axes = tuple(along(a) for a in names)
        read = Access(0, (*axes[: self.axis], along("k"), *axes[self.axis :]))
        return Work(UnitKind.VECTOR, dims, (read,), Access(-1, axes))

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        x = operands[0]
        if x.dtype.kind == "f":
            x = np.where(np.isnan(x), -np.inf, x)
        return np.asarray(np.argmax(x, axis=self.axis), np.int32)

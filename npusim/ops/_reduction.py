"""Shared parts of the reductions: one axis folded to size 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array
from npusim.ops._base import Bound, Op
from npusim.ops._elementwise import AXIS_NAMES


@dataclass(frozen=True, slots=True)
class Reduction(Op):
    """Folds ``axis`` of the input (counted from 0) with ``ufunc``; the output keeps the axis, with size 1."""

    axis: int

    operands = ("input",)
    rules: ClassVar[Mapping[str, str]] = {"axis_in_rank": "axis must lie in 0..rank-1 of the input"}
    ufunc: ClassVar[np.ufunc]

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        (x,) = operands
        if not 0 <= self.axis < len(x.shape):
            self.refuse("axis_in_rank", f"axis {self.axis} for input {list(x.shape)}")
        return (*x.shape[: self.axis], 1, *x.shape[self.axis + 1 :])

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        names = AXIS_NAMES[: len(output.shape)]
        dims = tuple(
            Dim(n, extent, Loop.IN_CHANNEL if i == self.axis else Loop.CHANNEL, reduce=i == self.axis)
            for i, (n, extent) in enumerate(zip(names, operands[0].shape, strict=True))
        )
        read = Access(0, tuple(along(n) for n in names))
        write = Access(-1, tuple(Axis() if i == self.axis else along(n) for i, n in enumerate(names)))
        return Work(UnitKind.VECTOR, dims, (read,), write)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        part = self.ufunc.reduce(operands[0], axis=self.axis, keepdims=True)
        return np.asarray(part if acc is None else self.ufunc(acc, part))

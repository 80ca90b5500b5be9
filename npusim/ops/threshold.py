"""Thresholds per channel: sums to bits, or to numbers of a few bits (batch norm and sign or quantiser, folded)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from npusim.ir.tensor import TensorType
from npusim.ir.work import UnitKind, Work
from npusim.numerics.types import I8, I16, I32, U1, Array, DType
from npusim.ops._base import Bound, TypeRow
from npusim.ops._elementwise import AXIS_NAMES, Elementwise, Place, aligned_access, output_access, output_dims
from npusim.ops._thresholds import (
    THRESHOLD_ATTRIBUTES,
    THRESHOLD_OPERANDS,
    THRESHOLD_RULES,
    apply_stage,
    check_stage,
    check_types,
    level_type,
    stage_accesses,
    take_thresholds_apart,
)


@dataclass(frozen=True, slots=True)
class Threshold(Elementwise):
    """``offset`` + the number of thresholds of its channel that an element passes.

    Channels lie along ``axis`` (0..rank-1). Thresholds are [C] or [C, steps] in any order, one entry may serve all
    channels; ``compare`` gt counts element > threshold, ge element >= threshold. Where ``invert`` (optional) is 1 the
    thresholds that it does not pass are counted. ``out_type`` (default u1) must hold offset..offset + steps.

    Batch norm and sign: gamma * (y - mu) / sigma + beta > 0 is y > mu - beta * sigma / gamma for gamma > 0, and the
    opposite (invert, the other compare) for gamma < 0 (FINN, arXiv:1612.07119, section 4.2.2). The element may be the
    sum of a binary convolution and a residual.
    """

    axis: int
    compare: str
    offset: int = 0
    out_type: str | None = None

    name = "threshold"
    operands = ("input", *THRESHOLD_OPERANDS)
    optional = 1
    attribute_operands = THRESHOLD_ATTRIBUTES
    rows = tuple(TypeRow((t, I32, U1), U1, U1) for t in (I8, I16, I32))
    rules: ClassVar[Mapping[str, str]] = {
        **THRESHOLD_RULES,
        "axis_range": "axis must lie in 0..rank-1",
    }

    @classmethod
    def take_apart(cls, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        return take_thresholds_apart(attributes)

    def select_row(self, dtypes: tuple[DType, ...]) -> TypeRow | None:
        if dtypes[0] not in (I8, I16, I32):
            return None
        check_types(self, dtypes[1:])
        out = level_type(self, self.out_type)
        return TypeRow(dtypes, out, out)

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        shape = operands[0].shape
        if not 0 <= self.axis < len(shape):
            self.refuse("axis_range", f"axis {self.axis} for input {list(shape)}")
        check_stage(self, self, operands[1:], shape[self.axis], level_type(self, self.out_type))
        return shape

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        stage = stage_accesses(operands, 1, AXIS_NAMES[self.axis], final=False)
        reads = (aligned_access(0, output.shape), *stage)
        return Work(UnitKind.VECTOR, output_dims(output.shape), reads, output_access(len(output.shape)))

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        return apply_stage(self, operands[0], operands[1:], self.axis, bound.output.dtype)

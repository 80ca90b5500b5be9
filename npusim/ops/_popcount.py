"""What the operators of the popcount unit share: encodings, output types, fused thresholds, checks of values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from npusim.errors import UnpredictableError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Dim, Loop
from npusim.numerics.overflow import Overflow
from npusim.numerics.planes import KINDS, Encoding, Kind
from npusim.numerics.types import F16, F32, I2, I3, I4, I8, I16, I32, U1, U2, U3, U4, U8, U16, Array, DType
from npusim.ops._base import Bound, Op, TypeRow
from npusim.ops._sliding import RANK_RULE
from npusim.ops._thresholds import (
    THRESHOLD_ATTRIBUTES,
    THRESHOLD_RULES,
    apply_stage,
    check_stage,
    check_types,
    level_type,
    stage_accesses,
    take_thresholds_apart,
)

SUM_RANGES = {
    I32: (I32.minimum, I32.maximum),
    I16: (I16.minimum, I16.maximum),
    I8: (I8.minimum, I8.maximum),
    F16: (-(1 << 11), 1 << 11),
    F32: (-(1 << 24), 1 << 24),
}
"""What raw sums may be written as, and the range in which that type holds every integer."""

BIPOLAR = Encoding("bipolar")


def type_rows(inputs: Sequence[DType], weights: Sequence[DType]) -> tuple[TypeRow, ...]:
    """The type table with thresholds and invert bits: ``out_type`` replaces u1; without thresholds it is i32."""
    return tuple(TypeRow((x, w, I32, U1), U1, I32) for x in inputs for w in weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class PopcountOp(Op):
    """An operator that sums products of few-bit numbers in i32 and writes the sums, or their levels by thresholds.

    Without thresholds the sums are written as ``out_type`` (i32 unless stated). A type that could not hold every
    possible sum is refused when the operator is bound, unless ``overflow`` says to ``wrap`` or ``saturate`` the
    finished sum; that is for integer types. With thresholds, and optionally invert bits, per output channel the output
    is ``offset`` + the number of thresholds passed, see :func:`npusim.ops._thresholds.apply_stage`; ``out_type`` is
    then u1 unless stated.
    """

    out_type: str | None = None
    overflow: str = "refuse"
    compare: str = "gt"
    offset: int = 0

    optional = 2
    attribute_operands = THRESHOLD_ATTRIBUTES
    rules: ClassVar[Mapping[str, str]] = {
        **RANK_RULE,
        **THRESHOLD_RULES,
        "operand_types": "the element types must be among those the operator takes",
        "out_type": f"out_type must be one of {', '.join(map(str, SUM_RANGES))}",
        "overflow": "overflow must be 'refuse', or for an integer out_type of raw sums 'wrap' or 'saturate'",
        "sum_range": "every possible sum must fit out_type: choose a wider out_type, or overflow 'wrap' or 'saturate'",
        "accumulator_range": "every possible sum must fit the i32 accumulator: split the layer along its channels",
        "stage_without_thresholds": "compare and offset belong to thresholds: give thresholds, or leave them out",
    }
    input_types: ClassVar[tuple[DType, ...]]
    weight_types: ClassVar[tuple[DType, ...]]

    @abstractmethod
    def encodings(self, operands: Sequence[DType]) -> tuple[Encoding, Encoding]:
        """How the elements of the first two operands stand for numbers; refuses what makes no sense."""

    @abstractmethod
    def elements(self, bound: Bound, operand: int, x: Array, box: Box, overflow: Overflow) -> Array:
        """The footprint ``x`` of one of the first two operands as elements of its encoding; refuses values outside."""

    @classmethod
    def take_apart(cls, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        return take_thresholds_apart(attributes)

    def select_row(self, dtypes: tuple[DType, ...]) -> TypeRow | None:
        for i, legal in enumerate((self.input_types, self.weight_types)):
            if dtypes[i] not in legal:
                self.refuse("operand_types", f"{self.operand_name(i)} {dtypes[i]} for {', '.join(map(str, legal))}")
        self.encodings(dtypes)
        if len(dtypes) > 2:
            check_types(self, dtypes[2:])
            return TypeRow(dtypes, level_type(self, self.out_type), I32)
        out = next((t for t in SUM_RANGES if t.name == (self.out_type or "i32")), None)
        if out is None:
            self.refuse("out_type", f"out_type {self.out_type!r}")
        return TypeRow(dtypes, out, I32)

    def check_sums(self, operands: Sequence[TensorType], channels: int, length: int) -> None:
        """Refuse output types and thresholds that do not go with ``length`` products a sum and ``channels`` outputs."""
        x, w = (e.range for e in self.encodings([t.dtype for t in operands]))
        products = [a * b for a in x for b in w]
        least, most = length * min(0, *products), length * max(0, *products)
        got = f"sums of {length} products in {least}..{most}"
        if least < I32.minimum or most > I32.maximum:
            self.refuse("accumulator_range", got)
        if len(operands) > 2:
            if self.overflow != "refuse":
                self.refuse("overflow", f"overflow {self.overflow!r} with thresholds")
            check_stage(self, self, operands[2:], channels, level_type(self, self.out_type))
            return
        if (self.compare, self.offset) != ("gt", 0):
            self.refuse("stage_without_thresholds", f"compare {self.compare!r}, offset {self.offset}")
        out = next(t for t in SUM_RANGES if t.name == (self.out_type or "i32"))
        if self.overflow != "refuse" and (self.overflow not in ("wrap", "saturate") or not out.is_integer):
            self.refuse("overflow", f"overflow {self.overflow!r} for {out}")
        low, high = SUM_RANGES[out]
        if self.overflow == "refuse" and (least < low or most > high):
            self.refuse("sum_range", f"{got} for out_type {out}")

    def plane_dims(self, operands: Sequence[TensorType]) -> tuple[Dim, ...]:
        """The passes of one-bit work a product takes: planes of the input times planes of the weight, ternary two."""
        x, w = self.encodings([t.dtype for t in operands])
        counts = {
            "input_plane": x.passes,
            "weight_plane": w.passes,
            "ternary_pass": 1 + ("ternary" in (x.kind, w.kind)),
        }
        return tuple(Dim(name, n, Loop.BIT_PLANE, reduce=True, splittable=False) for name, n in counts.items() if n > 1)

    def stage_reads(self, operands: Sequence[TensorType], channel: str) -> tuple[Access, ...]:
        """The reads of thresholds and invert bits."""
        return stage_accesses(operands, 2, channel, final=True)

    def finish_sums(self, bound: Bound, sums: Array, operands: Sequence[Array], axis: int, overflow: Overflow) -> Array:
        """Complete sums, whose channels lie along ``axis``, as the output; events of a chosen overflow are counted."""
        out = bound.output.dtype
        if len(bound.operands) > 2:
            return apply_stage(self, sums, operands[2:], axis, out)
        if self.overflow == "refuse" or out is I32:
            return sums.astype(out.storage, copy=False)
        overflow.events += int(np.count_nonzero((sums < out.minimum) | (sums > out.maximum)))
        if self.overflow == "saturate":
            sums = sums.clip(out.minimum, out.maximum)
        return sums.astype(out.storage)  # numpy keeps the low bits: two's complement

    def check_values(
        self, bound: Bound, operand: int, x: Array, box: Box, overflow: Overflow, rule: str, broken: Array
    ) -> None:
        """Raise UnpredictableError for the first element of the footprint ``x`` at which ``broken`` is true."""
        if not broken.any():
            return
        at = np.unravel_index(int(np.argmax(broken)), broken.shape)
        access = next(a for a in bound.work.reads if a.operand == operand)
        origin = access.footprint(bound.work.index, box).lo
        where = [int(i) + o for i, o in zip(at, origin, strict=True)]
        raise UnpredictableError(
            f"{overflow.where or self.name}: {self.rules[rule]} (rule {rule}), got {self.operand_name(operand)} "
            f"{x[at]} at index {where}"
        )


class BinaryOp(PopcountOp):
    """Both operands are bits that stand for -1 and +1; wider inputs hold 0 and 1, or are made bits by ``binarize``."""

    input_types: ClassVar[tuple[DType, ...]] = (U1, I8, I16, I32, U8, U16, F16, F32)
    weight_types: ClassVar[tuple[DType, ...]] = (U1,)
    rows = type_rows(input_types, weight_types)
    rules: ClassVar[Mapping[str, str]] = {
        **PopcountOp.rules,
        "binarize": "binarize must be none, gt0 (x > 0), ge0 (x >= 0) or lt0 (x < 0)",
        "binarize_bits": "u1 elements are binary already: leave binarize out",
        "binarize_signed": "for unsigned elements only binarize gt0 says anything",
        "binary_value": "elements must be 0 or 1: state binarize (gt0, ge0 or lt0) if others are meant",
    }
    binarize: str

    def encodings(self, operands: Sequence[DType]) -> tuple[Encoding, Encoding]:
        return BIPOLAR, BIPOLAR

    def check_binarize(self, operands: Sequence[TensorType]) -> None:
        """Refuse a ``binarize`` that does not go with the types of the operands that it is for."""
        if self.binarize not in ("none", "gt0", "ge0", "lt0"):
            self.refuse("binarize", f"binarize {self.binarize!r}")
        wide = [t.dtype for t in operands if t.dtype is not U1]
        if not wide and self.binarize != "none":
            self.refuse("binarize_bits", f"binarize {self.binarize!r}")
        for dtype in wide:
            if dtype.storage.kind == "u" and self.binarize in ("ge0", "lt0"):
                self.refuse("binarize_signed", f"binarize {self.binarize!r} for {dtype}")

    def elements(self, bound: Bound, operand: int, x: Array, box: Box, overflow: Overflow) -> Array:
        if bound.operands[operand].dtype is U1:
            return x
        if self.binarize == "gt0":
            return x > 0
        if self.binarize == "ge0":
            return x >= 0
        if self.binarize == "lt0":
            return x < 0
        self.check_values(bound, operand, x, box, overflow, "binary_value", (x != 0) & (x != 1))
        return x.astype(np.uint8)

    def unbinarized(self, bit: int) -> int:
        """A value that ``binarize`` turns into ``bit``."""
        return {"ge0": bit - 1, "lt0": -bit}.get(self.binarize, bit)


class BitserialOp(PopcountOp):
    """Operands of 1 to 8 bits: their element types say how many and whether they are signed.

    ``input_kind`` and ``weight_kind``: ``integer``; ``bipolar``: u1, where 0 stands for -1; ``ternary``: a signed type
    that holds -1, 0 and 1. ``input_bits`` and ``weight_bits``: integers use only so many bits of their type.
    """

    input_types = weight_types = (U1, U2, U3, U4, U8, I2, I3, I4, I8)
    rows = type_rows(input_types, weight_types)
    rules: ClassVar[Mapping[str, str]] = {
        **PopcountOp.rules,
        "kind": f"input_kind and weight_kind must be one of {', '.join(KINDS)}",
        "kind_type": "bipolar numbers are u1, ternary numbers of a signed type",
        "bits": "input_bits and weight_bits must lie in 1..bits of the element type, and belong to integers",
        "number_range": "elements must lie in the range of their kind and bits",
    }
    input_kind: str
    weight_kind: str
    input_bits: int | None
    weight_bits: int | None

    def encodings(self, operands: Sequence[DType]) -> tuple[Encoding, Encoding]:
        return (
            self._encoding("input", self.input_kind, self.input_bits, operands[0]),
            self._encoding("weight", self.weight_kind, self.weight_bits, operands[1]),
        )

    def _encoding(self, what: str, kind: str, bits: int | None, dtype: DType) -> Encoding:
        if kind not in KINDS:
            self.refuse("kind", f"{what}_kind {kind!r}")
        signed = dtype.minimum < 0
        if (kind == "bipolar" and dtype is not U1) or (kind == "ternary" and not signed):
            self.refuse("kind_type", f"{what}_kind {kind} for {dtype}")
        if bits is not None and (kind != "integer" or not 1 <= bits <= dtype.bits):
            self.refuse("bits", f"{what}_bits {bits} for {what}_kind {kind} of {dtype}")
        named: Kind = kind  # type: ignore[assignment]
        return Encoding(named, bits or dtype.bits, signed) if kind == "integer" else Encoding(named)

    def elements(self, bound: Bound, operand: int, x: Array, box: Box, overflow: Overflow) -> Array:
        dtype = bound.operands[operand].dtype
        encoding = self.encodings([t.dtype for t in bound.operands])[operand]
        low, high = encoding.range
        if encoding.kind != "bipolar" and (low > dtype.minimum or high < dtype.maximum):
            self.check_values(bound, operand, x, box, overflow, "number_range", (x < low) | (x > high))
        return x

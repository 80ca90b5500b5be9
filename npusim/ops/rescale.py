"""RESCALE: elements scaled by a fixed-point factor to another integer type (TOSA 1.0, type conversion)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, UnitKind, Work, along
from npusim.numerics.rounding import ScaleError, apply_scale_16, apply_scale_32
from npusim.numerics.types import I8, I16, I32, I48, U8, U16, Array, DType
from npusim.ops._base import Bound, TypeRow
from npusim.ops._elementwise import AXIS_NAMES, Elementwise, Place, aligned_access, output_access, output_dims

INPUTS = (I8, I16, I32, I48, U8, U16)
OUTPUTS = {t.name: t for t in (I8, I16, I32, U8, U16)}
UNSIGNED = {I8: U8, I16: U16}
"""What the bits of a signed tensor are read as when its unsigned flag is set."""
ROUNDINGS = ("single", "double", "inexact")


def _type_rows() -> tuple[TypeRow, ...]:
    signed, small, unsigned = (I8, I16, I32), (I8, I16), (U8, U16)
    pairs = [(x, y) for x in signed for y in signed]
    pairs += [(x, y) for x in small for y in unsigned] + [(x, y) for x in unsigned for y in small]
    rows = [TypeRow((x, m, I8), y, y) for m in (I32, I16) for x, y in pairs]
    return (*rows, *(TypeRow((I48, I16, I8), y, y) for y in signed))


@dataclass(frozen=True, slots=True)
class Rescale(Elementwise):
    """``clip(scale(input - input_zp) + output_zp)`` with ``scale(v) = v * multiplier / 2**shift``, rounded half up.

    ``out_type`` is the name of the output's type. ``multiplier`` (int32 with ``scale32``, else int16) and ``shift``
    (int8) have one value, or with ``per_channel`` one for each index of the last axis. ``rounding``: ``double`` rounds
    a second time before a shift of more than 31 (apply_scale_32), ``inexact`` is computed as ``single``.

    An unsigned flag says that the values of that side are unsigned: of a u8 or u16 tensor, which needs the flag, or of
    an i8 or i16 tensor, whose bits are then read or written as an unsigned number, as TOSA files state it. Zero points
    are values in that reading: 0..255 for unsigned 8-bit.

    Unpredictable and refused: a negative multiplier, a shift outside 2..62, with ``scale32`` a value outside
    -2**(shift-1)..2**(shift-1)-1, without it a result outside int32.
    """

    scale32: bool
    rounding: str
    per_channel: bool
    input_unsigned: bool
    output_unsigned: bool
    out_type: str
    input_zp: int = 0
    output_zp: int = 0

    name = "rescale"
    operands = ("input", "multiplier", "shift")
    rows = _type_rows()
    attribute_operands = {"multiplier": I32, "shift": I8}
    rules: ClassVar[Mapping[str, str]] = {
        "input_type": f"input must be one of {', '.join(map(str, INPUTS))}",
        "out_type": f"out_type must be one of {', '.join(OUTPUTS)}",
        "rounding": f"rounding must be one of {', '.join(ROUNDINGS)}",
        "multiplier_type": "multiplier must be i32 with scale32 true and i16 with scale32 false",
        "scale32_input": "an i48 input needs scale32 false",
        "double_scale32": "double rounding needs scale32 true",
        "unsigned_flag": "a u8 or u16 tensor needs its unsigned flag",
        "one_unsigned": "input and output must not both be unsigned",
        "unsigned_width": "beside an unsigned side both types must have 8 or 16 bits",
        "zero_point_type": "only 8-bit and unsigned 16-bit tensors have zero points",
        "zero_point_range": "a zero point must be a value of its tensor, and 0 or 32768 for unsigned 16-bit",
        "per_channel_rank": "per_channel needs an input with at least one axis",
        "scale_size": "multiplier and shift must have one value, or one per index of the last axis if per_channel",
    }

    @property
    def multiplier_type(self) -> DType:
        """Element type of the multiplier."""
        return I32 if self.scale32 else I16

    def bind(self, operands: Sequence[TensorType]) -> Bound:
        if len(operands) == len(self.operands) and operands[1].dtype is not self.multiplier_type:
            got = f"multiplier {operands[1].dtype} with scale32 {str(self.scale32).lower()}"
            self.refuse("multiplier_type", got)
        return Elementwise.bind(self, operands)

    def select_row(self, dtypes: tuple[DType, ...]) -> TypeRow | None:
        x, y = dtypes[0], OUTPUTS.get(self.out_type)
        if x not in INPUTS:
            self.refuse("input_type", f"input {x}")
        if y is None:
            self.refuse("out_type", f"out_type {self.out_type!r}")
        self._check(x, y)
        row = TypeRow((x, self.multiplier_type, I8), y, y)
        return row if row.operands == dtypes and row in self.rows else None

    def _check(self, x: DType, y: DType) -> None:
        """The rules about types, modes and zero points."""
        if self.rounding not in ROUNDINGS:
            self.refuse("rounding", f"rounding {self.rounding!r}")
        if self.scale32 and x is I48:
            self.refuse("scale32_input", "input i48 with scale32 true")
        if self.rounding == "double" and not self.scale32:
            self.refuse("double_scale32", "rounding double with scale32 false")
        sides = (
            ("input", x, self.input_unsigned, self.input_zp),
            ("output", y, self.output_unsigned, self.output_zp),
        )
        for side, dtype, unsigned, _ in sides:
            if dtype in (U8, U16) and not unsigned:
                self.refuse("unsigned_flag", f"{side}_unsigned false for {side} {dtype}")
        if self.input_unsigned and self.output_unsigned:
            self.refuse("one_unsigned", "input_unsigned true and output_unsigned true")
        if (self.input_unsigned or self.output_unsigned) and not {x, y} <= {I8, I16, U8, U16}:
            side = "input" if self.input_unsigned else "output"
            self.refuse("unsigned_width", f"{side}_unsigned true for input {x} and output {y}")
        for side, dtype, unsigned, zp in sides:
            read = UNSIGNED.get(dtype, dtype) if unsigned else dtype
            if zp and read not in (I8, U8, U16):
                self.refuse("zero_point_type", f"{side}_zp {zp} for {side} {read}")
            if not read.minimum <= zp <= read.maximum or (read is U16 and zp not in (0, 32768)):
                self.refuse("zero_point_range", f"{side}_zp {zp} for {side} {read}")

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        x, *scales = operands
        if self.per_channel and not x.shape:
            self.refuse("per_channel_rank", "input []")
        size = x.shape[-1] if self.per_channel else 1
        for name, t in zip(self.operands[1:], scales, strict=True):
            if t.shape != (size,):
                self.refuse("scale_size", f"{name} {list(t.shape)} where [{size}] is needed")
        return x.shape

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        rank = len(output.shape)
        channel = along(AXIS_NAMES[rank - 1]) if operands[1].size > 1 else Axis()
        reads = (aligned_access(0, output.shape), Access(1, (channel,)), Access(2, (channel,)))
        return Work(UnitKind.VECTOR, output_dims(output.shape), reads, output_access(rank))

    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        x, multiplier, shift = operands
        if self.input_unsigned:
            x = x.view(f"u{x.itemsize}")
        value = x.astype(np.int64)
        if self.input_zp:
            value -= self.input_zp
        try:
            if self.scale32:
                scaled = apply_scale_32(value, multiplier, shift, self.rounding == "double")
            else:
                scaled = apply_scale_16(value, multiplier, shift)
        except ScaleError as e:
            place.refuse(e.index, e.message, str(e.value))
        if self.output_zp:
            scaled += self.output_zp
            if not self.scale32:  # apply_scale_32 stays 2**30 away from the limits
                place.require_range(scaled, I32, "the sum with output_zp")
        dtype = bound.output.dtype
        written = UNSIGNED.get(dtype, dtype) if self.output_unsigned else dtype
        np.clip(scaled, written.minimum, written.maximum, out=scaled)
        return scaled.astype(written.storage).view(dtype.storage)

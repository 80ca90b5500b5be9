"""The threshold stage: sums to bits or numbers of a few bits, by comparing them with thresholds per channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, along
from npusim.numerics.types import I2, I3, I4, I8, I32, U1, U2, U3, U4, U8, Array, DType
from npusim.ops._base import Op

LEVEL_TYPES = {t.name: t for t in (U1, U2, U3, U4, U8, I2, I3, I4, I8)}
"""What a threshold stage writes, by name."""

THRESHOLD_OPERANDS = ("thresholds", "invert")
THRESHOLD_ATTRIBUTES = {"thresholds": I32, "invert": U1}

THRESHOLD_RULES: Mapping[str, str] = {
    "threshold_types": "thresholds must be i32 and invert u1",
    "threshold_shape": "thresholds must be [channels] or [channels, steps], and invert [channels]; one entry may stand "
    "for all channels",
    "compare": "compare must be 'gt' (sum > threshold) or 'ge' (sum >= threshold)",
    "level_type": f"behind thresholds out_type must be one of {', '.join(LEVEL_TYPES)}",
    "level_range": "offset and offset + number of steps must fit out_type",
}


class ThresholdStage(Protocol):
    """The attributes of an operator with a threshold stage."""

    @property
    def compare(self) -> str: ...
    @property
    def offset(self) -> int: ...


def take_thresholds_apart(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """``thresholds: {values, compare, invert}`` as the operands and attributes it is made of."""
    grouped = attributes.get("thresholds")
    if not isinstance(grouped, Mapping):
        return attributes
    rest = {k: v for k, v in attributes.items() if k != "thresholds"}
    named = {("thresholds" if k == "values" else k): v for k, v in grouped.items()}
    if "invert" in named:
        bits = np.atleast_1d(np.asarray(named["invert"]))
        named["invert"] = bits.astype(np.uint8) if bits.dtype.kind == "b" else bits
    return {**rest, **named}


def check_types(op: Op, operands: Sequence[DType]) -> None:
    """Refuse thresholds and invert bits (the operands, one or both) of a wrong type."""
    for name, dtype, wanted in zip(THRESHOLD_OPERANDS, operands, (I32, U1), strict=False):
        if dtype is not wanted:
            op.refuse("threshold_types", f"{name} {dtype}")


def level_type(op: Op, out_type: str | None) -> DType:
    """The type behind the thresholds: u1 unless stated."""
    if out_type is not None and out_type not in LEVEL_TYPES:
        op.refuse("level_type", f"out_type {out_type!r}")
    return U1 if out_type is None else LEVEL_TYPES[out_type]


def check_stage(op: Op, stage: ThresholdStage, operands: Sequence[TensorType], channels: int, out: DType) -> None:
    """Refuse shapes and attributes; ``operands`` are the thresholds and, where there are, the invert bits."""
    thresholds = operands[0].shape
    if len(thresholds) not in (1, 2) or thresholds[0] not in (1, channels):
        op.refuse("threshold_shape", f"thresholds {list(thresholds)} for {channels} channels")
    if len(operands) > 1 and operands[1].shape not in ((1,), (channels,)):
        op.refuse("threshold_shape", f"invert {list(operands[1].shape)} for {channels} channels")
    if stage.compare not in ("gt", "ge"):
        op.refuse("compare", f"compare {stage.compare!r}")
    steps = thresholds[1] if len(thresholds) == 2 else 1
    if not out.minimum <= stage.offset <= stage.offset + steps <= out.maximum:
        op.refuse("level_range", f"offset {stage.offset} with {steps} steps for {out}")


def stage_accesses(operands: Sequence[TensorType], first: int, channel: str, final: bool) -> tuple[Access, ...]:
    """The reads of thresholds and invert bits, operands from position ``first`` on, along dimension ``channel``."""
    found = []
    for i, t in enumerate(operands[first:], first):
        channels = Axis() if t.shape[0] == 1 else along(channel)
        found.append(Access(i, (channels, *(Axis(whole=n) for n in t.shape[1:])), final))
    return tuple(found)


def apply_stage(stage: ThresholdStage, sums: Array, operands: Sequence[Array], axis: int, out: DType) -> Array:
    """``offset`` + the number of thresholds that a sum passes, or of those it does not pass where ``invert`` is set.

    A sum passes a threshold by ``sum > threshold`` (compare gt) or ``>=`` (ge). ``axis`` is the channel axis of
    ``sums``; with one step, offset 0 and u1 the output is the bit (sum compare threshold) xor invert.
    """
    shape = [1] * sums.ndim
    shape[axis] = -1
    thresholds = operands[0].reshape(len(operands[0]), -1)
    passes = np.greater if stage.compare == "gt" else np.greater_equal
    count = np.zeros(sums.shape, np.uint8)
    for step in thresholds.T:
        count += passes(sums, step.reshape(shape))
    if len(operands) > 1:
        invert = operands[1].reshape(shape).astype(np.bool_)
        count = np.where(invert, np.uint8(thresholds.shape[1]) - count, count)
    if not stage.offset:
        return count.astype(out.storage, copy=False)
    return (count.astype(np.int16) + stage.offset).astype(out.storage)

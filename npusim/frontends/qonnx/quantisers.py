"""Quantisers of QONNX and FINN: which integers they give, where they step up, and what they compute in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.folding import Boundary, rounding_boundaries
from npusim.frontends.qonnx.numbers import Numbers
from npusim.frontends.qonnx.reader import QUANTISING, OnnxNode
from npusim.numerics.types import Array

QUANTISERS: Final = frozenset({"Quant", "IntQuant", "BipolarQuant", "MultiThreshold"})
"""The operators that this module knows; Quant and IntQuant are two names of one."""


@dataclass(frozen=True)
class Stage:
    """Counts what ``boundaries`` x / ``divisor`` + ``term`` passes; both arrays are float32 and go with the tensor.

    ``levels`` is that count in float32, of a tensor.
    """

    divisor: Array
    term: Array
    boundaries: tuple[Boundary, ...]
    levels: Callable[[Array], Array]


@dataclass(frozen=True)
class Quantiser:
    """Gives ``scale`` (float32, all of it positive) times an integer: the lowest of ``numbers`` plus the level, or of
    bipolar ones -1 for level 0 and +1 for level 1. The level of an element is the sum of what the stages count.
    """

    numbers: Numbers
    scale: Array
    stages: tuple[Stage, ...]

    def levels(self, x: Array) -> Array:
        """The level of each element of the float32 tensor ``x``, as the model computes it."""
        return np.asarray(sum(stage.levels(x) for stage in self.stages), np.int64)

    def integers(self, x: Array) -> Array:
        """The integer of each element of ``x``."""
        levels = self.levels(x)
        return 2 * levels - 1 if self.numbers.bipolar else levels + self.numbers.low


def is_quantiser(node: OnnxNode) -> bool:
    """Whether the node is one of this module's operators."""
    return node.domain in QUANTISING and node.operator in QUANTISERS


def quantiser_of(node: OnnxNode, constants: Mapping[str, Array], rank: int) -> Quantiser:
    """The quantiser that ``node`` applies to a tensor of ``rank``.

    QONNX, Quant: round(clip(x / scale + zero_point)), less zero_point, times scale; signed with one bit it is a sign.
    BipolarQuant: scale for x >= 0, else -scale. FINN, MultiThreshold: out_scale times the number of thresholds of its
    channel that x reaches, plus out_bias. Raises InvalidGraphError for parameters that are not constant or that give
    no scaled integers.
    """
    parameters = []
    for value in node.inputs[1:]:
        if value not in constants:
            raise InvalidGraphError(f"its parameter {value!r} is computed; make it a constant")
        parameters.append(np.asarray(constants[value], np.float32))
    wanted = 1 if node.operator in ("BipolarQuant", "MultiThreshold") else 3
    if len(parameters) != wanted:
        raise InvalidGraphError(f"must have {1 + wanted} inputs, got {list(node.inputs)}")
    if not all(p.size and np.isfinite(p).all() for p in parameters):
        raise InvalidGraphError("its parameters must be finite numbers; export the model again")
    if node.operator == "MultiThreshold":
        return _multi_threshold(node, parameters[0], rank)
    scale = parameters[0]
    if (scale <= 0).any():
        raise InvalidGraphError(f"scale must be greater than 0, got {scale.min()}")
    one, none = np.ones((), np.float32), np.zeros((), np.float32)
    sign = (Boundary(Fraction(0), True),)
    if node.operator == "BipolarQuant":
        return Quantiser(Numbers(-1, 1, bipolar=True), scale, (Stage(one, none, sign, reached),))
    zero, bits = (_integer(p, what) for p, what in zip(parameters[1:], ("zero_point", "bitwidth"), strict=True))
    signed, narrow = bool(node.integer("signed", 1)), bool(node.integer("narrow", 1))
    if bits < 1 or bits > 32:
        raise InvalidGraphError(f"bitwidth must be a number of bits in 1..32, got {bits}")
    if bits == 1 and signed:
        if zero:
            raise InvalidGraphError(f"zero_point must be 0 where one signed bit is a sign, got {zero}")
        levels = partial(_after_scale, scale, none, reached)
        return Quantiser(Numbers(-1, 1, bipolar=True), scale, (Stage(scale, none, sign, levels),))
    low = (narrow - (1 << (bits - 1))) if signed else 0
    high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1 - narrow
    if low == high:
        raise InvalidGraphError("has one level only (1 bit, unsigned, narrow); give it more bits")
    numbers = Numbers(low - zero, high - zero)
    _ = numbers.dtype  # refuses more bits than there are types for, before a boundary is made for each level
    mode = node.text("rounding_mode", "ROUND").upper()
    if mode not in ROUNDING:
        raise InvalidGraphError(f"rounding_mode must be one of {', '.join(ROUNDING)}, got {mode!r}")
    _, boundaries = ROUNDING[mode]
    term = np.asarray(zero, np.float32)
    levels = partial(_after_scale, scale, term, partial(_rounded, mode, low, high))
    return Quantiser(numbers, scale, (Stage(scale, term, boundaries(low, high), levels),))


def _multi_threshold(node: OnnxNode, thresholds: Array, rank: int) -> Quantiser:
    if thresholds.ndim != 2:
        raise InvalidGraphError(f"thresholds must be [channels, steps], got the shape {list(thresholds.shape)}")
    scale, bias = node.number("out_scale", 1.0), node.number("out_bias", 0.0)
    layout = node.text("data_layout", "NCHW")
    if scale <= 0:
        raise InvalidGraphError(f"out_scale must be greater than 0, got {scale}")
    steps = thresholds.shape[1]
    low = Fraction(bias) / Fraction(scale)
    if steps == 1 and low == Fraction(-1, 2):
        numbers, scale = Numbers(-1, 1, bipolar=True), scale / 2
    elif low.denominator != 1:
        raise InvalidGraphError(f"out_bias must be a multiple of out_scale, got {bias} and {scale}")
    else:
        numbers = Numbers(int(low), int(low) + steps)
    _ = numbers.dtype
    behind = rank - 1 - channel_axis(rank, layout)
    one, sign = np.ones((), np.float32), (Boundary(Fraction(0), True),)
    each = (t.reshape(-1, *[1] * behind) for t in thresholds.T)
    stages = tuple(Stage(one, -t, sign, partial(reached, at=t)) for t in each)
    return Quantiser(numbers, np.asarray(scale, np.float32), stages)


def channel_axis(rank: int, layout: str = "NCHW") -> int:
    """The axis of channels of a tensor: 1 of images and matrices (or with layout NHWC the last), else the last."""
    return 1 if rank in (2, 4) and layout != "NHWC" else rank - 1


def _integer(parameter: Array, what: str) -> int:
    values = np.unique(parameter)
    if values.size != 1 or values[0] != np.trunc(values[0]) or abs(values[0]) > 1 << 24:
        raise InvalidGraphError(f"{what} must be one integer, got {parameter.ravel()[:4].tolist()}")
    return int(values[0])


# -- what quantisers compute in float32 --------------------------------------------------------------------------------


def reached(x: Array, at: Array | float = 0.0) -> Array:
    """Whether an element is at least ``at``."""
    return np.asarray(x >= at)


def _after_scale(scale: Array, zero: Array, levels: Callable[[Array], Array], x: Array) -> Array:
    return levels(x / scale + zero)


def _rounded(mode: str, low: int, high: int, y: Array) -> Array:
    return np.asarray(ROUNDING[mode][0](np.clip(y, low, high)) - low)


def _away_from_zero(y: Array) -> Array:
    return np.asarray(np.sign(y) * np.ceil(np.abs(y)))


def _half_away_from_zero(y: Array) -> Array:
    return np.asarray(np.sign(y) * np.floor(np.abs(y) + np.float32(0.5)))


def _half_to_zero(y: Array) -> Array:
    return np.asarray(np.sign(y) * np.ceil(np.abs(y) - np.float32(0.5)))


def _boundaries(
    positive: tuple[Fraction, bool], other: tuple[Fraction, bool], low: int, high: int
) -> tuple[Boundary, ...]:
    """Where each integer k of ``low``..``high`` but the first begins: (how far below k, whether there already), for
    k > 0 and for the other ones.
    """
    at = ((k, positive if k > 0 else other) for k in range(low + 1, high + 1))
    return tuple(Boundary(k - below, inclusive) for k, (below, inclusive) in at)


Rounding = tuple[Callable[[Array], Array], Callable[[int, int], tuple[Boundary, ...]]]

_THERE, _BEYOND_LAST = (Fraction(0), True), (Fraction(1), False)
_HALF_INCLUSIVE, _HALF_EXCLUSIVE = (Fraction(1, 2), True), (Fraction(1, 2), False)

ROUNDING: Final[Mapping[str, Rounding]] = {
    "ROUND": (np.rint, rounding_boundaries),
    "HALF_EVEN": (np.rint, rounding_boundaries),
    "CEIL": (np.ceil, partial(_boundaries, _BEYOND_LAST, _BEYOND_LAST)),
    "FLOOR": (np.floor, partial(_boundaries, _THERE, _THERE)),
    "ROUND_TO_ZERO": (np.trunc, partial(_boundaries, _THERE, _BEYOND_LAST)),
    "DOWN": (np.trunc, partial(_boundaries, _THERE, _BEYOND_LAST)),
    "UP": (_away_from_zero, partial(_boundaries, _BEYOND_LAST, _THERE)),
    "HALF_UP": (_half_away_from_zero, partial(_boundaries, _HALF_INCLUSIVE, _HALF_EXCLUSIVE)),
    "HALF_DOWN": (_half_to_zero, partial(_boundaries, _HALF_EXCLUSIVE, _HALF_INCLUSIVE)),
}
"""Rounding modes of Quant by name: the function, and where each level of lowest..highest begins. UP is away from zero,
HALF_UP and HALF_DOWN break ties away from and towards zero (QONNX, IntQuant)."""

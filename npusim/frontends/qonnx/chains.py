"""Float operators behind an integer tensor, kept as a chain until a quantiser folds them into integer thresholds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Final

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.folding import Affine, Interval, Thresholds, batch_norm, fold
from npusim.frontends.qonnx.numbers import Numbers
from npusim.frontends.qonnx.quantisers import Quantiser, Stage
from npusim.frontends.qonnx.reader import OnnxNode
from npusim.numerics.types import Array

FLOAT_INTEGERS: Final = 1 << 24
"""Up to here float32 holds every integer."""

FLOAT: Final = 1
"""ONNX's number of the type float32 (TensorProto.DataType)."""

UNSCALED: Final = (Fraction(1),)
"""The scale of integers that are floats as they are."""

FLOAT_MAXIMUM: Final = np.finfo(np.float32).max


@dataclass(frozen=True)
class Step:
    """One float operator: ``function`` of a tensor, which is ``affine`` per channel, or clips to ``clip``."""

    function: Callable[[Array], Array]
    affine: tuple[Affine, ...] = ()
    clip: tuple[float, float] | None = None


@dataclass(frozen=True)
class Pool:
    """A max-pool among the steps of a chain, behind the first ``after`` of them."""

    node: OnnxNode
    after: int


@dataclass(frozen=True)
class Chain:
    """``steps`` of the integers of the graph value ``base``, times their ``scale`` (one, or one per channel).

    ``shape`` is that of the base, channels lie along ``axis``. Without ``numbers`` the base is a sum in i32 that lies
    in ``range``. ``alone``: every tensor up to here has one reader. ``exact``: the model's float of the base is the
    integer times its scale however it adds up.
    """

    base: str
    shape: tuple[int, ...]
    axis: int
    scale: tuple[Fraction, ...]
    range: tuple[int, int]
    numbers: Numbers | None = None
    steps: tuple[Step, ...] = ()
    alone: bool = True
    exact: bool = True
    pool: Pool | None = None

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.shape[self.axis]

    @property
    def is_integer(self) -> bool:
        """Whether it is scaled integers, with nothing left to fold."""
        return not self.steps and self.pool is None

    @property
    def float_scale(self) -> Array:
        """The scale in float32, to go with a tensor of this shape (or of one that a max-pool made of it)."""
        scale = np.array([float(s) for s in self.scale], np.float32)
        return scale.reshape(()) if scale.size == 1 else self.along_channels(scale)[0]

    def along_channels(self, values: Array) -> Array:
        """``values`` [n, channels], or [channels], as a tensor [n, ...] of one element per channel."""
        shape = [1] * len(self.shape)
        shape[self.axis], shape[0] = self.channels, values.size // self.channels
        return values.reshape(shape)

    def then(self, step: Step | None, read_once: bool) -> Chain:
        """This, and one more step; ``read_once``: its input has no other reader."""
        steps = self.steps if step is None else (*self.steps, step)
        return replace(self, steps=steps, alone=self.alone and read_once)

    def per_channel(self, constant: Array) -> Array:
        """As the function of that name, for a tensor that this chain gives."""
        return per_channel(constant, self.shape, self.axis)

    # -- folding ---------------------------------------------------------------------------------------------------

    def thresholds(self, where: str, quantiser: Quantiser) -> Thresholds:
        """The thresholds of the base's integers that are the same as this chain and ``quantiser`` behind it."""
        with np.errstate(all="ignore"):  # what is clipped may overflow before
            found = [self._stage(where, stage) for stage in quantiser.stages]
        return Thresholds(np.concatenate([t.values for t in found], 1), found[0].invert)

    def slopes(self, first: int = 0) -> Iterator[Interval]:
        """By channel, the product of the scales of the steps from ``first`` on."""
        for c in range(self.channels):
            slope = Interval.of(1)
            for step in self.steps[first:]:
                slope = slope * step.affine[c].scale if step.affine else slope
            yield slope

    def _stage(self, where: str, stage: Stage) -> Thresholds:
        divisor, term = (self.per_channel(p) for p in (stage.divisor, stage.term))
        channels = [
            self._affine(c).then(Affine(Interval.of(1 / Fraction(float(d))), Interval.of(float(t))))
            for c, (d, t) in enumerate(zip(divisor, term, strict=True))
        ]

        def levels(sums: Array) -> Array:
            x = np.asarray(self.along_channels(sums).astype(np.float32) * self.float_scale)
            return stage.levels(_run([s for s in self.steps if s.clip is None], x)).reshape(sums.shape)

        found = fold(where, channels, stage.boundaries, self.range, levels)
        for i, step in enumerate(self.steps):
            if step.clip is not None:
                limits = np.clip(np.array(step.clip, np.float32), -FLOAT_MAXIMUM, FLOAT_MAXIMUM)
                ends = [self.along_channels(np.full(self.channels, limit)) for limit in limits]
                reached = [stage.levels(_run(self.steps[i + 1 :], x)).reshape(-1, 1) for x in ends]
                found = self._bounded(found, np.minimum(*reached), np.maximum(*reached))
        return found

    def _affine(self, channel: int) -> Affine:
        """Of the base's integers, without clips."""
        found = Affine(Interval.of(self.scale[channel % len(self.scale)]), Interval.of(0))
        for step in self.steps:
            if step.affine:
                found = found.then(step.affine[channel])
        return found

    def _bounded(self, found: Thresholds, least: Array, most: Array) -> Thresholds:
        """``found`` with the levels bounded to ``least``..``most`` [channels, 1].

        What follows a clip is monotone in float32 too, so that clipping bounds the level by those of its two limits.
        """
        low, high = self.range
        k = np.arange(found.values.shape[1])
        falls = found.invert[:, None] == 1
        values = np.where(k < least, np.where(falls, high + 1, low), found.values)
        values = np.where(k >= most, np.where(falls, low, high + 1), values)
        return Thresholds(values.astype(np.int32), found.invert)


def per_channel(constant: Array, shape: tuple[int, ...], axis: int) -> Array:
    """A float constant that a tensor of ``shape`` is combined with as [channels].

    Raises InvalidGraphError where it varies along other axes, or is not finite.
    """
    if constant.dtype.kind != "f" or not np.isfinite(constant).all():
        raise InvalidGraphError("its constant is not made of finite floats")
    sizes = (*[1] * (len(shape) - constant.ndim), *constant.shape)
    wanted = [1] * len(shape)
    wanted[axis] = shape[axis]
    if len(sizes) != len(shape) or any(n not in (1, w) for n, w in zip(sizes, wanted, strict=True)):
        raise InvalidGraphError(
            f"its constant of shape {list(constant.shape)} varies along other axes of {list(shape)} than that of "
            f"channels ({axis})"
        )
    return np.broadcast_to(constant.reshape(sizes), wanted).reshape(shape[axis])


def _run(steps: Sequence[Step], x: Array) -> Array:
    for step in steps:
        x = step.function(x)
    return x


# -- operators as steps ------------------------------------------------------------------------------------------------


def step_of(
    node: OnnxNode, chain: Chain, constants: Mapping[str, Array], function: Callable[[Array], Array]
) -> Step | None:
    """``node``, which is ``function`` of the tensor that ``chain`` gives, as a step behind it; None if it does nothing.

    Raises InvalidGraphError that says why it is none, which matters only where a quantiser follows.
    """
    operands = [constants.get(v) for v in node.inputs]
    if node.operator in ("Identity", "Dropout") or (node.operator == "Cast" and node.integer("to", 0) == FLOAT):
        return None
    if node.operator == "Relu":
        return Step(function, clip=(0.0, inf))
    if node.operator == "Clip":
        return Step(function, clip=_clip_limits(node, operands))
    if node.operator == "Neg":
        return affine_step(function, -np.ones(chain.channels), np.zeros(chain.channels))
    if node.operator == "BatchNormalization":
        if chain.axis != 1 or len(operands) != 5:
            raise InvalidGraphError("it normalises no channels of this tensor (axis 1) by constants")
        scale, bias, mean, variance = (_channels(chain, p) for p in operands[1:])
        epsilon = float(np.float32(node.number("epsilon", 1e-5)))
        if (variance < 0).any() or (variance + epsilon == 0).any():
            raise InvalidGraphError("variance + epsilon must be greater than 0")
        numbers = zip(scale.tolist(), bias.tolist(), mean.tolist(), variance.tolist(), strict=True)
        return Step(function, tuple(batch_norm(s, b, m, v, epsilon) for s, b, m, v in numbers))
    if node.operator not in ("Add", "Sub", "Mul", "Div") or len(operands) != 2:
        raise InvalidGraphError("it is not linear in each element")
    first, second = operands
    constant = second if first is None else first
    if constant is None:
        raise InvalidGraphError("both of its operands are computed")
    c = chain.per_channel(constant)
    one, none = np.ones(chain.channels), np.zeros(chain.channels)
    if node.operator == "Add":
        return affine_step(function, one, c)
    if node.operator == "Sub":
        return affine_step(function, one, -c) if first is None else affine_step(function, -one, c)
    if node.operator == "Mul":
        return affine_step(function, c, none)
    if first is not None or not c.all():
        raise InvalidGraphError("it divides a constant by the tensor, or by 0")
    return Step(function, tuple(Affine(Interval.of(1 / Fraction(float(x))), Interval.of(0)) for x in c))


def affine_step(function: Callable[[Array], Array], scale: Array, offset: Array) -> Step:
    """``function``, which is times ``scale`` plus ``offset`` (both [channels])."""
    pairs = zip(scale, offset, strict=True)
    return Step(function, tuple(Affine(Interval.of(float(s)), Interval.of(float(o))) for s, o in pairs))


def _channels(chain: Chain, parameter: Array | None) -> Array:
    if parameter is None or parameter.shape != (chain.channels,) or not np.isfinite(parameter).all():
        raise InvalidGraphError(f"its parameters must be finite constants of {chain.channels} elements")
    return parameter


def _clip_limits(node: OnnxNode, operands: Sequence[Array | None]) -> tuple[float, float]:
    """From attributes (up to version 6 of the operator) or operands (since 11)."""
    found = []
    for i, (name, default) in enumerate((("min", -inf), ("max", inf)), 1):
        operand = operands[i] if len(operands) > i else None
        if operand is not None and operand.size != 1:
            raise InvalidGraphError("its limits are not one number each")
        found.append(float(operand.item()) if operand is not None else float(node.attributes.get(name, default)))
    if not found[0] <= found[1]:
        raise InvalidGraphError(f"its limits are {found[0]} and {found[1]}")
    return found[0], found[1]


def is_power_of_two(x: Fraction) -> bool:
    """Whether a positive fraction is a power of two, so that scaling by it rounds nothing."""
    return x.numerator & (x.numerator - 1) == 0 and x.denominator & (x.denominator - 1) == 0

"""Folds what lies between an LceBconv2d with float output and the next LceQuantize into integer thresholds.

The sign of clipped, scaled and shifted sums is a threshold of the sum, see :func:`npusim.frontends.folding.fold`. It is
taken over only where the bits do not depend on how floats are rounded: Larq's kernels evaluate clip(y) * m + b, or with
other constants clip(K - y) * -m + (b + K * m), with one rounding or two, and all of that must agree with exact
arithmetic at every threshold. With padding of zeros they add a correction to the floats at the borders; there the exact
value must keep a distance from 0, or all of these operations be exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import inf, lcm

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.folding import Affine, Boundary, Interval, Thresholds, fold
from npusim.frontends.larq.binary import Convolution, scaled, sign_bits
from npusim.frontends.larq.kernels import ACTIVATIONS, ELEMENTWISE, Clip
from npusim.frontends.larq.plans import activation, plan
from npusim.frontends.larq.reader import LarqFile, LarqOperator, LarqTensor
from npusim.numerics.types import Array

AT_ZERO = (Boundary(Fraction(0), inclusive=True),)
"""The bit is 1 for 0 and above."""


@dataclass(frozen=True, slots=True)
class Step:
    """An element-wise operator: ``clip`` of ``scale`` x + ``offset``, per channel; ``function`` does it in float32."""

    function: Callable[[Array], Array]
    scale: Array
    offset: Array
    clip: Clip


def is_elementwise(operator: LarqOperator) -> bool:
    """Whether the operator may be part of a chain that is folded."""
    return operator.kind in ELEMENTWISE or operator.kind in ACTIVATIONS


def step(operator: LarqOperator, tensors: Mapping[str, LarqTensor], channels: int) -> Step:
    """What an element-wise operator does in each of ``channels``.

    Raises InvalidGraphError when it joins two computed tensors, or its constant is not one number a channel.
    """
    function = plan(operator, tensors).function
    one, zero = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    if operator.kind in ACTIVATIONS:
        return Step(function, one, zero, ACTIVATIONS[operator.kind])
    operands = [tensors[v] for v in operator.inputs if v is not None]
    constants = [t for t in operands if t.data is not None]
    if not constants:
        raise InvalidGraphError(
            f"joins {operands[0].name!r} and {operands[1].name!r}, a sum of scaled sums: no threshold of "
            "integers says the same as its sign"
        )
    shape = constants[0].shape
    if any(n != 1 for n in shape[:-1]) or shape[-1:] not in ((), (1,), (channels,)):
        raise InvalidGraphError(
            f"has a constant of shape {list(shape)}; one number for each of {channels} channels folds"
        )
    value = np.broadcast_to(constants[0].array().reshape(-1), (channels,))
    clip = activation(operator)
    if operator.kind == "MUL":
        return Step(function, value, zero, clip)
    if operator.kind == "ADD":
        return Step(function, one, value, clip)
    first = operands[0].data is not None  # SUB: constant - x, or x - constant
    return Step(function, -one if first else one, value if first else -value, clip)


def steps(chain: Sequence[LarqOperator], tensors: Mapping[str, LarqTensor], channels: int) -> list[tuple[str, Step]]:
    """The operators of ``chain`` by name. Raises InvalidGraphError that starts with the first that cannot be folded."""
    found = []
    for o in chain:
        try:
            found.append((o.label, step(o, tensors, channels)))
        except InvalidGraphError as e:
            raise InvalidGraphError(f"{o.label} cannot be folded into integer thresholds: it {e.problems[0]}") from None
    return found


def only_quantizer(value: str, file: LarqFile) -> tuple[list[LarqOperator], LarqOperator] | None:
    """The element-wise operators and the LceQuantize behind them if the float tensor ``value`` serves nothing else."""
    chain: list[LarqOperator] = []
    while value not in file.outputs:
        readers = [o for o in file.operators if value in o.inputs]
        if len(readers) != 1:
            return None
        (reader,) = readers
        if reader.kind == "LceQuantize":
            return chain, reader
        computed = [v for v in reader.inputs if v is not None and file.tensors[v].data is None]
        if not is_elementwise(reader) or computed != [value] or len(reader.outputs) != 1 or reader in chain:
            return None
        chain.append(reader)
        value = reader.outputs[0]
    return None


def fold_signs(
    where: str, layer: Convolution, multiplier: Array, bias: Array, chain: Sequence[tuple[str, Step]]
) -> Thresholds:
    """Thresholds (compare ge, one a channel) of the sums of ``layer`` that give the bits of the LceQuantize ``where``.

    ``chain`` are the operators between by name. Raises InvalidGraphError where floats are not finite, or where bits
    depend on how they are rounded.
    """
    length, channels = layer.length, len(multiplier)
    parts = [(where, (multiplier, bias)), *((name, (s.scale, s.offset)) for name, s in chain)]
    for name, constants in parts:
        if not all(np.isfinite(c).all() for c in constants):
            raise InvalidGraphError(f"{name} cannot be folded into integer thresholds: a constant of it is not finite")
    if layer.padded and chain:
        raise InvalidGraphError(
            f"{chain[0][0]} cannot be folded into integer thresholds: behind a convolution padded with zeros only "
            "its own multiplier and bias are; merge it into them, or pad with ones"
        )
    between = [s for _, s in chain]
    exact = [_sign(layer, multiplier[c], bias[c], between, c) for c in range(channels)]
    constant = np.float32(length)

    def direct(sums: Array) -> Array:
        return scaled(sums, layer.low, layer.high, multiplier, bias)

    def counted(sums: Array) -> Array:
        different = np.clip(length - sums, length - layer.high, length - layer.low).astype(np.float32)
        return np.asarray(different * -multiplier + (bias + constant * multiplier))

    def fused(sums: Array) -> Array:  # a product of float32 is exact in float64
        different = np.clip(length - sums, length - layer.high, length - layer.low).astype(np.float64)
        return np.asarray(different * -multiplier + (bias + constant * multiplier)).astype(np.float32)

    with np.errstate(all="ignore"):
        for evaluate in (direct, counted, fused):
            found = fold(where, exact, AT_ZERO, (-length, length), partial(_levels, evaluate, between))
    if layer.padded:
        for c in range(channels):
            _check_distance(where, layer, c, Fraction(float(multiplier[c])), Fraction(float(bias[c])), found.values[c])
    return found


def _levels(evaluate: Callable[[Array], Array], steps: Sequence[Step], sums: Array) -> Array:
    """Bits of sums [n, channels], evaluated in float32."""
    x = evaluate(sums)[:, None, None, :]  # constants may have the rank of the image
    for s in steps:
        x = s.function(x)
    return sign_bits(x)[:, 0, 0, :]


def _sign(layer: Convolution, multiplier: np.float32, bias: np.float32, steps: Sequence[Step], c: int) -> Affine:
    """An affine function of the sum that is at 0 or above where the chain is.

    min(max(v, low), high) for affine v keeps its form under scaling, shifting and clipping. It is at 0 or above if low
    is, not if high is not, else if v is.
    """
    scale, offset = Fraction(1), Fraction(0)
    low, high = Fraction(layer.low), Fraction(layer.high)
    floats = [(multiplier, bias, (-inf, inf)), *((s.scale[c], s.offset[c], s.clip) for s in steps)]
    for m, b, (least, most) in floats:
        m_, b_ = Fraction(float(m)), Fraction(float(b))
        scale, offset = scale * m_, offset * m_ + b_
        low, high = sorted((low * m_ + b_, high * m_ + b_))
        if least != -inf:
            low, high = (max(e, Fraction(least)) for e in (low, high))
        if most != inf:
            low, high = (min(e, Fraction(most)) for e in (low, high))
    if low >= 0 or high < 0:
        return Affine(Interval.of(0), Interval.of(0 if low >= 0 else -1))
    return Affine(Interval.of(scale), Interval.of(offset))


def _check_distance(where: str, layer: Convolution, c: int, m: Fraction, b: Fraction, thresholds: Array) -> None:
    """Refuse a channel whose bits could be turned by rounding when floats are corrected for padding of zeros.

    Its float operations (two products, three sums, one constant of a product and a sum) have results of at most
    3 K |m| + |b|, each rounded by at most 2**-24 of that: 2**-21 bounds them all. If all are multiples of one power of
    two and below 2**24 of it, none is rounded.
    """
    largest = 3 * layer.length * abs(m) + abs(b)
    if largest * lcm(m.denominator, b.denominator) <= 1 << 24:
        return
    for y in (int(thresholds[0]), int(thresholds[0]) - 1):
        if -layer.length <= y <= layer.length and abs(m * y + b) <= largest / (1 << 21):
            raise InvalidGraphError(
                f"{where} cannot be folded into integer thresholds: in channel {c} the sum {y} is scaled to "
                f"{float(m * y + b):.3g}, which rounding of the correction for padding of zeros may turn; pad "
                "with ones, or change the constants by more than a rounding error"
            )

"""FakeQuantize of two levels (OpenVINO, FakeQuantize-1): on floats, and as integer thresholds behind an integer sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from npusim.errors import InputError, InvalidGraphError
from npusim.frontends.folding import Affine, Boundary, Interval, fold
from npusim.numerics.types import Array


@dataclass(frozen=True)
class Quantizer:
    """Ranges per channel, each [C], or [1] for all channels, in the float type of the data.

    An element x gives ``output_low`` if x <= input_low, ``output_high`` if x > input_high, and between them the nearer
    of the two, the low one in the middle. With equal input limits that is x > input_low.

    Bits stand for the levels so that 1 is the larger one; :attr:`low` and :attr:`high` are the numbers behind 0 and 1.
    """

    input_low: Array
    input_high: Array
    output_low: Array
    output_high: Array

    def __post_init__(self) -> None:
        for name in ("input_low", "input_high", "output_low", "output_high"):
            broken = ~np.isfinite(getattr(self, name)) if name.startswith("output") else np.isnan(getattr(self, name))
            if broken.any():
                raise InvalidGraphError(f"{name} {getattr(self, name)[broken][0]} in channel {int(np.argmax(broken))}")
        infinite = ~np.isfinite(self.input_low) | ~np.isfinite(self.input_high)
        broken = (self.input_low > self.input_high) | (infinite & (self.input_low != self.input_high))
        if broken.any():
            c = int(np.argmax(broken))
            raise InvalidGraphError(
                f"input_low {self.input_low[c]} and input_high {self.input_high[c]} in channel {c}: the low limit must "
                "not exceed the high one, and only equal ones may be infinite"
            )

    @property
    def constant(self) -> Array:
        """[C] channels that give the same number whatever they read."""
        same: Array = self.output_low == self.output_high
        return same

    @property
    def falls(self) -> Array:
        """[C] channels that give the smaller number for large elements."""
        above: Array = self.output_low > self.output_high
        return above

    @property
    def low(self) -> Array:
        """[C] what bit 0 stands for; 0 in constant channels of 0 or 1, so that their bit is their number."""
        levels: Array = np.minimum(self.output_low, self.output_high)
        levels[self._constant_bit] = 0
        return levels

    @property
    def high(self) -> Array:
        """[C] what bit 1 stands for."""
        levels: Array = np.maximum(self.output_low, self.output_high)
        levels[self._constant_bit] = 1
        return levels

    @property
    def _constant_bit(self) -> Array:
        is_bit: Array = self.constant & ((self.output_low == 0) | (self.output_low == 1))
        return is_bit

    def bits(self, passes: Array) -> Array:
        """The bits [..., C] of elements that give their upper level where ``passes``."""
        made: Array = np.where(self.constant, self.output_low == self.high, passes != self.falls)
        return made.astype(np.uint8)

    def passes(self, x: Array) -> Array:
        """Whether elements [..., C] give ``output_high``, as the type of the limits computes it."""
        low, high = self.input_low, self.input_high
        span = np.where(high > low, high - low, np.ones_like(low))
        with np.errstate(all="ignore"):  # what is not finite is decided by the comparisons
            between = np.rint((x - low) / span) >= 1
        return ~(x <= low) & ((x > high) | between)

    def thresholds(
        self, where: str, channels: int, added: Sequence[Array], sums: tuple[int, int]
    ) -> tuple[Array, Array]:
        """Integer thresholds and invert bits, both [channels]: the bit of a sum is (sum >= threshold) xor invert.

        ``added`` are constants like the ranges that are added to a sum of the range ``sums`` before it is quantised.
        Raises InvalidGraphError that opens with ``where`` if that depends on how floats are rounded
        (:func:`npusim.frontends.folding.fold`).
        """
        if len(self.input_low) != channels or any(len(x) != channels for x in added):
            ranges = (self.input_low, self.input_high, self.output_low, self.output_high)
            whole = Quantizer(*(np.broadcast_to(x, channels) for x in ranges))
            return whole.thresholds(where, channels, [np.broadcast_to(x, channels) for x in added], sums)
        low, high = sums
        infinite = np.isinf(self.input_low)
        decided = infinite | self.constant  # channels whose bit does not depend on the sum
        limits = [np.where(decided, 0, x).astype(x.dtype) for x in (self.input_low, self.input_high)]
        finite = replace(self, input_low=limits[0], input_high=limits[1])
        affines = []
        for c in range(len(decided)):
            offset = sum((Fraction(float(a[c])) for a in added), Fraction(0))
            middle = sum((Fraction(float(x[c])) for x in limits), Fraction(0)) / 2
            affines.append(Affine(Interval.of(1), Interval.of(offset - middle)))

        def levels(x: Array) -> Array:
            shifted = x.astype(self.input_low.dtype)
            for constant in added:
                shifted = shifted + constant
            return finite.passes(shifted).astype(np.int64)

        values = fold(where, affines, [Boundary(Fraction(0), inclusive=False)], sums, levels).values[:, 0]
        values = np.where(infinite, np.where(self.input_low > 0, high + 1, low), values)
        invert = np.where(self.constant, self.output_low == self.high, self.falls)
        return np.where(self.constant, high + 1, values).astype(np.int32), invert.astype(np.uint8)


def quantize(x: Array, quantizer: Quantizer, name: str) -> Array:
    """The bits of floats x [N, C, ...]. Raises InputError for the first that is no number."""
    if np.isnan(x).any():
        at = [int(i) for i in np.argwhere(np.isnan(x))[0]]
        raise InputError(f"FakeQuantize {name!r} reads nan at index {at}: it is neither low nor high; give numbers")
    last = np.moveaxis(x, 1, -1)
    return np.ascontiguousarray(np.moveaxis(quantizer.bits(quantizer.passes(last)), -1, 1))

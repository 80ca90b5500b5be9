"""Larq Compute Engine's operators on bits as npusim's: polarity, packing, geometry, thresholds.

Source: the kernels of Larq Compute Engine (``larq_compute_engine/core`` and ``tflite/kernels``). There a bit 1 stands
for -1, here for +1: bits are inverted where they enter, and in filters. Channels of a pixel are padded to words of 32
bits with zeros. An accumulator counts the bits that differ, a = (K - y) / 2 for the sum y of K products, and an output
bit is a > t, so that npusim's bit is y >= K - 2 t. The largest of -1 and +1 is the and of Larq's bits, the or of
npusim's. Padding of zeros means that such taps add nothing, also where a window is larger than the image; Larq's
optimised kernels leave the correction out there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.larq.kernels import pads
from npusim.frontends.larq.plans import activation
from npusim.frontends.larq.reader import LarqOperator, LarqTensor
from npusim.numerics.types import Array, ceil_div

WORD_BITS: Final = 32


def words(channels: int) -> int:
    """Words that the packed channels of a pixel take."""
    return int(ceil_div(channels, WORD_BITS))


def sign_bits(x: Array) -> Array:
    """LceQuantize: 0 for numbers below 0, 1 for others; -0.0 and NaN are not below 0."""
    return (~(x < 0)).astype(np.uint8)


def signs(bits: Array) -> Array:
    """LceDequantize: -1 and +1 in float32."""
    return np.where(bits.astype(np.bool_), np.float32(1), np.float32(-1))


def scaled(sums: Array, low: int, high: int, multiplier: Array, bias: Array) -> Array:
    """The float output of LceBconv2d: the clipped sum times the multiplier plus the bias of its channel."""
    return np.clip(sums, low, high).astype(np.float32) * multiplier + bias


@dataclass(frozen=True)
class Convolution:
    """One LceBconv2d, without what it makes of its sums.

    ``weight`` are npusim's bits [o, ky, kx, channels of a group], ``length`` the products of a sum, ``low`` and
    ``high`` the range to which the fused activation clips sums. ``padded``: some taps are worth 0.
    """

    attributes: Mapping[str, Any]
    weight: Array
    length: int
    low: int
    high: int
    padded: bool

    def thresholds(self, given: Array) -> Array:
        """Those of npusim, with compare ge, for Larq's; clipped to the range that matters, -K..K + 1."""
        return np.clip(self.length - 2 * given.astype(np.int64), -self.length, self.length + 1).astype(np.int32)


def convolution(
    operator: LarqOperator, tensors: Mapping[str, LarqTensor], shape: Sequence[int], makes_bits: bool
) -> Convolution:
    """The convolution that ``operator`` applies to bits of ``shape`` [n, y, x, channels]; it writes bits or floats.

    Raises InvalidGraphError for options and operands that do not go together or that Larq's kernels refuse themselves,
    FileFormatError for constants whose bytes do not fill their shape.
    """
    options, channels = operator.options, shape[3]
    packed = _constant(operator, tensors, 1, "INT32", "packed filters")
    if packed.ndim != 4:
        raise InvalidGraphError(f"has filters of shape {list(packed.shape)}; they must be [o, ky, kx, words]")
    if options["channels_in"] != channels:
        raise InvalidGraphError(f"has channels_in {options['channels_in']} for an input of {channels} channels")
    groups, rest = divmod(words(channels), packed.shape[3])
    if rest or not groups or (groups > 1 and channels % (groups * WORD_BITS)) or len(packed) % groups:
        raise InvalidGraphError(
            f"has filters of {packed.shape[3]} words and {len(packed)} outputs for {channels} channels: neither all of "
            "them nor equal groups of whole words"
        )
    weight = _filters(packed, channels // groups)
    kernel, length = weight.shape[1:3], prod(weight.shape[1:])
    stride = _pair(options, "stride_height", "stride_width")
    dilation = _pair(options, "dilation_height_factor", "dilation_width_factor")
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padded = any(map(any, pads(options["padding"], shape[1:3], reach, stride)))
    if options["pad_values"] not in (0, 1):
        raise InvalidGraphError(f"has pad_values {options['pad_values']}; they must be 0 or 1")
    zeros = padded and options["pad_values"] == 0
    low, high = activation(operator)
    if zeros and (makes_bits or (channels % 2 and (low, high) != (-np.inf, np.inf))):
        what = "bits" if makes_bits else f"a fused activation of {channels} channels, which is odd"
        raise InvalidGraphError(
            f"pads with zeros and has {what}, for which Larq has no kernel: pad with ones (pad_values 1)"
        )
    attributes = {
        "stride": stride,
        "dilation": dilation,
        "pads_begin": (0, 0),
        "pads_end": (0, 0),
        "pad_value": "zero" if zeros else "plus_one",
        "auto_pad": "same_upper" if options["padding"] == "SAME" else "valid",
        "groups": groups,
        "layout": "nhwc",
    }
    return Convolution(attributes, weight, length, int(max(low, -length)), int(min(high, length)), zeros)


def output_thresholds(operator: LarqOperator, tensors: Mapping[str, LarqTensor], layer: Convolution) -> Array:
    """npusim's thresholds of an LceBconv2d that writes bits."""
    return layer.thresholds(_constant(operator, tensors, 4, "INT32", "output thresholds", (len(layer.weight),)))


def output_scales(operator: LarqOperator, tensors: Mapping[str, LarqTensor], filters: int) -> tuple[Array, Array]:
    """Multiplier and bias of an LceBconv2d that writes floats."""
    multiplier = _constant(operator, tensors, 2, "FLOAT32", "post-activation multiplier", (filters,))
    return multiplier, _constant(operator, tensors, 3, "FLOAT32", "post-activation bias", (filters,))


def pooling(operator: LarqOperator) -> dict[str, Any]:
    """The attributes of ``binary_max_pool2d`` for LceBMaxPool2d."""
    options = operator.options
    if options["padding"] not in ("SAME", "VALID"):
        raise InvalidGraphError(f"padding {options['padding']}; it must be SAME or VALID")
    return {
        "kernel": _pair(options, "filter_height", "filter_width"),
        "stride": _pair(options, "stride_height", "stride_width"),
        "pads_begin": (0, 0),
        "pads_end": (0, 0),
        "auto_pad": "same_upper" if options["padding"] == "SAME" else "valid",
        "combine": "or",
        "layout": "nhwc",
    }


def _filters(packed: Array, channels: int) -> Array:
    """npusim's bits of packed filters [o, ky, kx, words]."""
    octets = np.ascontiguousarray(packed, "<i4").view(np.uint8)
    bits = np.unpackbits(octets, axis=-1, bitorder="little")
    if bits[..., channels:].any():
        raise InvalidGraphError(f"has filters with bits behind their {channels} channels; convert the model again")
    return 1 - bits[..., :channels]


def _pair(options: Mapping[str, Any], y: str, x: str) -> tuple[int, int]:
    if min(options[y], options[x]) < 1:
        raise InvalidGraphError(f"has {y} {options[y]} and {x} {options[x]}; both must be at least 1")
    return options[y], options[x]


def _constant(
    operator: LarqOperator,
    tensors: Mapping[str, LarqTensor],
    i: int,
    dtype: str,
    what: str,
    shape: tuple[int, ...] | None = None,
) -> Array:
    name = operator.inputs[i] if i < len(operator.inputs) else None
    t = None if name is None else tensors[name]
    if t is None or t.data is None or t.dtype != dtype:
        got = "none" if t is None else f"{t.name!r} ({t.dtype})"
        raise InvalidGraphError(f"input {i} must be a constant of {dtype} ({what}), got {got}")
    if shape is not None and t.shape != shape:
        raise InvalidGraphError(f"has {what} of shape {list(t.shape)}; they must be {list(shape)}")
    return t.array()

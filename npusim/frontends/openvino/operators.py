"""Attributes of the IR's layers as operators of npusim: convolutions, poolings, limits per channel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from npusim.errors import InvalidGraphError
from npusim.frontends.model import ModelOptions
from npusim.frontends.openvino.reader import Layer
from npusim.ir.tensor import TensorType
from npusim.numerics.types import BOOL, I32, U1, Array, DType
from npusim.ops import Bound
from npusim.ops.binary_conv2d import BinaryConv2d
from npusim.ops.binary_max_pool2d import BinaryMaxPool2d

PAD_RULES: Final = {
    "plugin": {-1.0: "minus_one", 0.0: "zero", 1.0: "plus_one"},
    "literal": {0.0: "minus_one", 1.0: "plus_one"},
}
"""What a ``pad_value`` means, by the rule."""

PAD_MEANINGS: Final = {"minus_one": "counts as -1", "zero": "adds nothing", "plus_one": "counts as +1"}


def text_of(layer: Layer, name: str, default: str | None = None) -> str:
    """An attribute; without a default it must be there."""
    found = layer.attributes.get(name, default)
    if found is None:
        raise InvalidGraphError(f"attribute {name} is missing; state it")
    return found


def integers_of(layer: Layer, name: str, default: str | None = None) -> tuple[int, ...]:
    """An attribute that is a list of integers."""
    text = text_of(layer, name, default)
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[-+]?[0-9]{1,9}", part, re.ASCII) for part in parts):
        raise InvalidGraphError(f"attribute {name} {text!r} must be integers with commas between them, such as 1,1")
    return tuple(map(int, parts))


def pads_of(layer: Layer) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """auto_pad, pads_begin and pads_end; the last two need not be there where they are ignored."""
    auto_pad = text_of(layer, "auto_pad", "explicit")
    default = None if auto_pad.lower() == "explicit" else "0,0"
    return auto_pad, integers_of(layer, "pads_begin", default), integers_of(layer, "pads_end", default)


def convolution(
    layer: Layer, operands: Sequence[TensorType], result: DType, options: ModelOptions
) -> tuple[BinaryConv2d, Bound, str]:
    """The operator of a BinaryConvolution on ``operands``, bound to them, and how its padding was read ("" if no tap
    is padded). ``result`` is the element type of the layer's output, which must hold every sum."""
    auto_pad, begin, end = pads_of(layer)
    text = text_of(layer, "pad_value")
    try:
        pad_value = float(text)
    except ValueError:
        raise InvalidGraphError(f"attribute pad_value {text!r} must be a number") from None
    op = BinaryConv2d(
        stride=integers_of(layer, "strides"),
        dilation=integers_of(layer, "dilations"),
        pads_begin=begin,
        pads_end=end,
        auto_pad=auto_pad,
        pad_value="minus_one",
        mode=text_of(layer, "mode"),
        binarize="none" if operands[0].dtype is U1 else options.binarize,
    )
    bound = op.bind(operands)
    if result is not I32:
        replace(op, out_type=result.name).bind(operands)
    if not _reads_padding(op, operands, bound):
        return op, bound, ""
    rule = options.pad_rule
    meaning = PAD_RULES[rule].get(pad_value)
    if meaning is None:
        known = " or ".join(f"{v:g}" for v in PAD_RULES[rule])
        raise InvalidGraphError(
            f"attribute pad_value {text!r} must be {known} under pad_rule {rule}, as taps lie on padding"
        )
    op = replace(op, pad_value=meaning)
    return op, op.bind(operands), f"pad_rule {rule}: pad_value {pad_value:g} {PAD_MEANINGS[meaning]}"


def _reads_padding(op: BinaryConv2d, operands: Sequence[TensorType], bound: Bound) -> bool:
    """Whether any tap of any window lies on padding."""
    pads, size, kernel = op.pads(operands), operands[0].shape[2:], operands[1].shape[2:]
    positions = bound.output.shape[2:]
    last = [(positions[i] - 1) * op.stride[i] + (kernel[i] - 1) * op.dilation[i] - pads[2 * i] for i in (0, 1)]
    return pads[0] > 0 or pads[2] > 0 or any(at >= n for at, n in zip(last, size, strict=True))


def pooling(layer: Layer, tensor: TensorType) -> tuple[BinaryMaxPool2d, tuple[int, ...]]:
    """The operator of a MaxPool (versions 1 and 8) on bits of the shape of ``tensor``, and its output shape.

    ``rounding_type`` ceil counts a last window that reaches beyond the padding: more padding behind is the same.
    """
    auto_pad, begin, end = pads_of(layer)
    kernel, stride = integers_of(layer, "kernel"), integers_of(layer, "strides")
    dilations = integers_of(layer, "dilations", "1,1")
    if set(dilations) != {1}:
        raise InvalidGraphError(f"attribute dilations {list(dilations)}: npusim pools windows without gaps, 1,1")
    rounding = text_of(layer, "rounding_type", "floor").lower()
    if rounding not in ("floor", "ceil"):
        raise InvalidGraphError(f"attribute rounding_type {rounding!r} must be floor or ceil")
    op = BinaryMaxPool2d(kernel=kernel, stride=stride, pads_begin=begin, pads_end=end, auto_pad=auto_pad)
    bits = TensorType(tensor.shape, U1)
    shape = op.bind([bits]).output.shape
    if rounding == "ceil" and auto_pad.lower() in ("explicit", "valid"):
        pads = op.pads(op.size(bits))
        missing = [
            -(n + pads[2 * i] + pads[2 * i + 1] - k) % s
            for i, (n, k, s) in enumerate(zip(op.size(bits), kernel, stride, strict=True))
        ]
        op = replace(
            op,
            auto_pad="explicit",
            pads_begin=(pads[0], pads[2]),
            pads_end=(pads[1] + missing[0], pads[3] + missing[1]),
        )
        shape = op.bind([bits]).output.shape
    return op, shape


def per_channel(what: str, constant: Array, shape: tuple[int, ...]) -> Array:
    """A constant that broadcasts against ``shape`` as one number, [1], or one for each channel (axis 1), [C]; or
    InvalidGraphError."""
    sizes = (*[1] * (len(shape) - constant.ndim), *constant.shape)
    channels = shape[1] if len(shape) > 1 else 0
    if len(sizes) != len(shape) or any(n != 1 and (i != 1 or n != channels) for i, n in enumerate(sizes)):
        raise InvalidGraphError(
            f"{what} of shape {list(constant.shape)} for data {list(shape)}: npusim takes one number, or one for each "
            f"channel, [1, {channels}, 1, 1]"
        )
    return constant.reshape(-1)


def numeric(what: str, tensor: TensorType, wanted: DType) -> None:
    """Refuse an operand of another element type than the data's."""
    if tensor.dtype is not wanted or wanted in (U1, BOOL):
        raise InvalidGraphError(f"{what} is {tensor.dtype}, the data {wanted}: both must be the same type of numbers")

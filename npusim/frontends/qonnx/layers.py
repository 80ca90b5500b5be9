"""Layers of sums of products: MatMul, Gemm, Conv and XnorPopcountMatMul as operators of the popcount unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, Final

from npusim.errors import InvalidGraphError
from npusim.frontends.qonnx.chains import UNSCALED, Chain
from npusim.frontends.qonnx.numbers import Numbers, Weights, product, sum_range
from npusim.frontends.qonnx.reader import OnnxNode
from npusim.numerics.types import Array

XNOR: Final = "XnorPopcountMatMul"

LAYERS: Final = frozenset({"MatMul", "Gemm", "Conv", XNOR})
"""The operators that this module knows."""


@dataclass(frozen=True)
class Layer:
    """The operator ``op`` with ``attributes``, whose second operand are the elements ``weight`` of ``numbers``.

    Its sums are of ``length`` products, lie in ``range`` and stand for themselves times ``scale`` (one, or one per
    output channel). ``bias`` is added to the scaled sums as float32.
    """

    op: str
    attributes: Mapping[str, Any]
    weight: Array
    numbers: Numbers
    scale: tuple[Fraction, ...]
    range: tuple[int, int]
    length: int
    bias: Array | None


def layer_of(node: OnnxNode, x: Chain, weights: Weights, bias: Array | None) -> Layer:
    """The layer that ``node`` is on the integers of ``x``. Raises InvalidGraphError where npusim has none for it."""
    if node.operator == "Conv":
        kind, attributes = "conv2d", _convolution(node, x, weights)
        bias = None if bias is None else bias.reshape(-1, 1, 1)
    else:
        kind, attributes = "matmul", {"transpose_b": True}
        weights = _rows(node, weights, len(x.shape))
    numbers = weights.numbers
    length = prod(numbers.shape[1:] if kind == "conv2d" else numbers.shape[-1:])
    if not length or x.numbers is None:
        raise InvalidGraphError(f"its weights of shape {list(numbers.shape)} give no sums of products")
    kinds: Mapping[str, Any] = {}
    if node.operator == XNOR:
        if (x.numbers, weights.range) != (Numbers(0, 1), Numbers(0, 1)) or x.scale != UNSCALED:
            raise InvalidGraphError("both of its operands must be made of 0 and 1, with no scale")
        op, sums = "binary_matmul", (-length, length)
    else:
        op, kinds = product(x.numbers, weights.range, kind)
        sums = sum_range(x.numbers, weights.range, length)
    groups = attributes.get("groups", 1)
    return Layer(
        op,
        {**kinds, **attributes},
        weights.range.encode(numbers),
        weights.range,
        _scale(x, weights.scale.reshape(-1, length), groups),
        sums,
        length,
        bias,
    )


def _rows(node: OnnxNode, weights: Weights, rank: int) -> Weights:
    """The weights of a product as [outputs, inputs], or [1, outputs, inputs] for a batch of matrices."""
    numbers, scale = weights.numbers, weights.scale
    if numbers.ndim != 2:
        raise InvalidGraphError(f"its weights must be a matrix, got the shape {list(numbers.shape)}")
    gemm = node.operator == "Gemm"
    if gemm and (node.number("alpha", 1.0) != 1 or node.number("beta", 1.0) != 1 or node.integer("transA", 0)):
        raise InvalidGraphError("alpha and beta must be 1 and transA 0; scale the weights and bias instead")
    if not (gemm and node.integer("transB", 0)):
        numbers, scale = numbers.T, scale.T
    lead = (1,) * (rank - 2)
    return Weights(numbers.reshape(*lead, *numbers.shape), scale.reshape(*lead, *scale.shape), weights.range)


def _convolution(node: OnnxNode, x: Chain, weights: Weights) -> Mapping[str, Any]:
    if weights.numbers.ndim != 4 or len(x.shape) != 4:
        raise InvalidGraphError(
            f"only two-dimensional convolutions run on the chip, got weights {list(weights.numbers.shape)}"
        )
    top, left, bottom, right = node.integers("pads", (0, 0, 0, 0))
    mode = node.text("auto_pad", "NOTSET")
    return {
        "stride": node.integers("strides", (1, 1)),
        "dilation": node.integers("dilations", (1, 1)),
        "pads_begin": (top, left),
        "pads_end": (bottom, right),
        "auto_pad": "explicit" if mode == "NOTSET" else mode.lower(),
        "groups": node.integer("group", 1),
        "pad_value": "zero",
    }


def _scale(x: Chain, weight_scale: Array, groups: int) -> tuple[Fraction, ...]:
    """The scales of the sums: one, or one per output channel. ``weight_scale`` is [output channels, products]."""
    if (weight_scale != weight_scale[:, :1]).any():
        raise InvalidGraphError(
            "the scale of its weights varies along the products of a sum; scale output channels only"
        )
    per_output = [Fraction(float(s)) for s in weight_scale[:, 0]]
    if len(x.scale) > 1:
        if groups != x.channels or len(per_output) % groups:
            raise InvalidGraphError("the scale of its input varies along the products of a sum; use one scale for all")
        per_input = len(per_output) // groups
        per_output = [s * x.scale[o // per_input] for o, s in enumerate(per_output)]
    else:
        per_output = [s * x.scale[0] for s in per_output]
    return shared(per_output)


def shared(scale: list[Fraction]) -> tuple[Fraction, ...]:
    """The scales of channels, or the one that all of them have."""
    return tuple(scale[:1]) if len(set(scale)) == 1 else tuple(scale)


def pooling(node: OnnxNode) -> tuple[dict[str, Any], tuple[int, int, int, int], str]:
    """Of a MaxPool: kernel and stride, pads [top, bottom, left, right], auto_pad as the popcount unit spells it."""
    if node.integers("dilations", (1, 1)) != (1, 1) or node.integer("ceil_mode", 0):
        raise InvalidGraphError("dilations must be 1 and ceil_mode 0; pad the image instead")
    top, left, bottom, right = node.integers("pads", (0, 0, 0, 0))
    mode = node.text("auto_pad", "NOTSET")
    window = {"kernel": node.integers("kernel_shape", (0, 0)), "stride": node.integers("strides", (1, 1))}
    return window, (top, bottom, left, right), "explicit" if mode == "NOTSET" else mode.lower()

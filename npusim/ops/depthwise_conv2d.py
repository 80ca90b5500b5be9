"""DEPTHWISE_CONV2D: a convolution of each channel by itself (TOSA 1.0; the draft of 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.gemm import Factor, blocks, contract, magnitude
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array
from npusim.ops._base import Bound
from npusim.ops._convolution import SlidingConvolution, bias_access
from npusim.ops._sliding import output_index, reduction, windows

CACHED = 1 << 16
"""Outputs computed at a time: their sums and products stay in a second-level cache."""


@dataclass(frozen=True, slots=True)
class DepthwiseConv2d(SlidingConvolution):
    """Input [N,IH,IW,C], weight [KH,KW,C,M], bias [C*M] or [1] -> the raw accumulators [N,OH,OW,C*M].

    Output channel c*M + m comes from input channel c. ``pad`` [top, bottom, left, right], ``stride`` and ``dilation``
    [y, x]; sizes as for CONV2D. The products of one output are added in the order of kernel row, kernel column.
    """

    name = "depthwise_conv2d"
    kernel_axis = 0

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        self.check_operands(operands, ("N H W C", "KH KW C M", "C*M"), channel_axis=2)
        x, weight, bias = operands
        channels = weight.shape[2] * weight.shape[3]
        self.check_bias(bias, channels)
        return (x.shape[0], *self.positions(operands), channels)

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        _, weight, bias = operands
        multiplier = weight.shape[3]
        channel = Axis((("c", 1),), divisor=multiplier)
        dims = (
            *self.position_dims(output),
            Dim("c", output.shape[-1], Loop.CHANNEL),
            *reduction(self.kernel_dims(weight), operands),
        )
        reads = (
            Access(0, (*self.input_axes(), channel)),
            Access(1, (along("ky"), along("kx"), channel, Axis() if multiplier == 1 else Axis(whole=multiplier))),
            bias_access(bias, "c"),
        )
        return Work(UnitKind.MAC, dims, reads, self.output_access("c"), macs=True)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        x, weight = operands[0], operands[1]
        positions, channels, kernel = box.shape[1:3], box.shape[3], box.shape[4:]
        multiplier = weight.shape[3]
        # The footprint holds whole groups of `multiplier` output channels; the box may begin inside one.
        group = slice(box.lo[3] % multiplier, box.lo[3] % multiplier + channels)
        taps = windows(x, positions, kernel, self.stride, self.dilation)
        left = Factor.of(taps, bound.operands[0].dtype, self.input_zp)
        right = Factor.of(weight.reshape(*kernel, -1)[..., group], bound.operands[1].dtype, self.weight_zp)
        dtype = bound.accumulator
        largest = prod(kernel) * left.magnitude * right.magnitude + (0 if acc is None else magnitude(acc))
        if dtype.is_integer and largest > dtype.maximum:
            return self._fold_channels(bound, acc, left, right, box, overflow)
        narrow = np.dtype(np.int32 if largest < 1 << 31 else np.int64)
        kind = narrow if dtype.is_integer else dtype.storage
        return _fold_taps(acc, left, right, multiplier, group.start, kind).astype(dtype.storage, copy=False)

    def _fold_channels(
        self, bound: Bound, acc: Array | None, left: Factor, right: Factor, box: Box, overflow: Overflow
    ) -> Array:
        """Channel by channel through :func:`contract`, which looks at every partial sum that might overflow."""
        out = np.empty((*box.shape[:3], box.shape[3]), bound.accumulator.storage)
        multiplier = bound.operands[1].shape[3]
        first = box.lo[3] // multiplier
        for c in range(box.shape[3]):
            lo = (*box.lo[:3], box.lo[3] + c, *box.lo[4:])
            here = Box(lo, (*box.hi[:3], lo[3] + 1, *box.hi[4:]))
            window = Factor(left.array[..., lo[3] // multiplier - first], left.zero_point, left.magnitude)
            weight = Factor(right.array[None, ..., c], right.zero_point, right.magnitude)
            before = None if acc is None else acc[..., c : c + 1]
            locate = output_index(bound, here)
            out[..., c : c + 1] = contract(before, window, weight, bound.accumulator, overflow, locate)
        return out


def _fold_taps(
    acc: Array | None, left: Factor, right: Factor, multiplier: int, skip: int, kind: np.dtype[np.generic]
) -> Array:
    """``acc`` + the products, tap after tap in row-major order, in ``kind``, which no sum can leave.

    ``left.array`` is [N, OH, OW, KH, KW, C], ``right.array`` [KH, KW, channels], where channel i multiplies
    input channel (skip + i) // multiplier. The input's zero point is taken off at the end, as zero_point *
    sum(weights): a raw int8 is never larger in magnitude than the largest int8 less a zero point, so the bounds hold on
    the way too.
    """
    weights = right.widened((), kind)
    kernel, channels = weights.shape[:-1], weights.shape[-1]
    shape = left.array.shape[:3]
    out = np.empty((*shape, channels), kind)
    for block in blocks(shape, max(1, CACHED // channels)):
        part = out[block]
        part[...] = 0 if acc is None else acc[block]
        product = np.empty_like(part)
        for tap in np.ndindex(kernel):
            x = left.array[(*block, *tap)]
            if multiplier > 1:
                x = np.repeat(x, multiplier, axis=-1)[..., skip : skip + channels]
            np.multiply(x, weights[tap], out=product)
            part += product
    if left.zero_point:
        out -= left.zero_point * weights.sum(axis=(0, 1), dtype=kind)
    return out

"""Shared parts of the operators with weights and a bias: type rows, rules, bias addition, sliding convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.gemm import Factor, add_checked, contract
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import F32, I4, I8, I16, I32, I48, Array
from npusim.ops._base import Bound, Op, TypeRow
from npusim.ops._sliding import (
    RANK_RULE,
    WINDOW_RULES,
    ZERO_POINT_RULES,
    check_at_least,
    check_dialect,
    check_lengths,
    check_ranks,
    check_zero_point,
    output_index,
    reduction,
    window_positions,
    windows,
)

POSITION_LOOPS = {"d": Loop.DEPTH, "y": Loop.ROW, "x": Loop.COLUMN}
KERNEL_LOOPS = {"d": Loop.KERNEL_DEPTH, "y": Loop.KERNEL_ROW, "x": Loop.KERNEL_COLUMN}


class WeightedOp(Op):
    """An operator that multiplies input by weights, adds up the products and adds a bias per output channel.

    The raw accumulator is the output (TOSA 1.0, CONV2D and its kin). Zero points are subtracted after widening; a tap
    on padding reads as the input's zero point and so contributes 0. The output's last axis is the output channel.
    """

    operands = ("input", "weight", "bias")
    rows = (
        TypeRow((I8, I8, I32), I32, I32),
        TypeRow((I8, I4, I32), I32, I32),
        TypeRow((I16, I8, I48), I48, I48),
        TypeRow((F32, F32, F32), F32, F32),
    )
    rules: ClassVar = {
        **RANK_RULE,
        **ZERO_POINT_RULES,
        "channels_match": "the weight's input channels must equal the channels of the input",
        "bias_shape": "bias must have one entry per output channel, or one for all of them",
    }
    input_zp: int
    weight_zp: int

    def check_operands(self, operands: Sequence[TensorType], layouts: Sequence[str], channel_axis: int = -1) -> None:
        """Refuse wrong ranks, zero points and channels; ``channel_axis`` is the weight's input channel."""
        x, weight, _ = operands
        check_ranks(self, operands, layouts)
        check_zero_point(self, "input_zp", self.input_zp, x.dtype)
        check_zero_point(self, "weight_zp", self.weight_zp, weight.dtype)
        if weight.shape[channel_axis] != x.shape[-1]:
            self.refuse("channels_match", f"weight {list(weight.shape)} for input {list(x.shape)}")

    def check_bias(self, bias: TensorType, out_channels: int) -> None:
        """Refuse a bias that is neither per channel nor common."""
        if bias.shape not in ((1,), (out_channels,)):
            self.refuse("bias_shape", f"bias {list(bias.shape)} for {out_channels} output channels")

    def outside_value(self, bound: Bound, operand: int) -> int:
        return self.input_zp if operand == 0 else 0

    def finish(self, bound: Bound, acc: Array, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        locate = output_index(bound, box)
        return add_checked(acc, operands[2], bound.accumulator, overflow, locate, "sum with bias")


def bias_access(bias: TensorType, channel: str) -> Access:
    """The read of a bias along dimension ``channel``, needed once the products are complete."""
    return Access(2, (Axis() if bias.shape == (1,) else along(channel),), final=True)


@dataclass(frozen=True, slots=True)
class SlidingConvolution(WeightedOp):
    """A convolution whose window slides over the input in two (y, x) or three (d, y, x) spatial axes.

    ``pad`` has two entries per spatial axis (before, after), ``stride`` and ``dilation`` one. Dialect ``tosa`` wants
    output sizes that divide exactly, ``seed`` floors them.
    """

    pad: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    input_zp: int = 0
    weight_zp: int = 0
    dialect: str = "tosa"

    rules: ClassVar = {
        **WeightedOp.rules,
        **WINDOW_RULES,
        "dilation_positive": "every dilation must be at least 1",
    }
    spatial: ClassVar[str] = "yx"
    kernel_axis: ClassVar[int] = 1

    def kernel(self, weight: TensorType) -> tuple[int, ...]:
        """Spatial sizes of the kernel."""
        return weight.shape[self.kernel_axis : self.kernel_axis + len(self.spatial)]

    def positions(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        """Spatial sizes of the output; refuses attributes that break a rule."""
        check_dialect(self, self.dialect)
        n = len(self.spatial)
        lengths = {"pad": (self.pad, 2 * n), "stride": (self.stride, n), "dilation": (self.dilation, n)}
        check_lengths(self, lengths)
        check_at_least(self, "stride_positive", "stride", self.stride, 1)
        check_at_least(self, "dilation_positive", "dilation", self.dilation, 1)
        check_at_least(self, "pad_not_negative", "pad", self.pad, 0)
        size, kernel = operands[0].shape[1:-1], self.kernel(operands[1])
        return window_positions(self, self.dialect, size, kernel, self.pad, self.stride, self.dilation)

    def position_dims(self, output: TensorType) -> tuple[Dim, ...]:
        """Batch and output positions."""
        sizes = zip(self.spatial, output.shape[1:-1], strict=True)
        return (Dim("n", output.shape[0], Loop.BATCH), *(Dim(f"o{a}", n, POSITION_LOOPS[a]) for a, n in sizes))

    def kernel_dims(self, weight: TensorType) -> tuple[Dim, ...]:
        """The kernel's dimensions."""
        return tuple(Dim(f"k{a}", n, KERNEL_LOOPS[a]) for a, n in zip(self.spatial, self.kernel(weight), strict=True))

    def input_axes(self) -> tuple[Axis, ...]:
        """Axes of the input but the channel: position * stride + kernel * dilation - pad."""
        taps = zip(self.spatial, self.stride, self.dilation, self.pad[::2], strict=True)
        return (along("n"), *(Axis(((f"o{a}", s), (f"k{a}", d)), offset=-p) for a, s, d, p in taps))

    def output_access(self, channel: str) -> Access:
        """The write."""
        return Access(-1, (along("n"), *(along(f"o{a}") for a in self.spatial), along(channel)))


class DenseConvolution(SlidingConvolution):
    """A sliding convolution in which every output channel sees every input channel; weight [OC, *kernel, IC]."""

    layouts: ClassVar[tuple[str, str, str]] = ("N H W C", "OC KH KW IC", "OC")

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        self.check_operands(operands, self.layouts)
        x, weight, bias = operands
        self.check_bias(bias, weight.shape[0])
        return (x.shape[0], *self.positions(operands), weight.shape[0])

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        x, weight, bias = operands
        dims = (
            *self.position_dims(output),
            Dim("oc", output.shape[-1], Loop.OUT_CHANNEL),
            *reduction((*self.kernel_dims(weight), Dim("ic", x.shape[-1], Loop.IN_CHANNEL)), operands),
        )
        reads = (
            Access(0, (*self.input_axes(), along("ic"))),
            Access(1, (along("oc"), *(along(f"k{a}") for a in self.spatial), along("ic"))),
            bias_access(bias, "oc"),
        )
        return Work(UnitKind.MAC, dims, reads, self.output_access("oc"), macs=True)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        n = len(self.spatial)
        positions, kernel = box.shape[1 : n + 1], box.shape[n + 2 : -1]
        x = windows(operands[0], positions, kernel, self.stride, self.dilation)
        left = Factor.of(x, bound.operands[0].dtype, self.input_zp)
        right = Factor.of(operands[1], bound.operands[1].dtype, self.weight_zp)
        return contract(acc, left, right, bound.accumulator, overflow, output_index(bound, box))

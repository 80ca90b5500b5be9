"""TRANSPOSE_CONV2D: a convolution whose stride spreads the input out (TOSA 1.0; the draft of 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.gemm import Factor, Locate, contract
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array, ceil_div
from npusim.ops._base import Bound
from npusim.ops._convolution import WeightedOp, bias_access
from npusim.ops._sliding import (
    DIALECT_RULE,
    WINDOW_RULES,
    check_at_least,
    check_dialect,
    output_index,
    reduction,
)


@dataclass(frozen=True, slots=True)
class TransposeConv2d(WeightedOp):
    """Input [N,IH,IW,IC], weight [OC,KH,KW,IC], bias [OC] or [1] -> the raw accumulators [N,OH,OW,OC].

    Input row iy reaches output rows iy * stride_y + top + ky; likewise for columns. Outputs that nothing reaches hold
    the bias. The products of one output are added in the order of input row, input column, channel.

    Dialect ``tosa``: ``out_pad`` [top, bottom, left, right], each above -kernel, OH = (IH - 1) * stride_y + top +
    bottom + KH, the bias is added last. ``seed``: ``out_pad`` [top, left] is subtracted, ``out_shape`` [N,OH,OW,OC]
    states the output, the sums start from the bias.

    The space runs over outputs, and over the kernel from its last row and column to the first, which is the order in
    which the input's rows and columns ascend.
    """

    out_pad: tuple[int, ...]
    stride: tuple[int, ...]
    input_zp: int = 0
    weight_zp: int = 0
    out_shape: tuple[int, ...] | None = None
    dialect: str = "tosa"

    name = "transpose_conv2d"
    rules: ClassVar = {
        **WeightedOp.rules,
        **DIALECT_RULE,
        "attribute_length": "stride takes 2 entries, out_pad 4 in dialect 'tosa' and 2 in dialect 'seed'",
        "stride_positive": WINDOW_RULES["stride_positive"],
        "out_pad_above_kernel": "every out_pad must be above the negative kernel size",
        "output_size": "the output must have at least one row and one column",
        "out_shape": "out_shape must state [N, OH, OW, OC] in dialect 'seed', with the batch of the input and the "
        "weight's output channels; in dialect 'tosa' it follows from out_pad and may be left out",
    }

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        check_dialect(self, self.dialect)
        self.check_operands(operands, ("N H W C", "OC KH KW IC", "OC"))
        x, weight, bias = operands
        self.check_bias(bias, weight.shape[0])
        wanted = 4 if self.dialect == "tosa" else 2
        if len(self.stride) != 2 or len(self.out_pad) != wanted:
            self.refuse("attribute_length", f"stride {list(self.stride)}, out_pad {list(self.out_pad)}")
        check_at_least(self, "stride_positive", "stride", self.stride, 1)
        return self._shape_tosa(x, weight) if self.dialect == "tosa" else self._shape_seed(x, weight)

    def _shape_tosa(self, x: TensorType, weight: TensorType) -> tuple[int, ...]:
        kernel, pad = weight.shape[1:3], self.out_pad
        got = f"out_pad {list(pad)} for kernel {list(kernel)}"
        if any(p <= -kernel[i // 2] for i, p in enumerate(pad)):
            self.refuse("out_pad_above_kernel", got)
        rows, columns = (
            (n - 1) * s + pad[2 * i] + pad[2 * i + 1] + k
            for i, (n, s, k) in enumerate(zip(x.shape[1:3], self.stride, kernel, strict=True))
        )
        if rows < 1 or columns < 1:
            self.refuse("output_size", f"{got} and input {list(x.shape)}")
        shape = (x.shape[0], rows, columns, weight.shape[0])
        if self.out_shape not in (None, shape):
            self.refuse("out_shape", f"out_shape {list(self.out_shape)} for {list(shape)}")
        return shape

    def _shape_seed(self, x: TensorType, weight: TensorType) -> tuple[int, ...]:
        shape = self.out_shape
        if shape is None or len(shape) != 4 or (shape[0], shape[3]) != (x.shape[0], weight.shape[0]):
            got = "none" if shape is None else list(shape)
            self.refuse("out_shape", f"out_shape {got} for input {list(x.shape)} and weight {list(weight.shape)}")
        if min(shape) < 1:
            self.refuse("output_size", f"out_shape {list(shape)}")
        return shape

    @property
    def _before(self) -> tuple[int, ...]:
        """Rows and columns that the output has before the first input's first tap."""
        top, left = self.out_pad[:: len(self.out_pad) // 2]
        return (top, left) if self.dialect == "tosa" else (-top, -left)

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        x, weight, bias = operands
        (kh, kw), (sy, sx), (top, left) = weight.shape[1:3], self.stride, self._before
        n, oh, ow, oc = output.shape
        folded = (
            Dim("ky", kh, Loop.KERNEL_ROW, every=sy),
            Dim("kx", kw, Loop.KERNEL_COLUMN, every=sx),
            Dim("ic", x.shape[3], Loop.IN_CHANNEL),
        )
        dims = (
            Dim("n", n, Loop.BATCH),
            Dim("oy", oh, Loop.ROW),
            Dim("ox", ow, Loop.COLUMN),
            Dim("oc", oc, Loop.OUT_CHANNEL),
            *reduction(folded, operands),
        )
        rows = Axis((("oy", 1), ("ky", 1)), offset=1 - kh - top, divisor=sy)
        columns = Axis((("ox", 1), ("kx", 1)), offset=1 - kw - left, divisor=sx)
        final_bias = bias_access(bias, "oc")
        reads = (
            Access(0, (along("n"), rows, columns, along("ic"))),
            Access(1, (along("oc"), along("ky", -1, kh - 1), along("kx", -1, kw - 1), along("ic"))),
            final_bias if self.dialect == "tosa" else Access(2, final_bias.axes),
        )
        write = Access(-1, (along("n"), along("oy"), along("ox"), along("oc")))
        return Work(UnitKind.MAC, dims, reads, write, macs=True)

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        x, weight, bias = operands
        out = np.zeros(box.shape[:4], bound.accumulator.storage)
        if acc is not None:
            out[...] = acc
        elif self.dialect == "seed":
            out[...] = bias
        origin = bound.work.reads[0].footprint(bound.work.index, box).lo
        locate = output_index(bound, box)
        for tap in np.ndindex(box.shape[4:6]):
            axes = [self._reached(bound, box, origin, i, tap[i]) for i in range(2)]
            if not all(count for _, _, count in axes):
                continue
            (oy, iy, rows), (ox, ix, columns) = axes
            (sy, sx) = self.stride
            at = (slice(None), slice(oy, oy + (rows - 1) * sy + 1, sy), slice(ox, ox + (columns - 1) * sx + 1, sx))
            left = Factor.of(x[:, iy : iy + rows, ix : ix + columns], bound.operands[0].dtype, self.input_zp)
            # The footprint of the weight ascends, the space descends through the kernel.
            right = Factor.of(weight[:, -1 - tap[0], -1 - tap[1]], bound.operands[1].dtype, self.weight_zp)
            out[at] = contract(
                out[at], left, right, bound.accumulator, overflow, _strided(locate, (oy, ox), self.stride)
            )
        return out

    def _reached(self, bound: Bound, box: Box, origin: tuple[int, ...], axis: int, tap: int) -> tuple[int, int, int]:
        """Along one spatial axis, what kernel tap ``tap`` of the box connects: the first output (in the box), its
        input (in the footprint that begins at ``origin``), and how many pairs follow each other a stride apart."""
        x, weight, _ = bound.operands
        stride = self.stride[axis]
        reach = self._before[axis] + weight.shape[1 + axis] - 1 - (box.lo[4 + axis] + tap)
        first = max(0, ceil_div(box.lo[1 + axis] - reach, stride))
        last = min(x.shape[1 + axis] - 1, (box.hi[1 + axis] - 1 - reach) // stride)
        return first * stride + reach - box.lo[1 + axis], first - origin[1 + axis], max(0, last - first + 1)

    def finish(self, bound: Bound, acc: Array, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        if self.dialect == "seed":
            return acc
        return WeightedOp.finish(self, bound, acc, operands, box, overflow)


def _strided(locate: Locate, origin: tuple[int, int], stride: tuple[int, ...]) -> Locate:
    """``locate`` for an array that holds every ``stride``-th row and column of the box from ``origin`` on."""

    def located(index: tuple[int, ...]) -> tuple[int, ...]:
        n, y, x, c = index
        return locate((n, origin[0] + y * stride[0], origin[1] + x * stride[1], c))

    return located

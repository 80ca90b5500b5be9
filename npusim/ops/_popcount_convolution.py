"""Two-dimensional convolutions of few-bit numbers: geometry, padding and its correction, sums by counting ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.gemm import blocks, exact_matmul, magnitude
from npusim.numerics.overflow import Overflow
from npusim.numerics.planes import Encoding, Planes, plane_matmul
from npusim.numerics.popcount import as_words, pack_bytes
from npusim.numerics.types import Array, ceil_div
from npusim.ops._base import Bound, Op
from npusim.ops._popcount import PopcountOp
from npusim.ops._sliding import WINDOW_RULES, check_at_least, check_lengths, check_ranks, window_positions, windows
from npusim.ops._thresholds import THRESHOLD_OPERANDS

PADS: Mapping[str, int] = {"minus_one": -1, "zero": 0, "plus_one": 1}
"""What a tap on padding stands for, by name."""

IMAGES = 1 << 26
"""Elements of the input whose planes are packed at a time."""

ROWS = 1 << 22
"""Bytes of packed windows per plane that are gathered at a time."""

OUTPUTS = 1 << 20
"""Outputs that are summed at a time."""

GEOMETRY_RULES: Mapping[str, str] = {
    **{k: WINDOW_RULES[k] for k in ("rank", "stride_positive", "pad_not_negative", "kernel_fits")},
    "attribute_length": "kernel, stride, dilation, pads_begin and pads_end take two entries, y and x",
    "auto_pad": "auto_pad must be explicit, same_upper, same_lower or valid",
    "layout": "layout must be 'nchw' or 'nhwc'",
}


def padding(
    op: Op,
    auto_pad: str,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """[top, bottom, left, right] of a window by the rules of the seed (OpenVINO, BinaryConvolution-1).

    ``auto_pad`` in any case: explicit (``begin`` and ``end``), valid (none), same_upper and same_lower: as much as
    ceil(size / stride) positions need, the odd one behind or before.
    """
    mode = auto_pad.lower()
    if mode == "explicit":
        check_lengths(op, {"pads_begin": (begin, 2), "pads_end": (end, 2)})
        check_at_least(op, "pad_not_negative", "pads_begin", begin, 0)
        check_at_least(op, "pad_not_negative", "pads_end", end, 0)
        return begin[0], end[0], begin[1], end[1]
    if mode == "valid":
        return 0, 0, 0, 0
    if mode not in ("same_upper", "same_lower"):
        op.refuse("auto_pad", f"auto_pad {auto_pad!r}")
    pads: list[int] = []
    for n, k, s, d in zip(size, kernel, stride, dilation, strict=True):
        total = max(0, (int(ceil_div(n, s)) - 1) * s + (k - 1) * d + 1 - n)
        fewer = total // 2
        pads += (fewer, total - fewer) if mode == "same_upper" else (total - fewer, fewer)
    return tuple(pads)


@dataclass(frozen=True, slots=True, kw_only=True)
class PopcountConvolution(PopcountOp):
    """Input [N,C,H,W], weight [O,C/groups,KH,KW] -> [N,O,OH,OW]; with ``layout`` nhwc [N,H,W,C], [O,KH,KW,C/groups]
    and [N,OH,OW,O], which keeps the channels of a pixel together in memory.

    ``stride``, ``dilation``, ``pads_begin`` and ``pads_end`` are [y, x]. OH = floor((H + top + bottom - ((KH - 1) *
    dilation_y + 1)) / stride_y) + 1, likewise for x. ``auto_pad``: see :func:`padding`. Output channel o takes the
    input channels of its group, o // (O / groups). A tap on padding is worth -1, 0 or +1 (``pad_value`` minus_one,
    zero, plus_one), the same for all channels.
    """

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    pad_value: str
    auto_pad: str = "explicit"
    groups: int = 1
    layout: str = "nchw"

    operands = ("input", "weight", *THRESHOLD_OPERANDS)
    rules: ClassVar[Mapping[str, str]] = {
        **PopcountOp.rules,
        **GEOMETRY_RULES,
        "dilation_positive": "every dilation must be at least 1",
        "pad_value": f"pad_value must be one of {', '.join(PADS)}",
        "groups": "groups must be at least 1 and divide the channels of the input and of the output",
        "channels_match": "the weight must have the channels of one group of the input",
    }

    @abstractmethod
    def padding_element(self) -> int:
        """The input element that a tap on padding reads; bipolar inputs have no zero and read -1 in its place."""

    @property
    def channel_axis(self) -> int:
        """Of input, output and weight (its input channels)."""
        return 1 if self.layout == "nchw" else 3

    def sizes(self, operands: Sequence[TensorType]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """(rows and columns of the input, those of the kernel, channels of a group)."""
        at = slice(2, 4) if self.layout == "nchw" else slice(1, 3)
        x, w = operands[0].shape, operands[1].shape
        return x[at], w[at], w[self.channel_axis]

    def pads(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        """[top, bottom, left, right]."""
        size, kernel, _ = self.sizes(operands)
        return padding(self, self.auto_pad, self.pads_begin, self.pads_end, size, kernel, self.stride, self.dilation)

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        if self.layout not in ("nchw", "nhwc"):
            self.refuse("layout", f"layout {self.layout!r}")
        layouts = ("N C H W", "O C/groups KH KW") if self.layout == "nchw" else ("N H W C", "O KH KW C/groups")
        check_ranks(self, operands[:2], layouts)
        check_lengths(self, {"stride": (self.stride, 2), "dilation": (self.dilation, 2)})
        check_at_least(self, "stride_positive", "stride", self.stride, 1)
        check_at_least(self, "dilation_positive", "dilation", self.dilation, 1)
        if self.pad_value not in PADS:
            self.refuse("pad_value", f"pad_value {self.pad_value!r}")
        x, weight = operands[0].shape, operands[1].shape
        channels, filters = x[self.channel_axis], weight[0]
        if self.groups < 1 or channels % self.groups or filters % self.groups:
            self.refuse("groups", f"groups {self.groups} for {channels} input and {filters} output channels")
        size, kernel, depth = self.sizes(operands)
        if depth * self.groups != channels:
            self.refuse("channels_match", f"weight {list(weight)} for input {list(x)}, groups {self.groups}")
        self.check_sums(operands, filters, depth * prod(kernel))
        rows, columns = window_positions(self, "seed", size, kernel, self.pads(operands), self.stride, self.dilation)
        return (x[0], filters, rows, columns) if self.layout == "nchw" else (x[0], rows, columns, filters)

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        _, kernel, depth = self.sizes(operands)
        n, *rest = output.shape
        filters = rest.pop(self.channel_axis - 1)
        dims = (
            Dim("n", n, Loop.BATCH),
            Dim("oy", rest[0], Loop.ROW),
            Dim("ox", rest[1], Loop.COLUMN),
            Dim("oc", filters, Loop.OUT_CHANNEL),
            Dim("ky", kernel[0], Loop.KERNEL_ROW, reduce=True),
            Dim("kx", kernel[1], Loop.KERNEL_COLUMN, reduce=True),
            Dim("ic", depth, Loop.IN_CHANNEL, reduce=True),
            *self.plane_dims(operands),
        )
        top, _, left, _ = self.pads(operands)
        taps = zip("yx", self.stride, self.dilation, (top, left), strict=True)
        rows, columns = (Axis(((f"o{a}", s), (f"k{a}", d)), offset=-p) for a, s, d, p in taps)
        per_group = filters // self.groups
        channels = along("ic")
        if self.groups > 1:
            # Output channel o reads o // per_group * depth + ic, which floor((o * depth + ic * per_group) / per_group)
            # exceeds by less than depth: a box of channels touches at most that much more on either side.
            slack = depth * (per_group - 1)
            channels = Axis(
                (("oc", depth), ("ic", per_group)), -slack, divisor=per_group, extra=int(ceil_div(slack, per_group))
            )
        reads = (
            Access(0, self._order(along("n"), channels, rows, columns)),
            Access(1, self._order(along("oc"), along("ic"), along("ky"), along("kx"))),
            *self.stage_reads(operands, "oc"),
        )
        write = Access(-1, self._order(along("n"), along("oc"), along("oy"), along("ox")))
        return Work(UnitKind.POPCOUNT, dims, reads, write, macs=True)

    def _order(self, first: Axis, channel: Axis, rows: Axis, columns: Axis) -> tuple[Axis, ...]:
        return (first, channel, rows, columns) if self.layout == "nchw" else (first, rows, columns, channel)

    def outside_value(self, bound: Bound, operand: int) -> int:
        return self.padding_element() if operand == 0 else 0

    # -- meaning ----------------------------------------------------------------------------------------------------

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        encodings = self.encodings([t.dtype for t in bound.operands])
        x, weight = (
            np.moveaxis(self.elements(bound, i, operands[i], box, overflow), self.channel_axis, -1) for i in (0, 1)
        )
        out = np.empty(bound.work.write.footprint(bound.work.index, box).shape, np.int32)
        sums = np.moveaxis(out, self.channel_axis, -1)
        positions, kernel = box.shape[1:3], box.shape[4:6]
        for filters, channels in self._groups(bound, box):
            w = weight[filters]
            right = Planes.of(w, encodings[1], lambda bits: as_words(pack_bytes(bits).reshape(len(bits), -1)))
            for (some,) in blocks((len(x),), max(1, IMAGES // x[0, ..., channels].size)):
                part = x[some, ..., channels]
                packed = [
                    windows(pack_bytes(bits), positions, kernel, self.stride, self.dilation)
                    for bits in encodings[0].split(part)
                ]
                target = sums[some, ..., filters]
                _sum_windows(packed, encodings[0], right, w[0].size, target)
        self._correct(bound, encodings, weight, box, sums)
        if acc is not None:
            out += acc
        return out

    def finish(self, bound: Bound, acc: Array, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        return self.finish_sums(bound, acc, operands, self.channel_axis, overflow)

    def _groups(self, bound: Bound, box: Box) -> Iterator[tuple[slice, slice]]:
        """For each group in the box: its filters, and its channels in the footprint of the input."""
        first, last = box.lo[3], box.hi[3]
        _, _, depth = self.sizes(bound.operands)
        per_group = bound.operands[1].shape[0] // self.groups
        origin = bound.work.reads[0].footprint(bound.work.index, box).lo[self.channel_axis]
        for g in range(first // per_group, (last - 1) // per_group + 1):
            start = g * depth - origin
            yield (
                slice(max(first, g * per_group) - first, min(last, (g + 1) * per_group) - first),
                slice(start + box.lo[6], start + box.hi[6]),
            )

    def _correct(
        self, bound: Bound, encodings: tuple[Encoding, Encoding], weight: Array, box: Box, sums: Array
    ) -> None:
        """Take back the -1 that a bipolar input read on padding which is worth 0: add the weights of the padded taps.

        With S[o, ky, kx] the sum of a filter's weights over its channels, that is S over all taps less S over the taps
        inside the image, which are those of inside rows and inside columns.
        """
        if encodings[0].kind != "bipolar" or self.pad_value != "zero":
            return
        size, _, _ = self.sizes(bound.operands)
        rows, columns = (self._taps_inside(bound, box, axis, size[axis]) for axis in (0, 1))
        if rows.all() and columns.all():
            return
        taps = encodings[1].numbers(weight).sum(-1)  # [o, ky, kx]
        largest = magnitude(taps)
        across = exact_matmul(taps, columns.T.astype(np.int64), largest, 1)  # [o, ky, ox]
        inside = exact_matmul(rows.astype(np.int64), across, 1, largest * columns.shape[1])  # [o, oy, ox]
        padded = taps.sum((1, 2))[:, None, None] - inside
        sums += padded.transpose(1, 2, 0).astype(np.int32)

    def _taps_inside(self, bound: Bound, box: Box, axis: int, size: int) -> Array:
        """[positions, taps] of the box along spatial ``axis``: whether the tap lies in the image."""
        before = self.pads(bound.operands)[2 * axis]
        position = np.arange(box.lo[1 + axis], box.hi[1 + axis]) * self.stride[axis] - before
        at = position[:, None] + np.arange(box.lo[4 + axis], box.hi[4 + axis]) * self.dilation[axis]
        return np.asarray((at >= 0) & (at < size))


def _sum_windows(packed: Sequence[Array], encoding: Encoding, right: Planes, length: int, target: Array) -> None:
    """Write the sums of all windows into ``target`` [n, oy, ox, o].

    ``packed`` are the planes' windows [n, oy, ox, ky, kx, bytes of channels], ``length`` the elements of a window.
    """
    shape, width = target.shape[:3], prod(packed[0].shape[3:])
    filters = target.shape[3]
    for block in blocks(shape, max(1, min(ROWS // width, OUTPUTS // filters))):
        left = Planes(tuple(as_words(p[block].reshape(-1, width)) for p in packed), encoding)
        target[block] = plane_matmul(left, right, length).reshape(target[block].shape)

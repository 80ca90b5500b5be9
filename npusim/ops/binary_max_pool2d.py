"""Pooling of bits: the or (largest) or the and (smallest) of each window, on packed channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.overflow import Overflow
from npusim.numerics.popcount import pack_bytes
from npusim.numerics.types import U1, Array
from npusim.ops._base import Bound, Op, TypeRow
from npusim.ops._pooling import Pooling, fold_windows
from npusim.ops._popcount_convolution import GEOMETRY_RULES, padding
from npusim.ops._sliding import check_at_least, check_lengths, check_ranks, window_positions


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryMaxPool2d(Op):
    """Input [N,C,H,W] -> [N,C,OH,OW], or with ``layout`` nhwc [N,H,W,C] -> [N,OH,OW,C]; taps on padding are ignored.

    ``combine`` or: the largest of -1 and +1 (FINN, arXiv:1612.07119, section 4.2.3); and: the smallest, which is the
    maximum of bits that a threshold has inverted. ``kernel``, ``stride``, ``pads_begin`` and ``pads_end`` are [y, x];
    ``auto_pad`` and output sizes as for a binary convolution. Every window must see the image.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    auto_pad: str = "explicit"
    combine: str = "or"
    layout: str = "nchw"

    name = "binary_max_pool2d"
    operands = ("input",)
    rows = (TypeRow((U1,), U1, U1),)
    rules: ClassVar[Mapping[str, str]] = {
        **GEOMETRY_RULES,
        **{k: Pooling.rules[k] for k in ("kernel_positive", "pad_below_kernel")},
        "combine": "combine must be 'or' or 'and'",
    }

    @property
    def channel_axis(self) -> int:
        """Of input and output."""
        return 1 if self.layout == "nchw" else 3

    def pads(self, size: Sequence[int]) -> tuple[int, ...]:
        """[top, bottom, left, right] for an image of ``size``."""
        return padding(self, self.auto_pad, self.pads_begin, self.pads_end, size, self.kernel, self.stride, (1, 1))

    def size(self, x: TensorType) -> tuple[int, ...]:
        """Rows and columns of the image."""
        return x.shape[2:] if self.layout == "nchw" else x.shape[1:3]

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        if self.layout not in ("nchw", "nhwc"):
            self.refuse("layout", f"layout {self.layout!r}")
        if self.combine not in ("or", "and"):
            self.refuse("combine", f"combine {self.combine!r}")
        check_ranks(self, operands, (" ".join(self.layout.upper()),))
        check_lengths(self, {"kernel": (self.kernel, 2), "stride": (self.stride, 2)})
        check_at_least(self, "kernel_positive", "kernel", self.kernel, 1)
        check_at_least(self, "stride_positive", "stride", self.stride, 1)
        size = self.size(operands[0])
        pads = self.pads(size)
        if any(p >= self.kernel[i // 2] for i, p in enumerate(pads)):
            self.refuse("pad_below_kernel", f"pad {list(pads)} for kernel {list(self.kernel)}")
        rows, columns = window_positions(self, "seed", size, self.kernel, pads, self.stride, (1, 1))
        n, c = operands[0].shape[0], operands[0].shape[self.channel_axis]
        return (n, c, rows, columns) if self.layout == "nchw" else (n, rows, columns, c)

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        n, *rest = output.shape
        channels = rest.pop(self.channel_axis - 1)
        dims = (
            Dim("n", n, Loop.BATCH),
            Dim("oy", rest[0], Loop.ROW),
            Dim("ox", rest[1], Loop.COLUMN),
            Dim("c", channels, Loop.CHANNEL),
            Dim("ky", self.kernel[0], Loop.KERNEL_ROW, reduce=True),
            Dim("kx", self.kernel[1], Loop.KERNEL_COLUMN, reduce=True),
        )
        top, _, left, _ = self.pads(self.size(operands[0]))
        rows = Axis((("oy", self.stride[0]), ("ky", 1)), offset=-top)
        columns = Axis((("ox", self.stride[1]), ("kx", 1)), offset=-left)
        nchw = self.layout == "nchw"
        read = (along("c"), rows, columns) if nchw else (rows, columns, along("c"))
        write = ("c", "oy", "ox") if nchw else ("oy", "ox", "c")
        access = Access(-1, (along("n"), *(along(a) for a in write)))
        return Work(UnitKind.VECTOR, dims, (Access(0, (along("n"), *read)),), access)

    def outside_value(self, bound: Bound, operand: int) -> int:
        return 0 if self.combine == "or" else 1

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        fold = np.bitwise_or if self.combine == "or" else np.bitwise_and
        packed = pack_bytes(np.moveaxis(operands[0], self.channel_axis, -1))
        folded = fold_windows(fold, packed, box.shape[1:3], box.shape[4:], self.stride, packed.dtype)
        bits = np.unpackbits(folded, axis=-1, count=box.shape[3], bitorder="little")
        new = np.moveaxis(bits, -1, self.channel_axis)
        return new if acc is None else fold(acc, new)

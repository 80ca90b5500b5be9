"""Rules and geometry that convolutions, products and poolings share: dialects, ranks, zero points, sliding windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Dim
from npusim.numerics.gemm import Locate
from npusim.numerics.types import I8, Array, DType
from npusim.ops._base import Bound, Op

RANK_RULE: Mapping[str, str] = {"rank": "every operand must have the rank that the operator's layout states"}
DIALECT_RULE: Mapping[str, str] = {"dialect": "dialect must be 'tosa' (TOSA 1.0) or 'seed' (the draft of 2021)"}
ZERO_POINT_RULES: Mapping[str, str] = {
    "zero_point": "only an int8 tensor may have a zero point; elsewhere it must be 0",
    "zero_point_range": "a zero point must be a value of its tensor's type (int8: -128..127)",
}
WINDOW_RULES: Mapping[str, str] = {
    **RANK_RULE,
    **DIALECT_RULE,
    "attribute_length": "kernel, stride and dilation take one entry per spatial axis and pad takes two",
    "stride_positive": "every stride must be at least 1",
    "pad_not_negative": "every pad must be at least 0",
    "kernel_fits": "the dilated kernel must fit into the padded input",
    "exact_division": "TOSA 1.0 wants padded input less dilated kernel to be a multiple of the stride: change pad, "
    "crop the input, or use dialect 'seed', which floors",
}


def check_dialect(op: Op, dialect: str) -> None:
    """Refuse a dialect other than the two."""
    if dialect not in ("tosa", "seed"):
        op.refuse("dialect", f"dialect {dialect!r}")


def check_ranks(op: Op, operands: Sequence[TensorType], layouts: Sequence[str]) -> None:
    """Refuse an operand whose rank differs from its layout, for example ``"NHWC"``."""
    for i, (t, layout) in enumerate(zip(operands, layouts, strict=True)):
        axes = layout.split()
        if len(t.shape) != len(axes):
            op.refuse("rank", f"{op.operand_name(i)} of shape {list(t.shape)} for [{', '.join(axes)}]")


def check_zero_point(op: Op, attribute: str, zero_point: int, dtype: DType) -> None:
    """Refuse a zero point that a tensor of ``dtype`` cannot have."""
    if zero_point and dtype != I8:
        op.refuse("zero_point", f"{attribute} {zero_point} for {dtype}")
    if not I8.minimum <= zero_point <= I8.maximum:
        op.refuse("zero_point_range", f"{attribute} {zero_point}")


def check_lengths(op: Op, attributes: Mapping[str, tuple[tuple[int, ...], int]]) -> None:
    """Refuse an attribute that has not the stated number of entries: name -> (value, number)."""
    for name, (value, wanted) in attributes.items():
        if len(value) != wanted:
            op.refuse("attribute_length", f"{name} {list(value)} for {wanted} entries")


def check_at_least(op: Op, rule: str, attribute: str, values: tuple[int, ...], minimum: int) -> None:
    """Refuse an attribute with an entry below ``minimum``."""
    if any(v < minimum for v in values):
        op.refuse(rule, f"{attribute} {list(values)}")


def window_positions(
    op: Op,
    dialect: str,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    pad: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[int, ...]:
    """Number of window positions per spatial axis: floor((size - 1 + pads - (kernel - 1) * dilation) / stride) + 1.

    TOSA 1.0 (CONV2D, MAX_POOL2D) refuses a remainder, the seed drops it.
    """
    got = (
        f"input {list(size)}, kernel {list(kernel)}, pad {list(pad)}, stride {list(stride)}, dilation {list(dilation)}"
    )
    out = []
    for i, (n, k, s, d) in enumerate(zip(size, kernel, stride, dilation, strict=True)):
        travel = n - 1 + pad[2 * i] + pad[2 * i + 1] - (k - 1) * d
        if travel < 0:
            op.refuse("kernel_fits", got)
        if travel % s and dialect == "tosa":
            op.refuse("exact_division", f"remainder {travel % s} along spatial axis {i} from {got}")
        out.append(travel // s + 1)
    return tuple(out)


def windows(
    x: Array,
    positions: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Array:
    """The windows of x [N, *spatial, C] as a read-only view [N, *positions, *kernel, C].

    ``x`` begins at the first tap of the first window and reaches at least to the last tap of the last one.
    """
    steps = x.strides[1:-1]
    for n, p, k, s, d in zip(x.shape[1:-1], positions, kernel, stride, dilation, strict=True):
        assert n >= (p - 1) * s + (k - 1) * d + 1, "footprint is smaller than its windows"
    return np.lib.stride_tricks.as_strided(
        x,
        (x.shape[0], *positions, *kernel, x.shape[-1]),
        (
            x.strides[0],
            *(b * s for b, s in zip(steps, stride, strict=True)),
            *(b * d for b, d in zip(steps, dilation, strict=True)),
            x.strides[-1],
        ),
        writeable=False,
    )


def output_index(bound: Bound, box: Box) -> Locate:
    """From an index in the output of ``box`` to the index in the whole output."""
    origin = bound.work.write.footprint(bound.work.index, box).lo
    return lambda index: tuple(a + i for a, i in zip(origin, index, strict=True))


def reduction(dims: Sequence[Dim], operands: Sequence[TensorType]) -> tuple[Dim, ...]:
    """``dims`` as the reduction of a sum of products.

    Float sums are made of their terms in the one order of the loops, which tiles keep only along the outermost
    dimension; integers may be split anywhere.
    """
    exact = operands[0].dtype.is_integer
    return tuple(replace(d, reduce=True, splittable=exact or i == 0) for i, d in enumerate(dims))

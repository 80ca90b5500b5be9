"""What the host computes around the integer graph of an OpenVINO IR; functions of a module, so that they pickle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.errors import InputError
from npusim.numerics.types import Array


def binarized(x: Array, rule: str) -> Array:
    """Which elements of ``x`` are above 0 (gt0), at least 0 (ge0) or else below it (lt0)."""
    bits = x > 0 if rule == "gt0" else x >= 0 if rule == "ge0" else x < 0
    return bits.astype(np.uint8)


def as_bits(x: Array, name: str, binarize: str) -> Array:
    """``x`` as bits: by ``binarize`` (gt0, ge0, lt0), or with none its own zeros and ones. Raises InputError that
    names the first element which is neither."""
    if binarize != "none":
        return binarized(x, binarize)
    broken = (x != 0) & (x != 1)
    if broken.any():
        at = tuple(int(i) for i in np.argwhere(broken)[0])
        raise InputError(
            f"input {name!r} holds {x[at]} at index {list(at)}, BinaryConvolution reads 0 and 1: give bits, or state "
            "binarize gt0, ge0 or lt0"
        )
    return x.astype(np.uint8)


def as_levels(bits: Array, low: Array, high: Array) -> Array:
    """The numbers that bits [N, C, ...] stand for, in the type of ``low`` and ``high`` [C]."""
    shape = [-1 if i == 1 else 1 for i in range(bits.ndim)]
    return np.where(bits == 1, high.reshape(shape), low.reshape(shape))


def as_type(x: Array, dtype: str) -> Array:
    """``x`` in another type, which holds all of it."""
    return x.astype(dtype)


def add_constant(x: Array, constant: Array) -> Array:
    """``x`` plus a constant that broadcasts, in the type of the constant."""
    return x.astype(constant.dtype) + constant


def max_pool(x: Array, kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int]) -> Array:
    """The largest element inside the image of each window of x [N, C, H, W]; ``pads`` [top, bottom, left, right]."""
    top, bottom, left, right = pads
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=least)
    views = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), (2, 3))
    return np.asarray(views[:, :, :: stride[0], :: stride[1]].max((-2, -1)))

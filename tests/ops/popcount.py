"""The operators of the popcount unit as plain loops over Python integers, straight from their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import DTYPES, Array
from npusim.ops import Bound, Op, evaluate_bound
from tests.ops.tiling import indices

PADS = {"minus_one": -1, "zero": 0, "plus_one": 1}
AUTO_PADS = ("explicit", "same_upper", "SAME_LOWER", "Valid")

OPERANDS: list[tuple[str, str, int | None]] = [
    *(("integer", t, None) for t in ("u1", "u2", "u3", "u4", "u8", "i2", "i3", "i4", "i8")),
    *(("integer", t, b) for t in ("u8", "i8") for b in range(1, 9)),
    ("bipolar", "u1", None),
    *(("ternary", t, None) for t in ("i2", "i4", "i8")),
]
"""Every kind of operand: (kind, element type, bits used)."""


def bipolar(bit: int) -> int:
    """The number that a bit stands for."""
    return 1 if bit else -1


def pads(op: Any, size: tuple[int, int], kernel: tuple[int, int]) -> list[tuple[int, int]]:
    """(before, after) along y and x: explicit, or as many as ceil(size / stride) positions need."""
    mode = op.auto_pad.lower()
    dilation = getattr(op, "dilation", (1, 1))
    found = []
    for i in (0, 1):
        if mode == "explicit":
            found.append((op.pads_begin[i], op.pads_end[i]))
        elif mode == "valid":
            found.append((0, 0))
        else:
            positions = (size[i] + op.stride[i] - 1) // op.stride[i]
            needed = max((positions - 1) * op.stride[i] + (kernel[i] - 1) * dilation[i] + 1 - size[i], 0)
            small, large = needed // 2, (needed + 1) // 2
            found.append((small, large) if mode == "same_upper" else (large, small))
    return found


def convolution(x: Array, w: Array, op: Any, input_number: Any = bipolar, weight_number: Any = bipolar) -> Array:
    """Sums over taps and channels of input times weight, a padded tap being worth the pad value."""
    if op.layout == "nhwc":
        x, w = x.transpose(0, 3, 1, 2), w.transpose(0, 3, 1, 2)
    n, channels, *size = x.shape
    filters, depth, *kernel = w.shape
    (top, bottom), (left, right) = pads(op, tuple(size), tuple(kernel))
    (sy, sx), (dy, dx) = op.stride, op.dilation
    rows = (size[0] + top + bottom - ((kernel[0] - 1) * dy + 1)) // sy + 1
    columns = (size[1] + left + right - ((kernel[1] - 1) * dx + 1)) // sx + 1
    values, weights = x.tolist(), w.tolist()
    out = np.empty((n, filters, rows, columns), np.int64)
    for image, o, p, q in indices(out.shape):
        total = 0
        first = o // (filters // op.groups) * depth
        for i, j in indices(tuple(kernel)):
            row, column = p * sy - top + i * dy, q * sx - left + j * dx
            inside = 0 <= row < size[0] and 0 <= column < size[1]
            for c in range(depth):
                a = input_number(values[image][first + c][row][column]) if inside else PADS[op.pad_value]
                total += a * weight_number(weights[o][c][i][j])
        out[image, o, p, q] = total
    assert channels == depth * op.groups
    return out.transpose(0, 2, 3, 1) if op.layout == "nhwc" else out


def product(a: Array, b: Array, a_number: Any = bipolar, b_number: Any = bipolar) -> Array:
    """a [M,K] times b [K,N], or equal batches of them."""
    if a.ndim == 3:
        return np.stack([product(m, b[i if len(b) > 1 else 0], a_number, b_number) for i, m in enumerate(a)])
    x, y = a.tolist(), b.T.tolist()
    return np.array(
        [[sum(a_number(p) * b_number(q) for p, q in zip(row, column, strict=True)) for column in y] for row in x]
    )


def levels(sums: Array, axis: int, thresholds: Array, invert: Array | None, op: Any) -> Array:
    """offset + how many thresholds of its channel each sum passes, or does not pass where invert is 1."""
    out = np.empty(sums.shape, np.int64)
    for index in indices(sums.shape):
        c = index[axis]
        steps = thresholds[c if len(thresholds) > 1 else 0].reshape(-1).tolist()
        y = int(sums[index])
        passed = sum(y > t if op.compare == "gt" else y >= t for t in steps)
        flipped = invert is not None and invert[c if len(invert) > 1 else 0]
        out[index] = op.offset + (len(steps) - passed if flipped else passed)
    return out


def kinds(arrays: list[Array], *names: str) -> list[TensorType]:
    """Tensor types of arrays by names of element types."""
    return [TensorType(x.shape, DTYPES[n]) for x, n in zip(arrays, names, strict=True)]


def bound_to(op: Op, arrays: list[Any], *names: str) -> tuple[Bound, list[Array]]:
    """The operator bound to arrays, or to zeros of the shapes that tuples give."""
    made = [np.zeros(a) if isinstance(a, tuple) else np.asarray(a) for a in arrays]
    stored = [x.astype(DTYPES[n].storage) for x, n in zip(made, names, strict=True)]
    return op.bind(kinds(stored, *names)), stored


def run(op: Op, arrays: list[Any], *names: str) -> Array:
    """The operator on arrays of the named element types."""
    bound, stored = bound_to(op, arrays, *names)
    return evaluate_bound(bound, stored, Overflow("refuse", op.name))


def bits(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Random bits, of any density: all equal now and then."""
    return (rng.random(shape) < rng.choice([0.0, 0.1, 0.5, 0.5, 0.5, 0.9, 1.0])).astype(np.uint8)


def random_stage(rng: np.random.Generator, channels: int, spread: int, steps: int) -> list[Array]:
    """Thresholds (in any order, some beyond every sum) and invert bits; now and then one entry for all channels."""
    shape = (channels if rng.random() < 0.8 else 1, *((steps,) if steps > 1 or rng.random() < 0.3 else ()))
    thresholds = rng.integers(-spread - 2, spread + 3, shape).astype(np.int32)
    extreme = np.int32([-(2**31), 2**31 - 1])
    thresholds = np.where(rng.random(shape) < 0.05, rng.choice(extreme, shape), thresholds)
    return [thresholds.astype(np.int32), bits(rng, (channels if rng.random() < 0.8 else 1,))]


def pair(rng: np.random.Generator, *values: int) -> tuple[int, int]:
    a, b = rng.choice(values, 2)
    return int(a), int(b)


def limits(kind: str, element: str, used: int | None) -> tuple[int, int]:
    """Smallest and largest element."""
    if kind == "bipolar":
        return 0, 1
    if kind == "ternary":
        return -1, 1
    if used is None:
        return DTYPES[element].minimum, DTYPES[element].maximum
    return (-(2 ** (used - 1)), 2 ** (used - 1) - 1) if element.startswith("i") else (0, 2**used - 1)


def elements(rng: np.random.Generator, shape: tuple[int, ...], what: tuple[str, str, int | None]) -> Array:
    low, high = limits(*what)
    x = rng.integers(low, high, shape, endpoint=True)
    extreme = rng.random(shape)
    x = np.where(extreme < 0.15, low, np.where(extreme > 0.85, high, x))
    return x.astype(DTYPES[what[1]].storage)


def number(kind: str) -> Any:
    return bipolar if kind == "bipolar" else int

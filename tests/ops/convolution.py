"""What the tests of convolutions, products and poolings share: independent oracles, random cases, runs of one step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import DTYPES, F32, I8, Array, DType
from npusim.ops import Op, evaluate_bound

WEIGHTED_TYPES = (("i8", "i8", "i32"), ("i8", "i4", "i32"), ("i16", "i8", "i48"), ("f32", "f32", "f32"))
"""Input, weight and bias of every row of the operators with weights."""


def tensors(shapes: Sequence[tuple[int, ...]], types: Sequence[str]) -> list[TensorType]:
    return [TensorType(s, DTYPES[t]) for s, t in zip(shapes, types, strict=True)]


def evaluate(
    op: Op, arrays: Sequence[Any], types: Sequence[str], policy: Policy = "refuse", counter: Overflow | None = None
) -> Array:
    """The whole operator on arrays or nested lists of the named element types."""
    made = [np.asarray(x, DTYPES[t].storage) for x, t in zip(arrays, types, strict=True)]
    bound = op.bind(tensors([x.shape for x in made], types))
    return evaluate_bound(bound, made, counter or Overflow(policy, op.name))


def bind(op: Op, shapes: Sequence[tuple[int, ...]], types: Sequence[str]) -> tuple[int, ...]:
    """The output shape, or the refusal, for operands of these shapes."""
    return op.bind(tensors(shapes, types)).output.shape


def zero_point(rng: np.random.Generator, dtype: DType) -> int:
    """A legal zero point, often extreme."""
    return int(rng.choice([0, -128, 127, int(rng.integers(-128, 128))])) if dtype == I8 else 0


def small_bias(rng: np.random.Generator, kind: TensorType) -> Array:
    """A bias far from the limits of its type."""
    if kind.dtype == F32:
        return rng.standard_normal(kind.shape).astype(np.float32)
    return rng.integers(-(10**6), 10**6, kind.shape).astype(kind.dtype.storage)


def sum_of(terms: Iterable[tuple[Any, Any]], start: Any, dtype: DType) -> Any:
    """start + sum(x * w) as the loops add it: exact integers, or float32 rounded after every operation."""
    if dtype.is_integer:
        return start + sum(int(x) * int(w) for x, w in terms)
    total = np.float32(start)
    for x, w in terms:
        total = np.float32(total + np.float32(np.float32(x) * np.float32(w)))
    return total


def read(x: Array, index: Sequence[int], zero_point: int) -> Any:
    """``x[index] - zero_point``, and 0 outside."""
    if all(0 <= i < n for i, n in zip(index, x.shape, strict=True)):
        value = x[tuple(index)]
        return value if x.dtype.kind == "f" else int(value) - zero_point
    return 0


def sliding_convolution(
    x: Array, w: Array, bias: Array, op: Any, dtype: DType, positions: Sequence[int], depthwise: bool = False
) -> Array:
    """CONV2D, CONV3D and DEPTHWISE_CONV2D from their definition; ``op`` carries the attributes."""
    axes = len(positions)
    kernel = w.shape[:axes] if depthwise else w.shape[1 : 1 + axes]
    channels = w.shape[-2] * w.shape[-1] if depthwise else w.shape[0]
    out = np.zeros((x.shape[0], *positions, channels), dtype.storage)
    for n, *at, oc in product(*map(range, out.shape)):
        base = [p * s - before for p, s, before in zip(at, op.stride, op.pad[::2], strict=True)]
        terms = []
        for taps in product(*map(range, kernel)):
            here = [b + k * d for b, k, d in zip(base, taps, op.dilation, strict=True)]
            if depthwise:
                c, m = divmod(oc, w.shape[-1])
                terms.append((read(x, (n, *here, c), op.input_zp), read(w, (*taps, c, m), op.weight_zp)))
            else:
                for ic in range(x.shape[-1]):
                    pair = read(x, (n, *here, ic), op.input_zp), read(w, (oc, *taps, ic), op.weight_zp)
                    terms.append(pair)
        total = sum_of(terms, 0, dtype)
        b = bias[oc % len(bias)]
        out[(n, *at, oc)] = total + int(b) if dtype.is_integer else np.float32(total + b)
    return out


I14 = DType("i14", 14, -(1 << 13), (1 << 13) - 1, np.dtype(np.int16))
"""A narrow accumulator, so that small cases overflow it often."""


class Accumulator:
    """One accumulator element on Python integers, and the count of its overflows."""

    def __init__(self, dtype: DType, policy: Policy) -> None:
        self.dtype, self.policy, self.events = dtype, policy, 0

    def add(self, total: int, addend: int) -> int:
        """One addition: beyond the range it is counted and wrapped or clamped."""
        low, high = self.dtype.minimum, self.dtype.maximum
        total += addend
        if low <= total <= high:
            return total
        self.events += 1
        return (total - low) % (1 << self.dtype.bits) + low if self.policy == "wrap" else min(max(total, low), high)

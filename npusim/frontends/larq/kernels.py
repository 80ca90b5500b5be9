"""The builtin float operators of TensorFlow Lite around a binary network, in numpy float32, for the host.

Meaning and shapes: the reference kernels of TensorFlow Lite (``tensorflow/lite/kernels/internal/reference``), layout
NHWC. Sums run in an order of numpy's, so that results are close to those of another runtime, not equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.numerics.types import Array, ceil_div

Clip = tuple[float, float]
"""The range of an activation function; a bound that it does not have is infinite."""

ACTIVATIONS: Final[Mapping[str, Clip]] = {
    "NONE": (-np.inf, np.inf),
    "RELU": (0.0, np.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}
"""The activation functions that clip, by name."""

ELEMENTWISE: Final[Mapping[str, Callable[..., Array]]] = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}


def pads(padding: str, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> list[tuple[int, int]]:
    """(before, after) along y and x; ``kernel`` is that of the dilated window. SAME puts the odd one behind."""
    if padding not in ("SAME", "VALID"):
        raise InvalidGraphError(f"padding {padding}; it must be SAME or VALID")
    found = []
    for n, k, s in zip(size, kernel, stride, strict=True):
        total = max(0, (int(ceil_div(n, s)) - 1) * s + k - n) if padding == "SAME" else 0
        found.append((total // 2, total - total // 2))
    return found


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a convolution or a pooling, [y, x] each; ``padded`` is (before, after)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padded: tuple[tuple[int, int], ...]

    @staticmethod
    def of(options: Mapping[str, Any], size: Sequence[int], kernel: tuple[int, int]) -> Window:
        """That of the options of a builtin operator on an image of ``size``."""
        stride = (options["stride_h"], options["stride_w"])
        dilation = (options.get("dilation_h_factor", 1), options.get("dilation_w_factor", 1))
        if min(*kernel, *stride, *dilation) < 1:
            raise InvalidGraphError(f"kernel {kernel}, stride {stride} and dilation {dilation} must be at least 1")
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        return Window(kernel, stride, dilation, tuple(pads(options["padding"], size, reach, stride)))

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from the first tap to the last."""
        (ky, kx), (dy, dx) = self.kernel, self.dilation
        return (ky - 1) * dy + 1, (kx - 1) * dx + 1

    def positions(self, size: Sequence[int]) -> tuple[int, ...]:
        """Rows and columns of the output."""
        ends = zip(size, self.reach, self.stride, self.padded, strict=True)
        found = tuple((n + sum(p) - r) // s + 1 for n, r, s, p in ends)
        if min(found) < 1:
            raise InvalidGraphError(f"a window of {list(self.reach)} does not fit the image of {list(size)}")
        return found

    def taps(self, x: Array, outside: float) -> Array:
        """[n, oy, ox, c, ky, kx] of ``x`` [n, y, x, c], where a tap on padding reads ``outside``."""
        padded = np.pad(x, ((0, 0), *self.padded, (0, 0)), constant_values=np.float32(outside))
        (sy, sx), (dy, dx) = self.stride, self.dilation
        view = np.lib.stride_tricks.sliding_window_view(padded, self.reach, axis=(1, 2))
        taken: Array = view[:, ::sy, ::sx, :, ::dy, ::dx]
        return taken


def conv_2d(x: Array, weight: Array, bias: Array, window: Window, clip: Clip) -> Array:
    """``weight`` is [o, ky, kx, c]."""
    return clipped(np.tensordot(window.taps(x, 0), weight, axes=((3, 4, 5), (3, 1, 2))) + bias, clip)


def depthwise_conv_2d(x: Array, weight: Array, bias: Array, window: Window, clip: Clip) -> Array:
    """``weight`` is [ky, kx, c, multiplier]."""
    sums = np.einsum("nyxcij,ijcm->nyxcm", window.taps(x, 0), weight)
    return clipped(sums.reshape(*sums.shape[:3], -1) + bias, clip)


def max_pool_2d(x: Array, window: Window, clip: Clip) -> Array:
    """The largest tap inside the image."""
    return clipped(window.taps(x, -np.inf).max((4, 5)), clip)


def average_pool_2d(x: Array, window: Window, clip: Clip) -> Array:
    """The mean of the taps inside the image."""
    inside = window.taps(np.ones_like(x[:1, :, :, :1]), 0).sum((4, 5))
    return clipped(window.taps(x, 0).sum((4, 5)) / inside, clip)


def fully_connected(x: Array, weight: Array, bias: Array, shape: tuple[int, ...], clip: Clip) -> Array:
    """``weight`` is [outputs, inputs]."""
    return clipped((x.reshape(-1, weight.shape[1]) @ weight.T + bias).reshape(shape), clip)


def mean(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.asarray(x.mean(axes, keepdims=keep, dtype=np.float32))


def softmax(x: Array, beta: Array) -> Array:
    powers = np.exp((x - x.max(-1, keepdims=True)) * beta)
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def elementwise(*given: Array, kind: str, left: Array | None, right: Array | None, clip: Clip) -> Array:
    """ADD, SUB or MUL; ``left`` or ``right`` is the operand that is a constant."""
    found = [*((left,) if left is not None else ()), *given, *((right,) if right is not None else ())]
    return clipped(ELEMENTWISE[kind](*found), clip)


def clipped(x: Array, clip: Clip) -> Array:
    low, high = clip
    y = x if low == -np.inf else np.maximum(x, np.float32(low))
    return y if high == np.inf else np.minimum(y, np.float32(high))


def reshape(x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def pad(x: Array, paddings: tuple[tuple[int, int], ...]) -> Array:
    return np.pad(x, paddings)

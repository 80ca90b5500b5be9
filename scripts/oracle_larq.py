"""Compares npusim with Larq Compute Engine, which runs binary networks in TensorFlow Lite files: ``make oracle-larq``.

Run ``python -m scripts.oracle_larq [--cases N] [--seed S]``. The exit code is 1 if any network gives other numbers.

Networks: convolutions to bits with thresholds and to floats with scale, bias and activation, any channels, groups,
kernels, strides and dilations, padded with ones, with zeros or not at all; max-pools of bits; between convolutions also
floats, element-wise operators and signs, which npusim folds into thresholds; before and behind all that float operators
on the host. Of half of them no float is rounded, and all numbers are equal; of the others bits are, and floats close.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from npusim.numerics.types import Array
from scripts.live_oracle import Case, Oracle, main
from tests.frontends.larq.files import (
    NONE,
    RELU,
    RELU6,
    RELU_N1_TO_1,
    SAME,
    VALID,
    Network,
    bipolar,
    convolution_options,
    packed,
)

ACTIVATIONS = (NONE, RELU, RELU6, RELU_N1_TO_1)
WORD_BITS = 32


class Drawn:
    """A network under construction: ``y`` is its last tensor, of ``shape`` [n, y, x, channels].

    ``exact``: no float behind the bits is rounded. ``reference``: it may have what only Larq's reference kernels take.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.net = rng, Network()
        self.exact = bool(rng.random() < 0.5)
        self.reference = bool(rng.random() < 0.5)
        self.shape = [*self.ints(1, 3, 1), *self.ints(1, 10, 2), self.channels()]
        self.y = self.net.given("x", self.shape)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def ints(self, low: int, high: int, count: int) -> list[int]:
        """``count`` of ``low``..``high - 1``."""
        return [int(n) for n in self.rng.integers(low, high, count)]

    def channels(self) -> int:
        """Few, a few words, or up to three words and a bit."""
        return int(
            self.rng.choice([self.rng.integers(1, 9), WORD_BITS * self.rng.integers(1, 4), self.rng.integers(1, 98)])
        )

    def fresh(self, what: str) -> str:
        return f"{what}{len(self.net.tensors)}"

    def constant(self, array: Array) -> str:
        return self.net.constant(self.fresh("c"), array)

    def numbers(self, *shape: int, zero: bool = True) -> Array:
        """Floats; multiples of 1/8 of up to 2 where nothing is rounded."""
        x = self.rng.normal(size=shape).astype(np.float32)
        if self.exact:
            x = np.clip(np.round(x * 8) / 8, -2, 2).astype(np.float32)
        return x if zero else np.where(x == 0, np.float32(0.5), x)

    # -- bits ----------------------------------------------------------------------------------------------------------

    def quantize(self) -> None:
        self.y = self.net.quantize(self.y, self.fresh("bits"))

    def dequantize(self) -> None:
        self.y = self.net.operator("LceDequantize", [self.y], self.fresh("signs"), self.shape)

    def positions(self, kernel: list[int], stride: list[int], padding: int) -> list[int]:
        """Rows and columns behind a window of ``kernel`` (with its dilation)."""
        return [
            -(-n // s) if padding == SAME else (n - k) // s + 1
            for n, k, s in zip(self.shape[1:3], kernel, stride, strict=True)
        ]

    def pool(self) -> None:
        kernel, stride = self.ints(1, 4, 2), self.ints(1, 4, 2)
        padding = SAME if min(np.subtract(self.shape[1:3], kernel)) < 0 else int(self.rng.choice([SAME, VALID]))
        self.shape[1:3] = self.positions(kernel, stride, padding)
        options: dict[str, Any] = {
            "padding": padding,
            "stride_height": stride[0],
            "stride_width": stride[1],
            "filter_height": kernel[0],
            "filter_width": kernel[1],
        }
        words = [*self.shape[:3], -(-self.shape[3] // WORD_BITS)]
        self.y = self.net.operator("LceBMaxPool2d", [self.y], self.fresh("bits"), words, "INT32", **options)

    def convolve(self, to_bits: bool) -> bool:
        """A convolution; whether it is padded with zeros."""
        rng, channels = self.rng, self.shape[3]
        groups = 1
        if self.reference and channels % WORD_BITS == 0 and self.chance(0.4):
            groups = int(rng.choice([g for g in (1, 2, 3) if channels % (g * WORD_BITS) == 0]))
        filters = groups * self.ints(1, 12, 1)[0] if groups > 1 else self.channels()
        kernel, stride = self.ints(1, 4, 2), self.ints(1, 4, 2)
        dilation = self.ints(1, 4, 2) if self.chance(0.3) else [1, 1]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        fits = all(r <= n for r, n in zip(reach, self.shape[1:3], strict=True))
        padding = int(rng.choice([SAME, VALID])) if fits else SAME
        activation = NONE if to_bits or self.chance(0.5) else int(rng.choice(ACTIVATIONS))
        # Only floats are padded with zeros: by the reference kernel an even number of channels, by the others those
        # without an activation, which they get wrong where the window is larger than the image.
        even = self.reference and channels % 2 == 0
        padded = (even or not self.reference) and fits if activation == NONE else even
        zeros = padding == SAME and not to_bits and padded and self.chance(0.4)
        positions = self.positions(reach, stride, padding)
        weight = bipolar(rng, filters, *kernel, channels // groups)
        options = convolution_options(
            channels,
            stride_height=stride[0],
            stride_width=stride[1],
            dilation_height_factor=dilation[0],
            dilation_width_factor=dilation[1],
            padding=padding,
            pad_values=0 if zeros else 1,
            fused_activation_function=activation,
        )
        self.shape = [self.shape[0], *positions, filters]
        inputs: list[str | None] = [self.y, self.constant(packed(weight))]
        if to_bits:
            words = [*self.shape[:3], -(-filters // WORD_BITS)]
            inputs += [None, None, self.constant(self.thresholds(weight[0].size, filters))]
            self.y = self.net.operator("LceBconv2d", inputs, self.fresh("bits"), words, "INT32", **options)
        else:
            scale = 1 if self.exact else np.float32(weight[0].size ** -0.5)  # floats of about 1, which round little
            multiplier = self.numbers(filters, zero=False) * scale
            inputs += [self.constant(multiplier), self.constant(self.numbers(filters)), None]
            self.y = self.net.operator("LceBconv2d", inputs, self.fresh("y"), self.shape, **options)
        return zeros

    def thresholds(self, length: int, filters: int) -> Array:
        """Some that no sum, or every sum, passes."""
        near = np.round(length / 2 + self.rng.normal(size=filters) * (1 + length**0.5)).astype(np.int64)
        ends = self.rng.choice([-(2**31), 2**31 - 1, -1, length], filters)
        return np.where(self.rng.random(filters) < 0.1, ends, near).astype(np.int32)

    # -- floats --------------------------------------------------------------------------------------------------------

    def elementwise(self) -> None:
        """An operator that npusim folds."""
        if self.chance(0.3):
            kind = str(self.rng.choice(["RELU", "RELU6", "RELU_N1_TO_1"]))
            self.y = self.net.operator(kind, [self.y], self.fresh("y"), self.shape)
            return
        kind = str(self.rng.choice(["ADD", "SUB", "MUL"]))
        size = (self.shape[3],) if self.chance(0.7) else (1,)
        numbers = self.numbers(*size)
        if kind == "MUL" and self.exact:
            numbers = np.exp2(np.round(numbers)).astype(np.float32) * self.rng.choice([-1, 1], size).astype(np.float32)
        operands = [self.y, self.constant(numbers)]
        if kind == "SUB" and self.chance(0.5):
            operands.reverse()
        activation = int(self.rng.choice(ACTIVATIONS)) if self.chance(0.3) else NONE
        options: dict[str, Any] = {"FusedActivationFunction": activation}
        self.y = self.net.operator(kind, operands, self.fresh("y"), self.shape, **options)

    def host(self, before: bool) -> None:
        """An operator of the host, ``before`` the first signs or behind the last."""
        n, rows, columns, channels = self.shape
        kind = str(self.rng.choice(["CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D", "PAD"]))
        kernel, stride = self.ints(1, 4, 2), self.ints(1, 3, 2)
        padding = int(self.rng.choice([SAME, VALID])) if kernel[0] <= rows and kernel[1] <= columns else SAME
        window: dict[str, Any] = {"Padding": padding, "StrideH": stride[0], "StrideW": stride[1]}
        window["FusedActivationFunction"] = int(self.rng.choice(ACTIVATIONS))
        if kind == "PAD":
            ends = self.rng.integers(0, 3, (4, 2)) * [[0], [1], [1], [0]]
            self.shape = [size + int(e.sum()) for size, e in zip(self.shape, ends, strict=True)]
            paddings = self.constant(ends.astype(np.int32))
            self.y = self.net.operator(kind, [self.y, paddings], self.fresh("y"), self.shape)
            return
        self.shape[1:3] = self.positions(kernel, stride, padding)
        inputs: list[str | None] = [self.y]
        if kind.endswith("POOL_2D"):
            window |= {"FilterHeight": kernel[0], "FilterWidth": kernel[1]}
        elif kind == "CONV_2D":
            self.shape[3] = self.ints(1, 40, 1)[0]
            inputs += [self.constant(self.numbers(self.shape[3], *kernel, channels))]
            window |= {"DilationHFactor": 1, "DilationWFactor": 1}
        else:
            several = self.ints(1, 3, 1)[0]
            self.shape[3] = several * channels
            inputs += [self.constant(self.numbers(1, *kernel, self.shape[3]))]
            window |= {"DilationHFactor": 1, "DilationWFactor": 1, "DepthMultiplier": several}
        if len(inputs) > 1:
            inputs.append(self.constant(self.numbers(self.shape[3])))
        self.exact &= before or kind == "MAX_POOL_2D"
        self.y = self.net.operator(kind, inputs, self.fresh("y"), self.shape, **window)

    def head(self) -> None:
        """Means of the channels, a fully connected layer, a softmax."""
        n, _, _, channels = self.shape
        axes = self.constant(np.array([1, 2], np.int32))
        self.y = self.net.operator("MEAN", [self.y, axes], self.fresh("y"), (n, channels), KeepDims=False)
        weight, bias = self.numbers(10, channels), self.numbers(10)
        operands = [self.y, self.constant(weight), self.constant(bias)]
        self.y = self.net.operator("FULLY_CONNECTED", operands, self.fresh("y"), (n, 10), FusedActivationFunction=NONE)
        self.y = self.net.operator("SOFTMAX", [self.y], self.fresh("y"), (n, 10), Beta=1.0)
        self.exact = False


def random_case(rng: np.random.Generator) -> Case:
    """A network."""
    drawn = Drawn(rng)
    kind = str(rng.choice(["bits", "folded", "whole"]))
    if kind == "whole":
        for _ in range(rng.integers(0, 3)):
            drawn.host(before=True)
    drawn.quantize()
    for _ in range(rng.integers(0, 3)):
        if kind == "bits" or drawn.chance(0.3):
            drawn.convolve(to_bits=True)
        else:
            zeros = drawn.convolve(to_bits=False)
            for _ in range(0 if zeros else rng.integers(0, 4)):
                drawn.elementwise()
            if drawn.chance(0.2):
                drawn.net.outputs.append(drawn.y)
            drawn.quantize()
        if drawn.chance(0.3):
            drawn.pool()
    if drawn.chance(0.2) and any(o[0] == "LceBconv2d" for o in drawn.net.operators):
        drawn.dequantize()
    else:
        drawn.convolve(to_bits=False)
        for _ in range(rng.integers(0, 3)):
            drawn.elementwise()
    if kind == "whole":
        for _ in range(rng.integers(0, 2)):
            drawn.host(before=False)
        if drawn.chance(0.3):
            drawn.head()
    net = drawn.net
    net.outputs = list(dict.fromkeys([*net.outputs, drawn.y]))
    x = (rng.normal(size=net.tensors["x"][0]) * 2).astype(np.float32)
    x = np.where(rng.random(x.shape) < 0.1, np.float32(0.0) * np.sign(x), x)  # zeros of both signs are +1
    note = f"x {list(x.shape)}: {', '.join(f'{o[0]}->{o[2][0]}' for o in net.operators)}"
    return Case(kind, net.data(), {"x": x}, tuple(net.outputs), note, drawn.exact)


ORACLE = Oracle(
    name="larq",
    suffix=".tflite",
    packages=("larq-compute-engine==0.16.0", "numpy==1.26.4"),
    runner=Path(__file__).with_name("larq_runner.py"),
    random_case=random_case,
    refusals=("cannot be folded into integer thresholds",),
    cases=500,
    bare=True,
)


if __name__ == "__main__":
    sys.exit(main(ORACLE))

"""Random QONNX networks, drawn layer by layer: what ``make oracle-qonnx`` runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scripts.live_oracle import Case
from tests.frontends.qonnx.networks import QONNX, Network, onnx

MODES = ("ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN", "round", "floor")
ANNOTATIONS = {
    "BIPOLAR": (-1, 1),
    "BINARY": (0, 1),
    "TERNARY": (-1, 1),
    "INT3": (-4, 3),
    "INT8": (-128, 127),
    "UINT4": (0, 15),
}
AUTO_PADS = ("SAME_UPPER", "SAME_LOWER", "VALID")
DOMAINS = (QONNX, QONNX, "onnx.brevitas")


class Drawn:
    """A network under construction: ``y`` is its last tensor, of ``shape``; ``outputs`` are those to compare."""

    def __init__(self, rng: np.random.Generator, *shape: int) -> None:
        self.rng, self.size, self.shape = rng, shape, list(shape)
        self.net = Network(*shape, opset=int(rng.choice([11, 13, 15, 17])))
        self.y = "x"
        self.outputs: list[str] = []
        self.fine = rng.random() < 0.9  # scales are powers of two
        self.annotation = ""  # FINN's data type of x

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def ints(self, low: int, high: int, count: int) -> list[int]:
        """``count`` of ``low``..``high - 1``."""
        return [int(n) for n in self.rng.integers(low, high, count)]

    def scale(self, low: int = -3, high: int = 3) -> float:
        exponent = self.rng.integers(low, high)
        return float(np.float32(2.0**exponent * (1 if self.fine else self.rng.uniform(1, 2))))

    def by_channel(self, values: Any) -> Any:
        """One number for each channel, in a shape that goes with the tensor."""
        return np.reshape(values, (-1, *[1] * (len(self.shape) - 2)) if len(self.shape) == 4 else (1, -1))

    @property
    def channels(self) -> int:
        return self.shape[1 if len(self.shape) in (2, 4) else -1]

    # -- quantisers ------------------------------------------------------------------------------------------------

    def quantise(self, bits: int | None = None, scale: float | None = None) -> None:
        """Any quantiser; with ``bits`` a Quant of so many (1: BipolarQuant), symmetric and of ``scale``."""
        rng, net = self.rng, self.net
        if bits is None and not self.fine and net.nodes:  # a rounded sum must not lie where a quantiser steps
            self.y = net.op("Add", self.y, self.by_channel(rng.normal(size=self.channels)))
        if bits is not None:
            self.y = net.bipolar(self.y, scale) if bits == 1 else net.quant(self.y, bits, scale, narrow=1)
        elif (kind := rng.integers(8)) < 2:
            self.y = net.bipolar(self.y, self.scale())
        elif kind < 4:
            self.multi_threshold()
        else:
            bits, signed = int(rng.integers(1, 9)), int(rng.integers(2))
            zero = int(rng.integers(-2, 3)) if self.chance(0.3) and not (bits == 1 and signed) and bits < 8 else 0
            narrow = int(rng.integers(2)) if bits > 1 else 0
            each = len(self.shape) == 4 and self.chance(0.1)
            scale = self.by_channel([self.scale() for _ in range(self.channels)]) if each else self.scale()
            operands = (self.y, scale, float(zero), float(bits))
            attributes = {"signed": signed, "narrow": narrow, "rounding_mode": str(rng.choice(MODES))}
            domain = str(rng.choice(DOMAINS))
            self.y = net.op(str(rng.choice(["Quant", "IntQuant"])), *operands, domain=domain, **attributes)
        if self.chance(0.3):
            self.outputs.append(self.y)

    def multi_threshold(self) -> None:
        rng = self.rng
        steps = int(rng.integers(1, 8))
        levels = rng.normal(size=(self.channels if self.chance(0.7) else 1, steps)) * rng.choice([1, 4, 20])
        levels = np.sort(np.round(levels * 2) / 2 if self.chance(0.5) else levels, 1)
        scale = 2.0 ** int(rng.integers(-2, 3))
        bias = -scale * int(rng.integers(0, steps + 1))
        if steps == 1 and self.chance(0.7):
            bias = -scale / 2
        attributes = {"out_scale": scale, "out_bias": bias, "out_dtype": "INT8"}
        last = len(self.shape) == 4 and self.y == "x" and self.chance(0.5)  # channels last, between two transposes
        if last:
            attributes["data_layout"] = "NHWC"
            self.y = self.net.op("Transpose", self.y, perm=[0, 2, 3, 1])
        self.y = self.net.op("MultiThreshold", self.y, levels, domain=QONNX, **attributes)
        if last:
            self.y = self.net.op("Transpose", self.y, perm=[0, 3, 1, 2])

    # -- layers ----------------------------------------------------------------------------------------------------

    def weights(self, *shape: int, plain: bool = False, outputs: int = 0) -> str:
        """Constants, quantised or integers; ``outputs`` is the axis of output channels. ``plain``: unscaled."""
        rng, net = self.rng, self.net
        sizes = [1] * len(shape)
        sizes[outputs] = shape[outputs]
        scale = 1.0 if plain else self.scale()
        each = scale if plain or self.chance(0.6) else np.reshape([self.scale() for _ in range(shape[outputs])], sizes)
        match rng.integers(4):
            case 0:
                return net.constant(np.where(rng.normal(size=shape) < 0, -1.0, 1.0))
            case 1:
                return net.bipolar(net.constant(rng.normal(size=shape)), each)
            case 2:
                return net.constant(rng.integers(-3, 4, size=shape))
        bits, narrow = int(rng.integers(2, 9)), int(rng.integers(2))
        numbers = net.constant(rng.normal(size=shape) * 2.0 ** (bits - 2) * np.asarray(each))
        return net.quant(numbers, bits, each, narrow=narrow, rounding_mode=str(rng.choice(MODES)))

    def convolve(self, keep: bool = False) -> None:
        """A Conv; ``keep``: the shape stays, and so does the scale."""
        rng, channels = self.rng, self.shape[1]
        groups = int(rng.choice([d for d in range(1, channels + 1) if channels % d == 0])) if self.chance(0.4) else 1
        filters = channels if keep else groups * int(rng.integers(1, 5))
        kernel = [3, 3] if keep else self.ints(1, 4, 2)
        window: dict[str, Any] = {"group": groups}
        if keep:
            window["pads"] = [1, 1, 1, 1]
        else:
            window["strides"] = self.ints(1, 3, 2)
            if self.chance(0.25):
                window["dilations"] = self.ints(1, 3, 2)
            if "dilations" not in window and self.chance(0.25):  # onnxruntime has no dilations with SAME
                window["auto_pad"] = str(rng.choice(AUTO_PADS))
            elif self.chance(0.7):
                window["pads"] = self.ints(0, 4, 4)
        self.shape = self.windows(filters, kernel, window)
        operands = [self.y, self.weights(filters, channels // groups, *kernel, plain=keep)]
        if not keep and self.chance(0.3):
            operands.append(self.bias(filters))
        self.y = self.net.op("Conv", *operands, **window)

    def pool(self) -> None:
        window: dict[str, Any] = {"kernel_shape": self.ints(1, 4, 2), "strides": self.ints(1, 3, 2)}
        # onnxruntime has no SAME with strides beyond the kernel
        if min(np.subtract(window["kernel_shape"], window["strides"])) >= 0 and self.chance(0.4):
            window["auto_pad"] = str(self.rng.choice(AUTO_PADS))
        elif self.chance(0.5):
            window["pads"] = [int(self.rng.integers(0, k)) for k in window["kernel_shape"] * 2]
        self.shape = self.windows(self.shape[1], window["kernel_shape"], window)
        self.y = self.net.op("MaxPool", self.y, **window)

    def windows(self, channels: int, kernel: Sequence[int], window: dict[str, Any]) -> list[int]:
        """The shape behind a window; without pads and strides where it does not fit, a kernel of one pixel always."""
        sizes = []
        for i, size in enumerate(self.shape[2:]):
            reach = (kernel[i] - 1) * window.get("dilations", (1, 1))[i] + 1
            stride, pads = window.get("strides", (1, 1))[i], window.get("pads", (0, 0, 0, 0))
            if window.get("auto_pad", "").startswith("SAME"):
                sizes.append(-(-size // stride))
            else:
                sizes.append((size + pads[i] + pads[i + 2] - reach) // stride + 1)
        if min(sizes) < 1:
            window.pop("auto_pad", None)
            window.pop("dilations", None)
            window["pads"] = [k - 1 for k in kernel] * 2
            return self.windows(channels, kernel, window)
        return [self.shape[0], channels, *sizes]

    def multiply(self, outputs: int) -> None:
        """MatMul or Gemm of the last axis."""
        inputs = self.shape[-1]
        if len(self.shape) == 2 and self.chance(0.4):
            turned = self.chance(0.5)
            weights = self.weights(*((outputs, inputs) if turned else (inputs, outputs)), outputs=0 if turned else 1)
            bias = [self.bias(outputs)] if self.chance(0.6) else []
            self.y = self.net.op("Gemm", self.y, weights, *bias, transB=int(turned))
        elif self.chance(0.5):
            weights = self.weights(outputs, inputs)
            self.y = self.net.op("MatMul", self.y, self.net.op("Transpose", weights, perm=[1, 0]))
        else:
            self.y = self.net.op("MatMul", self.y, self.weights(inputs, outputs, outputs=1))
        self.shape[-1] = outputs

    def bias(self, channels: int) -> str:
        """Of integers, or of halves."""
        return self.net.constant(self.rng.integers(-6, 7, size=channels) * self.rng.choice([1.0, 0.5]))

    # -- floats ----------------------------------------------------------------------------------------------------

    def floats(self) -> None:
        """One float operator."""
        rng, net, y, c = self.rng, self.net, self.y, self.channels
        several = self.by_channel(rng.normal(size=c)) if self.chance(0.7) else rng.normal()
        if self.chance(0.3):
            several = np.round(several * 4) / 4
        match rng.integers(11):
            case 0 | 1 if len(self.shape) != 3:
                scale = rng.normal(size=c) if self.chance(0.3) else rng.uniform(0.2, 2, c)
                self.y = net.norm(y, scale, rng.normal(size=c), rng.normal(size=c), rng.uniform(0.5, 20, c))
            case 2:
                self.y = net.op("Relu", y)
            case 3:
                self.y = net.op("Mul", y, several)
            case 4:
                self.y = net.op("Add", y, several)
            case 5:
                self.y = net.op("Clip", y, -1.25 * rng.integers(0, 3), 2.5 * rng.integers(1, 5))
            case 6 if len(self.shape) == 4:
                self.pool()
            case 7:
                self.y = net.op("Sub", several, y) if self.chance(0.5) else net.op("Sub", y, several)
            case 8:
                self.y = net.op("Div", y, np.where(np.abs(several) < 0.1, 1.0, several))
            case 9:
                self.y = net.op("Neg", y)
            case _:
                self.y = net.op("Identity", y)

    def layer(self) -> None:
        """A layer, float operators and a quantiser."""
        if len(self.shape) == 4:
            self.convolve()
        else:
            self.multiply(int(self.rng.integers(1, 20)))
        for _ in range(self.rng.integers(4)):
            self.floats()
        self.quantise()

    def case(self, kind: str) -> Case:
        """The finished network, with an input that hits ties as often as not."""
        x = self.rng.normal(size=self.size) * self.rng.choice([0.5, 2, 8])
        if self.chance(0.6):
            x = np.round(x * 8) / 8
        if self.annotation:
            low, high = ANNOTATIONS[self.annotation]
            x = self.rng.integers(low, high + 1, size=self.size) * 1.0
            x = np.where(x == 0, 1.0, x) if self.annotation == "BIPOLAR" else x
        outputs = tuple(dict.fromkeys([*self.outputs, self.y]))
        steps = ", ".join(f"{n.op_type}->{n.output[0]}" for n in self.net.nodes)
        note = f"x {list(self.size)}: {steps}"
        model = self.net.model(*outputs)
        if self.annotation:
            pair = onnx.StringStringEntryProto(key="finn_datatype", value=self.annotation)
            model.graph.quantization_annotation.add(tensor_name="x", quant_parameter_tensor_names=[pair])
        return Case(kind, model.SerializeToString(), {"x": x.astype(np.float32)}, outputs, note)

"""Write workloads/resnet50.yaml and workloads/mobilenet_v2.yaml: the networks at 224 x 224, int8, random weights.

Run ``python scripts/make_layer_lists.py``. Layers, pads and operators are those of a TFLite network turned into TOSA:
every convolution is followed by a rescale per output channel and, where there is a ReLU, by a clamp; outputs of a ReLU
have the zero point -128, all others 0; a residual add is done in int32.

Weights are uniform over int8, so a sum of K products of weights and activations of root mean square r has a standard
deviation of 73.9 r sqrt(K). The rescales divide by that: values fill int8 in every layer, and few saturate.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import hypot, log2, sqrt
from pathlib import Path

WEIGHT_DEVIATION = 73.9  # standard deviation of -128..127, uniform
RELU_DEVIATION = 64.0  # of the values that a ReLU clamps, in steps of its output: 255 steps hold four of them
LINEAR_DEVIATION = 32.0  # of values without a ReLU: int8 holds four on either side
SPREAD = 0.25  # multipliers of a layer's channels lie within this share of the nominal one
ADD_SHIFT = 11  # 2^30 / 2^11 = 2^19: TFLite scales operands of an add to at most that
UNIT = 1 << 30


@dataclass(frozen=True)
class Value:
    """An int8 tensor [1, size, size, channels]; ``rms`` is the root mean square of its elements less the zero point."""

    name: str
    size: int
    channels: int
    rms: float
    zero_point: int = 0


@dataclass
class LayerList:
    """The operators of a workload, one line each; a text that comes again is an alias of where it came first."""

    lines: list[str] = field(default_factory=list)
    anchors: dict[str, str] = field(default_factory=dict)

    def operator(self, name: str, op: str, inputs: Sequence[str], attributes: str = "{}") -> None:
        tail = "" if attributes == "{}" else f", attributes: {attributes}"
        self.lines.append(f"    - {{name: {name}, op: {op}, inputs: [{', '.join(inputs)}]{tail}}}")

    def shared(self, anchor: str, text: str) -> str:
        if anchor not in self.anchors:
            self.anchors[anchor] = text
            return f"&{anchor} {text}"
        if self.anchors[anchor] != text:
            raise ValueError(f"the anchor {anchor} is taken by {self.anchors[anchor]}")
        return f"*{anchor}"

    def convolution(
        self,
        name: str,
        x: Value,
        channels: int,
        kernel: int,
        stride: int = 1,
        *,
        relu: bool = True,
        depthwise: bool = False,
    ) -> Value:
        """A convolution with its rescale and ReLU; padded to ceil(size / stride), the odd row at the end."""
        taps = kernel * kernel * (1 if depthwise else x.channels)
        x, pad, size = self.padded(name, x, kernel, stride)
        shape = f"{kernel}x{kernel}x{channels}x1" if depthwise else f"{channels}x{kernel}x{kernel}x{x.channels}"
        bias = self.shared(f"b{channels}", f"{{type: {channels}xi32, random: [-1000, 1000]}}")
        zero = f", input_zp: {x.zero_point}" if x.zero_point else ""
        anchor = f"k{kernel}s{stride}p{pad[0]}{pad[1]}{'z' if zero else ''}"
        pads = ", ".join(map(str, (*pad, *pad)))
        attributes = f"{{pad: [{pads}], stride: [{stride}, {stride}], dilation: [1, 1]{zero}}}"
        op = "depthwise_conv2d" if depthwise else "conv2d"
        weight = f"{{type: {shape}xi8, random: true}}"
        self.operator(name, op, (x.name, weight, bias), self.shared(anchor, attributes))
        deviation = WEIGHT_DEVIATION * x.rms * sqrt(taps)
        return self.rescaled(name, Value(name, size, channels, deviation), relu=relu, per_channel=True)

    def padded(self, name: str, x: Value, kernel: int, stride: int) -> tuple[Value, tuple[int, int], int]:
        """What to slide the kernel over, pads before and after, and the output's size.

        TOSA wants steps of the stride to end at the border: where the last pixels are not reached, they are cut off.
        """
        size = -(-x.size // stride)
        total = (size - 1) * stride + kernel - x.size
        if total < 0:
            sizes = ", ".join(map(str, (1, x.size + total, x.size + total, x.channels)))
            self.operator(f"{name}_input", "slice", (x.name,), f"{{start: [0, 0, 0, 0], size: [{sizes}]}}")
            x, total = replace(x, name=f"{name}_input", size=x.size + total), 0
        return x, (total // 2, total - total // 2), size

    def rescaled(self, name: str, x: Value, *, relu: bool, per_channel: bool = False) -> Value:
        """An int32 value brought to int8, through a ReLU or not."""
        deviation = RELU_DEVIATION if relu else LINEAR_DEVIATION
        shift = round(30 + log2(x.rms / deviation))
        multiplier = deviation / x.rms * 2**shift
        count = x.channels if per_channel else 1
        low, high = (round(multiplier * (1 + s * per_channel)) for s in (-SPREAD, SPREAD))
        scales = f"random: [{low}, {high}]" if per_channel else f"fill: {low}"
        shifts = self.shared(f"s{count}_{shift}", f"{{type: {count}xi8, fill: {shift}}}")
        kind = f"to_{'relu' if relu else 'linear'}{'_per_channel' if per_channel else ''}"
        attributes = self.rescale_attributes(kind, "i8", per_channel, output_zp=-128 if relu else 0)
        self.operator(f"{name}_rescale", "rescale", (x.name, f"{{type: {count}xi32, {scales}}}", shifts), attributes)
        if not relu:
            return Value(f"{name}_rescale", x.size, x.channels, deviation)
        clamp = self.shared("relu", "{min_val: -128, max_val: 127}")
        self.operator(f"{name}_relu", "clamp", (f"{name}_rescale",), clamp)
        return Value(f"{name}_relu", x.size, x.channels, deviation / sqrt(2), -128)

    def rescale_attributes(
        self, anchor: str, out_type: str, per_channel: bool, input_zp: int = 0, output_zp: int = 0
    ) -> str:
        flags = f"scale32: true, rounding: double, per_channel: {str(per_channel).lower()}"
        zero = "".join(f", {key}: {zp}" for key, zp in (("input_zp", input_zp), ("output_zp", output_zp)) if zp)
        signs = "input_unsigned: false, output_unsigned: false"
        return self.shared(anchor, f"{{{flags}, {signs}{zero}, out_type: {out_type}}}")

    def residual(self, name: str, a: Value, b: Value, *, relu: bool) -> Value:
        """a + b, both first scaled to int32."""
        for operand, x in (("a", a), ("b", b)):
            kind = "from_relu" if x.zero_point else "from_linear"
            attributes = self.rescale_attributes(kind, "i32", False, input_zp=x.zero_point)
            self.operator(f"{name}_{operand}", "rescale", (x.name, "unit", "add_shift"), attributes)
        self.operator(name, "add", (f"{name}_a", f"{name}_b"))
        step = UNIT >> ADD_SHIFT
        return self.rescaled(name, Value(name, a.size, a.channels, step * hypot(a.rms, b.rms)), relu=relu)

    def max_pool(self, name: str, x: Value, kernel: int, stride: int) -> Value:
        x, pad, size = self.padded(name, x, kernel, stride)
        pads = ", ".join(map(str, (*pad, *pad)))
        attributes = f"{{kernel: [{kernel}, {kernel}], stride: [{stride}, {stride}], pad: [{pads}]}}"
        self.operator(name, "max_pool2d", (x.name,), attributes)
        return replace(x, name=name, size=size)

    def global_average(self, name: str, x: Value) -> Value:
        """The mean of all pixels."""
        window = f"kernel: [{x.size}, {x.size}], stride: [1, 1], pad: [0, 0, 0, 0]"
        zero = f"input_zp: {x.zero_point}, output_zp: {x.zero_point}"
        self.operator(name, "avg_pool2d", (x.name,), f"{{{window}, {zero}}}")
        return replace(x, name=name, size=1)

    def text(self, title: str, name: str, output: Value) -> str:
        lines = [
            f"# {title}",
            "# Written by scripts/make_layer_lists.py: change that, not this.",
            f"name: {name}",
            "graph:",
            "  inputs: {image: 1x224x224x3xi8}",
            "  constants:",
            f"    unit: {{type: 1xi32, fill: {UNIT}}}",
            f"    add_shift: {{type: 1xi8, fill: {ADD_SHIFT}}}",
            "  operators:",
            *self.lines,
            f"  outputs: [{output.name}]",
        ]
        return "\n".join(lines) + "\n"


IMAGE = Value("image", 224, 3, WEIGHT_DEVIATION)


def resnet50() -> str:
    """ResNet-50 with the stride in the 3 x 3 convolutions ("version 1.5").

    He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, table 1.
    """
    layers = LayerList()
    x = layers.max_pool("pool1", layers.convolution("conv1", IMAGE, 64, 7, 2), 3, 2)
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=2):
        for block in range(1, blocks + 1):
            name, stride = f"conv{stage}_{block}", 2 if block == 1 and stage > 2 else 1
            y = layers.convolution(f"{name}_reduce", x, width, 1)
            y = layers.convolution(f"{name}_spatial", y, width, 3, stride)
            y = layers.convolution(f"{name}_expand", y, 4 * width, 1, relu=False)
            if block == 1:
                x = layers.convolution(f"{name}_shortcut", x, 4 * width, 1, stride, relu=False)
            x = layers.residual(f"{name}_add", y, x, relu=True)
    x = layers.convolution("classifier", layers.global_average("pool5", x), 1000, 1, relu=False)
    return layers.text("ResNet-50 v1.5 (He et al., CVPR 2016), int8, random weights.", "resnet50", x)


def mobilenet_v2() -> str:
    """MobileNetV2 of width 1.

    Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018, table 2.
    """
    layers = LayerList()
    x = layers.convolution("conv1", IMAGE, 32, 3, 2)
    settings = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    number = 0
    for expansion, channels, repeats, first_stride in settings:
        for repeat in range(repeats):
            number, stride = number + 1, first_stride if repeat == 0 else 1
            name, hidden = f"block{number}", expansion * x.channels
            y = layers.convolution(f"{name}_expand", x, hidden, 1) if expansion > 1 else x
            y = layers.convolution(f"{name}_depthwise", y, hidden, 3, stride, depthwise=True)
            y = layers.convolution(f"{name}_project", y, channels, 1, relu=False)
            x = layers.residual(f"{name}_add", y, x, relu=False) if repeat else y
    x = layers.global_average("pool", layers.convolution("conv_last", x, 1280, 1))
    x = layers.convolution("classifier", x, 1000, 1, relu=False)
    return layers.text("MobileNetV2 1.0 (Sandler et al., CVPR 2018), int8, random weights.", "mobilenet_v2", x)


NETWORKS = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2}


def main(command_line: Sequence[str] | None = None) -> None:
    """Write both files and say where."""
    parser = argparse.ArgumentParser(description="Write the layer lists of ResNet-50 and MobileNetV2.")
    default_folder = Path(__file__).resolve().parents[1] / "workloads"
    parser.add_argument("--out", type=Path, default=default_folder, help="folder to write (default: %(default)s)")
    arguments = parser.parse_args(command_line)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, network in NETWORKS.items():
        path = arguments.out / f"{name}.yaml"
        path.write_text(network(), encoding="utf-8")
        print(f"written: {path}")


if __name__ == "__main__":
    main()

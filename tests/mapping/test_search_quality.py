"""The tile search judged by simulation: its choice against the best of an exhaustive search, layer by layer."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.ir.mapping_options import LayerOptions
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I32
from npusim.ops import op_class
from tests.mapping.exhaustive import fewest_cycles, simulated_cycles


@dataclass(frozen=True)
class Convolution:
    """A convolution, its rescale per channel and its ReLU, on a square image (or, ``size`` 1, a vector)."""

    size: int
    channels: int
    out: int
    kernel: int = 1
    stride: int = 1
    depthwise: bool = False

    def graph(self) -> Graph:
        b = GraphBuilder("layer")
        out = -(-self.size // self.stride)
        pad = (out - 1) * self.stride + self.kernel - self.size
        size = self.size + min(pad, 0)  # pixels that are not reached are cut off
        before, after = max(pad, 0) // 2, max(pad, 0) - max(pad, 0) // 2
        b.input("x", TensorType((1, size, size, self.channels), I8))
        kernel = (self.kernel, self.kernel)
        shape = (*kernel, self.channels, 1) if self.depthwise else (self.out, *kernel, self.channels)
        b.constant("w", TensorType(shape, I8), np.zeros(shape, np.int8))
        b.constant("bias", TensorType((self.out,), I32), np.zeros(self.out, np.int32))
        op = op_class("depthwise_conv2d" if self.depthwise else "conv2d")
        attributes = {"pad": (before, after) * 2, "stride": (self.stride,) * 2, "dilation": (1, 1)}
        b.node("layer", op(**attributes), ("x", "w", "bias"), "sums")
        return b.finish((_rescaled(b, self.out),))


@dataclass(frozen=True)
class Product:
    """Products [heads, rows, inner] by [heads, inner, columns], rescaled: of two feature maps or of one and weights."""

    heads: int
    rows: int
    inner: int
    columns: int
    weights: bool = False

    def graph(self) -> Graph:
        b = GraphBuilder("layer")
        b.input("x", TensorType((self.heads, self.rows, self.inner), I8))
        shape = (self.heads, self.inner, self.columns)
        if self.weights:
            b.constant("w", TensorType(shape, I8), np.zeros(shape, np.int8))
        else:
            b.input("w", TensorType(shape, I8))
        b.node("layer", op_class("matmul")(), ("x", "w"), "sums")
        return b.finish((_rescaled(b, 1),))


def _rescaled(b: GraphBuilder, channels: int) -> str:
    b.constant("multiplier", TensorType((channels,), I32), np.full(channels, 1 << 30, np.int32))
    b.constant("shift", TensorType((channels,), I8), np.full(channels, 38, np.int8))
    rescale = op_class("rescale")(scale32=True, rounding="double", per_channel=channels > 1, input_unsigned=False,
                                  output_unsigned=False, out_type="i8")  # fmt: skip
    b.node("rescale", rescale, ("sums", "multiplier", "shift"), "scaled")
    b.node("relu", op_class("clamp")(min_val=0, max_val=127), ("scaled",), "y")
    return "y"


LAYERS = {
    # ResNet-50
    "resnet conv1": Convolution(224, 3, 64, 7, 2),
    "resnet conv2 reduce": Convolution(56, 256, 64),
    "resnet conv2 spatial": Convolution(56, 64, 64, 3),
    "resnet conv2 expand": Convolution(56, 64, 256),
    "resnet conv3 spatial, stride": Convolution(56, 128, 128, 3, 2),
    "resnet conv3 shortcut": Convolution(56, 256, 512, 1, 2),
    "resnet conv4 spatial": Convolution(14, 256, 256, 3),
    "resnet conv5 spatial": Convolution(7, 512, 512, 3),
    "resnet conv5 expand": Convolution(7, 512, 2048),
    "resnet classifier": Convolution(1, 2048, 1000),
    # MobileNetV2
    "mobilenet conv1": Convolution(224, 3, 32, 3, 2),
    "mobilenet block1 depthwise": Convolution(112, 32, 32, 3, 1, True),
    "mobilenet block2 expand": Convolution(112, 16, 96),
    "mobilenet block2 depthwise": Convolution(112, 96, 96, 3, 2, True),
    "mobilenet block3 project": Convolution(56, 144, 24),
    "mobilenet block6 depthwise": Convolution(28, 192, 192, 3, 1, True),
    "mobilenet block14 depthwise": Convolution(14, 576, 576, 3, 2, True),
    "mobilenet last": Convolution(7, 320, 1280),
    # BERT-tiny, 128 tokens
    "bert projection": Product(1, 128, 128, 128, True),
    "bert scores": Product(2, 128, 64, 128),
    "bert mix": Product(2, 128, 128, 64),
    "bert up": Product(1, 128, 128, 512, True),
    "bert down": Product(1, 128, 512, 128, True),
}

PAIRS = [(name, preset) for name in LAYERS for preset in ("micro", "edge", "server")]
QUICK = [p for p in PAIRS if "bert" in p[0] or "depthwise" in p[0] or "classifier" in p[0]]
GATE = random.Random(5).sample(QUICK, 8)


def choice_and_best(name: str, preset: str) -> tuple[int, int]:
    """Cycles of the search's choice; and of the best mapping there is, if that is more than 5 % better, else these."""
    graph, chip = LAYERS[name].graph(), load_chip(preset)
    chosen = simulated_cycles(graph, chip)
    best = fewest_cycles(graph, chip, chosen * 100 // 105)
    assert best.candidates > 10_000
    return chosen, chosen if best.options is None else best.cycles


@pytest.mark.parametrize(("name", "preset"), GATE)
def test_the_choice_is_within_five_percent_of_the_best(name: str, preset: str) -> None:
    chosen, best = choice_and_best(name, preset)
    assert 100 * chosen <= 105 * best, f"{chosen} cycles, but there are mappings with {best}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "preset"), [p for p in PAIRS if p not in GATE])
def test_the_choice_is_within_five_percent_of_the_best_everywhere(name: str, preset: str) -> None:
    chosen, best = choice_and_best(name, preset)
    assert 100 * chosen <= 105 * best, f"{chosen} cycles, but there are mappings with {best}"


def test_the_search_finds_what_a_bad_choice_misses() -> None:
    """Held against a mapping that is far off, the exhaustive search finds a better one, and simulates few for it."""
    graph, chip = LAYERS["bert projection"].graph(), load_chip("edge")
    bad = simulated_cycles(graph, chip, LayerOptions(tile={"h": 3, "w": 5, "c": 128}, buffers=1))
    best = fewest_cycles(graph, chip, bad, at_most=3)
    assert best.options is not None
    assert best.cycles < bad
    assert best.cycles == simulated_cycles(graph, chip, best.options)
    assert best.bound <= best.cycles
    assert best.simulated <= 3

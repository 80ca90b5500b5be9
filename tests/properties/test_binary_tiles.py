"""The promise for the popcount unit: tiles of packed bits give the bits of whole operators."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim.functional import evaluate_graph, execute, program_order
from npusim.graph import Graph
from npusim.graph.graph import GraphBuilder
from npusim.hardware import Chip
from npusim.hardware.units.vector import OperatorRate
from npusim.ir.tensor import TensorType
from npusim.numerics.types import DTYPES, Array
from npusim.ops import make_op
from npusim.timing import simulate
from tests.properties.random_graphs import chips, mapping_options, random_tiles
from tests.properties.test_tile_program import SLOW, layer_dims, map_or_skip


class Network:
    """A graph under way, layout NHWC: each layer reads the last value."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.b, self.rng = draw, GraphBuilder("g"), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.shape = (
            draw(st.integers(1, 2)),
            draw(st.integers(1, 9)),
            draw(st.integers(1, 9)),
            draw(st.integers(1, 70)),
        )
        self.value = "x"
        self.count = 0
        self.b.input("x", TensorType(self.shape, DTYPES["u1"]))

    def pick(self, *options: object) -> object:
        return self.draw(st.sampled_from(options))

    def constant(self, name: str, kind: str, shape: tuple[int, ...], low: int, high: int) -> str:
        dtype = DTYPES[kind]
        value = f"{name}{self.count}"
        array = self.rng.integers(low, high, shape, endpoint=True).astype(dtype.storage)
        self.b.constant(value, TensorType(shape, dtype), array)
        return value

    def node(self, op: str, inputs: list[str], **attributes: object) -> str:
        self.count += 1
        out = f"v{self.count}"
        self.b.node(f"{op}{self.count}", make_op(op, attributes), tuple(inputs), out)
        kind = self.b.type_of(out)
        assert kind is not None
        self.value, self.shape = out, kind.shape
        return out

    def thresholds(self, spread: int, steps: int) -> list[str]:
        found = [self.constant("t", "i32", (self.shape[3], steps) if steps > 1 else (self.shape[3],), -spread, spread)]
        return [*found, self.constant("i", "u1", (self.shape[3],), 0, 1)] if self.draw(st.booleans()) else found

    def convolution(self, fused: bool, bits: int = 1) -> str:
        filters = int(str(self.pick(1, 3, 8, 17, 40)))
        kernel, stride = self.pick(1, 3), self.pick(1, 1, 2)
        depth = self.shape[3]
        weight = self.constant("w", "u1", (filters, kernel, kernel, depth), 0, 1)
        source, n = self.value, self.shape[0]
        self.shape = (n, 0, 0, filters)
        stage = self.thresholds(depth, (1 << bits) - 1) if fused else []
        return self.node(
            "binary_conv2d", [source, weight, *stage], stride=(stride, stride), dilation=(1, 1), pads_begin=(0, 0),
            pads_end=(0, 0), auto_pad="same_upper", pad_value=self.pick("minus_one", "zero", "plus_one"), layout="nhwc",
            out_type=f"u{bits}" if fused else None,
        )  # fmt: skip

    def layer(self) -> None:
        kind = self.pick("fused", "fused", "residual", "pool", "serial")
        if kind == "fused":
            self.convolution(fused=True)
        elif kind == "pool":
            self.node(
                "binary_max_pool2d", [self.value], kernel=(2, 2), stride=(2, 2), pads_begin=(0, 0), pads_end=(0, 0),
                auto_pad="same_lower", combine=self.pick("or", "and"), layout="nhwc",
            )  # fmt: skip
        elif kind == "residual":
            sums = self.convolution(fused=False)
            other = self.constant("r", "i32", (1, 1, 1, self.shape[3]), -50, 50)
            self.node("add", [sums, other])
            self.node("threshold", [self.value, *self.thresholds(60, 1)], axis=3, compare="ge")
        else:
            self.convolution(fused=True, bits=3)
            filters, depth = 6, self.shape[3]
            weight = self.constant("s", "i2", (filters, 1, 1, depth), -1, 1)
            source = self.value
            self.shape = (*self.shape[:3], filters)
            self.node(
                "bitserial_conv2d", [source, weight, *self.thresholds(depth, 1)], stride=(1, 1), dilation=(1, 1),
                pads_begin=(0, 0), pads_end=(0, 0), pad_value="zero", weight_kind="ternary", layout="nhwc",
            )  # fmt: skip


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """One to four layers of bits, the last value and maybe one before it as outputs."""
    net = Network(draw)
    made = []
    for _ in range(draw(st.integers(1, 4))):
        net.layer()
        made.append(net.value)
    if draw(st.booleans()):
        n, h, w, c = net.shape
        net.node("reshape", [net.value], new_shape=(n, h * w * c))
        net.node("binary_fully_connected", [net.value, net.constant("f", "u1", (5, h * w * c), 0, 1)])
    earlier = [v for v in made if v != net.value]
    extra = [draw(st.sampled_from(earlier))] if earlier and draw(st.booleans()) else []
    return net.b.finish((*extra, net.value))


@st.composite
def binary_chips(draw: st.DrawFn) -> Chip:
    """Any chip, with up to three popcount units of odd sizes, and whatever else these operators need."""
    chip = draw(chips())
    mac, popcount, vector = chip.units
    popcount = dataclasses.replace(
        popcount, instances=draw(st.integers(1, 3)), lanes=draw(st.integers(1, 40)), word_bits=draw(st.integers(1, 128))
    )
    operators = ("binary_max_pool2d", "threshold", "add", "reshape")
    vector = dataclasses.replace(vector, rates=(OperatorRate(cycles=Fraction(1), operators=operators),))
    tail = ("add", "threshold") if draw(st.booleans()) else ()
    pipeline = dataclasses.replace(chip.output_pipeline, operators=tail)
    return dataclasses.replace(chip, units=(mac, popcount, vector), output_pipeline=pipeline)


def bits(graph: Graph, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {v: rng.integers(0, 2, graph.types[v].shape).astype(np.uint8) for v in graph.data_inputs}


@settings(SLOW, max_examples=60)
@given(st.data())
def test_tiles_of_packed_bits(data: st.DataObject) -> None:
    graph, chip, options = data.draw(networks()), data.draw(binary_chips()), data.draw(mapping_options())
    mapped = map_or_skip(graph, chip, options)
    if data.draw(st.booleans()):
        mapped = map_or_skip(graph, chip, random_tiles(data.draw, options, layer_dims(mapped)))
    assume(len(mapped.program) <= 1000)
    inputs = bits(graph, data.draw(st.integers(0, 2**32 - 1)))
    want = evaluate_graph(graph, inputs)
    for moments in (simulate(mapped.program, chip).moments, program_order(mapped.program)):
        got, _ = execute(mapped.program, inputs, moments)
        for v in graph.outputs:
            np.testing.assert_array_equal(got[v], want[v], strict=True)

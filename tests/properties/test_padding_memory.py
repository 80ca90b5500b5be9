"""A kernel that lies almost wholly on padding takes little memory, as a whole and through tiles."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np

from npusim.frontends.chip import load_chip
from npusim.functional import evaluate_graph, execute
from npusim.graph import GraphBuilder
from npusim.ir.mapping_options import MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8, I16, I48, Array
from npusim.ops.depthwise_conv2d import DepthwiseConv2d
from npusim.timing import simulate

MOST_BYTES = 1 << 28


def measured(run: Callable[[], dict[str, Array]]) -> tuple[dict[str, Array], int]:
    """What ``run`` gives, and the most bytes it held at a time."""
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_kernel_of_8192_columns_on_padding() -> None:
    """A pad of 8190 rows and columns around 4 x 2 pixels: a gigabyte if it were made at once.

    One of the four windows sees pixels, in the row that is 8192 from the first.
    """
    rng = np.random.default_rng(6)
    b = GraphBuilder("long")
    b.input("x", TensorType((1, 4, 2, 4), I16))
    b.constant("w", TensorType((1, 8192, 4, 1), I8), rng.integers(-128, 127, (1, 8192, 4, 1), np.int8, endpoint=True))
    b.constant("b", TensorType((4,), I48), rng.integers(-1000, 1000, 4, np.int64))
    b.node("conv", DepthwiseConv2d((8189, 0, 8190, 8192), (8192, 8192), (8192, 1)), ("x", "w", "b"), "y")
    graph = b.finish(("y",))
    inputs = {"x": rng.integers(-(1 << 15), 1 << 15, (1, 4, 2, 4), np.int16)}
    chip = load_chip("micro")
    program = map_graph(graph, chip, MappingOptions()).program
    moments = simulate(program, chip).moments
    whole, whole_bytes = measured(lambda: evaluate_graph(graph, inputs))
    tiled, tiled_bytes = measured(lambda: execute(program, inputs, moments)[0])
    np.testing.assert_array_equal(tiled["y"], whole["y"])
    assert len(program) > 4 and np.unique(whole["y"]).size == 8
    assert whole_bytes < MOST_BYTES and tiled_bytes < MOST_BYTES

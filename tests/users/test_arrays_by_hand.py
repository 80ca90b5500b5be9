"""Cycles of arrays that a person can count with a pencil, through the mapper and the simulator as in any run."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.hardware.arrays.systolic import Systolic
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8, I32
from npusim.ops import op_class
from npusim.program import Compute
from npusim.session import Job, RunResult, run
from npusim.timing import simulate
from tests.hardware.units.systolic_grid import simulate as simulate_registers
from tests.plain import matmul, plain_chip, sram_rate

IDEAL = ("dram.bytes_per_cycle=1000000", "dma.bytes_per_cycle=1000000", *sram_rate(1000000))
"""A memory that gives whatever is asked for in one cycle."""


def grid(stationary: str, rows: int, columns: int, *overrides: str) -> Chip:
    array = f"{{kind: systolic, rows: {rows}, columns: {columns}, stationary: {stationary}"
    return plain_chip(
        *IDEAL, f"units.0.array={array}, overlapped_folds: false, reload_cycles: 0}}", "units.0.pipeline_cycles=0",
        *overrides,
    )  # fmt: skip


def product_cycles(chip: Chip, m: int, k: int, n: int) -> int:
    """Cycles from the start of the one tile of [m, k] times [k, n] to its last multiplication."""
    whole = MappingOptions(layers={"mm": LayerOptions(tile={"h": m, "w": n, "c": k})})
    program = map_graph(matmul(m, k, n), chip, whole).program
    (span,) = (s for c, s in zip(program, simulate(program, chip), strict=True) if isinstance(c, Compute))
    return span.finish - span.start


SIZES = list(product(range(1, 5), repeat=3))


@pytest.mark.parametrize("stationary", ["output", "weights", "ifmap"])
def test_a_product_that_fits_the_grid_takes_its_stream_and_the_skew(stationary: str) -> None:
    """Does the reported count agree with one made by hand, to the cycle, whatever stays in the elements?

    One fold: what streams takes its length, and the last of r rows and c columns gets it r + c - 2 cycles later. A grid
    followed register by register, which knows no formula, says the same.
    """
    chip = grid(stationary, 4, 4)
    for m, k, n in SIZES:
        stream, rows, columns = {"output": (k, m, n), "weights": (m, k, n), "ifmap": (n, k, m)}[stationary]
        # with the ifmap in its elements, the grid makes the transposed product
        size = (n, k, m) if stationary == "ifmap" else (m, k, n)
        a, b = [[1] * size[1]] * size[0], [[1] * size[2]] * size[1]
        traced = simulate_registers("output" if stationary == "output" else "weights", a, b, (4, 4))
        assert product_cycles(chip, m, k, n) == stream + rows + columns - 2 == traced.last_multiplication, (m, k, n)


def drawing() -> dict[tuple[int, int], dict[int, int]]:
    """The picture of the product of 2 x 2 x 2 in the documentation: element -> cycle -> the k that it multiplies."""
    lines = (Systolic.__doc__ or "").split("\n")
    first = next(i for i, line in enumerate(lines) if line.split()[:2] == ["cycle", "1"])
    ends = [i for i, c in enumerate(lines[first]) if c.isdecimal()]
    found: dict[tuple[int, int], dict[int, int]] = {}
    for line in lines[first + 1 : first + 5]:
        row, column = (int(i) for i in line.split()[1].split(","))
        cells = {int(lines[first][e]): line[e - 3 : e + 3] for e in ends}
        found[row, column] = {cycle: int(cell.split("=")[1]) for cycle, cell in cells.items() if "=" in cell}
    return found


def test_the_smallest_product_takes_the_four_cycles_that_are_drawn() -> None:
    """Why four cycles and not three for 2 x 2 x 2? The picture of every cycle is right, and so is the count."""
    counted = {(r, c): {1 + k + r + c: k for k in (0, 1)} for r in (0, 1) for c in (0, 1)}
    assert drawing() == counted
    last = max(cycle for cycles in counted.values() for cycle in cycles)
    assert last == product_cycles(grid("output", 2, 2), 2, 2, 2) == 4


# -- depthwise -------------------------------------------------------------------------------------------------------


def depthwise(size: int, channels: int, rng: np.random.Generator) -> tuple[Graph, dict[str, np.ndarray]]:
    b = GraphBuilder("depthwise")
    b.input("x", TensorType((1, size, size, channels), I8))
    b.constant("w", TensorType((3, 3, channels, 1), I8), rng.integers(-128, 128, (3, 3, channels, 1), np.int8))
    b.constant("bias", TensorType((channels,), I32), rng.integers(-1000, 1000, channels, np.int32))
    layer = op_class("depthwise_conv2d")(pad=(1, 1, 1, 1), stride=(1, 1), dilation=(1, 1))
    b.node("dw", layer, ("x", "w", "bias"), "y")
    return b.finish(("y",)), {"x": rng.integers(-128, 128, (1, size, size, channels), np.int8)}


@pytest.mark.parametrize("stationary", ["output", "weights"])
def test_a_depthwise_layer_is_exact_and_uses_one_column(stationary: str) -> None:
    """Are depthwise layers there, with the right sums, and does their use of a grid say how little of it they fill?"""
    graph, inputs = depthwise(6, 5, np.random.default_rng(3))
    rows, columns = 9, 8
    result = run(Job(graph=graph, chip=grid(stationary, rows, columns), inputs=inputs))
    x, w, bias = inputs["x"][0].tolist(), graph.constants["w"].tolist(), graph.constants["bias"].tolist()
    for oy, ox, c in product(range(6), range(6), range(5)):
        taps = [(oy + ky - 1, ox + kx - 1, ky, kx) for ky in range(3) for kx in range(3)]
        want = bias[c] + sum(x[i][j][c] * w[u][v][c][0] for i, j, u, v in taps if 0 <= i < 6 and 0 <= j < 6)
        assert result.outputs["y"][0, oy, ox, c] == want
    (layer,) = result.report.layers
    assert layer.macs == 6 * 6 * 5 * 9
    assert layer.macs <= layer.compute_cycles * rows
    assert 0 < layer.utilization <= 1 / columns


# -- vectors and matrices --------------------------------------------------------------------------------------------


def test_a_vector_takes_fewer_cycles_than_a_matrix_and_uses_less_of_the_array() -> None:
    """Does a product with a vector look like one with a matrix, in cycles and in utilisation?"""

    def one(m: int) -> RunResult:
        graph = matmul(m, 128, 128)
        inputs = {"a": np.ones((1, m, 128), np.int8)}
        return run(Job(graph=graph, chip=load_chip("server"), inputs=inputs, bits="off"))

    (vector,), (matrix,) = one(1).report.layers, one(256).report.layers
    assert vector.compute_cycles < matrix.compute_cycles
    assert vector.utilization < matrix.utilization < 1
    for layer, m in ((vector, 1), (matrix, 256)):
        assert layer.macs == m * 128 * 128
        assert layer.utilization == round(layer.macs / (layer.cycles * 128 * 128), 6)


# -- several arrays --------------------------------------------------------------------------------------------------


def test_sixteen_arrays_with_four_tiles_use_four() -> None:
    """Do arrays without a tile count as work done? Four of sixteen are busy; the run is a quarter of one alone."""
    tiles = MappingOptions(layers={"mm": LayerOptions(tile={"h": 1, "w": 100, "c": 100}, buffers=2)})
    took = {}
    for instances in (1, 16):
        chip = plain_chip(*IDEAL, f"units.0.instances={instances}")
        program = map_graph(matmul(4, 100, 100), chip, tiles).program
        work = [s for s in simulate(program, chip) if s.queue.engine == "mac"]
        assert len({s.queue for s in work}) == min(instances, 4)
        took[instances] = max(s.finish for s in work) - min(s.start for s in work)
    assert took[1] == 4 * 100 * 100
    assert 100 * 100 <= took[16] <= 100 * 100 + 4  # loads come one after the other, a cycle each

"""Where the cycles and the work go: totals that are simulated, layers that are never free, shares that add up."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim.errors import DoesNotFitError
from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8
from npusim.ops import op_class
from npusim.program import Compute, Load, Store
from npusim.report.build import tile_macs
from npusim.report.losses import SHARES, losses
from npusim.report.result import LayerFigures
from npusim.session import Job, RunResult, run
from npusim.timing import simulate
from tests.plain import chain, conv, matmul, plain_chip

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = sorted(p.stem for p in (ROOT / "workloads").glob("*.yaml") if p.stem not in ("resnet50", "mobilenet_v2"))


def result_of(graph: Graph, chip: Chip, **layers: LayerOptions) -> RunResult:
    inputs = {v: np.zeros(graph.types[v].shape, graph.types[v].dtype.storage) for v in graph.data_inputs}
    mapping = MappingOptions(layers=layers, smaller_memories=False)
    return run(Job(graph=graph, chip=chip, inputs=inputs, mapping=mapping, bits="off"))


# -- simulated, not only computed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["micro", "edge", "server"])
def test_the_total_is_the_end_of_the_last_event(preset: str) -> None:
    """Are the cycles simulated or worked out? The total is when the last command of the timeline finishes."""
    result = result_of(chain(3), load_chip(preset))
    assert result.report.totals.cycles == max(s.finish for s in result.timeline)
    what, last = result.timeline.moments[-1]
    assert (what, result.timeline.spans[last].finish) == ("finish", result.report.totals.cycles)
    assert isinstance(result.program.commands[last], Store)


def test_the_page_says_what_is_event_driven() -> None:
    """Which parts are simulated by events and which are closed forms? A table tells, component by component."""
    page = (ROOT / "docs" / "timing-model.md").read_text(encoding="utf-8")
    head = "| closed form, per command | event-driven, between commands |"
    rows = page.split(head)[1].split("\n\n")[0].splitlines()[2:]
    closed, driven = zip(*(re.findall(r"\| (.*?) \| (.*?) \|", row)[0] for row in rows), strict=True)
    for text, words in ((" ".join(closed), ("unit", "output pipeline", "DMA", "bursts")), (" ".join(driven), (
        "queues", "dependencies", "DRAM bus", "SRAM ports"))):  # fmt: skip
        assert all(word in text for word in words)


# -- nothing is free --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_layer_is_free(name: str) -> None:
    """Do activations, pools and other layers without products cost time? Every layer keeps its unit busy."""
    once = ["mapping.smaller_memories=false"]
    result = npusim.run(ROOT / "workloads" / f"{name}.yaml", bits="off", overrides=once)
    assert result.report.layers
    for layer in result.report.layers:
        assert layer.compute_cycles > 0, layer.name
        assert layer.span_cycles > layer.compute_cycles // 16, layer.name
    listed = [op for layer in result.report.layers for op in layer.operators]
    assert len(listed) == sum(len(region.members) for region in result.program.regions)


def test_what_a_chip_cannot_do_is_named() -> None:
    """What of an operator that the unit has no cycles for? It is an error that names it, and never costs nothing."""
    b = GraphBuilder("shrink")
    b.input("x", TensorType((1, 4, 4, 8), I8))
    b.node("pool", op_class("max_pool2d")(kernel=(2, 2), stride=(2, 2), pad=(0, 0, 0, 0)), ("x",), "y")
    rates = "units.vector.rates=[{cycles: 1, operators: [add, reshape]}]"
    with pytest.raises(DoesNotFitError, match=r"layer 'pool': .*no max_pool2d.*add it"):
        result_of(b.finish(("y",)), load_chip("edge", [rates]))


# -- in order ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pipeline", "latency"), [(0, 0), (5, 3), (40, 17)])
def test_no_output_is_there_before_the_pipeline_behind_its_last_operand(pipeline: int, latency: int) -> None:
    """Do reads and writes line up? No result before its operands and all stages, no store before its result."""
    chip = plain_chip(f"units.0.pipeline_cycles={pipeline}", f"output_pipeline.latency_cycles={latency}")
    options = MappingOptions(layers={"conv": LayerOptions(tile={"oy": 2, "ox": 8, "oc": 4})})
    program = map_graph(conv(8, 8, 8), chip, options).program
    spans = simulate(program, chip).spans
    stores = 0
    for c in program:
        operands = [spans[d].finish for d in c.deps if isinstance(program.commands[d], Load)]
        if isinstance(c, Compute) and c.last:
            assert spans[c.id].finish >= max(operands, default=0) + 1 + pipeline + latency
            assert spans[c.id].finish - spans[c.id].start > pipeline + latency
        if isinstance(c, Store):
            made = [d for d in c.deps if isinstance(program.commands[d], Compute)]
            assert spans[c.id].start >= max(spans[d].finish for d in made)
            stores += 1
    assert stores == 8


# -- work at the edges ------------------------------------------------------------------------------------------------


def test_edge_tiles_do_the_work_once_and_say_what_they_leave_idle() -> None:
    """Do ragged tiles inflate or lose work? They sum to the layer's, and idle multipliers are told from useful ones.

    [7, 10] times [10, 9] in tiles of 3 x 4 x 4 on 4 x 4 multipliers (output x reduction): of every 16 that an edge tile
    issues some have nothing to do. Tiles of c: 4, 4, 2; of w: 4, 4, 1; so a position issues 3 x 3 steps.
    """
    chip = plain_chip("units.0.array.unrollings=[{out_channel: 4, in_channel: 4}]")
    result = result_of(matmul(7, 10, 9), chip, mm=LayerOptions(tile={"h": 3, "w": 4, "c": 4}))
    (layer,) = result.report.layers
    assert tile_macs(result.program) == [7 * 10 * 9] == [layer.macs]
    assert layer.useful_macs == layer.macs
    issued = layer.compute_cycles_by_part["stream"] * 16
    assert issued == 7 * 3 * 3 * 16
    found = losses(result.report, result.plan, chip)
    cycles = result.report.totals.cycles * 16
    assert found["useful"] == Fraction(layer.macs, cycles)
    assert found["edges"] == Fraction(issued - layer.macs, cycles)


def test_taps_on_padding_are_told_from_useful_ones() -> None:
    """Do products with padding count as useful work? Both counts are there; the smaller is counted tap by tap."""
    (layer,) = result_of(conv(6, 4, 5), plain_chip()).report.layers
    inside = sum(
        0 <= y + ky - 1 < 6 and 0 <= x + kx - 1 < 6 for y, x in product(range(6), repeat=2)
        for ky, kx in product(range(3), repeat=2)
    )  # fmt: skip
    assert (layer.macs, layer.useful_macs) == (6 * 6 * 9 * 4 * 5, inside * 4 * 5)


# -- latency, split ---------------------------------------------------------------------------------------------------

MEMORIES = {
    "LPDDR4": ("dram.bytes_per_cycle=64/5", "dram.latency_cycles=100"),
    "HBM2": ("dram.bytes_per_cycle=256", "dram.latency_cycles=150"),
}
IN_FLIGHT = "dma.outstanding_bursts=1024"
"""Enough to cover either latency."""


def test_another_dram_changes_a_layer_that_waits_for_it() -> None:
    """Does the kind of DRAM matter? A matrix times a vector waits for its weights, and a faster memory brings them."""
    cycles = {
        name: result_of(matmul(1, 2048, 1024), load_chip("server", [*memory, IN_FLIGHT])).report.totals.cycles
        for name, memory in MEMORIES.items()
    }
    assert cycles["LPDDR4"] >= 2048 * 1024 * 5 // 64
    assert cycles["HBM2"] * 4 < cycles["LPDDR4"]


def test_fill_stream_drain_and_waits_make_up_the_latency() -> None:
    """How is a latency made up? By hand: [40, 32] times [32, 24] on a grid of 16 x 8 with weights in its elements.

    6 folds of 2 x 3; each streams 40 positions and has a skew of 16 + 8 - 2; then 5 cycles of the array's pipeline and
    11 behind it.
    """
    array = "{kind: systolic, rows: 16, columns: 8, stationary: weights, overlapped_folds: false, reload_cycles: 0}"
    chip = plain_chip(
        f"units.0.array={array}", "units.0.pipeline_cycles=5", "output_pipeline.latency_cycles=11",
        "control.run_cycles=50", "control.command_cycles=3",
    )  # fmt: skip
    whole = LayerOptions(tile={"h": 40, "w": 24, "c": 32})
    (layer,) = result_of(matmul(40, 32, 24), chip, mm=whole).report.layers
    assert layer.compute_cycles_by_part == {"stream": 6 * 40, "fill_drain": 6 * 22 + 5 + 11, "control": 3}
    assert layer.cycles_by_cause == {
        "launch": 50,
        "dram_read": 40 * 32 + 32 * 24,
        "compute": 6 * 40 + 3,
        "fill_drain": 6 * 22 + 5 + 11,
        "last_results": 4 * 40 * 24,
    }
    assert sum(layer.cycles_by_cause.values()) == layer.cycles


PARTS = {"stream", "fill_drain", "output_path", "sram_port", "control"}


@pytest.mark.parametrize("chip", ["micro", "edge", "server", "binary", "gemmini", "tpu_v1", "nv_small", "vta_1x16"])
def test_the_parts_of_every_layer_sum_to_its_cycles(chip: str) -> None:
    """Do the parts add up on any chip? Those of the work to its busy cycles, causes to its share of the run."""
    path = (
        chip if (ROOT / "configs" / "presets" / f"{chip}.yaml").is_file() else ROOT / f"configs/published/{chip}.yaml"
    )
    for layer in result_of(conv(14, 16, 24), load_chip(path, [])).report.layers:
        check_parts(layer)


def check_parts(layer: LayerFigures) -> None:
    assert set(layer.compute_cycles_by_part) <= PARTS
    assert sum(layer.compute_cycles_by_part.values()) == layer.compute_cycles
    assert layer.compute_cycles_by_part.get("stream", 0) > 0
    assert sum(layer.cycles_by_cause.values()) == layer.cycles


# -- why a larger array gains less than it has ------------------------------------------------------------------------


def test_what_a_larger_array_loses_is_told_to_the_last_cycle() -> None:
    """Why is an array sixteen times larger not sixteen times faster? Each cycle of its multipliers has a reason."""
    shares, cycles = [], []
    for size in (16, 32, 64):
        chip = load_chip(
            "server", [f"units.0.array.rows={size}", f"units.0.array.columns={size}", "output_pipeline.operators=[]"]
        )
        result = result_of(conv(14, 40, 40), chip)
        found = losses(result.report, result.plan, chip)
        assert list(found) == list(SHARES)
        assert sum(found.values()) == 1
        assert all(share >= 0 for share in found.values())
        macs = result.report.totals.macs
        assert found["useful"] + found["padding"] == Fraction(macs, result.report.totals.cycles * size * size)
        shares.append(found)
        cycles.append(result.report.totals.cycles)
    gain = Fraction(cycles[0], cycles[2])
    assert 1 < gain < 16
    assert gain == 16 * shares[2]["useful"] / shares[0]["useful"]
    for loss in ("fill_drain", "dram", "other_units"):  # rescaling is left to the vector unit
        assert shares[0][loss] > 0
        assert all(small < large for small, large in pairwise(s[loss] for s in shares)), loss
    assert all(s["edges"] > 0 for s in shares)

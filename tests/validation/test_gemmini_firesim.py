"""Gemmini against its RTL: the errors that are achieved, and how mapping strings are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npusim.errors import DoesNotFitError
from npusim.explore.validate import cases_folder, load_case, read_rows, run_case
from npusim.explore.validation import Row
from npusim.frontends.chip import load_chip
from npusim.graph import Graph
from npusim.hardware.arrays.block_stationary import BlockStationary
from npusim.hardware.units.mac_array import MacArray
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.mapper import map_graph

CASE = load_case(cases_folder() / "gemmini_firesim" / "case.py")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "validation" / "gemmini_firesim.yaml"
MODULE: dict[str, Any] = CASE.read.__globals__  # type: ignore[attr-defined]


def options(mapping: str, **facts: int) -> LayerOptions:
    found: LayerOptions = MODULE["options"](MODULE["sizes"](layer(**facts)), mapping)
    return found


def workload(**facts: int) -> Graph:
    found: Graph = MODULE["workload"](MODULE["sizes"](layer(**facts)))
    return found


def layer(**changes: int) -> dict[str, Any]:
    return {"C": 64, "K": 32, "P": 8, "Q": 8, "R": 3, "S": 3, "stride": 1, **changes}


# -- errors ----------------------------------------------------------------------------------------------------------


def test_the_small_layers_of_one_set_of_mappings_are_within_nine_percent() -> None:
    rows = [r for r in read_rows(CASE) if r.group == "both" and r.measured < 6e6]
    result = run_case(CASE, rows)
    assert len(result.outcomes) == 27 and result.met
    assert result.achieved is not None and result.achieved <= 9


@pytest.mark.slow
def test_the_errors_are_what_they_were() -> None:
    result = run_case(CASE, read_rows(CASE))
    assert len(result.outcomes) == 114 and result.met
    assert result.achieved is not None and result.achieved <= 10


def test_layers_that_the_array_bounds_take_its_cycles() -> None:
    """Full blocks of 16 positions and 28 of 16 + 12: nothing but the law of the array shows."""
    rows = {r.id.split()[0]: r for r in read_rows(CASE)}
    outcomes = run_case(CASE, [rows[k] for k in ("94", "111")]).outcomes
    assert all(abs(o.error) < 0.5 for o in outcomes)


def test_at_most_three_values_were_chosen_by_looking() -> None:
    assert len(CASE.inferred) <= 3


def test_the_chip_is_the_measured_one() -> None:
    chip = load_chip("gemmini")
    assert isinstance(chip.units[0], MacArray) and isinstance(chip.units[0].array, BlockStationary)
    assert (chip.units[0].array.macs, chip.sram.size_bytes, chip.units[0].accumulator_bytes) == (256, 1 << 21, 1 << 21)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared measurements are not beside this repository")
def test_the_shared_file_is_read_like_the_own_one() -> None:
    own = {(r.id, r.measured) for r in read_rows(CASE)}
    assert {(r.id, r.measured) for r in read_rows(CASE, SHARED)} == own


# -- mapping strings -------------------------------------------------------------------------------------------------


def test_a_tile_is_the_product_of_its_factors_and_the_order_that_of_the_outer_loops() -> None:
    found = options("L3[WIO] K2 C2 Q4 - L2[WI] N1 K16X - L1[O] C2 S3 R3 C16X - L0[W] P8 Q2")
    assert found.tile == {"oy": 2, "ox": 8, "oc": 16, "ky": 3, "kx": 3, "ic": 32}
    assert found.order == ("ox", "ky", "kx", "oc", "ic", "oy")
    assert (found.buffers, found.reload) == (2, True)


def test_factors_of_a_dimension_in_several_levels_multiply() -> None:
    found = options("L3[WIO] N1 - L2[WI] K2 K16X - L1[O] C4 Q8 S3 R3 C16X - L0[W] P4 P2")
    assert found.tile == {"oy": 8, "ox": 8, "oc": 32, "ky": 3, "kx": 3, "ic": 64}


def test_a_kernel_of_one_and_a_single_row_make_a_product_of_matrices_in_whole_blocks() -> None:
    facts = {"P": 100, "Q": 1, "R": 1, "S": 1}
    found = options("L3[WIO] P4 C4 - L2[WI] K2 K12X - L1[O] C10X - L0[W] P25", **facts)
    assert found.tile == {"h": 16, "w": 16, "c": 16}  # of 25, 24 and 10
    assert found.order == ("w", "h", "c")
    (ifmap, weights) = workload(**facts).nodes[0].inputs
    graph = workload(**facts)
    assert (graph.types[ifmap].shape, graph.types[weights].shape) == ((1, 100, 64), (1, 64, 32))


@pytest.mark.parametrize(
    ("facts", "ifmap", "ofmap"),
    [
        ({}, 8, 8),
        ({"R": 1, "S": 1}, 8, 8),
        ({"R": 1, "S": 1, "stride": 2}, 15, 8),  # the last row of 16 is in no window
        ({"stride": 2}, 16, 8),
        ({"R": 2, "S": 2}, 8, 9),  # padded by one on both sides
        ({"R": 5, "S": 5}, 8, 8),
    ],
)
def test_convolutions_are_padded_by_half_the_kernel(facts: dict[str, int], ifmap: int, ofmap: int) -> None:
    graph = workload(**facts)
    assert graph.types["ifmap"].shape == (1, ifmap, ifmap, 64)
    assert graph.types["ofmap"].shape == (1, ofmap, ofmap, 32)


@pytest.mark.slow
def test_too_many_open_sums_bring_the_reductions_inside() -> None:
    """1024 x 1024 sums of 4 bytes are twice what the accumulator memory holds: no program would keep them."""
    mapping = "L3[WIO] C4 K64 P64 - L2[WI] K16X - L1[O] C16 C16X - L0[W] P16"
    facts = layer(C=1024, K=1024, P=1024, Q=1, R=1, S=1)
    n = MODULE["sizes"](facts)
    outside = MODULE["options"](n, mapping)
    assert outside.order == ("c", "w", "h")
    with pytest.raises(DoesNotFitError, match="the partial sums of its smallest tile"):
        map_graph(MODULE["workload"](n), load_chip("gemmini"), MappingOptions(layers={"layer": outside}))
    inside = "L3[WIO] K64 P64 C4 - L2[WI] K16X - L1[O] C16 C16X - L0[W] P16"
    rows = [Row(m, "", 1.0, "cycles", {**facts, "mapping": m}) for m in (mapping, inside)]
    assert CASE.predict(rows[0]) == CASE.predict(rows[1]) > 1024 * 1024 * 1024 // 256

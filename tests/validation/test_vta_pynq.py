"""VTA against its boards: the errors that are achieved, and how tilings are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npusim.explore.validate import CaseResult, cases_folder, load_case, read_rows, run_case
from npusim.explore.validation import Row
from npusim.frontends.chip import load_chip
from npusim.graph import Graph
from npusim.hardware.units.mac_array import MacArray
from npusim.ir.mapping_options import LayerOptions

CASE = load_case(cases_folder() / "vta_pynq" / "case.py")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "validation" / "vta_pynq.yaml"
MODULE: dict[str, Any] = CASE.read.__globals__  # type: ignore[attr-defined]
TILE: dict[str, Any] = {
    "tile_b": [1, 1], "tile_h": [2, 7], "tile_w": [1, 14], "tile_ci": [8, 2], "tile_co": [4, 4],
    "oc_nthread": 2, "h_nthread": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def result() -> CaseResult:
    return run_case(CASE, read_rows(CASE))


def layer(chip: str = "vta_1x16", **changes: Any) -> dict[str, Any]:
    return {
        "batch": 1, "C": 256, "H": 14, "W": 14, "K": 256, "R": 3, "S": 3, "stride": 1, "pad": 1, "groups": 1,
        "tile": TILE, "chip": chip, **changes,
    }  # fmt: skip


def options(**changes: Any) -> LayerOptions:
    found: LayerOptions = MODULE["options"](layer(**changes))
    return found


def workload(**changes: Any) -> Graph:
    found: Graph = MODULE["workload"](layer(**changes))
    return found


def cycles(**changes: Any) -> float:
    return CASE.predict(Row("l", "", 1.0, "cycles", dict(layer(**changes))))


# -- errors ----------------------------------------------------------------------------------------------------------


def test_the_errors_are_what_they_were(result: CaseResult) -> None:
    assert len(result.outcomes) == 29 and result.met
    assert result.achieved is not None and result.achieved <= 8
    assert max(abs(o.error) for o in result.outcomes) <= 28


def test_convolutions_of_four_images_are_within_two_percent(result: CaseResult) -> None:
    off = {o.row.id: o.error for o in result.outcomes if o.row.group.endswith("vta_4x8") and " 3x3/" in o.row.id}
    assert len(off) == 7 and max(map(abs, off.values())) < 2


def test_at_most_three_values_were_chosen_by_looking() -> None:
    assert len(CASE.inferred) <= 3


def test_the_values_chosen_by_looking_are_those_of_one_machine() -> None:
    """Both chips are one design; they differ in the shape of the GEMM core and of its buffers alone."""
    one, four = (load_chip(name) for name in CASE.chips)
    assert one.dram.latency_cycles == four.dram.latency_cycles == one.dma.run_cycles == four.dma.run_cycles
    assert one.output_pipeline.latency_cycles == four.output_pipeline.latency_cycles
    arrays = [c.units[0].array for c in (one, four) if isinstance(c.units[0], MacArray)]
    fills = {a.micro_ops.fill_cycles for a in arrays if a.kind == "unrolled" and a.micro_ops is not None}
    assert [a.macs for a in arrays] == [256, 256] and len(fills) == 1


@pytest.mark.skipif(not SHARED.exists(), reason="the shared measurements are not beside this repository")
def test_the_shared_file_is_read_like_the_own_one() -> None:
    own = {(r.id, r.measured) for r in read_rows(CASE)}
    assert {(r.id, r.measured) for r in read_rows(CASE, SHARED)} == own


# -- tilings ---------------------------------------------------------------------------------------------------------


def test_tiles_are_the_inner_factors_in_blocks_of_the_core() -> None:
    found = options()
    assert found.tile == {"n": 1, "oy": 7, "ox": 14, "oc": 64, "ic": 32, "ky": 3, "kx": 3}
    assert (found.order, found.buffers, found.reload) == (("n", "oy", "oc", "ox"), 2, True)
    found = options(chip="vta_4x8", batch=4)
    assert found.tile == {"n": 4, "oy": 7, "ox": 14, "oc": 32, "ic": 16, "ky": 3, "kx": 3}


def test_virtual_threads_are_slots() -> None:
    assert options(tile={**TILE, "oc_nthread": 1}).buffers == 1
    assert options(tile={**TILE, "oc_nthread": 1, "h_nthread": 2}).buffers == 2


def test_a_tiling_of_a_product_has_no_rows_and_columns() -> None:
    tile = {k: v for k, v in TILE.items() if k not in ("tile_h", "tile_w", "h_nthread")}
    found = options(tile=tile, H=1, W=1, R=1, S=1, pad=0)
    assert found.tile == {"n": 1, "oy": 1, "ox": 1, "oc": 64, "ic": 32, "ky": 1, "kx": 1}
    assert found.buffers == 2
    assert cycles(tile=tile, H=1, W=1, R=1, S=1, pad=0) > 256 * 256 // 8  # bytes of weights, 8 a cycle


def test_rows_behind_the_last_window_are_left_out() -> None:
    assert workload(stride=2).types["layer0 in"].shape == (1, 14, 14, 256)
    graph = workload(stride=2, R=1, S=1, pad=0)
    assert graph.types["layer0 in"].shape == (1, 13, 13, 256)
    assert graph.types["layer0 out"].shape == workload(stride=2).types["layer0 out"].shape == (1, 7, 7, 256)


def test_groups_are_layers_of_their_own() -> None:
    graph = workload(groups=4, C=64, K=64)
    assert len(graph.outputs) == 4
    assert {graph.types[v].shape for v in graph.inputs} == {(1, 14, 14, 16)}
    tile = {**TILE, "tile_ci": [1, 1], "tile_co": [4, 1]}
    both, one = cycles(groups=4, C=64, K=64, tile=tile), cycles(groups=1, C=16, K=16, tile=tile)
    start = load_chip("vta_1x16").control.run_cycles
    assert 3 * one < both + 3 * start <= 4 * one


def test_a_second_thread_hides_loads() -> None:
    assert cycles() < cycles(tile={**TILE, "oc_nthread": 1})


def test_suspect_rows_are_left_out_and_dense_ones_have_no_padding(tmp_path: Path) -> None:
    names = "net,target,op,batch,C,H,W,K,R,S,stride,pad,groups,P,Q,macs,gemm_ops,t_us,cycles_100MHz,suspect,tile"
    tile = '"' + json.dumps({"tile_ci": [32, 1], "oc_nthread": 1}).replace(",", ";").replace('"', '""') + '"'
    rows = [f"N,pynq_4x8_x,{op},4,256,1,1,8,1,1,1,,1,1,1,1,1,1.0,100,{suspect},{tile}" for op, suspect in
            (("dense", 0), ("conv", 1))]  # fmt: skip
    (tmp_path / "rows.csv").write_text("\n".join(["# source", names, *rows]), encoding="utf-8")
    (tmp_path / "rows.yaml").write_text("data: rows.csv\n", encoding="utf-8")
    (row,) = read_rows(CASE, tmp_path / "rows.yaml")
    assert (row.id, row.group, row.measured) == ("0 N 256->8 1x1 1x1/1", "N vta_4x8", 100.0)
    assert (row.facts["pad"], row.facts["tile"]) == (0, {"tile_ci": [32, 1], "oc_nthread": 1})

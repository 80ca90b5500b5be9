"""Eyeriss against its chip: errors that are achieved without a fitted value, and layers whose mapping is not given."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from npusim.explore.validate import CaseResult, cases_folder, load_case, read_rows, run_case
from npusim.explore.validation import Row
from npusim.frontends.chip import load_chip
from npusim.hardware.units.mac_array import MacArray

CASE = load_case(cases_folder() / "eyeriss_v1" / "case.py")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "validation" / "eyeriss_v1.yaml"


@pytest.fixture(scope="module")
def result() -> CaseResult:
    return run_case(CASE, read_rows(CASE))


def test_every_layer_is_within_seven_percent(result: CaseResult) -> None:
    assert len(result.outcomes) == 5 and result.met
    assert result.achieved is not None and result.achieved <= 7


def test_no_value_was_chosen_by_looking_at_cycles() -> None:
    assert CASE.inferred == ()


def test_the_published_mappings_fit_the_global_buffer_of_the_chip(result: CaseResult) -> None:
    """All rows were predicted with them: a tile that does not fit is refused."""
    assert not result.failed


def test_the_chip_is_the_published_one() -> None:
    chip = load_chip("eyeriss_v1")
    assert chip.sram.size_bytes == 108 * 1024 and chip.clock_hz == 200_000_000
    assert isinstance(chip.units[0], MacArray) and chip.units[0].array.macs == 168
    assert chip.dram.bytes_per_cycle * chip.clock_hz == 480_000_000  # 64 bits at 60 MHz


def test_a_network_without_published_mappings_is_mapped_by_search(tmp_path: Path) -> None:
    layer = {"name": "L", "C": 8, "H": 14, "W": 14, "K": 16, "R": 3, "S": 3, "stride": 1, "pad": 1, "groups": 1,
             "P": 14, "Q": 14, "processing_cycles_at_200MHz": 1}  # fmt: skip
    path = tmp_path / "rows.yaml"
    path.write_text(yaml.safe_dump({"networks": {"other": {"batch": 3, "layers": [layer]}}}), encoding="utf-8")
    (row,) = read_rows(CASE, path)
    assert row == Row("other L", "other", 1, "cycles", {**layer, "batch": 3})
    (outcome,) = run_case(CASE, [row]).outcomes
    assert outcome.predicted is not None and outcome.predicted >= 3 * 8 * 14 * 14 * 16 * 9 // 168


@pytest.mark.skipif(not SHARED.exists(), reason="the shared measurements are not beside this repository")
def test_the_shared_file_is_read_like_the_own_one() -> None:
    own = {(r.id, r.measured) for r in read_rows(CASE)}
    assert {(r.id, r.measured) for r in read_rows(CASE, SHARED)} == own

"""TPU v1 against its performance counters: shares of cycles, and which mechanism makes each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.explore.validate import CaseResult, cases_folder, load_case, read_rows, run_case
from npusim.frontends.chip import load_chip

CASE = load_case(cases_folder() / "tpu_v1" / "case.py")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "validation" / "tpu_v1.yaml"


@pytest.fixture(scope="module")
def result() -> CaseResult:
    return run_case(CASE, read_rows(CASE))


@pytest.fixture(scope="module")
def shares(result: CaseResult) -> dict[str, float]:
    return {o.row.id: o.predicted for o in result.outcomes if o.predicted is not None}


def test_shares_are_within_four_points(result: CaseResult) -> None:
    assert len(result.outcomes) == 12 and result.met
    assert result.achieved is not None and result.achieved <= 4


@pytest.mark.parametrize("app", ["MLP0", "LSTM0", "CNN0"])
def test_the_shares_of_an_application_make_up_its_cycles(shares: dict[str, float], app: str) -> None:
    assert sum(share for name, share in shares.items() if name.startswith(app)) == pytest.approx(100)


def test_a_tile_of_weights_takes_longer_to_come_than_to_use(shares: dict[str, float]) -> None:
    """64 KiB at 34 GB/s are 1350 cycles, in which a batch of 200 rows is active for 200."""
    chip = load_chip("tpu_v1")
    tile = 65536 / chip.dram.bytes_per_cycle
    assert 1349 < tile < 1350
    assert 0.8 * 200 / tile < shares["MLP0 array_active"] / 100 < 200 / tile
    assert 0.8 * 256 / tile < shares["MLP0 weight_shift"] / 100 < 256 / tile


def test_the_shift_is_hidden_where_rows_outlast_it(shares: dict[str, float]) -> None:
    assert shares["CNN0 weight_shift"] < 0.1 and shares["CNN0 weight_stall"] < 0.1


def test_one_value_was_chosen_by_looking_at_cycles() -> None:
    assert CASE.inferred == ("control.layer_cycles",)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared measurements are not beside this repository")
def test_the_shared_file_is_read_like_the_own_one() -> None:
    own = {(r.id, r.measured) for r in read_rows(CASE)}
    assert {(r.id, r.measured) for r in read_rows(CASE, SHARED)} == own

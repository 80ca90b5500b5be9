"""N-EUREKA against its RTL: the errors that are achieved, and a job by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.explore.validate import CaseResult, cases_folder, load_case, read_rows, run_case
from npusim.explore.validation import Row

CASE = load_case(cases_folder() / "neureka_rtl_ci" / "case.py")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "validation" / "neureka_rtl_ci.yaml"


@pytest.fixture(scope="module")
def result() -> CaseResult:
    return run_case(CASE, read_rows(CASE))


def test_the_errors_are_what_they_were(result: CaseResult) -> None:
    assert len(result.outcomes) == 7
    assert result.met
    assert result.achieved is not None
    assert result.achieved <= 6.6


def test_at_most_three_values_were_chosen_by_looking() -> None:
    assert len(CASE.inferred) <= 3


def test_a_job_by_hand() -> None:
    """One subtile, 9 words in 13 cycles: load 6 + ceil(16 * 13 / 9), offset 6, products 6 + ceil(32 * 13 / 9), next 2,
    requantisation 17 + 32 / 4 + 32 / 8, store 4 + 16."""
    job = {"FS": 1, "QW": 8, "K_IN": 32, "K_OUT": 32, "H_IN": 4, "W_IN": 4}
    row = Row("t", "1x1", 1, "cycles", dict(job))
    assert CASE.predict(row) == (6 + 24) + 6 + (6 + 47) + 2 + 29 + 20


def test_the_rows_are_those_of_the_published_file() -> None:
    if not SHARED.is_file():
        pytest.skip("the published measurements are not beside the repository")
    mine, theirs = read_rows(CASE), read_rows(CASE, SHARED)
    assert [(r.id, r.measured, r.facts) for r in mine] == [(r.id, r.measured, r.facts) for r in theirs]

"""FINN on FPGAs: the errors that are achieved, and that layers stream side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.errors import InputError
from npusim.explore.validate import CaseResult, cases_folder, load_case, read_rows, run_case
from npusim.explore.validation import Row

CASE = load_case(cases_folder() / "finn_cnv_binary" / "case.py")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "validation" / "finn_cnv_binary.yaml"


@pytest.fixture(scope="module")
def result() -> CaseResult:
    return run_case(CASE, read_rows(CASE))


def test_the_errors_are_what_they_were(result: CaseResult) -> None:
    """Intervals of CNV within 1 %, all latencies within 10 %; LFC's interval is short of the words of its queues."""
    assert len(result.outcomes) == 9
    assert [g for g, (error, most) in result.limited.items() if error > most] == ["LFC interval"]
    assert {g: most for g, (_, most) in result.limited.items()} == {"": 10, "CNV interval": 1, "LFC interval": 1}
    largest = {group: e.largest for group, e in result.groups.items() if e is not None}
    assert largest["CNV interval"] <= 0.1
    assert largest["CNV latency"] <= 3.5
    assert largest["LFC latency"] <= 2.5
    assert largest["LFC interval"] <= 8.7


def test_the_interval_is_that_of_the_slowest_stage(result: CaseResult) -> None:
    """The folding formula, but for LFC, whose queues hold less than an image."""
    for o in result.outcomes:
        if o.row.group == "CNV interval":
            layers: list[dict[str, int]] = o.row.facts["layers"]  # type: ignore[assignment]
            assert o.predicted == max(s["MH"] // s["pe"] * s["MW"] // s["simd"] * s["out_pixels"] for s in layers)


def test_layers_stream_side_by_side(result: CaseResult) -> None:
    for o in result.outcomes:
        if o.row.group == "CNV latency":
            layers: list[dict[str, int]] = o.row.facts["layers"]  # type: ignore[assignment]
            assert o.predicted is not None
            assert o.predicted < 0.75 * sum(s["ii_cycles_formula"] for s in layers)


def test_nothing_was_chosen_by_looking() -> None:
    assert CASE.inferred == ()


def test_the_rows_are_those_of_the_published_file() -> None:
    if not SHARED.is_file():
        pytest.skip("the published measurements are not beside the repository")
    mine, theirs = read_rows(CASE), read_rows(CASE, SHARED)
    assert [(r.id, r.group, r.measured) for r in mine] == [(r.id, r.group, r.measured) for r in theirs]
    assert [r.facts["layers"] for r in mine] == [r.facts["layers"] for r in theirs]


def test_a_network_without_its_bits_is_refused() -> None:
    facts = {**read_rows(CASE)[0].facts, "name": "CNV"}
    with pytest.raises(InputError, match="CNV: states no bits of weights and activations; name it like CNV-W1A1"):
        CASE.predict(Row("CNV latency", "CNV latency", 1, "cycles", facts))

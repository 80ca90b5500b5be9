"""Ethos-U55 against Arm's fast model: the one network whose layers are known, as a plausibility band."""

from __future__ import annotations

from npusim.explore.validate import cases_folder, load_case, read_rows, run_case

CASE = load_case(cases_folder() / "ethos_u55_fvp" / "case.py")


def test_the_error_is_what_it_was() -> None:
    """With room for what the tile search may choose otherwise."""
    result = run_case(CASE, read_rows(CASE))
    assert [o.row.id for o in result.outcomes] == ["img_class"]
    assert result.met and result.achieved is not None and result.achieved <= 10


def test_the_truth_is_itself_a_model() -> None:
    assert CASE.reported_only

"""Validation cases: found in a folder, read, predicted and summed up; their faults are told in one message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from npusim.errors import InputError
from npusim.explore.validate import (
    CaseResult,
    Errors,
    Outcome,
    cases_folder,
    load_case,
    load_cases,
    read_rows,
    run_case,
)
from npusim.explore.validation import Case, Row

TOY = """
from pathlib import Path

import yaml

from npusim.errors import DoesNotFitError
from npusim.explore.validation import Case, Row


def read(path):
    return [Row(**row) for row in yaml.safe_load(path.read_text())["rows"]]


def predict(row):
    if row.facts.get("large"):
        raise DoesNotFitError("too large for the toy")
    return row.facts["macs"] * FACTOR


FACTOR = 2
CASE = Case("NAME", "A toy", "nobody", ("edge",), Path(__file__).with_name("measured.yaml"), read, predict,
            "MEASURE", 20, inferred=("control.run_cycles",), peers=(("a ruler", "50 %"),))
"""
ROWS = """
rows:
  - {id: small, group: a, measured: 100, unit: cycles, facts: {macs: 55}}
  - {id: middle, group: b, measured: 1000, unit: cycles, facts: {macs: 400}}
  - {id: big, group: a, measured: 4000, unit: cycles, facts: {macs: 2000}}
"""


def toy(folder: Path, name: str = "toy", measure: str = "mape", rows: str = ROWS) -> Path:
    """A case called ``name`` in ``folder``; the path of its file."""
    home = folder / name
    home.mkdir(parents=True)
    (home / "case.py").write_text(dedent(TOY).replace("NAME", name).replace("MEASURE", measure), encoding="utf-8")
    (home / "measured.yaml").write_text(rows, encoding="utf-8")
    return home / "case.py"


def result_of(path: Path, **options: Any) -> CaseResult:
    case = load_case(path)
    return run_case(case, read_rows(case), **options)


# -- finding ----------------------------------------------------------------------------------------------------------


def test_cases_come_sorted_by_name(tmp_path: Path) -> None:
    for name in ("later", "earlier", "middle"):
        toy(tmp_path, name)
    (tmp_path / "notes").mkdir()
    assert [c.name for c in load_cases(tmp_path)] == ["earlier", "later", "middle"]
    assert [c.name for c in load_cases(tmp_path, ["middle", "earlier", "middle"])] == ["earlier", "middle"]
    assert load_cases(tmp_path / "notes") == []


def test_npusim_has_its_own_cases() -> None:
    names = [c.name for c in load_cases(cases_folder())]
    assert names == sorted(names)
    assert {"nvdla_nv_small_rtl", "ethos_u55_fvp"} <= set(names)


def test_an_installation_without_cases_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("npusim.explore.validate.files", lambda package: tmp_path / package)
    with pytest.raises(InputError, match="installed without its validation cases; name their folder with --cases DIR"):
        cases_folder()


def test_a_name_that_there_is_not(tmp_path: Path) -> None:
    toy(tmp_path, "nvdla")
    with pytest.raises(InputError, match="there is no validation case 'nvdal' in .*; did you mean 'nvdla'?") as error:
        load_cases(tmp_path, ["nvdal", "tpu"])
    assert error.value.problems[1].endswith("; there are nvdla")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", r"case.py: has no CASE; a validation case is a module with CASE = Case\(...\)"),
        ("CASE = 3\n", "case.py: has no CASE"),
        (
            TOY.replace("NAME", "other").replace("MEASURE", "each"),
            "CASE is called 'other'; call it 'toy' like its folder",
        ),
    ],
)
def test_what_a_case_file_must_hold(tmp_path: Path, text: str, message: str) -> None:
    path = toy(tmp_path)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_case(path)


# -- reading ----------------------------------------------------------------------------------------------------------


def test_further_rows_of_the_same_form(tmp_path: Path) -> None:
    case = load_case(toy(tmp_path))
    more = tmp_path / "more.yaml"
    more.write_text("rows: [{id: one, group: c, measured: 5, unit: cycles, facts: {macs: 3}}]\n", encoding="utf-8")
    assert [r.id for r in read_rows(case)] == ["small", "middle", "big"]
    assert read_rows(case, more) == [Row("one", "c", 5, "cycles", {"macs": 3})]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "layers: []\n",
            r"more.yaml: is not in the form of the rows of toy \(KeyError: 'rows'\); take .*measured.yaml as a",
        ),
        ("rows: [{name: x}]\n", "is not in the form of the rows of toy .TypeError"),
        ("rows: [\n", "is not in the form of the rows of toy .ParserError"),
        ("rows: 3\n", "is not in the form of the rows of toy .TypeError"),
        (ROWS.replace("big", "small"), "the row 'small' of toy comes twice; give every row its own name"),
        (ROWS.replace("measured: 100,", "measured: 0,"), "'small' of toy states 0 cycles; errors are in percent of it"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    case = load_case(toy(tmp_path))
    (tmp_path / "more.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_rows(case, tmp_path / "more.yaml")


def test_rows_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none.yaml: cannot read the rows of toy: No such file"):
        read_rows(load_case(toy(tmp_path)), tmp_path / "none.yaml")


def test_what_a_reader_refuses_itself_passes_through(tmp_path: Path) -> None:
    def refuse(path: Path) -> list[Row]:
        raise InputError(f"{path}: of last year")

    case = Case("c", "t", "s", (), tmp_path, refuse, lambda _: 1, "mape", 10)
    with pytest.raises(InputError, match="of last year"):
        read_rows(case)


# -- errors by hand ---------------------------------------------------------------------------------------------------


def test_errors_of_a_case(tmp_path: Path) -> None:
    result = result_of(toy(tmp_path))
    assert [o.predicted for o in result.outcomes] == [110, 800, 4000]
    assert [o.error for o in result.outcomes] == [10, -20, 0]
    errors = result.errors
    assert errors is not None
    assert (errors.rows, errors.mean, errors.mape, errors.largest) == (3, pytest.approx(-10 / 3), 10, 20)
    assert errors.worst.row.id == "middle"
    groups = result.groups
    assert list(groups) == ["a", "b"]
    assert groups["a"] is not None and (groups["a"].rows, groups["a"].mean, groups["a"].worst.row.id) == (2, 5, "small")


@pytest.mark.parametrize(("measure", "achieved", "met"), [("mape", 10, True), ("each", 20, True)])
def test_what_a_target_limits(tmp_path: Path, measure: str, achieved: float, met: bool) -> None:
    result = result_of(toy(tmp_path, measure=measure))
    assert (result.achieved, result.met) == (achieved, met)


def test_a_group_may_have_a_target_of_its_own(tmp_path: Path) -> None:
    """Group a is off by 10 % at most, and b by none."""
    plain = result_of(toy(tmp_path, measure="each", rows=ROWS.replace("macs: 400", "macs: 500")))
    assert plain.limited == {"": (10, plain.case.target)}
    for targets, met in (({"a": 10.0}, True), ({"a": 9.0}, False), ({"b": 0.0}, True), ({"c": 1.0}, True)):
        result = replace(plain, case=replace(plain.case, group_targets=targets))
        assert result.met is met
    both = replace(plain, case=replace(plain.case, group_targets={"a": 9.0, "b": 1.0}))
    assert both.limited == {"a": (10, 9), "b": (0, 1)} and both.achieved is None


def test_a_target_that_is_missed(tmp_path: Path) -> None:
    assert not result_of(toy(tmp_path, measure="each", rows=ROWS.replace("macs: 400", "macs: 399"))).met


def test_shares_of_cycles_differ_in_points() -> None:
    row = Row("r", "g", 0.0, "percent of cycles")
    assert Outcome(row, 7.5).error == 7.5
    errors = Errors.of([Outcome(row, 7.5), Outcome(Row("s", "g", 50, "percent of cycles"), 40)])
    assert errors is not None and (errors.mean, errors.mape, errors.largest) == (-1.25, 8.75, 10)


def test_a_row_that_cannot_be_predicted_is_told_and_fails_the_target(tmp_path: Path) -> None:
    rows = ROWS.replace("facts: {macs: 2000}", "facts: {macs: 2000, large: true}")
    result = result_of(toy(tmp_path, rows=rows))
    assert [(o.row.id, o.problem) for o in result.failed] == [("big", "too large for the toy")]
    assert result.errors is not None and result.errors.rows == 2
    assert result.achieved == 15 and not result.met


def test_nothing_predicted_has_no_errors(tmp_path: Path) -> None:
    rows = ROWS.replace("facts: {", "facts: {large: true, ")
    result = result_of(toy(tmp_path, rows=rows))
    assert (result.errors, result.achieved, result.met, len(result.failed)) == (None, None, False, 3)


def test_faults_that_are_not_the_input_s_pass_through(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="macs"):
        result_of(toy(tmp_path, rows=ROWS.replace("macs: 400", "mac: 400")))


def test_processes_share_the_rows_and_change_nothing(tmp_path: Path) -> None:
    path = toy(tmp_path, rows=ROWS.replace("facts: {macs: 2000}", "facts: {macs: 2000, large: true}"))
    said: list[str] = []
    assert result_of(path, workers=2, progress=said.append).outcomes == result_of(path).outcomes
    assert said == ["toy: small", "toy: middle", "toy: big"]

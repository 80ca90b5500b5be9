"""``npusim validate``: what it prints, what it writes, where, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import command
from tests.explore.test_validate import ROWS, toy


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    return command.call(capsys, "validate", *arguments)


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    toy(tmp_path / "cases", "toy")
    toy(tmp_path / "cases", "other", "each", ROWS.replace("macs: 400", "macs: 100"))
    return tmp_path / "cases"


FILES = {"validation.md", "validation.csv", "validation.png"}


def test_all_cases_go_to_the_published_report(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "--cases", cases)
    assert (code, err) == (0, "")
    for text in ("toy", "-3.33", "MAPE <= 20 %", "met", "middle (-80.00)", "missed by 60.00", "toy: a ruler: 50 %"):
        assert text in out
    assert {p.name for p in Path("reports/published").iterdir()} == FILES
    assert "toy" in Path("reports/published/validation.csv").read_text(encoding="utf-8")


def test_a_choice_of_cases_goes_elsewhere(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "toy", "--cases", cases)
    assert code == 0 and "other" not in out
    assert not Path("reports/published").exists()
    assert {p.name for p in Path("reports/validation").iterdir()} == FILES


def test_further_rows_of_one_case(cases: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    more = tmp_path / "more.yaml"
    more.write_text("rows: [{id: hidden, group: g, measured: 10, unit: cycles, facts: {macs: 6}}]", encoding="utf-8")
    code, out, _ = call(capsys, "toy", "--rows", more, "--cases", cases, "--out", "there", "--workers", 2)
    assert code == 0 and "hidden (+20.00)" in out
    assert "hidden" in Path("there/validation.csv").read_text(encoding="utf-8")


def test_rows_without_a_prediction_are_printed(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = cases / "toy" / "measured.yaml"
    rows.write_text(ROWS.replace("macs: 55", "macs: 55, large: true"), encoding="utf-8")
    code, out, _ = call(capsys, "toy", "--cases", cases)
    assert code == 0
    assert "met by 2 rows only" in out and "toy: not predicted: small: too large for the toy" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "x.yaml"], "--rows x.yaml: rows belong to one case, and 2 are to run; name one"),
        (["ty"], "there is no validation case 'ty'"),
        (["toy", "--rows", "x.yaml"], "x.yaml: cannot read the rows of toy"),
    ],
)
def test_what_is_refused(cases: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    code, _, err = call(capsys, *arguments, "--cases", cases)
    assert code == 2 and message in err and "Traceback" not in err


def test_a_folder_without_cases(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = call(capsys, "--cases", tmp_path)
    assert code == 2 and "holds no validation case; each is a folder with a case.py" in err

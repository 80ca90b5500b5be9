"""The files of a validation: every row in the CSV, every case in the table, equal bytes each time."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from npusim.explore.validate import CaseResult, Outcome
from npusim.explore.validation import Case, Row
from npusim.explore.validation_files import csv_text, markdown, validation_files, verdict


def case(name: str, **more: object) -> Case:
    values: dict[str, object] = {"measure": "mape", "target": 10, **more}
    return Case(name, f"Title of {name}", "a book", ("edge",), Path("x"), lambda _: [], lambda _: 0, **values)  # type: ignore[arg-type]


def results() -> list[CaseResult]:
    cycles = [Outcome(Row(f"layer{i}", f"group{i % 2}", 10.0**i, "cycles"), 11.0 * 10 ** (i - 1)) for i in range(1, 5)]
    shares = [Outcome(Row("stalls", "app", 50.0, "percent of cycles"), 43.5)]
    return [
        CaseResult(
            case("first", inferred=("dram.latency_cycles",), peers=(("a ruler", "26 %"), ("a table", "8 %"))),
            tuple(cycles),
        ),
        CaseResult(case("second", measure="points", target=8), tuple(shares)),
        CaseResult(case("third"), (Outcome(Row("one|two", "g", 5, "cycles"), None, "no unit for it"),)),
    ]


def test_every_row_is_in_the_csv() -> None:
    rows = list(csv.reader(io.StringIO(csv_text(results()), newline="")))
    assert rows[0] == ["case", "group", "row", "unit", "measured", "predicted", "error"]
    assert rows[1] == ["first", "group1", "layer1", "cycles", "10", "11", "10.0000"]
    assert rows[5] == ["second", "app", "stalls", "percent of cycles", "50", "43.5", "-6.5000"]
    assert rows[6] == ["third", "g", "one|two", "cycles", "5", "", ""]
    assert len(rows) == 1 + 4 + 1 + 1


def test_every_case_is_in_the_table() -> None:
    text = markdown(results())
    assert "| first | 4 | +10.00 | 10.00 | layer1 (+10.00) | MAPE <= 10 % |" in text
    assert "a ruler: 26 %; a table: 8 %" in text
    assert "| second | 1 | -6.50 | 6.50 | stalls (-6.50) | each share <= 8 points | met | - |" in text
    assert "| third | 0 | - | - | - | MAPE <= 10 % | nothing predicted | - |" in text
    assert "- Values chosen by looking at measured cycles: `dram.latency_cycles`" in text
    assert "- Not predicted: one|two: no unit for it" in text
    assert "| group0 | 2 | +10.00 | 10.00 |" in text
    assert "![Predicted against measured](validation.png)" in text


@pytest.mark.parametrize(
    ("predicted", "more", "want"),
    [
        ((110.0, 90.0), {}, "met"),
        ((112.0, 90.0), {}, "missed by 1.00"),
        ((112.0, 90.0), {"measure": "each"}, "missed by 2.00"),
        ((112.0, 90.0), {"reported_only": True}, "missed by 1.00, reported only"),
        ((112.0, 90.0), {"measure": "each", "group_targets": {"g": 5.0}}, "g missed by 7.00"),
        ((110.0, None), {}, "met by 1 rows only"),
        ((None, None), {}, "nothing predicted"),
    ],
)
def test_verdicts(predicted: tuple[float | None, ...], more: dict[str, object], want: str) -> None:
    outcomes = tuple(Outcome(Row(str(i), "g", 100, "cycles"), p) for i, p in enumerate(predicted))
    assert verdict(CaseResult(case("c", **more), outcomes)) == want


def test_equal_results_give_equal_bytes() -> None:
    first = validation_files(results())
    assert set(first) == {"validation.md", "validation.csv", "validation.png"}
    assert validation_files(results()) == first
    assert first["validation.png"].startswith(b"\x89PNG")

"""The files of a sweep: every point in the table, and what the plot is given."""

from __future__ import annotations

import csv
import io
from fractions import Fraction

import pytest

from npusim.explore.points_files import csv_text, figure_text, plot, points_files, shares_of
from npusim.explore.sweep import Point

OBJECTIVES = ("cycles", "sram.size_bytes")


def point(size: str, cycles: int, nbytes: int, energy: int | None = None, area: int | None = None) -> Point:
    return Point({"sram.size_bytes": size, "name": "a, b"}, cycles, energy, 100 + cycles, area,
                 {"cycles": cycles, "sram.size_bytes": nbytes})  # fmt: skip


POINTS = (
    point("1 KiB", 30, 1024),
    point("2 KiB", 20, 2048, 10**20, 77),
    point("4 KiB", 20, 4096),
    Point({"sram.size_bytes": "1 B", "name": "a, b"}, errors=("too small", "in two ways"), exit_code=4),
)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_one_row_a_point_with_units_in_the_header() -> None:
    text = csv_text(POINTS, OBJECTIVES)
    assert text.splitlines()[0] == (
        "point,sram.size_bytes,name,cycles,energy_femtojoules,dram_bytes,area_square_micrometres,front,error"
    )
    assert text.endswith("\r\n")
    first, second, third, failed = rows(text)
    assert (first["point"], first["sram.size_bytes"], first["name"], first["cycles"]) == ("0", "1 KiB", "a, b", "30")
    assert first["energy_femtojoules"] == first["area_square_micrometres"] == "not modelled"
    assert (second["energy_femtojoules"], second["area_square_micrometres"]) == (str(10**20), "77")
    assert [r["front"] for r in rows(text)] == ["true", "true", "false", "false"]
    assert [r["error"] for r in rows(text)] == ["", "", "", "too small in two ways"]
    assert failed["cycles"] == failed["energy_femtojoules"] == failed["dram_bytes"] == ""
    assert third["dram_bytes"] == "120"


def test_shares_of_the_multipliers_have_columns_where_there_are_any() -> None:
    split = {"useful": Fraction(1, 3), "padding": Fraction(0), "dram": Fraction(2, 3)}
    ran = Point({"a": "1"}, 5, objectives={"cycles": 5}, losses=split)
    failed = Point({"a": "2"}, errors=("no",), exit_code=2)
    assert shares_of([ran, failed]) == ["useful", "dram"]
    one, two = rows(csv_text([ran, failed], ("cycles",)))
    assert [(k, v) for k, v in one.items() if k.startswith("share_")] == [
        ("share_useful_fraction", "0.333333"), ("share_dram_fraction", "0.666667"),
    ]  # fmt: skip
    assert two["share_useful_fraction"] == two["share_dram_fraction"] == ""


def test_numbers_of_the_chip_that_do_not_vary_have_a_column() -> None:
    one = Point({"a": "1"}, 5, None, 6, None, {"cycles": 5, "dram.bytes_per_cycle": Fraction(64, 5)})
    failed = Point({"a": "2"}, errors=("no",), exit_code=2)
    assert [r["dram.bytes_per_cycle"] for r in rows(csv_text([one, failed], ("cycles", "dram.bytes_per_cycle")))] == [
        "64/5", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("objective", "number", "text"),
    [
        ("cycles", 1234567, "1,234,567"),
        ("energy", 1500, "1.50 pJ"),
        ("dram_bytes", 1536, "1.50 KiB"),
        ("area", 2_500_000, "2.50 mm²"),
        ("energy", None, "not modelled"),
        ("sram.size_bytes", 65536, "64.0 KiB"),
        ("dram.bytes_per_cycle", Fraction(64, 5), "64/5"),
        ("units.0.lanes", 1024, "1,024"),
    ],
)
def test_figures_have_units(objective: str, number: int | Fraction | None, text: str) -> None:
    assert figure_text(objective, number) == text


def test_equal_points_give_equal_bytes() -> None:
    files = points_files("tiny on edge", POINTS, OBJECTIVES)
    assert files == points_files("tiny on edge", POINTS, OBJECTIVES)
    assert set(files) == {"points.csv", "pareto.png"}
    assert files["pareto.png"].startswith(b"\x89PNG")


def test_the_plot_is_given_the_first_two_objectives_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[tuple[object, ...]] = []
    lines: list[bool] = []

    def record(*given: object, line: bool) -> bytes:
        got.append(given)
        lines.append(line)
        return b""

    monkeypatch.setattr("npusim.explore.points_files.pareto_plot", record)
    plot("tiny", POINTS, OBJECTIVES)
    plot("tiny", POINTS, ("cycles",))
    (title, facts, x, y, spots), (_, alone, number, _, single) = got
    assert lines == [True, False]
    assert title == "tiny: Pareto front"
    assert facts == "4 points, 2 on the front of cycles, sram.size_bytes; 1 does not run"
    assert alone == "4 points, 2 on the front of cycles; 1 does not run"
    assert [(x.label, x.chosen), (y.label, y.chosen)] == [("cycles", False), ("sram.size_bytes", True)]  # type: ignore[attr-defined]
    assert y.text(4096) == "4.00 KiB" and x.text(20000) == "20.0 k"  # type: ignore[attr-defined]
    assert spots == [("#0", 30, 1024, True), ("#1", 20, 2048, True), ("#2", 20, 4096, False)]
    assert number.label == "point"  # type: ignore[attr-defined]
    assert single == [("#0", 0, 30, False), ("#1", 1, 20, True), ("#2", 2, 20, True)]

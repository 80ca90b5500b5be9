"""``npusim explore``: what it prints and writes, its options, and every way it ends."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli import command

REPOSITORY = Path(__file__).resolve().parents[2]

WORKLOAD = command.WORKLOAD.replace("name: tiny\n", "name: a tiny one\nmapping: {smaller_memories: false}\n")
FOLDED = """operators:
    - {name: k, op: logical_left_shift, inputs: [m, m]}
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    return command.call(capsys, "explore", *arguments)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "tiny.yaml").write_text(WORKLOAD, encoding="utf-8")
    return tmp_path


def points(folder: Path) -> list[dict[str, str]]:
    with (folder / "points.csv").open(encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


SIZES = "sram.size_bytes=1 KiB,2 KiB,64 KiB"


def test_it_prints_the_points_marks_the_front_and_writes_the_files(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(
        capsys, "tiny.yaml", "--chip", "edge", "--vary", SIZES, "--vary", "dram.bytes_per_cycle=4,16",
        "--objective", "cycles", "--objective", "sram.size_bytes",
    )  # fmt: skip
    assert (code, err) == (0, "")
    folder = here / "reports" / "tiny-explore"
    assert sorted(p.name for p in folder.iterdir()) == ["pareto.png", "points.csv"]
    table = points(folder)
    assert len(table) == 6
    assert "Points of tiny on edge" in out and "report: reports/tiny-explore" in out
    marked = {line.split()[0] for line in out.splitlines() if line.split()[1:2] == ["*"]}
    assert marked == {row["point"] for row in table if row["front"] == "true"}
    assert 0 < len(marked) < 6
    assert "*: no other point has at most as much of cycles, sram.size_bytes and less of one" in out
    for row in table:
        assert f"{int(row['cycles']):,}" in out


def test_it_prints_what_the_multipliers_lose(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "tiny.yaml", "--chip", "edge", "--vary", "dram.bytes_per_cycle=1,16", "--out", "r")
    head, tail = out.split("Cycles of the multipliers, percent by what they went to")
    assert "A row sums to 100: useful = multiplications on elements of the image; " in tail
    for row in points(here / "r"):
        shares = [float(v) for k, v in row.items() if k.startswith("share_")]
        (line,) = (x.split() for x in tail.splitlines() if x.split()[:1] == [row["point"]])
        assert [float(cell) for cell in line[1:]] == pytest.approx([100 * s for s in shares], abs=0.051)
        assert sum(shares) == pytest.approx(1, abs=1e-5)
    assert "useful" not in head


def test_workers_change_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("tiny.yaml", "--chip", "edge", "--vary", SIZES)
    assert call(capsys, *given, "--out", "one")[0] == 0
    assert call(capsys, *given, "--out", "two", "--workers", 2)[0] == 0
    for name in ("points.csv", "pareto.png"):
        assert (here / "one" / name).read_bytes() == (here / "two" / name).read_bytes()


def test_every_point_has_the_overrides_of_all(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("tiny.yaml", "--chip", "edge", "--vary", "mapping.fuse=true,false")
    call(capsys, *given, "--out", "plain")
    call(capsys, *given, "--out", "slow", "--set", "dram.latency_cycles=100000")
    for plain, slow in zip(points(here / "plain"), points(here / "slow"), strict=True):
        assert int(slow["cycles"]) > int(plain["cycles"]) + 100000


def test_the_default_weighs_cycles_against_dram_bytes_on_the_workloads_chip(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call(capsys, "tiny.yaml", "--vary", SIZES, "--out", "r")
    assert code == 0 and "Points of tiny\n" in "\n".join(line.rstrip() for line in out.splitlines())
    assert "as much of cycles, dram_bytes and less" in out
    assert all(row["energy_femtojoules"].isdecimal() for row in points(here / "r"))


def test_points_that_do_not_run_are_listed_with_the_reason(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "tiny.yaml", "--vary", "sram.size_bytes=64 B,128 B,64 KiB", "--out", "r")
    assert code == 0
    assert "not run: #0: layer" in out and "its smallest tile" in out
    assert [bool(row["error"]) for row in points(here / "r")] == [True, True, False]


def test_equal_reasons_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    varied = ("--vary", "sram.banks=3,16", "--vary", "dram.latency_cycles=1,2")
    code, out, _ = call(capsys, "tiny.yaml", *varied, "--out", "r")
    assert code == 0
    assert out.count("3 banks cannot share") == 1 and "not run: #0, #1: " in out


# -- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, ["nothing varies; give --vary key=value,value,..."]),
        (("--vary", "sram.banks"), 2, ["--vary sram.banks: must be key=value,value"]),
        (("--vary", "sram.bank=4,8"), 2, ["--set sram.bank=4", "did you mean 'banks'", "--set sram.bank=8"]),
        (("--vary", "sram.banks=four"), 2, ["--set sram.banks=four", "whole number"]),
        (("--vary", "sram.size_bytes=32 B,64 B"), 4, ["its smallest tile"]),
        (("--vary", "sram.banks=8", "--objective", "cylces"), 2, ["objective 'cylces': is no number of chip 'edge'"]),
        (("--vary", "energy=null", "--objective", "energy"), 2, ["objective 'energy': chip 'edge' does not state"]),
        (("--vary", "sram.banks=8", "--workers", "0"), 2, ["--workers"]),
        (("--vary", "sram.banks=8", "--set", "x"), 2, ["--set x: has no '='"]),
        (("--vary", "units.0.bogus=1,2,3,4,5,6,7"), 2, ["units.0.bogus=5", "2 more errors, and no point runs"]),
    ],
)
def test_faults_end_with_one_message_each(
    arguments: tuple[str, ...], code: int, words: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got, out, err = call(capsys, "tiny.yaml", "--chip", "edge", *arguments)
    assert (got, out) == (code, "")
    assert "Traceback" not in err
    for word in words:
        assert word in err, err
    assert [p.name for p in here.iterdir()] == ["tiny.yaml"]


def test_files_that_are_not_there_or_in_the_way(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "absent.yaml", "--vary", "sram.banks=8,16")
    assert code == 2 and err.count("absent.yaml") == 1
    code, _, err = call(capsys, "tiny.yaml", "--chip", "edg", "--vary", "sram.banks=8,16")
    assert code == 2 and "did you mean 'edge'" in err
    (here / "taken").write_bytes(b"mine")
    code, _, err = call(capsys, "tiny.yaml", "--vary", "sram.banks=8", "--out", "taken")
    assert code == 2 and "taken: it is a file, not a directory; name another directory with --out" in err


def test_numbers_that_are_unpredictable(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A constant that no bits are needed for, since it is folded."""
    folded = WORKLOAD.replace("operators:\n", FOLDED).replace("[c, m, s]", "[c, k, s]")
    (here / "bad.yaml").write_text(folded, encoding="utf-8")
    code, out, err = call(capsys, "bad.yaml", "--vary", "sram.banks=8,16")
    assert (code, out) == (3, "") and "logical_left_shift" in err and err.count("npusim: error: ") == 1

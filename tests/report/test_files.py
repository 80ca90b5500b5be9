"""CSV and npy contents, and files that appear all or none."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest

from npusim.errors import InputError, InternalError
from npusim.report.files import csv_text, npy_bytes, output_file, write_files
from npusim.report.result import Fingerprint, Report


def tree(directory: Path) -> dict[str, bytes]:
    """Every file below ``directory``, hidden ones too."""
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def rows_of(report: Report) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(report), newline="")))


def test_csv_round_trip(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(30)
    rows = rows_of(report)
    assert len(rows) == 30
    for i, (row, layer) in enumerate(zip(rows, report.layers, strict=True)):
        assert int(row["order"]) == i
        assert row["layer"] == layer.name
        assert row["operators"] == "+".join(layer.operators)
        assert int(row["cycles"]) == layer.cycles
        assert sum(int(n) for c, n in row.items() if c.startswith("cause_")) == layer.cycles
        assert float(row["utilization_fraction"]) == layer.utilization
        assert int(row["dram_read_bytes"]) == layer.dram_read_bytes
        assert row["tile"].startswith("n=1 oy=4 ox=28")
        assert row["output_in_sram"] == ("true" if layer.output_in_sram else "false")
    assert sum(int(row["cycles"]) for row in rows) == report.totals.cycles
    assert sum(float(row["share_of_run_fraction"]) for row in rows) == pytest.approx(1)


def test_csv_quotes_names_and_ends_lines_as_rfc_4180_says(make_report) -> None:  # type: ignore[no-untyped-def]
    import dataclasses

    report = make_report(1)
    name = 'a "quoted", name\nof two lines'
    report = dataclasses.replace(report, layers=(dataclasses.replace(report.layers[0], name=name),))
    text = csv_text(report)
    assert '"a ""quoted"", name\nof two lines"' in text
    assert text.endswith("\r\n")
    assert rows_of(report)[0]["layer"] == name


def test_csv_of_no_layers_is_a_header(make_report) -> None:  # type: ignore[no-untyped-def]
    assert csv_text(make_report(0)) == "order,layer,cycles\r\n"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.int8).reshape(3, 4),
        np.arange(12, dtype=np.int16).reshape(3, 4).T,
        np.array(5, dtype=np.int64),
        np.array([True, False]),
        np.arange(3, dtype=">i4"),
        np.zeros((0, 3), dtype=np.int32),
    ],
)
def test_npy_round_trip(array: np.ndarray) -> None:
    data = npy_bytes(array)
    back = np.load(io.BytesIO(data), allow_pickle=False)
    assert back.shape == array.shape
    assert np.array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("<")
    assert b"'fortran_order': False" in data
    assert data == npy_bytes(np.asfortranarray(array) if array.ndim else array)


def test_output_file_is_safe_and_different_for_every_value() -> None:
    assert output_file("logits_1.0-a") == "outputs/logits_1.0-a.npy"
    assert output_file("../../etc/passwd") == "outputs/..%2F..%2Fetc%2Fpasswd.npy"
    assert output_file("a/b") != output_file("a_b")
    long = [output_file("x" * 500 + end) for end in "12"]
    assert long[0] != long[1]
    assert all(len(Path(name).name) <= 132 for name in long)


def test_files_appear_in_a_directory_that_is_made(tmp_path: Path) -> None:
    files = {"report.json": b"{}", "outputs/y.npy": b"123", "latency.png": b""}
    write_files(tmp_path / "new" / "deep", files)
    assert tree(tmp_path / "new" / "deep") == files


def test_a_second_run_replaces_its_files_and_removes_only_its_stale_outputs(tmp_path: Path, make_report) -> None:  # type: ignore[no-untyped-def]
    import dataclasses

    outputs = tuple(Fingerprint(name=n, type="1xi8", sha256="0" * 64) for n in ("y", "old/z"))
    first = dataclasses.replace(make_report(1), outputs=outputs).to_json().encode()
    write_files(tmp_path, {"report.json": first, output_file("y"): b"1", output_file("old/z"): b"2"})
    (tmp_path / "outputs" / "mine.npy").write_bytes(b"the user's")
    (tmp_path / "notes.txt").write_bytes(b"the user's")
    write_files(tmp_path, {"report.json": b"second", output_file("y"): b"3"})
    assert tree(tmp_path) == {
        "report.json": b"second",
        "outputs/y.npy": b"3",
        "outputs/mine.npy": b"the user's",
        "notes.txt": b"the user's",
    }


@pytest.mark.parametrize("foreign", [b"not json", b"[]", b'{"outputs": [1]}', b'{"outputs": 1}', b"\xff"])
def test_a_report_that_is_not_ours_removes_nothing(tmp_path: Path, foreign: bytes) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "y.npy").write_bytes(b"1")
    (tmp_path / "report.json").write_bytes(foreign)
    write_files(tmp_path, {"report.json": b"new"})
    assert tree(tmp_path) == {"outputs/y.npy": b"1", "report.json": b"new"}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("fail_at", range(7))
def test_a_failing_move_leaves_everything_as_it_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_report,  # type: ignore[no-untyped-def]
    fail_at: int,
    error: BaseException,
) -> None:
    """Six moves: two files replaced (old away, new in), one new output, the stale one away. The seventh never comes."""
    before = {"report.json": make_report(1).to_json().encode(), "a.csv": b"old", "outputs/y.npy": b"stale"}
    write_files(tmp_path, before)
    calls = 0
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == fail_at + 1:
            raise error
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    after = {"report.json": b"new", "a.csv": b"new", "outputs/z.npy": b"new"}
    if fail_at == 6:
        write_files(tmp_path, after)
        assert calls == 6
        assert tree(tmp_path) == after
    else:
        with pytest.raises((InputError, KeyboardInterrupt)):
            write_files(tmp_path, after)
        assert tree(tmp_path) == before
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".npusim-")]


def test_a_failing_write_leaves_no_directory_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(InputError, match=r"cannot write the report there: .*No space left on device; name another"):
        write_files(tmp_path / "a" / "b", {"report.json": b"{}"})
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"mine")
    for directory in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(InputError, match="taken: it is a file, not a directory; name another directory with --out"):
            write_files(directory, {"report.json": b"{}"})
    assert tree(tmp_path) == {"taken": b"mine"}


def test_a_directory_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    with pytest.raises(InputError, match=r"report\.json: a directory stands where a file must go"):
        write_files(tmp_path, {"a.csv": b"1", "report.json": b"{}"})
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("name", ["", "../x", "a/../../x", "/x", "a\\b"])
def test_names_outside_the_directory_are_our_fault(tmp_path: Path, name: str) -> None:
    with pytest.raises(InternalError, match="lies outside the report's directory"):
        write_files(tmp_path, {name: b""})


def test_csv_says_where_energy_is_not_modelled_and_splits_it_where_it_is(make_report) -> None:  # type: ignore[no-untyped-def]
    import dataclasses

    report = make_report(2)
    assert [row["energy_femtojoules"] for row in rows_of(report)] == ["not modelled"] * 2
    assert not [c for c in rows_of(report)[0] if c.startswith("energy_") and c != "energy_femtojoules"]
    energies = ({"mac": 5, "leakage": 2}, {"dram": 10**20, "leakage": 1})
    layers = tuple(
        dataclasses.replace(layer, energy_femtojoules=e) for layer, e in zip(report.layers, energies, strict=True)
    )
    totals = dataclasses.replace(report.totals, energy_femtojoules={"mac": 5, "dram": 10**20, "leakage": 3})
    report = dataclasses.replace(report, layers=layers, totals=totals)
    assert Report.from_json(report.to_json()) == report
    first, second = rows_of(report)
    names = ["energy_mac_femtojoules", "energy_dram_femtojoules", "energy_leakage_femtojoules"]
    assert [c for c in first if c.startswith("energy_")] == ["energy_femtojoules", *names]
    assert [first[n] for n in ("energy_femtojoules", *names)] == ["7", "5", "0", "2"]
    assert [second[n] for n in ("energy_femtojoules", *names)] == [str(10**20 + 1), "0", str(10**20), "1"]

"""The command line as a person meets it: every flag's effect, every exit code, one message and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.cli.command import WORKLOAD, call

REPOSITORY = Path(__file__).resolve().parents[2]
CASES = REPOSITORY.parent / "shared" / "cases"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(WORKLOAD, encoding="utf-8")
    return path


def report(folder: Path) -> dict[str, object]:
    data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert isinstance(data, dict)
    return data


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


# -- what a run prints and writes -----------------------------------------------------------------------------------


def test_a_run_writes_every_file_and_prints_its_layers(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "run", tiny)
    assert code == 0 and err == ""
    assert "Layers of tiny on edge" in out and "reports/tiny" in out
    assert files(tiny.parent / "reports" / "tiny") == {
        "report.json", "layers.csv", "mapping.yaml", "outputs/y.npy", "latency.png", "utilization.png", "timeline.png",
        "roofline.png", "sram.png",
    }  # fmt: skip


def test_without_pictures_those_of_an_earlier_run_go(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "run", tiny, "--quiet", "--out", "r")[0] == 0
    before = files(tiny.parent / "r")
    assert call(capsys, "run", tiny, "--quiet", "--out", "r", "--no-pictures")[0] == 0
    after = files(tiny.parent / "r")
    assert before - after == {"latency.png", "utilization.png", "timeline.png", "roofline.png", "sram.png"}
    assert after == {"report.json", "layers.csv", "mapping.yaml", "outputs/y.npy"}


def test_two_runs_are_byte_equal_in_other_processes_and_hash_seeds(tiny: Path) -> None:
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)}
        command = [sys.executable, "-m", "npusim", "run", str(tiny), "--out", f"r{seed}", "--quiet"]
        subprocess.run(command, check=True, env=environment, cwd=tiny.parent)
    first, second = tiny.parent / "r0", tiny.parent / "r1"
    assert files(first) == files(second)
    for name in files(first):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_chip_set_and_seed_change_the_run(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "run", tiny, "--out", "a", "--quiet")
    call(capsys, "run", tiny, "--out", "b", "--quiet", "--chip", "micro")
    call(
        capsys, "run", tiny, "--out", "c", "--quiet", "--set", "dram.latency_cycles=5000", "--set", "mapping.fuse=false"
    )
    call(capsys, "run", tiny, "--out", "d", "--quiet", "--seed", "7")
    a, b, c, d = (report(tiny.parent / x) for x in "abcd")
    assert a["manifest"]["chip"]["name"] == "edge" and b["manifest"]["chip"]["name"] == "micro"  # type: ignore[index]
    assert c["totals"]["cycles"] > a["totals"]["cycles"] + 5000  # type: ignore[index]
    assert len(a["layers"]) == 1 and len(c["layers"]) == 2  # type: ignore[arg-type]
    assert a["manifest"]["seed"] == 0 and d["manifest"]["seed"] == 7  # type: ignore[index]
    assert a["outputs"] != d["outputs"] and a["totals"] == d["totals"]
    assert a["outputs"] == b["outputs"] == c["outputs"]


def test_bits_off_computes_none_and_whole_computes_the_same(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for bits in ("timed", "whole", "off"):
        assert call(capsys, "run", tiny, "--out", bits, "--quiet", "--bits", bits)[0] == 0
    timed, whole, off = (report(tiny.parent / b) for b in ("timed", "whole", "off"))
    assert timed["outputs"] == whole["outputs"] != off["outputs"] == []
    assert timed["totals"] == whole["totals"] == off["totals"]
    assert not any(f.startswith("outputs") for f in files(tiny.parent / "off"))


def test_inputs_and_expected_outputs_from_files(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(1).integers(-128, 127, (1, 6, 6, 4), np.int8)
    np.save("x.npy", x)
    assert call(capsys, "run", tiny, "--input", "x.npy", "--out", "a", "--quiet")[0] == 0
    assert report(tiny.parent / "a")["manifest"]["seed"] is None  # type: ignore[index]
    code, out, _ = call(capsys, "run", tiny, "--input", "x.npy", "--expect", "a/outputs/y.npy", "--out", "b")
    assert code == 0 and "output 'y': all 288 values equal" in out
    wrong = np.load("a/outputs/y.npy")
    wrong[0, 2, 3, 4] ^= 1
    np.save("wrong.npy", wrong)
    code, out, err = call(capsys, "run", tiny, "--input", "x.npy", "--expect", "wrong.npy", "--out", "c")
    assert code == 5
    assert "npusim: error: output 'y' differs from the expected one in 1 of 288 values, first at [0, 2, 3, 4]" in err
    assert not report(tiny.parent / "c")["checks"][0]["passed"]  # type: ignore[index]


def test_sort_and_quiet(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    workload = REPOSITORY / "workloads" / "residual_block.yaml"
    tables, quick = {}, ("--bits", "off", "--no-pictures", "--out", tmp_path / "r")
    for sort in ("order", "cycles", "utilization", "dram"):
        code, tables[sort], _ = call(capsys, "run", workload, "--sort", sort, *quick)
        assert code == 0
    assert len(set(tables.values())) > 1
    assert call(capsys, "run", workload, "--quiet", *quick)[1:] == ("", "")


def test_show_prints_every_value(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    code, out, _ = call(capsys, "show", "edge", "--set", "sram.banks=8")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "1 MiB" in rows["sram.size_bytes"] and "capacity" in rows["sram.size_bytes"]
    assert "64/5" in rows["dram.bytes_per_cycle"] and " 8 " in rows["sram.banks"]
    assert "cycles of an instruction on all lanes" in out
    assert "`" not in out and "lanes outputs at once, each taking word_bits of the reduction" in " ".join(out.split())


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version")[:2] == (0, "npusim 0.1.0\n")
    code, out, _ = call(capsys, "run", "--help")
    assert code == 0 and "--expect" in out
    assert "Exit codes" in call(capsys, "--help")[1]


# -- exit codes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (("op: conv2d", "op: conv2"), 2, ["tiny.yaml:10:", "'conv2'", "did you mean 'conv2d'"]),
        (("stride: [1, 1]", "stride: [0, 1]"), 2, ["tiny.yaml:11:", "stride", "0"]),
        (("pad: [1, 1, 1, 1]", "padd: [1, 1, 1, 1]"), 2, ["tiny.yaml:11:", "padd", "did you mean 'pad'"]),
        (("name: tiny", "name: tiny\nname: tiny"), 2, ["tiny.yaml:2:", "name"]),
        (("outputs: [y]", "outputs: [z]"), 2, ["tiny.yaml:15:", "'z'"]),
        (("fill: 38", "fill: 99"), 3, ["layer 'c': rescale", "shift", "99"]),
        (("8x3x3x4xi8", "8x3x3x5xi8"), 2, ["tiny.yaml:", "channels"]),
    ],
)
def test_faults_of_a_workload(
    tiny: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], code: int, words: list[str]
) -> None:
    tiny.write_text(WORKLOAD.replace(*change), encoding="utf-8")
    got, out, err = call(capsys, "run", tiny)
    assert (got, out) == (code, "")
    assert "Traceback" not in err and err.startswith("npusim: error: ")
    for word in words:
        assert word in err, err
    assert not (tiny.parent / "reports").exists()


def test_what_does_not_fit(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "run", tiny, "--set", "sram.size_bytes=64 B")
    assert code == 4 and "layer 'c': its smallest tile" in err and "64" in err and "Traceback" not in err
    chip = (REPOSITORY / "configs" / "presets" / "micro.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(chip)
    data["units"] = [u for u in data["units"] if u["kind"] != "mac_array"]
    Path("nomac.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    code, _, err = call(capsys, "run", tiny, "--chip", "nomac.yaml")
    assert code == 4 and "conv2d needs a mac unit" in err
    assert not (tiny.parent / "reports").exists()


def test_unreadable_files(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("random.tosa").write_bytes(np.random.default_rng(0).bytes(500))
    np.save("short.npy", np.zeros((1, 6, 6, 3), np.int8))
    np.save("wide.npy", np.zeros((1, 6, 6, 4), np.int32))
    for arguments, words in (
        (["random.tosa"], ["random.tosa"]),
        (["absent.yaml"], ["absent.yaml"]),
        ([tiny, "--input", "short.npy"], ["short.npy", "[1, 6, 6, 4]", "[1, 6, 6, 3]"]),
        ([tiny, "--input", "wide.npy"], ["wide.npy", "int8", "int32"]),
        ([tiny, "--chip", "edg"], ["edg", "edge"]),
        ([tiny, "--set", "sram.bank=3"], ["--set sram.bank=3", "banks"]),
        ([tiny, "--out", "tiny.yaml"], ["tiny.yaml"]),
    ):
        code, _, err = call(capsys, "run", *arguments)
        assert code == 2, err
        assert "Traceback" not in err
        for word in words:
            assert word in err, err
    assert not (tiny.parent / "reports").exists()


def test_debug_shows_where_an_input_error_was_raised(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "run", "absent.yaml", "--debug")
    assert code == 2 and "Traceback" in err


def test_our_own_faults_keep_their_traceback(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("slot 7")

    monkeypatch.setattr("npusim.cli.run.run", broken)
    code, _, err = call(capsys, "run", tiny)
    assert code == 1 and "Traceback" in err and "KeyError" in err and "npusim's own fault" in err


# -- the illegal numbers of case B23, given to the command line as workloads ------------------------------


def illegal_numbers() -> list[object]:
    path = CASES / "B23-illegal-numbers.yaml"
    if not path.exists():
        return [pytest.param(None, [], marks=pytest.mark.skip(reason="the shared cases are not here"))]
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    words = case["expected"]["message_contains"]
    return [pytest.param(r, words.get(r["name"], []), id=r["name"]) for r in case["runs"][1:]]


@pytest.mark.parametrize(("run", "words"), illegal_numbers())
def test_illegal_numbers(
    run: dict[str, object], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    operands: dict[str, dict[str, object]] = run["operands"]  # type: ignore[assignment]
    typed = {
        name: {"type": "x".join([*map(str, t["shape"]), str(t["type"])]), "fill": 1}  # type: ignore[arg-type]
        for name, t in operands.items()
    }
    workload = {
        "name": "illegal",
        "graph": {
            "inputs": {"input": typed["input"]["type"]},
            "constants": {n: t for n, t in typed.items() if n != "input"},
            "operators": [{"name": "y", "op": run["op"], "inputs": list(operands), "attributes": run["attributes"]}],
            "outputs": ["y"],
        },
    }
    Path("illegal.yaml").write_text(yaml.safe_dump(workload), encoding="utf-8")
    code, _, err = call(capsys, "run", "illegal.yaml")
    assert code == 2 and "Traceback" not in err
    for word in words:
        assert word in err, err
    assert [p.name for p in tmp_path.iterdir()] == ["illegal.yaml"]

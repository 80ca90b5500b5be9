"""The comparison with another tool that runs model files: what it counts, what it reports, how it starts the tool."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scripts.live_oracle as live
from npusim.numerics.types import Array
from scripts.live_oracle import Case, Oracle, compare, difference, main
from tests.frontends.qonnx.networks import Network

SUMS = "t1"
RUNNER = """
import json, sys
import numpy as np
arrays = np.load(sys.argv[1])
made = {}
for k, names in enumerate(json.loads(str(arrays["names"]))):
    assert (names["inputs"], names["outputs"]) == (["x"], ["t1"]) and arrays[f"f{k}"].tobytes()
    x = arrays[f"x{k}_0"]
    if x[0, 0] > 9:
        made[f"e{k}"] = "too large"
    else:
        made[f"y{k}_0"] = np.where(x < 0, -1, 1).astype(np.float32).sum(1, keepdims=True)
np.savez(sys.argv[2], **made)
"""
"""A tool that computes the sum of signs, and says something against the file where the first element is above 9."""


def sum_of_signs(rng: np.random.Generator) -> Case:
    net = Network(2, 6)
    assert net.op("MatMul", net.bipolar("x"), np.ones((6, 1))) == SUMS
    x = rng.normal(size=(2, 6)).astype(np.float32)
    return Case("signs", net.model(SUMS).SerializeToString(), {"x": x}, (SUMS,), "sum of signs")


def oracle(folder: Path, **others: Any) -> Oracle:
    runner = folder / "runner.py"
    runner.write_text(RUNNER)
    return Oracle("tool", ".onnx", ("tool==1",), runner, sum_of_signs, ("cannot be folded",), 4, **others)


def test_files_are_run_by_the_tool_and_compared_whole_and_through_tiles(tmp_path: Path) -> None:
    tally, wrong = compare(oracle(tmp_path, tiled=2), Path(sys.executable), 4, seed=1)
    assert (tally, wrong) == ({"signs, equal": 4}, [])


def test_what_the_tool_says_against_a_file_and_how_numbers_differ_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """File 1 is one that the tool refuses, and file 2 is computed by npusim from another input."""

    def changed(rng: np.random.Generator) -> Case:
        case = sum_of_signs(rng)
        number = next(numbers)
        if number == 1:
            case.inputs["x"][0, 0] = 10
        return replace(case, note=f"note {number}")

    computed, numbers = live.computed, iter(range(4))

    def off_by_two(model: Any, case: Case, tiles: bool) -> list[Array]:
        (sums,) = computed(model, case, tiles)
        return [sums + 2 * (case.note == "note 2")]

    monkeypatch.setattr(live, "computed", off_by_two)
    monkeypatch.setattr(live, "install", lambda _, folder: Path(sys.executable))
    tool = replace(oracle(tmp_path), random_case=changed)
    folder = tmp_path / "saved"
    assert main(tool, ["--seed", "5", "--save", str(folder)]) == 1
    report = capsys.readouterr().out
    assert "signs, equal                         2 files" in report
    assert "seed 5, file 1 (signs): tool says too large; note 1" in report
    assert "seed 5, file 2 (signs): 't1' (whole) differs in 2 of 2 elements, first at [0, 0]: " in report
    assert "4 files against tool==1, seed 5: 2 different" in report
    assert sorted(p.name for p in folder.iterdir()) == ["5-1.onnx", "5-2.onnx"]
    numbers = iter([0])
    assert main(tool, ["--cases", "1", "--first", "3"]) == 0


@pytest.mark.parametrize(
    ("known", "went"), [(("cannot be folded",), "refused"), (("another reason",), "npusim says .* cannot be folded")]
)
def test_refusals_are_counted_if_they_are_known(known: tuple[str, ...], went: str, tmp_path: Path) -> None:
    def unfoldable(rng: np.random.Generator) -> Case:
        net = Network(2, 6)
        sums = net.op("Exp", net.op("MatMul", net.bipolar("x"), np.ones((6, 1))))
        out = net.op("MatMul", net.bipolar(sums), np.ones((1, 1)))
        return Case("exp", net.model(out).SerializeToString(), {"x": np.ones((2, 6), np.float32)}, (SUMS,), "exp")

    tool = replace(oracle(tmp_path), random_case=unfoldable, refusals=known)
    tally, wrong = compare(tool, Path(sys.executable), 1, seed=0)
    assert tally == ({"exp, refused": 1} if went == "refused" else {})
    assert len(wrong) == (went != "refused")
    if wrong:
        assert "npusim says" in wrong[0]
        assert "cannot be folded" in wrong[0]


def test_a_failure_of_npusim_is_reported_and_does_not_end_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> list[Array]:
        raise RuntimeError("broken")

    monkeypatch.setattr(live, "computed", fails)
    _, wrong = compare(oracle(tmp_path), Path(sys.executable), 2, seed=0)
    assert [line.split(": ", 1)[1] for line in wrong] == ["npusim fails with RuntimeError: broken; sum of signs"] * 2


def test_a_tool_that_cannot_be_started_ends_the_comparison(tmp_path: Path) -> None:
    tool = oracle(tmp_path)
    tool.runner.write_text("raise ValueError('no such package')")
    with pytest.raises(SystemExit, match=r"(?s)tool failed \(exit code 1\).*no such package"):
        compare(tool, Path(sys.executable), 1, seed=0)


def test_differences() -> None:
    one, near = np.array([1.0, np.nan], np.float32), np.array([1.000001, np.nan], np.float32)
    assert difference(one, one, exact=True) == ""
    assert difference(one, near, exact=False) == ""
    assert difference(one, near, exact=True).startswith("differs in 1 of 2 elements, first at [0]: 1.0 != 1.00000")
    assert difference(one, np.array([1.0, 2.0]), exact=True).startswith("differs in 1 of 2 elements, first at [1]: nan")
    assert difference(one, one[:1], exact=True) == "has shape [2], expected [1]"
    assert difference(np.array([1.0, 1e-4]), np.array([1.0, 0.0]), exact=False).startswith("differs in 1 of 2")


@pytest.mark.parametrize("bare", [True, False])
def test_the_environment_is_made_once(bare: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Sequence[str]] = []

    def make(command: Sequence[str], check: bool) -> None:
        assert check
        commands.append(command)
        tmp_path.joinpath("env").mkdir(exist_ok=True)

    monkeypatch.setattr(subprocess, "run", make)
    tool = replace(oracle(tmp_path, bare=bare), packages=("tool==1", "numpy==2"))
    for _ in range(2):
        assert live.install(tool, tmp_path / "env") == tmp_path / "env" / "bin" / "python"
    assert len(commands) == 2
    assert commands[0][1:3] == ["-m", "venv"]
    assert commands[1][-2:] == ["tool==1", "numpy==2"]
    assert ("--no-deps" in commands[1]) == bare
    assert tool.environment.name == ".venv-tool"

"""Check what judges conformance tests: that right answers pass, and that every kind of wrong one is told."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from npusim.errors import DoesNotFitError
from npusim.frontends.tosa import TosaBlock, TosaFile, TosaOperator, TosaRegion, TosaTensor, load_tosa, write_tosa
from npusim.numerics.types import Array
from scripts import conformance
from scripts.tosa_oracle import environment
from scripts.tosa_oracle import judge as judge_module
from scripts.tosa_oracle.case import compare, differences, read_case, run_tiles
from scripts.tosa_oracle.environment import DEFAULT_FOLDER, Tools, ToolsError, find_python
from scripts.tosa_oracle.judge import Verdict, judge
from scripts.tosa_oracle.model import ReferenceModel, Status, run_command_line
from scripts.tosa_oracle.references import compute_references
from scripts.tosa_oracle.suite import INTEGER_OPERATORS, SEED_OPERATORS, generate

TOOLS = Tools(DEFAULT_FOLDER)
needs_tools = pytest.mark.skipif(
    not (DEFAULT_FOLDER / "bin").is_dir(), reason="TOSA's tools are absent: `make conformance` installs them"
)


def make_test(
    cache: Path, name: str, x: Array, dtype: str = "INT32", operator: str = "ABS", refused: bool = False
) -> Path:
    """A conformance test of an operator on one input, with |x| as its reference."""
    folder = cache / "abs" / "abs" / name
    folder.mkdir(parents=True)
    tensors = {v: TosaTensor(v, x.shape, dtype) for v in ("input-0", "result-0")}
    operators = (TosaOperator(operator, {}, ("input-0",) * (not refused), ("result-0",), 0),)
    block = TosaBlock("main", operators, tensors, {}, ("input-0",), ("result-0",))
    file = TosaFile((1, 0, 2, False), (TosaRegion("main", (block,)),))
    (folder / "test.tosa").write_bytes(write_tosa(file))
    np.save(folder / "input-0.npy", x)
    if not refused:
        np.save(folder / "reference-0.npy", np.abs(x))
    about = {
        "tosa_file": "test.tosa",
        "ifm_name": ["input-0"],
        "ifm_file": ["input-0.npy"],
        "ofm_name": ["result-0"],
        "ofm_file": ["result-0.npy"],
        "expected_failure": refused,
        "meta": {
            "data_gen": {"tensors": {"input-0": {"data_type": dtype}}},
            "compliance": {"tensors": {"result-0": {"data_type": dtype, "mode": "EXACT"}}},
        },
    }
    (folder / "desc.json").write_text(json.dumps(about))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_test(tmp_path, "abs_3", np.int32([[-5, 0, 7]]))


# -- one test ------------------------------------------------------------------------------------------------------


def test_a_right_answer(folder: Path) -> None:
    verdict = judge(folder)
    assert (verdict.operator, verdict.name, verdict.chip) == ("abs", "abs_3", "micro")
    assert verdict.expected and not verdict.refused


def test_a_wrong_reference_is_told_for_both_runs(folder: Path) -> None:
    np.save(folder / "reference-0.npy", np.int32([[5, 1, 7]]))
    verdict = judge(folder)
    assert verdict.whole == verdict.tiles == "output 'result-0': 1 of 3 elements, first at [0, 1]: 0 for 1"
    assert not verdict.expected


def test_a_refusal_must_come(tmp_path: Path) -> None:
    refused = judge(make_test(tmp_path, "abs_ERRORIF", np.int32([1]), refused=True))
    assert refused.expected and refused.refused and not refused.chip


def test_a_refusal_that_does_not_come_is_told(folder: Path) -> None:
    about = json.loads((folder / "desc.json").read_text())
    (folder / "desc.json").write_text(json.dumps({**about, "expected_failure": True}))
    assert judge(folder).whole == "not refused, but it must be"


def test_a_refusal_that_must_not_come_is_told(tmp_path: Path) -> None:
    verdict = judge(make_test(tmp_path, "abs_i8", np.int8([1]), dtype="INT8"))
    assert verdict.whole.startswith("refused: ") and "abs: no type rule for input i8" in verdict.whole


def test_a_fault_of_npusim_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr(judge_module, "run_tiles", broken)
    assert judge(folder).tiles == "IndexError (a fault of npusim): out of range"
    assert judge(folder).whole == ""


def test_the_growth_of_memory_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the system does not tell the peak of memory")

    def large(graph: object, inputs: dict[str, Array]) -> dict[str, Array]:
        return {"result-0": np.ones((1 << 26), np.uint8)[:3].astype(np.int32).reshape(1, 3)}

    monkeypatch.setattr(judge_module, "evaluate_graph", large)
    assert 1 << 25 <= judge(folder).peak_bytes < 1 << 28  # what is freed meanwhile counts against the 64 MiB


# -- comparison ----------------------------------------------------------------------------------------------------


def test_compare() -> None:
    x = np.int8([1, 2, 127])
    assert compare(x, x.copy()) is None
    assert compare(x, np.int16([1, 2, 127])) == "int8[3] for int16[3]"
    assert compare(x, x[None]) == "int8[3] for int8[1, 3]"
    assert compare(x, np.int8([1, 3, 126])) == "2 of 3 elements, first at [1]: 2 for 3"
    assert compare(x, np.int8([1, 3, 126]), tolerance=1) is None
    assert compare(x, np.int8([1, 4, 126]), tolerance=1) == "1 of 3 elements, first at [1]: 2 for 4"


def test_compare_a_step_of_unsigned_numbers() -> None:
    assert compare(np.int8([127]), np.int8([-128]), tolerance=1, unsigned=True) is None
    assert compare(np.int8([127]), np.int8([-128]), tolerance=1) == "1 of 1 elements, first at [0]: 127 for -128"
    assert compare(np.int8([-1]), np.int8([0]), 1, unsigned=True) == "1 of 1 elements, first at [0]: 255 for 0"


def test_an_inexact_rescale_may_be_a_step_off(folder: Path) -> None:
    about = json.loads((folder / "desc.json").read_text())
    about["meta"]["compliance"]["tensors"]["result-0"] = {
        "mode": "RESCALE_INEXACT",
        "rescale_inexact_info": {"unsigned_data": False},
    }
    (folder / "desc.json").write_text(json.dumps(about))
    case = read_case(folder)
    assert differences(case, {"result-0": np.int32([[4, 1, 8]])}) == []
    assert differences(case, {"result-0": np.int32([[3, 0, 7]])}) != []


def test_a_graph_that_is_a_constant_has_its_value_as_reference(folder: Path) -> None:
    (folder / "reference-0.npy").rename(folder / "result-0.npy")
    assert read_case(folder).outputs[0].reference == folder / "result-0.npy"


def test_a_larger_chip_serves_where_micro_is_too_small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scripts.tosa_oracle import case

    tried = []

    def run_on(chip: object, graph: object, inputs: object) -> dict[str, Array]:
        tried.append((chip.name, chip.sram.size_bytes))  # type: ignore[attr-defined]
        if len(tried) < 4:
            raise DoesNotFitError("too small")
        return {}

    monkeypatch.setattr(case, "_run_on", run_on)
    graph = load_tosa(folder / "test.tosa")
    assert run_tiles(graph, {}) == ("micro with sram.size_bytes=64 MiB", {})
    assert tried == [("micro", 128 << 10), ("edge", 1 << 20), ("server", 24 << 20), ("micro", 64 << 20)]


# -- all tests -----------------------------------------------------------------------------------------------------


def run_main(monkeypatch: pytest.MonkeyPatch, folders: list[Path]) -> int:
    """The command on these tests, with the tools and the suite taken for granted."""
    monkeypatch.setattr(conformance, "install_tools", lambda: TOOLS)
    monkeypatch.setattr(conformance, "generate", lambda *_: folders)
    return conformance.main(["--workers", "1", "--operator", "abs"])


def test_all_as_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [make_test(tmp_path, f"abs_{n}", np.arange(-n, n, dtype=np.int32)) for n in (1, 4)]
    folders.append(make_test(tmp_path, "abs_ERRORIF", np.int32([1]), refused=True))
    assert run_main(monkeypatch, folders) == 0
    out = capsys.readouterr().out
    assert "abs                           3        1      3      3\n" in out
    assert out.endswith("3 of 3 as expected, 1 of them refusals\n")
    assert "SURPRISE" not in out


def test_a_surprise_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [make_test(tmp_path, f"abs_{n}", np.arange(-n, n, dtype=np.int32)) for n in (1, 4)]
    np.save(folders[1] / "reference-0.npy", np.zeros(8, np.int32))
    assert run_main(monkeypatch, folders) == 1
    out = capsys.readouterr().out
    assert "SURPRISE abs_4 (whole): output 'result-0': 7 of 8 elements, first at [0]: 4 for 0\n" in out
    assert "SURPRISE abs_4 (tiles): output 'result-0': 7 of 8 elements, first at [0]: 4 for 0\n" in out
    assert out.endswith("1 of 2 as expected, 0 of them refusals\n")


def test_missing_tools_end_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def absent() -> Tools:
        raise ToolsError("there is no python3.11")

    monkeypatch.setattr(conformance, "install_tools", absent)
    assert conformance.main([]) == 2
    assert capsys.readouterr().err == "error: there is no python3.11\n"


def test_the_report_names_larger_chips_and_large_growth() -> None:
    verdicts = [
        Verdict("pad", "pad_big", False, "", "", "edge", 5 << 20, 1.0),
        Verdict("pad", "pad_small", False, "", "", "micro", 1 << 20, 1.0),
    ]
    lines = list(conformance.summary(verdicts))
    assert "1 tests have no tile that fits the SRAM of micro and ran on a larger chip" in lines
    assert "  pad_big: edge" in lines
    assert lines.index("       5 MiB    1.0 s  pad_big") < lines.index("       1 MiB    1.0 s  pad_small")
    assert "chips: edge 1, micro 1" in lines


# -- the tools and the suite ---------------------------------------------------------------------------------------


def test_another_python_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    monkeypatch.setattr(shutil, "which", lambda name: f"/opt/{name}")
    assert find_python() == "/opt/python3.11"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(
        ToolsError, match=r"built for Python 3.11 only; this is 3.13 and there is no python3.11 in PATH"
    ):
        find_python()


def test_a_failing_installation_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python3.11"
    python.write_text("#!/bin/sh\necho no ensurepip >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(environment, "find_python", lambda: str(python))
    with pytest.raises(ToolsError, match="python3.11 cannot make a virtual environment:\nno ensurepip"):
        environment.install_tools(tmp_path / "venv")
    python.write_text(f"#!/bin/sh\nmkdir -p {tmp_path}/venv/bin\nln -s /bin/false {tmp_path}/venv/bin/python\n")
    with pytest.raises(ToolsError, match="pip cannot install tosa-tools==2026.8.0"):
        environment.install_tools(tmp_path / "venv")


@pytest.fixture
def fake_tools(tmp_path: Path) -> Callable[[str], Tools]:
    """Tools whose generator runs a given Python text, which finds its arguments in ``options``."""

    def make(text: str) -> Tools:
        script = tmp_path / "tools" / "bin" / "tosa_verif_conformance_generator"
        script.parent.mkdir(parents=True, exist_ok=True)
        options = "import sys, pathlib\noptions = dict(zip(sys.argv[1:], sys.argv[2:]))\n"
        script.write_text(f"#!{sys.executable}\n{options}{text}")
        script.chmod(0o755)
        return Tools(tmp_path / "tools")

    return make


MAKES_TWO = """
for name in ("a", "b"):
    folder = pathlib.Path(options["--output-directory"]) / "operators" / "group" / options["--operators"] / name
    folder.mkdir(parents=True)
    (folder / "desc.json").write_text("{}")
"""


def test_generation_is_kept(tmp_path: Path, fake_tools: Callable[[str], Tools]) -> None:
    said: list[str] = []
    cache = tmp_path / "cache"
    first = generate(fake_tools(MAKES_TWO), cache, ("abs", "add"), 1, said.append)
    assert [str(f.relative_to(cache)) for f in first] == ["abs/abs/a", "abs/abs/b", "add/add/a", "add/add/b"]
    assert [line.split(":")[0] for line in said] == ["generated abs (1 of 2)", "generated add (2 of 2)"]
    assert (cache / ".gitignore").read_text() == "*\n"
    assert sorted(p.name for p in cache.iterdir()) == [".gitignore", "CACHEDIR.TAG", "abs", "add"]
    again = generate(fake_tools("raise SystemExit('must not run')"), cache, ("abs", "add"), 1, said.append)
    assert again == first and len(said) == 2


def test_a_failed_generation_is_not_kept(tmp_path: Path, fake_tools: Callable[[str], Tools]) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(ToolsError, match="conformance generator failed on abs:\nno space left"):
        generate(fake_tools(f"{MAKES_TWO}\nraise SystemExit('no space left')"), cache, ("abs",), 1, print)
    assert not (cache / "abs").exists()
    assert len(generate(fake_tools(MAKES_TWO), cache, ("abs",), 1, print)) == 2


def test_the_sets() -> None:
    assert len(set(INTEGER_OPERATORS)) == len(INTEGER_OPERATORS) == 53
    assert set(SEED_OPERATORS) < set(INTEGER_OPERATORS)


# -- the reference model -------------------------------------------------------------------------------------------


@needs_tools
def test_the_model_answers_and_survives_its_death(folder: Path, tmp_path: Path) -> None:
    data = (folder / "test.tosa").read_bytes()
    refused = make_test(tmp_path, "abs_ERRORIF", np.int32([1]), refused=True)
    with ReferenceModel(TOOLS) as model:
        answer = model.run(data, [np.int32([[-5, 0, 7]])])
        assert answer.status is Status.VALID
        np.testing.assert_array_equal(answer.outputs[0], np.int32([[5, 0, 7]]))
        assert model.run((refused / "test.tosa").read_bytes(), [np.int32([1])]).status is Status.ERROR
        with pytest.raises(ToolsError, match="does not take a graph: Invalid inputs"):
            model.run(data, [np.int16([[-5, 0, 7]])])
        model._process.kill()
        assert model.run(data, [np.int32([[-5, 0, 7]])]).status is Status.DIED
        assert model.run(data, [np.int32([[-5, 0, 7]])]).status is Status.VALID


@needs_tools
def test_references_are_computed_once(folder: Path, tmp_path: Path) -> None:
    wide = make_test(tmp_path, "identity_i48", np.int64([-(2**47), 5]), dtype="INT48", operator="IDENTITY")
    for place in (folder, wide):
        (place / "reference-0.npy").unlink()
    said: list[str] = []
    compute_references(TOOLS, [folder, wide], 1, said.append)
    compute_references(TOOLS, [folder, wide], 1, said.append)
    assert said == ["computing the reference outputs of 2 tests"]
    np.testing.assert_array_equal(np.load(folder / "reference-0.npy"), np.int32([[5, 0, 7]]))
    np.testing.assert_array_equal(np.load(wide / "reference-0.npy"), np.int64([-(2**47), 5]))
    assert judge(wide).expected


@needs_tools
def test_a_test_that_the_model_refuses_has_no_references(tmp_path: Path) -> None:
    place = make_test(tmp_path, "abs_i8", np.int8([1]), dtype="INT8")
    (place / "reference-0.npy").unlink()
    assert run_command_line(TOOLS, place, ["result-0.npy"]).status is Status.ERROR
    with pytest.raises(ToolsError, match="the reference model finds .*abs_i8 error; remove that folder"):
        compute_references(TOOLS, [place], 1, print)

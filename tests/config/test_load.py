"""Loading files: encodings, missing files, empty files, and all faults in one error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from npusim.config import Document, Positive, load, load_text, parse, record
from npusim.errors import ConfigError

ROOT = Path(__file__).parents[2]
CASE = ROOT.parent / "shared" / "cases" / "B38-unknown-keys-and-encoding.yaml"


@record
class Sram:
    size_kib: Positive
    banks: Positive = 1


@record
class Chip:
    name: str = ""
    rows: Positive = 1
    srams: tuple[Sram, ...] = ()


def problems(text: str, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_text(text, Chip, "workload", "w.yaml", **options)
    return list(caught.value.problems)


def test_files_documents_and_texts_load_alike(tmp_path: Path) -> None:
    path, text = tmp_path / "chip.yaml", "name: edge\nsrams: [{size_kib: 4}]\n"
    path.write_bytes(text.encode())
    chip = Chip(name="edge", srams=(Sram(size_kib=4),))
    assert load(path, Chip, "chip") == load(parse(text), Chip, "chip") == load_text(text, Chip, "chip") == chip


def test_messages_start_with_the_path_as_given(tmp_path: Path) -> None:
    path = tmp_path / "chip.yaml"
    path.write_bytes(b"rowz: 1\n")
    with pytest.raises(ConfigError) as caught:
        load(path, Chip, "chip")
    assert str(caught.value).startswith(f"{path}:1:1: rowz: unknown key 'rowz' ")
    with pytest.raises(ConfigError, match="^<text>:1:1: rowz: unknown key"):
        load_text("rowz: 1", Chip, "chip")


@pytest.mark.parametrize("text", ["", "# nothing here\n", "\ufeff", "---\n", "null"])
def test_an_empty_text(text: str) -> None:
    (problem,) = problems(text)
    assert re.fullmatch("w.yaml:[12]:1: no workload: the text is empty or holds only comments", problem)


def test_a_text_that_is_no_mapping() -> None:
    assert problems("[1]") == ["w.yaml:1:1: must be a mapping with the keys name, rows, srams; got a list"]


def test_faults_of_text_values_and_overrides_come_at_once_in_order() -> None:
    found = problems(
        "rows: 016\nrows: 2\nsrams: [{size_kib: 64, bansk: 8}, {banks: *none}]\n",
        overrides=[("nmae", "x"), ("srams.5.banks", "1"), ("name", "3")],
    )
    assert [problem.partition(": ")[0] for problem in found] == [
        "w.yaml:1:7",
        "w.yaml:2:1",
        "w.yaml:3:24",
        "w.yaml:3:35",
        "w.yaml:3:43",
        "--set name=3",
        "--set nmae=x",
        "--set srams.5.banks=1",
    ]


def test_a_fault_of_the_text_is_not_reported_again_by_validation() -> None:
    assert problems("rows: 012") == [
        "w.yaml:1:7: rows: 012 has a leading zero; write 12 (decimal), 0o12 (octal, as in YAML 1.1) or '012' (a string)"
    ]


def test_overrides_are_applied_in_order() -> None:
    overrides = [("rows", "2"), ("rows", "3"), ("name", "edge"), ("srams.0.banks", "0x10")]
    chip = load_text("srams: [{size_kib: 1}]", Chip, "chip", overrides=overrides)
    assert chip == Chip(rows=3, name="edge", srams=(Sram(size_kib=1, banks=16),))
    assert load(parse("rows: 1"), Chip, "chip", [("rows", "2")]).rows == 2


def test_unknown_keys_of_overrides_are_located_by_the_option() -> None:
    assert problems("rows: 1", overrides=[("srams", "[{size_kib: 1, bansk: 2}]"), ("rwos", "3")]) == [
        "--set rwos=3: rwos: unknown key 'rwos' (the keys here are name, rows, srams); did you mean 'rows'?",
        "--set srams=[{size_kib: 1, bansk: 2}]: srams.0.bansk: unknown key 'bansk' "
        "(the keys here are size_kib, banks); did you mean 'banks'?",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"rows: 1\nname: \xe9t\xe9\n", r"chip.yaml:2:7: byte 0xE9 is not UTF-8; save the chip as UTF-8 text"),
        ("name: é".encode() + b"\xff", r"chip.yaml:1:8: byte 0xFF is not UTF-8"),
        ("rows: 1".encode("utf-16"), r"chip.yaml:1:1: byte 0xFF is not UTF-8"),
        (
            "rows: 1".encode("utf-16-le"),
            r"chip.yaml:1:2: character U\+0000 is not allowed in YAML text; is this a binary",
        ),
        (
            b"\x1c\x00\x00\x00TOSA",
            r"chip.yaml:1:1: character U\+001C is not allowed in YAML text; is this a binary file",
        ),
    ],
)
def test_other_encodings_and_binary_files(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "chip.yaml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=message):
        load(path, Chip, "chip")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "micro.yaml").write_bytes(b"rows: 1")
    with pytest.raises(ConfigError, match=r"mirco.yaml: there is no such chip file; did you mean '.*/micro.yaml'\?"):
        load(tmp_path / "mirco.yaml", Chip, "chip")
    with pytest.raises(ConfigError, match=r"x/y.yaml: there is no such chip file; check the path"):
        load(tmp_path / "x" / "y.yaml", Chip, "chip")
    with pytest.raises(ConfigError, match="is a directory; name the chip file in it"):
        load(tmp_path, Chip, "chip")
    with pytest.raises(ConfigError, match="the chip file cannot be read: Not a directory"):
        load(tmp_path / "micro.yaml" / "chip.yaml", Chip, "chip")
    with pytest.raises(ConfigError, match="the chip file cannot be read: .*null"):
        load(Path("a\0b"), Chip, "chip")


def test_byte_order_mark_crlf_and_names_in_any_script_in_an_ascii_locale(tmp_path: Path) -> None:
    path = tmp_path / "dossier é 测" / "chip.yaml"
    path.parent.mkdir()
    path.write_bytes("\ufeff# π₀.5 – accélérateur\r\nname: été\r\n".encode())
    program = (
        "import sys, pathlib\n"
        "from npusim.config import dump, load, load_text, record\n"
        "@record\n"
        "class Chip:\n"
        "    name: str\n"
        "chip = load(pathlib.Path(sys.argv[1]), Chip, 'chip')\n"
        "assert load_text(dump(chip), Chip, 'chip') == chip\n"
        "sys.stdout.buffer.write(dump(chip).encode())\n"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program, path], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == 'name: "été"\n'


def test_misspelt_and_duplicate_keys_tabs_and_empty_files() -> None:
    assert problems("srams: [{size_kib: 64, bansk: 8}]\n") == [
        "w.yaml:1:24: srams.0.bansk: unknown key 'bansk' (the keys here are size_kib, banks); did you mean 'banks'?"
    ]
    assert problems("rows: 16\nrows: 32\n") == ["w.yaml:2:1: rows: the key is given twice, first on line 1; remove one"]
    assert problems("chip:\n\trows: 16\n") == [
        "w.yaml:2:1: a tab, where YAML is laid out with spaces only; replace it with spaces"
    ]


def case_files() -> list[Any]:
    case = yaml.safe_load(CASE.read_text(encoding="utf-8")) if CASE.exists() else None
    if case is None:
        return [pytest.param({}, {}, marks=pytest.mark.skip(reason="the shared cases are not there"))]
    return [pytest.param(file, case["expected"][file["name"]], id=file["name"]) for file in case["input"]["files"]]


@pytest.mark.parametrize(("file", "expected"), case_files())
def test_shared_case(tmp_path: Path, file: dict[str, Any], expected: dict[str, Any]) -> None:
    path = tmp_path / file.get("path", "workload.yaml")
    path.parent.mkdir(exist_ok=True)
    text = file["text"]
    path.write_bytes(("\ufeff" + text.replace("\n", "\r\n") if "bytes" in file else text).encode())
    if "error" not in expected:
        assert load(path, Chip, "workload").name == expected["name"]
        return
    with pytest.raises(ConfigError) as caught:
        load(path, Chip, "workload")
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}:{expected.get('line', 1)}:")
    if "key" in expected:
        assert f" {expected['under'] + '.' if 'under' in expected else ''}{expected['key']}: " in problem
    assert expected.get("suggestion", "") in problem and expected.get("names", "") in problem


@given(st.binary(max_size=60) | st.text("ab:{}[] \n-&*0'\"srow", max_size=60).map(str.encode))
def test_any_bytes_load_or_raise_a_config_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(data)
    try:
        chip = load(path, Chip, "chip")
    except ConfigError as error:
        assert all(problem.startswith(f"{path}:") for problem in error.problems)
    else:
        assert isinstance(chip, Chip) and isinstance(parse(data.decode("utf-8-sig")), Document)

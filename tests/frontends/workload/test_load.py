"""Workload files: what they may say, files they name, overrides, bare models, and every fault of structure."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from npusim.errors import ConfigError, FileFormatError, InvalidGraphError
from npusim.frontends.tosa import TosaTensor, write_tosa
from npusim.frontends.workload import Workload, load_workload
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from tests.frontends.tosa.files import tosa_file

Loader = Callable[..., Workload]
Finder = Callable[..., list[str]]

GRAPH = """\
graph:
  inputs: {x: 2x3xi32, y: 2x3xi32}
  operators:
    - {name: sum, op: add, inputs: [x, y]}
    - {name: difference, op: sub, inputs: [x, y]}
  outputs: [sum, difference]
"""


def save(path: Path, values: object, dtype: str = "int32") -> Path:
    np.save(path, np.array(values, dtype))
    return path


def save_model(path: Path) -> Path:
    """A TOSA file that adds a [2] and b [2] to c, all int32."""
    tensors = [TosaTensor(name, (2,), "INT32") for name in "abc"]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(write_tosa(tosa_file([("ADD", {}, ("a", "b"), ("c",))], tensors, "ab", "c")))
    return path


def test_everything_but_the_network_has_a_default(loaded: Loader, tmp_path: Path) -> None:
    workload = loaded(GRAPH)
    assert (workload.name, workload.graph.name, workload.path) == ("w", "w", tmp_path / "w.yaml")
    assert (workload.chip, workload.seed, workload.labels) == ("edge", 0, None)
    assert (workload.inputs, workload.input_ranges, workload.expect) == ({}, {}, {})
    assert workload.mapping == MappingOptions()


def test_inputs_and_outputs_come_in_graph_order_or_by_name(loaded: Loader, tmp_path: Path) -> None:
    x, y = [[1, 2, 3], [4, 5, 6]], [[0, 0, 0], [1, 1, 1]]
    save(tmp_path / "x.npy", x), save(tmp_path / "y.npy", y)
    ordered = loaded(f"{GRAPH}inputs: [x.npy, y.npy]\nexpect: [x.npy, y.npy]")
    named = loaded(f"{GRAPH}inputs: {{y: y.npy, x: x.npy}}\nexpect: {{difference: y.npy, sum: x.npy}}")
    for workload in (ordered, named):
        assert {v: a.tolist() for v, a in workload.inputs.items()} == {"x": x, "y": y}
        assert {v: a.tolist() for v, a in workload.expect.items()} == {"sum": x, "difference": y}
        assert all(a.dtype == np.int32 for a in (*workload.inputs.values(), *workload.expect.values()))


def test_inputs_may_have_random_ranges(loaded: Loader, tmp_path: Path) -> None:
    save(tmp_path / "x.npy", np.zeros((2, 3)))
    ordered = loaded(f"{GRAPH}inputs: [x.npy, {{random: [-3, 3]}}]")
    named = loaded(f"{GRAPH}inputs: {{y: {{random: [-3, 3]}}}}")
    assert list(ordered.inputs) == ["x"] and list(named.inputs) == []
    assert ordered.input_ranges == named.input_ranges == {"y": (-3, 3)}


def test_labels_are_for_the_first_output(loaded: Loader, problems: Finder, tmp_path: Path) -> None:
    save(tmp_path / "labels.npy", [2, 0])
    labels = loaded(f"{GRAPH}labels: labels.npy").labels
    assert labels is not None and labels.tolist() == [2, 0]
    save(tmp_path / "labels.npy", [3, 0])
    assert problems(f"{GRAPH}labels: labels.npy") == [
        "w.yaml:7:9: labels: labels.npy: labels must be classes of the output, 0..2; got 0..3"
    ]


def test_the_chip_is_a_name_or_a_path_beside_the_file(loaded: Loader, problems: Finder, tmp_path: Path) -> None:
    assert loaded(f"{GRAPH}chip: micro").chip == "micro"
    (tmp_path / "mine.yaml").write_text("name: mine", encoding="utf-8")
    assert loaded(f"{GRAPH}chip: mine.yaml").chip == str(tmp_path / "mine.yaml")
    assert problems(f"{GRAPH}chip: mne.yaml") == [
        "w.yaml:7:7: chip: mne.yaml: there is no such file for the chip; did you mean 'mine.yaml'?"
    ]
    (fault,) = problems(f"{GRAPH}chip: micr")
    assert fault.startswith("w.yaml:7:7: chip: npusim ships with the chips ")
    assert fault.endswith(" and with none called 'micr'; did you mean 'micro'?")


def test_mapping_seed_name_and_level_can_be_overridden(loaded: Loader) -> None:
    text = f"name: net\nseed: 5\n{GRAPH}mapping: {{fuse: false, layers: {{sum: {{tile: {{d0: 1}}}}}}}}"
    layer = LayerOptions(tile={"d0": 1})
    assert (loaded(text).mapping, loaded(text).seed) == (MappingOptions(fuse=False, layers={"sum": layer}), 5)
    changed = loaded(text, "mapping.fuse=true", "mapping.layers.sum.buffers=2", "seed=9", "name=other")
    layer = LayerOptions(tile={"d0": 1}, buffers=2)
    assert changed.mapping == MappingOptions(layers={"sum": layer})
    assert (changed.seed, changed.name, changed.graph.name) == (9, "other", "other")


def test_faults_of_overrides_are_located_by_the_option(problems: Finder) -> None:
    (fault,) = problems(GRAPH, "mapping.fusee=false")
    assert fault.startswith("--set mapping.fusee=false: mapping.fusee: unknown key 'fusee' (the keys here are fuse, ")
    assert fault.endswith("did you mean 'fuse'?")
    assert problems(GRAPH, "seed") == ["--set seed: has no '='; write key=value, such as mapping.fuse=false"]
    assert problems(GRAPH, "name=a/b")[0].startswith("--set name=a/b: name: 'a/b' cannot name the folder of a report")


def test_a_chip_in_the_place_of_a_workload(problems: Finder) -> None:
    remedy = "w.yaml: looks like a chip (it states units or sram), not a workload; give it with --chip"
    assert problems("name: c\nclock_hz: 1 GHz\nunits: []\ndram: {}") == [remedy]
    assert problems("sram: {}\nwhat: 1") == [remedy]
    assert problems(f"{GRAPH}sram: {{}}")[0].startswith("w.yaml:7:1: sram: unknown key 'sram'")


# -- model files -----------------------------------------------------------------------------------------------


def test_a_workload_may_name_a_model(loaded: Loader, problems: Finder, tmp_path: Path) -> None:
    save_model(tmp_path / "net.tosa")
    save(tmp_path / "a.npy", [1, 2])
    workload = loaded("name: mine\nmodel: net.tosa\ninputs: [a.npy, {random: [0, 1]}]\nexpect: {c: a.npy}")
    assert workload.name == workload.graph.name == "mine"
    assert workload.graph.data_inputs == ("a", "b") and workload.inputs["a"].tolist() == [1, 2]
    (tmp_path / "bad.tosa").write_bytes(b"no model")
    for file, words in (("absent.tosa", "cannot be read"), ("bad.tosa", "TOSA")):
        (fault,) = problems(f"model: {file}")
        assert fault.startswith(f"w.yaml:1:8: model: {file}: ") and words in fault


def test_a_model_is_a_workload_with_defaults(tmp_path: Path) -> None:
    workload = load_workload(save_model(tmp_path / "net.tosa"))
    assert (workload.name, workload.graph.name, workload.chip, workload.seed) == ("net", "net", "edge", 0)
    assert workload.graph.data_inputs == ("a", "b") and workload.inputs == {}
    assert load_workload(str(save_model(tmp_path / "kws" / "model.tosa"))).name == "kws"
    changed = load_workload(tmp_path / "net.tosa", ["mapping.fuse=false", "seed=4", "name=x"])
    assert (changed.mapping.fuse, changed.seed, changed.name) == (False, 4, "x")


def test_faults_of_a_model_given_directly_start_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=f"^{tmp_path}/absent.tosa: cannot be read"):
        load_workload(tmp_path / "absent.tosa")
    (tmp_path / "bad.tosa").write_bytes(b"no model")
    with pytest.raises(FileFormatError, match=f"^{tmp_path}/bad.tosa: "):
        load_workload(tmp_path / "bad.tosa")
    path = tmp_path / "foreign.tosa"
    tensors = [TosaTensor(name, (2,), "FP32") for name in "ab"]
    path.write_bytes(write_tosa(tosa_file([("ABS", {}, ("a",), ("b",))], tensors, "a", "b")))
    with pytest.raises(InvalidGraphError, match=r"foreign.tosa: operator ABS .*FP32"):
        load_workload(path)


# -- faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("inputs: [x.npy]", "1: inputs: 1 listed, the graph has 2 (x, y); list one for each, or give them by name"),
        (
            "expect: [a.npy, b.npy, c.npy]",
            "1: expect: 3 listed, the graph has 2 (sum, difference); list one for each, or",
        ),
        ("inputs: {x: x.npy, z: x.npy}", "23: inputs.z: the graph has no input 'z'; known: x, y"),
        ("expect: {dif: x.npy}", "15: expect.dif: the graph has no output 'dif'; known: sum, difference"),
        (
            "expect: {differense: x.npy}",
            "22: expect.differense: the graph has no output 'differense'; did you mean 'diff",
        ),
        ("inputs: {x: none.npy}", "13: inputs.x: none.npy: there is no such file for input 'x'; check the path"),
        (
            "expect: [x.npy, y.npy]",
            "17: expect.1: y.npy: there is no such file for expected output 'difference'; did you",
        ),
        (
            "inputs: {x: wide.npy}",
            "13: inputs.x: wide.npy: input 'x' must be int32 [2, 3] (2x3xi32), the file has int64 ",
        ),
        (
            "expect: {sum: flat.npy}",
            "15: expect.sum: flat.npy: expected output 'sum' must be int32 [2, 3] (2x3xi32), the",
        ),
        (
            "inputs: {x: {random: [2, 1]}}",
            "10: inputs.x: the random range of 'x' (2x3xi32) must be [smallest, largest] ",
        ),
        ("labels: none.npy", "9: labels: none.npy: there is no such file for labels; check the path"),
        (
            "labels: flat.npy",
            "9: labels: flat.npy: labels must be integers [2], one for each entry of the first output;",
        ),
        ("name: ..", "7: name: '..' cannot name the folder of a report; use visible characters without slashes"),
        ("name: ' '", "7: name: ' ' cannot name the folder of a report; use visible characters without slashes"),
        ("dialect: sead", "10: dialect: must be one of 'tosa', 'seed'; got 'sead'; did you mean 'seed'?"),
        ("seed: -1", "7: seed: must be at least 0; got -1"),
        (
            "sed: 1",
            "1: sed: unknown key 'sed' (the keys here are name, chip, seed, model, model_options, graph, dialect, ",
        ),
        (
            "model: net.tosa",
            "1: a workload has either a 'model' (a file) or a 'graph' (operators); give one of them",
        ),
    ],
)
def test_faults_around_the_graph(problems: Finder, tmp_path: Path, line: str, fault: str) -> None:
    save(tmp_path / "x.npy", np.zeros((2, 3)))
    save(tmp_path / "wide.npy", np.zeros((2, 3)), "int64")
    save(tmp_path / "flat.npy", np.zeros(6))
    (found,) = problems(GRAPH + line)
    row = 1 if line.startswith("model") else 7
    assert found.startswith(f"w.yaml:{row}:{fault}")


def test_files_are_looked_for_even_if_the_graph_is_at_fault(problems: Finder, tmp_path: Path) -> None:
    save(tmp_path / "wide.npy", 0, "int64")
    text = f"{GRAPH.replace('op: sub', 'op: sup')}inputs: [none.npy, wide.npy]\nexpect: {{z: a.npy}}\nlabels: no.npy"
    found = [fault.split(": ")[1:3] for fault in problems(text)]
    assert found == [
        ["graph.operators.1.op", "operator 'sup' is not known; did you mean 'sub'?"],
        ["inputs.0", "none.npy"],
        ["expect.z", "the graph has no output 'z'; known"],
        ["labels", "no.npy"],
    ]
    assert [fault.split(": ")[1] for fault in problems("model: none.tosa\ninputs: [a.npy]\nexpect: {z: a.npy}")] == [
        "model",
        "inputs.0",
        "expect.z",
    ]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (
            "name: a\n",
            ["1:1: a workload has either a 'model' (a file) or a 'graph' (operators); give one of them"],
        ),
        (
            "model: a.tosa\ndialect: seed\n",
            ["1:1: a TOSA file follows dialect tosa; remove 'dialect', which is for op"],
        ),
        (
            "graph:\n  inputs: {x: 4xi8}\n  outputs: [y]\n  constants:\n    a: {type: 4xi8}\n"
            "    b: {type: 4xi8, fill: 1, random: true}\n    c: {type: 4xi8, random: false}\n"
            "    d: {type: 4xi8, fill: 1, key: k}\n    e: {typ: 4xi8, fill: 1}\n  operators:\n"
            "    - {name: y, op: add, inputs: [x, {type: 4xi8}], pad: [1]}\n",
            [
                "5:5: graph.constants.a: a constant takes its elements from one of random, values, fill, arange, file;",
                "6:5: graph.constants.b: a constant takes its elements from one of random, values, fill, arange, file;",
                "7:5: graph.constants.c: a constant takes its elements from one of random, values, fill, arange, file;",
                "8:5: graph.constants.d: key 'k' needs a file to look into",
                "9:5: graph.constants.e.type: is required but missing",
                "9:9: graph.constants.e.typ: unknown key 'typ'",
                "11:38: graph.operators.0.inputs.1: a constant takes its elements from one of random",
                "11:53: graph.operators.0.pad: unknown key 'pad' (the keys here are name, op, inputs, output, att",
            ],
        ),
        (
            "name: a\nname: b\nchip: 3\n",
            ["2:1: name: the key is given twice", "3:7: chip: must be text"],
        ),
        ("graph:\n\tinputs: {}\n", ["2:1: a tab"]),
        ("", ["1:1: no workload: the text is empty"]),
        ("# nothing here\n", ["1:1: no workload: the text is empty or holds only comments"]),
    ],
)
def test_faults_of_structure_come_all_at_once(problems: Finder, text: str, faults: list[str]) -> None:
    found = problems(text)
    assert [p[: len(f) + 7] for p, f in zip(found, faults, strict=True)] == [f"w.yaml:{f}" for f in faults]


def test_overrides_do_not_make_a_workload_of_an_empty_file(problems: Finder) -> None:
    assert problems("", "seed=1") == ["w.yaml:1:1: no workload: the text is empty or holds only comments"]


def test_a_missing_workload_is_named_with_a_close_one(tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text(GRAPH, encoding="utf-8")
    with pytest.raises(ConfigError, match="nett.yaml: there is no such workload file; did you mean '.*net.yaml'"):
        load_workload(tmp_path / "nett.yaml")


def test_names_and_paths_in_any_script(tmp_path: Path) -> None:
    folder = tmp_path / "dossier é 测"
    folder.mkdir()
    save(folder / "entrée.npy", np.zeros((2, 3)))
    text = f"\ufeff# π₀.5\nname: été\n{GRAPH}inputs: {{x: entrée.npy}}\n".replace("\n", "\r\n")
    (folder / "charge.yaml").write_bytes(text.encode())
    workload = load_workload(folder / "charge.yaml")
    assert workload.name == "été" and list(workload.inputs) == ["x"]


def test_relative_paths_start_at_the_file_not_at_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nets").mkdir()
    save(tmp_path / "nets" / "x.npy", np.zeros((2, 3)))
    (tmp_path / "nets" / "w.yaml").write_text(f"{GRAPH}inputs: {{x: x.npy}}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert list(load_workload(os.path.join("nets", "w.yaml")).inputs) == ["x"]

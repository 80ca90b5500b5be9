"""Workloads as values: their names and the hash of their content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from npusim.frontends.workload import Workload
from npusim.frontends.workload.workload import default_name
from npusim.ir.mapping_options import MappingOptions

Loader = Callable[..., Workload]

V, W = "v: {type: 4xi32, values: [0, 1, 2, 3]}", "w: {type: 4xi32, random: [0, 31]}"
TEXT = f"""\
name: a
graph:
  inputs: {{x: 4xi32}}
  constants: {{{V}, {W}}}
  operators:
    - {{name: y, op: add, inputs: [x, v]}}
    - {{name: z, op: arithmetic_right_shift, inputs: [y, w], attributes: {{round: true}}}}
  outputs: [z]
"""


def test_the_hash_is_of_the_content_not_of_its_spelling(loaded: Loader, tmp_path: Path) -> None:
    expected = loaded(TEXT).sha256
    assert len(expected) == 64
    np.save(tmp_path / "v.npy", np.arange(4, dtype=np.int32))
    for same in (
        TEXT.replace("name: a", "name: b\nchip: micro # a comment"),
        TEXT.replace("values: [0, 1, 2, 3]", "arange: [0, 1]"),
        TEXT.replace("values: [0, 1, 2, 3]", "file: v.npy"),
        TEXT.replace(f"{V}, {W}", f"{W}, {V}"),
        TEXT + "mapping: {fuse: true}\n",
        TEXT + "inputs: {x: v.npy}\n",
    ):
        assert loaded(same).sha256 == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x: 4xi32", "x: 1xi32"),
        ("round: true", "round: false"),
        ("2, 3]", "2, 4]"),
        ("name: z", "output: z, name: q"),
        ("op: add", "op: sub"),
        ("[x, v]", "[v, x]"),
        ("[z]", "[y, z]"),
        ("graph:", "seed: 1\ngraph:"),
        ("graph:", "mapping: {fuse: false}\ngraph:"),
        ("graph:", "mapping: {layers: {y: {buffers: 2}}}\ngraph:"),
    ],
)
def test_the_hash_tells_contents_apart(loaded: Loader, old: str, new: str) -> None:
    assert TEXT.count(old) == 1
    assert loaded(TEXT.replace(old, new)).sha256 != loaded(TEXT).sha256


def test_a_graph_is_a_workload_with_defaults(loaded: Loader) -> None:
    graph = loaded(TEXT).graph
    workload = Workload.of_graph(graph)
    assert (workload.name, workload.path, workload.chip, workload.mapping) == ("a", None, "edge", MappingOptions())
    assert workload.sha256 == loaded(TEXT).sha256
    named = Workload.of_graph(replace(graph, name="/nets/kws/model.tosa"))
    assert named.name == named.graph.name == "kws"


def test_default_names() -> None:
    assert [default_name(Path(p)) for p in ("a/kws.tosa", "a/kws/model.tosa", "net.v2.yaml")] == [
        "kws",
        "kws",
        "net.v2",
    ]
    assert default_name(Path("model.tosa")) == Path.cwd().name

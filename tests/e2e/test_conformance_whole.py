"""A sample of TOSA's integer conformance suite, each operator evaluated as a whole: bits and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from npusim.errors import FileFormatError, InvalidGraphError
from npusim.frontends.tosa import load_tosa
from npusim.functional import evaluate_graph

SAMPLE = Path(__file__).resolve().parents[3] / "shared" / "conformance"
FOLDERS = sorted(p.parent for p in SAMPLE.glob("*/*/desc.json"))
ABSENT = pytest.param(None, marks=pytest.mark.skip(reason=f"the conformance sample is absent: no {SAMPLE}"))


@pytest.mark.skipif(not FOLDERS, reason=f"the conformance sample is absent: no {SAMPLE}")
def test_the_sample_is_whole() -> None:
    assert len(FOLDERS) == 744


@pytest.mark.parametrize("folder", FOLDERS or [ABSENT], ids=lambda folder: folder and folder.name)
def test_conformance(folder: Path) -> None:
    """Outputs equal the reference model's; those of an inexact rescale within one. ERRORIF tests are refused."""
    description = json.loads((folder / "desc.json").read_text())
    path = folder / description["tosa_file"]
    if description["expected_failure"]:
        with pytest.raises((InvalidGraphError, FileFormatError), match="test.tosa: "):
            load_tosa(path)
        return
    graph = load_tosa(path)
    assert graph.data_inputs == tuple(description["ifm_name"])
    assert graph.data_outputs == tuple(description["ofm_name"])
    arrays = [np.load(folder / file) for file in description["ifm_file"]]
    # Files hold unsigned tensors as signed ones of the same bits.
    inputs = {v: a.view(graph.types[v].dtype.storage) for v, a in zip(graph.data_inputs, arrays, strict=True)}
    outputs = evaluate_graph(graph, inputs)
    for k, (name, file) in enumerate(zip(graph.data_outputs, description["ofm_file"], strict=True)):
        # A graph that is nothing but a constant has its value as the file of the output, and no reference.
        reference = np.load(folder / (f"reference-{k}.npy" if graph.nodes else file))
        got = outputs[name]
        assert (got.dtype, got.shape) == (reference.dtype, reference.shape)
        mode = description["meta"]["compliance"]["tensors"][name]["mode"]
        if mode == "RESCALE_INEXACT":
            assert np.abs(got.astype(np.int64) - reference).max() <= 1
        else:
            assert mode == "EXACT"
            np.testing.assert_array_equal(got, reference)

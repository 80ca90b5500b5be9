"""Real networks, evaluated operator by operator: their outputs are those of TOSA's reference model, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.frontends.tosa import load_tosa
from npusim.functional import evaluate_graph

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"
FLOAT_ISLANDS = "lstm_unrolled_rand_int8"
FOLDERS = sorted(p.parent for p in MODELS.glob("*/*/model.tosa") if p.parent.name != FLOAT_ISLANDS)
REASON = f"the reference networks are absent: no {MODELS}"
ABSENT = pytest.param(None, marks=pytest.mark.skip(reason=REASON))


@pytest.mark.skipif(not FOLDERS, reason=REASON)
def test_the_networks_are_there() -> None:
    assert len(FOLDERS) == 96


@pytest.mark.parametrize(
    "folder", FOLDERS or [ABSENT], ids=lambda folder: folder and f"{folder.parent.name}/{folder.name}"
)
def test_model(folder: Path) -> None:
    """Streaming networks (wakeword) make one step: their variables start as the file says, one input, one output."""
    graph = load_tosa(folder / "model.tosa")
    arrays = [np.load(folder / f"input{k}.npy") for k in range(len(graph.data_inputs))]
    inputs = dict(zip(graph.data_inputs, arrays, strict=True)) | {s.input: s.initial for s in graph.states}
    for name, array in inputs.items():
        assert (array.shape, array.dtype) == (graph.types[name].shape, graph.types[name].dtype.storage)
    outputs = evaluate_graph(graph, inputs)
    assert len(list(folder.glob("output*.npy"))) == len(graph.data_outputs)
    for k, name in enumerate(graph.data_outputs):
        reference = np.load(folder / f"output{k}.npy")
        assert outputs[name].dtype == reference.dtype
        np.testing.assert_array_equal(outputs[name], reference)


@pytest.mark.skipif(not FOLDERS, reason=REASON)
@pytest.mark.parametrize("name", ["mww_v2_okay_nabu", "mww_v2_vad"])
def test_a_streaming_network_carries_its_variables(name: str) -> None:
    """Each variable [1, rows, 1, channels] is a window over a layer's input: a step drops old rows and adds new."""
    graph = load_tosa(MODELS / "wakeword" / name / "model.tosa")
    frame = np.load(MODELS / "wakeword" / name / "input0.npy")
    (input_name,) = graph.data_inputs
    held = [{s.input: s.initial for s in graph.states}]
    for step in range(2):
        found = evaluate_graph(graph, {input_name: np.roll(frame, step), **held[-1]})
        held.append({s.input: found[s.output] for s in graph.states})
        for state in graph.states:
            before, after = held[step][state.input], held[step + 1][state.input]
            if state.name == "stream/states":  # the network's input comes in three rows a step, and two are kept
                np.testing.assert_array_equal(after.reshape(2, 40), np.roll(frame, step)[0, 1:])
            else:
                np.testing.assert_array_equal(after[:, :-1], before[:, 1:])
    assert any((held[1][s.input] != held[2][s.input])[:, -1].any() for s in graph.states)


@pytest.mark.skipif(not FOLDERS, reason=REASON)
def test_float_islands_are_refused_by_name() -> None:
    with pytest.raises(InvalidGraphError) as caught:
        load_tosa(MODELS / "generated" / FLOAT_ISLANDS / "model.tosa")
    wanted = [
        r"operator CAST uses FP32 tensors.*: quantise the whole model \(4 in the file, the first makes 'layer_397'\)",
        r"operator SUB uses FP32 tensors.* \(1 in the file, the first makes 'layer_398'\)",
        r"operator MUL uses FP32 tensors.* \(4 in the file, the first makes 'layer_399'\)",
        r"operator SLICE uses FP32 tensors.* \(3 in the file, the first makes 'layer_400'\)",
    ]
    assert len(caught.value.problems) == len(wanted)
    for message in wanted:
        assert caught.match(message)

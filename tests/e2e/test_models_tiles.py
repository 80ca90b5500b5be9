"""Real networks through tiles: executed on SRAM bytes in the order that was timed, every output bit equal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim.errors import InvalidGraphError
from npusim.functional import evaluate_graph

MODELS = Path(__file__).resolve().parents[2].parent / "shared" / "models"
FOLDERS = sorted(p.parent for p in MODELS.glob("*/*/model.tosa"))
WITH_FLOATS = {"lstm_unrolled_rand_int8"}

# on every preset: one of each kind of network, of the small ones
DOZEN = {
    "ad01_int8", "kws_dscnn_int8", "resnet8_int8", "vww_96_int8", "person_detect", "mobilenet_v1_0.25_128_quant",
    "mlperf_kws_trained_int16x8", "mlperf_resnet8_trained_w4a8", "bert_tiny_64_rand_int8", "opmix_rand_int16x8",
    "unet_64_rand_int8", "mww_v2_vad",
}  # fmt: skip


def cases() -> list[object]:
    found: list[object] = []
    for folder in FOLDERS:
        for chip in ("edge", "micro", "server"):
            quick = chip == "edge" or folder.name in DOZEN
            marks = () if quick else (pytest.mark.slow,)
            found.append(pytest.param(folder, chip, id=f"{folder.parent.name}-{folder.name}-{chip}", marks=marks))
    return found


@pytest.mark.skipif(not FOLDERS, reason="the shared models are not here")
@pytest.mark.parametrize(("folder", "chip"), cases())
def test_bits_in_timed_order(folder: Path, chip: str) -> None:
    model = folder / "model.tosa"
    if folder.name in WITH_FLOATS:
        with pytest.raises(InvalidGraphError, match="operator CAST uses FP32 tensors"):
            npusim.run(model, chip)
        return
    inputs, expect = (
        [folder / f"{what}{i}.npy" for i in range(len(list(folder.glob(f"{what}*.npy"))))]
        for what in ("input", "output")
    )
    result = npusim.run(model, chip, inputs=inputs, expect=expect)
    assert len(result.report.checks) == len(expect) > 0
    result.require_match()
    assert all(np.array_equal(np.load(e), o) for e, o in zip(expect, result.outputs.values(), strict=True))
    assert result.report.totals.cycles > 0
    assert all(0 <= x.utilization <= 1 for x in result.report.layers)


@pytest.mark.skipif(not FOLDERS, reason="the shared models are not here")
@pytest.mark.parametrize("name", ["mww_v2_okay_nabu", "mww_v2_vad"])
def test_a_streaming_network_keeps_its_state_over_ten_steps(name: str) -> None:
    """Step by step through tiles, each from what the one before left; whole evaluation is the reference."""
    graph = npusim.load_tosa(MODELS / "wakeword" / name / "model.tosa")
    (source,) = graph.data_inputs
    rng = np.random.default_rng(3)
    states = {s.name: s.initial for s in graph.states}
    outputs = []
    for _ in range(10):
        frame = rng.integers(-128, 127, graph.types[source].shape, np.int8, endpoint=True)
        want = evaluate_graph(graph, {source: frame} | {s.input: states[s.name] for s in graph.states})
        result = npusim.run(graph, "micro", inputs=[frame], states=states)
        for v, array in result.outputs.items():
            np.testing.assert_array_equal(array, want[v])
        for s in graph.states:
            np.testing.assert_array_equal(result.states[s.name], want[s.output])
        assert any(not np.array_equal(states[s.name], result.states[s.name]) for s in graph.states)
        states = dict(result.states)
        outputs.append(next(iter(result.outputs.values())).tobytes())
    assert len(set(outputs)) > 1

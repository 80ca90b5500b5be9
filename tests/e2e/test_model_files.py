"""Binary networks of other tools from file to floats: host, tiles on the chip ``binary``, host; and what a run says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.api import make_job
from npusim.cli.main import app
from npusim.errors import ConfigError, FileFormatError, InputError
from tests.frontends.openvino.ir import Ir, sums

MODELS = Path(__file__).resolve().parents[2].parent / "shared" / "models" / "bnn"
GOLDEN = {
    "TFC_1W1A": ("model.onnx", "golden_qonnx"),
    "TFC_1W2A": ("model.onnx", "golden_qonnx"),
    "TFC_2W2A": ("model.onnx", "golden_qonnx"),
    "bnn_small_32_rand_lce": ("model.tflite", "golden_lce"),
}
X = np.random.default_rng(5).integers(0, 2, (1, 8, 6, 6))
W = np.random.default_rng(6).integers(0, 2, (3, 8, 3, 3))


@pytest.mark.skipif(not MODELS.is_dir(), reason="the shared models are not here")
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_outputs_through_tiles(name: str) -> None:
    file, golden = GOLDEN[name]
    folder = MODELS / name
    job = make_job(
        folder / file, "binary", inputs=[folder / f"{golden}.in0.npy"], expect=[folder / f"{golden}.out0.npy"]
    )
    result = npusim.session.run(job)
    result.require_match()
    report = result.report
    (check,) = report.checks
    exact = name.startswith("TFC")
    assert ("all 10 values equal" in check.detail) is exact
    assert {layer.engine for layer in report.layers} <= {"popcount", "vector"}
    assert report.totals.utilization["popcount"] > 0
    (integers,) = job.graph.data_outputs
    assert [o.name for o in report.outputs] == [integers, next(iter(job.around.outputs))]
    assert report.outputs[0].type.endswith("xi32") and report.outputs[1].type == "1x10xf32"
    assert len(report.host) >= 5


@pytest.fixture
def ir(tmp_path: Path) -> Path:
    """One convolution with padding of 0, whose meaning is a choice."""
    g = Ir()
    g.result(g.convolution(g.parameter(X.shape), W, (1, 3, 6, 6), pads_begin=[1, 1], pads_end=[1, 1]))
    g.load(tmp_path)
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    return tmp_path / "net.xml"


@pytest.mark.parametrize(("rule", "value"), [("plugin", 0), ("literal", -1)])
def test_choices_of_the_format_are_stated_in_the_workload_and_told_by_the_report(
    ir: Path, rule: str, value: int
) -> None:
    wanted = sums(X, W, (1, 1, 1, 1), value).astype(np.float32)
    np.save(ir.parent / "y.npy", wanted)
    workload = ir.parent / "w.yaml"
    text = "model: net.xml\nchip: binary\ninputs: {x: x.npy}\nexpect: [y.npy]\n"
    workload.write_text(f"{text}model_options: {{pad_rule: {rule}}}\n")
    results = [
        npusim.run(workload),
        npusim.run(ir, "binary", inputs={"x": X.astype(np.float32)}, overrides=[f"model_options.pad_rule={rule}"]),
    ]
    for result in results:
        result.require_match()
        assert any(r.startswith(f"pad_rule {rule}: ") for r in result.report.manifest.remarks)
        assert np.array_equal(result.outputs["y"], wanted)


def test_the_command_line_says_how_the_file_was_read_and_what_the_host_does(ir: Path) -> None:
    out = str(ir.parent / "out")
    command = ["run", str(ir), "--chip", "binary", "--input", str(ir.parent / "x.npy"), "--out", out, "--no-pictures"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.output
    assert "read: pad_rule plugin: pad_value 0 adds nothing" in found.output
    assert "on the host, time not modelled: " in found.output
    assert sorted(p.name for p in (ir.parent / "out" / "outputs").iterdir()) == ["conv.npy", "y.npy"]


def test_without_inputs_the_bits_are_random(ir: Path) -> None:
    first, again, other = (npusim.run(ir, "binary", seed=s).outputs["conv"] for s in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_the_integers_may_be_given_and_compared_themselves(ir: Path) -> None:
    job = make_job(ir, "binary", inputs={"x": X.astype(np.float32)})
    (bits,) = job.graph.data_inputs
    wanted = sums(X, W, (1, 1, 1, 1), 0).astype(np.int32)
    result = npusim.run(ir, "binary", inputs={bits: job.inputs[bits]}, expect={"conv": wanted})
    result.require_match()
    with pytest.raises(InputError, match=r"^input 'z' is not one of the graph's: "):
        make_job(ir, "binary", inputs={"z": X})
    wrong = npusim.run(ir, "binary", inputs={"x": X.astype(np.float32)}, expect={"y": wanted.astype(np.float32) + 1})
    assert (
        not wrong.report.checks[0].passed
        and "differs from the expected one in 108 of 108" in wrong.report.checks[0].detail
    )


def test_faults_of_model_files(ir: Path, tmp_path: Path) -> None:
    (tmp_path / "net.pb").write_bytes(b"")
    (tmp_path / "w.yaml").write_text("model: net.pb\n")
    with pytest.raises(
        ConfigError, match=r"w.yaml:1:8: model: .*net.pb: '.pb' is no model format that npusim reads: .tosa"
    ):
        npusim.load_workload(tmp_path / "w.yaml")
    (tmp_path / "w.yaml").write_text("model: net.xml\nmodel_options: {pad_rule: both}\n")
    with pytest.raises(ConfigError, match=r"w.yaml:2:27: model_options.pad_rule: .*'both'"):
        npusim.load_workload(tmp_path / "w.yaml")
    for suffix in (".xml", ".onnx", ".tflite", ".tosa"):
        with pytest.raises(FileFormatError, match=f"absent{suffix}: cannot be read"):
            npusim.load_workload(tmp_path / f"absent{suffix}")

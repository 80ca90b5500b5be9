"""GAP9 with NE16 against its chip: the errors that are achieved, and which unit takes which layer."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from npusim.errors import InputError
from npusim.explore.validate import CaseResult, cases_folder, load_case, read_rows, run_case
from npusim.explore.validation import Row
from npusim.frontends.chip import load_chip
from npusim.ir.mapping_options import MappingOptions
from npusim.mapping.mapper import map_graph

FOLDER = cases_folder() / "gap9_ne16_mlperf_tiny"
CASE = load_case(FOLDER / "case.py")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "validation"
NETWORKS = {"ic": "ic_resnet8", "kws": "kws_dscnn", "vww": "vww_mobilenetv1_025", "ad": "ad_fc_autoencoder"}


@pytest.fixture(scope="module")
def result() -> CaseResult:
    return run_case(CASE, read_rows(CASE))


def test_the_errors_are_what_they_were(result: CaseResult) -> None:
    assert len(result.outcomes) == 4
    assert result.met
    assert result.achieved is not None
    assert result.achieved <= 8.5


def test_at_most_three_values_were_chosen_by_looking() -> None:
    assert len(CASE.inferred) <= 3


def test_other_networks_are_predicted_too() -> None:
    """Bounds from the multiplications and, for the autoencoder, the weights that come at 8 bytes a cycle."""
    vww, ad = (CASE.predict(Row(n, n, 1, "cycles")) for n in ("vww", "ad"))
    assert vww > 7_491_972 / 162
    assert 264_192 / 8 < ad < 3 * 264_192 / 8


def test_the_cores_take_what_ne16_cannot_do_or_does_slowly() -> None:
    import sys

    module = sys.modules[CASE.predict.__module__]
    chip = load_chip("gap9")
    plan = map_graph(module.workload("kws"), chip, MappingOptions(residency=False, overlap=False)).plan
    engines = {p.region.name: p.cost.engine for p in plan.layers}
    assert engines.pop("conv0.sums") == "cores_mac"  # 10 x 4 kernels
    assert {engines.pop(n) for n in ("pool9", "softmax11")} == {"cores"}
    assert set(engines.values()) == {"ne16"}


def test_the_layers_are_those_of_the_published_networks() -> None:
    path = SHARED / "mlperf_tiny_workloads.yaml"
    if not path.is_file():
        pytest.skip("the published networks are not beside the repository")
    theirs = yaml.safe_load(path.read_text(encoding="utf-8"))["networks"]
    mine = yaml.safe_load((FOLDER / "networks.yaml").read_text(encoding="utf-8"))["networks"]
    for name, published in NETWORKS.items():
        layers = [op for op in theirs[published] if op["op"] != "RESHAPE"]
        assert mine[name]["input"] == layers[0]["inputs"][0][1:]
        assert [layer["out"][-1] for layer in mine[name]["layers"]] == [op["output"][-1] for op in layers]
        kernels = [op["inputs"][1][1:3] for op in layers if "CONV" in op["op"]]
        assert [layer["kernel"] for layer in mine[name]["layers"] if "kernel" in layer] == kernels


def test_the_rows_are_those_of_the_published_file() -> None:
    path = SHARED / "gap9_ne16_mlperf_tiny.yaml"
    if not path.is_file():
        pytest.skip("the published measurements are not beside the repository")
    mine, theirs = read_rows(CASE), read_rows(CASE, path)
    assert [(r.id, r.measured) for r in mine] == [(r.id, r.measured) for r in theirs]


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(InputError, match=r"asr: no such network; networks.yaml has ic, kws, vww, ad"):
        CASE.predict(Row("asr", "asr", 1, "cycles"))

"""The comparison with OpenVINO: against the plugin itself where it is installed, and the script's own arithmetic."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_script() -> ModuleType:
    name = "npusim_oracle_openvino"
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "oracle_openvino.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


oracle = load_script()
PYTHON = oracle.ENVIRONMENT / "bin" / "python"


@pytest.mark.skipif(not PYTHON.exists(), reason="OpenVINO is not installed: make oracle-openvino makes .venv-openvino")
def test_networks_against_the_plugin() -> None:
    tally, wrong = oracle.compare(PYTHON, 150, seed=77)
    assert wrong == []
    assert tally.keys() == {"convolution", "binarized", "chain", "mixed"}


@pytest.mark.parametrize("seed", range(40))
def test_networks_are_legal_and_have_the_sizes_the_script_expects(seed: int) -> None:
    network = oracle.random_network(np.random.default_rng((5, seed)))
    shape: list[int] = list(network.input.shape)
    for layer in network.layers:
        shape = [shape[0], len(layer.weight), *oracle.pooled(layer, oracle.positions(layer, shape))]
    assert list(oracle.npusim(network).shape) == shape


@pytest.mark.parametrize("seed", range(40))
def test_ones_that_fill_up_the_channels_are_taken_off_again(seed: int) -> None:
    network = oracle.random_network(np.random.default_rng((6, seed)))
    if network.kind != "convolution" or network.layers[0].attributes["groups"] > 1:
        network = oracle.Network("convolution", np.ones((1, 3, 4, 5), np.uint8), (layer_of_ones(),))
    (layer,) = network.layers
    filled = oracle.Layer(oracle.fill_up(layer.weight), layer.attributes)
    more = oracle.npusim(oracle.Network("convolution", oracle.fill_up(network.input), (filled,)))
    np.testing.assert_array_equal(more - oracle.filling(network), oracle.npusim(network))


def layer_of_ones() -> Any:
    attributes = {
        "stride": [1, 1],
        "dilation": [1, 1],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "auto_pad": "explicit",
    }
    return oracle.Layer(np.ones((2, 3, 3, 3), np.uint8), {**attributes, "pad_value": "zero", "groups": 1})


def test_a_difference_is_reported_and_gives_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def one_off(_: Path, networks: Sequence[Any]) -> Iterator[Any]:
        for k, network in enumerate(networks):
            sums = oracle.npusim(network).astype(np.float32)
            sums[..., -1] += k == 2
            yield sums, []

    monkeypatch.setattr(oracle, "install", lambda folder: folder)
    monkeypatch.setattr(oracle, "openvino", one_off)
    assert oracle.main(["--cases", "4", "--seed", "3"]) == 1
    report = capsys.readouterr().out
    assert "seed 3, network 2" in report
    assert "operators: differs at" in report
    assert "3 equal, 1 different" in report
    monkeypatch.setattr(oracle, "openvino", lambda _, networks: ((oracle.npusim(n), []) for n in networks))
    assert oracle.main(["--cases", "4"]) == 0


def test_the_files_that_the_plugin_ran_are_read_and_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The IR is that of the runner, the output is as computed here: by the operators, and off by one."""
    built = runner_model()

    def runs(_: Path, networks: Sequence[Any]) -> Iterator[Any]:
        for k, network in enumerate(networks):
            batch = oracle.Batch()
            (number,) = oracle.submit(batch, network)
            model = built(batch.networks[number], batch.arrays)
            data = batch.arrays[batch.networks[number][0]["input"]]
            sums = oracle.npusim(network).astype(np.float32)
            yield sums, [oracle.Run(model.xml().encode(), bytes(model.data), data, sums + (k == 2))]

    monkeypatch.setattr(oracle, "openvino", runs)
    random = oracle.random_network
    kinds = ("chain", "mixed", "binarized")

    def chosen(rng: np.random.Generator) -> Any:
        while (network := random(rng)).kind not in kinds:
            pass
        return network

    monkeypatch.setattr(oracle, "random_network", chosen)
    tally, wrong = oracle.compare(Path(), 30, seed=1)
    assert set(tally) == set(kinds)
    assert len(wrong) == 1
    assert "network 2" in wrong[0]
    assert "front end: differs at" in wrong[0]
    assert capsys.readouterr().out == ""


def runner_model() -> Any:
    """``build`` of the runner, which imports OpenVINO only to run what it has built."""
    spec = importlib.util.spec_from_file_location("openvino_runner", oracle.RUNNER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build

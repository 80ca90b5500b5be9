"""The workloads of the repository: each is built, the small ones are evaluated, the digits give the expected logits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from npusim.frontends.workload import Workload, load_workload, random_array
from npusim.functional.whole import evaluate_graph
from npusim.numerics.types import Array

FOLDER = Path(__file__).parents[3] / "workloads"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
LARGE = ("mobilenet_v2", "resnet50")


@cache
def load(name: str) -> Workload:
    return load_workload(FOLDER / f"{name}.yaml")


def outputs(workload: Workload) -> dict[str, Array]:
    inputs = dict(workload.inputs)
    for value in workload.graph.data_inputs:
        if value not in inputs:
            bounds = workload.input_ranges.get(value, ())
            inputs[value] = random_array(workload.graph.types[value], workload.seed, value, *bounds)
    return evaluate_graph(workload.graph, inputs)


def macs(workload: Workload) -> int:
    return sum(n.bound.work.points for n in workload.graph.nodes if n.bound.work.macs)


def weights(workload: Workload) -> int:
    return sum(a.size for v, a in workload.graph.constants.items() if v.endswith(".weight"))


@pytest.mark.parametrize("name", NAMES)
def test_each_is_called_by_its_file_and_says_what_it_is(name: str) -> None:
    assert load(name).name == load(name).graph.name == name
    assert (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LARGE])
def test_small_ones_have_outputs_that_are_neither_constant_nor_saturated(name: str) -> None:
    workload = load(name)
    for value, array in outputs(workload).items():
        dtype = workload.graph.types[value].dtype
        assert array.size == 1 or len(np.unique(array)) > min(8, array.size // 2), value
        assert np.isin(array, (dtype.minimum, dtype.maximum)).mean() < 0.1, value


def test_the_digits_give_the_expected_logits_and_accuracy() -> None:
    workload = load("digits")
    (logits,) = outputs(workload).values()
    np.testing.assert_array_equal(logits, workload.expect["logits"])
    assert workload.labels is not None and len(workload.labels) == len(logits) == 450
    assert (logits.reshape(450, 10).argmax(1) == workload.labels).mean() > 0.98


def test_the_zero_points_of_the_digits_are_those_of_the_trained_network() -> None:
    stated = {n.name: n.op.attributes() for n in load("digits").graph.nodes}
    rescales = {"classifier": "logits"}
    with np.load(FOLDER / "digits" / "weights.npz") as file:
        for key in (k for k in file if k.endswith("_zp")):
            layer, attribute = key.split(".")
            moved = attribute == "output_zp" and layer != "avg_pool"  # a convolution's output zero point: its rescale's
            node = rescales.get(layer, f"{layer}_rescale") if moved else layer
            assert stated[node][attribute] == file[key], key


def test_resnet50_has_the_published_size() -> None:
    # torchvision's resnet50: 25,557,032 parameters less 53,120 of batch norms and 1000 biases; 4.09 G multiply-adds.
    workload = load("resnet50")
    assert (macs(workload), weights(workload)) == (4_089_184_256, 25_502_912)
    assert str(workload.graph.types[workload.graph.outputs[0]]) == "1x1x1x1000xi8"
    assert sum(n.op.name == "conv2d" for n in workload.graph.nodes) == 54


def test_mobilenet_v2_has_the_published_size() -> None:
    # torchvision's mobilenet_v2: 3,504,872 parameters less 34,112 of batch norms and 1000 biases; 0.30 G multiply-adds.
    workload = load("mobilenet_v2")
    assert (macs(workload), weights(workload)) == (300_774_272, 3_469_760)
    assert str(workload.graph.types[workload.graph.outputs[0]]) == "1x1x1x1000xi8"
    assert sum(n.op.name == "depthwise_conv2d" for n in workload.graph.nodes) == 17


def test_values_fill_int8_in_every_layer_of_mobilenet_v2() -> None:
    workload = load("mobilenet_v2")
    graph = workload.graph
    image = random_array(graph.types["image"], workload.seed, "image")
    layers = tuple(n.output for n in graph.nodes if n.name.endswith("_rescale"))
    every = evaluate_graph(replace(graph, outputs=layers), {"image": image})
    for value in layers:
        assert every[value].std() > 15, value
        assert (every[value] == 127).mean() < 0.1, value

"""The comparison with the package qonnx: against it where it is installed, and the networks that are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.live_oracle import compare
from scripts.oracle_qonnx import ORACLE, random_case
from tests.frontends.qonnx.networks import onnx
from tests.scripts.oracles import spoilt

PYTHON = ORACLE.environment / "bin" / "python"


@pytest.mark.skipif(not PYTHON.exists(), reason="qonnx is not installed: make oracle-qonnx makes .venv-qonnx")
def test_networks_against_qonnx() -> None:
    tally, wrong = compare(ORACLE, PYTHON, 12, seed=77)
    assert wrong == []
    assert sum(n for went, n in tally.items() if went.endswith("equal")) >= 6


@pytest.mark.parametrize("seed", range(20))
def test_networks_are_what_npusim_reads(seed: int) -> None:
    said = spoilt(ORACLE, seed)
    assert said is None or "'t" in said


def test_networks_are_varied_and_the_same_for_a_seed() -> None:
    kinds, operators, modes = set(), set(), set()
    for k in range(100):
        case, again = (random_case(np.random.default_rng((1, k))) for _ in range(2))
        assert case.file == again.file
        np.testing.assert_array_equal(case.inputs["x"], again.inputs["x"])
        nodes = onnx.load_model_from_string(case.file).graph.node
        kinds.add(case.kind)
        operators |= {node.op_type for node in nodes}
        modes |= {a.s.decode().upper() for node in nodes for a in node.attribute if a.name == "rounding_mode"}
    assert kinds == {"image", "dense", "residual", "agreements"}
    assert operators >= {"Quant", "IntQuant", "BipolarQuant", "MultiThreshold", "XnorPopcountMatMul"}
    assert operators >= {"Conv", "MatMul", "Gemm", "MaxPool", "BatchNormalization", "Relu", "Clip", "Add", "Softmax"}
    assert modes == {"ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"}

"""The comparison with Larq Compute Engine: against it where it is installed, and the networks that are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from npusim.numerics.types import Array

pytest.importorskip("tflite", reason="reading Larq's files takes the extra npusim[larq]")

from scripts.larq_runner import outputs
from scripts.live_oracle import compare
from scripts.oracle_larq import ORACLE, random_case
from tests.scripts.oracles import spoilt

PYTHON = ORACLE.environment / "bin" / "python"


@pytest.mark.skipif(not PYTHON.exists(), reason="Larq Compute Engine is not installed: make oracle-larq installs it")
def test_networks_against_larq_compute_engine() -> None:
    tally, wrong = compare(ORACLE, PYTHON, 24, seed=77)
    assert wrong == []
    assert sum(n for went, n in tally.items() if went.endswith("equal")) >= 8


@pytest.mark.parametrize("seed", range(20))
def test_networks_are_what_npusim_reads(seed: int) -> None:
    said = spoilt(ORACLE, seed)
    assert said is None or "(whole) differs" in said


def test_networks_are_varied_and_the_same_for_a_seed() -> None:
    kinds, operators = set(), set()
    for k in range(60):
        case, again = (random_case(np.random.default_rng((1, k))) for _ in range(2))
        assert case.file == again.file
        kinds.add((case.kind, case.exact))
        operators |= {word.split("->")[0] for word in case.note.split(": ")[1].split(", ")}
    assert kinds == {(kind, exact) for kind in ("bits", "folded", "whole") for exact in (True, False)}
    assert operators >= {"LceQuantize", "LceDequantize", "LceBconv2d", "LceBMaxPool2d", "ADD", "SUB", "MUL", "RELU"}
    assert operators >= {"CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D", "PAD", "SOFTMAX", "MEAN"}


class Kernels:
    """Stands for the interpreter: the indirect kernel gives ``indirect``, the others 1; none takes an empty file."""

    indirect = 1.0

    def __init__(self, file: bytes, threads: int, reference: bool, indirect: bool, delegate: bool) -> None:
        if not file or (file == b"groups" and not reference):
            raise RuntimeError("not supported by this kernel")
        self.number = self.indirect if indirect else 1.0

    def predict(self, given: Sequence[Array]) -> list[Array]:
        return [self.number * x for x in given]


def test_kernels_that_take_a_file_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([1.0, 2.0], np.float32)
    np.testing.assert_array_equal(outputs(Kernels, b"file", [x])[0], x)
    monkeypatch.setattr(Kernels, "indirect", 1.01)
    with pytest.raises(ValueError, match="do not agree on output 0: indirect"):
        outputs(Kernels, b"file", [x])
    np.testing.assert_array_equal(outputs(Kernels, b"groups", [x])[0], x)
    with pytest.raises(RuntimeError, match="not supported"):
        outputs(Kernels, b"", [x])

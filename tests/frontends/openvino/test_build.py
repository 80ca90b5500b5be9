"""What the builder of an IR's graph adds between the layers."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.frontends.model import ModelOptions
from npusim.frontends.openvino.build import Builder
from npusim.frontends.openvino.values import Bits
from npusim.functional import evaluate_graph
from npusim.ir.tensor import TensorType
from npusim.numerics.types import F32, U1


def builder() -> Builder:
    return Builder("net", ["x", "y"], ModelOptions())


def test_names_are_given_once() -> None:
    build = builder()
    assert [build.fresh(name) for name in ("x", "z", "z", "x")] == ["x_", "z", "z_", "x__"]


def test_bits_are_mapped_channel_by_channel() -> None:
    build = builder()
    x = build.parameter("x", TensorType((2, 4, 1, 3), U1), "Parameter 'x'")
    assert isinstance(x, Bits)
    assert build.map_bits("y", "x", np.zeros(4, np.uint8), np.ones(4, np.uint8)) == "x"
    zero, one = np.uint8([0, 1, 0, 1]), np.uint8([1, 0, 0, 1])
    value = build.map_bits("y", "x", zero, one)
    build.result("r", "Result 'r'", Bits(value, x.tensor, np.zeros(1), np.ones(1)))
    model = build.finish()
    bits = np.random.default_rng(0).integers(0, 2, (2, 4, 1, 3)).astype(np.uint8)
    found = evaluate_graph(model.graph, {"x": bits})["y"]
    for c in range(4):
        np.testing.assert_array_equal(found[:, c], np.where(bits[:, c] == 1, one[c], zero[c]))


def test_bits_of_another_rank_are_not_mapped() -> None:
    build = builder()
    build.parameter("x", TensorType((2, 4), U1), "Parameter 'x'")
    with pytest.raises(InvalidGraphError, match=r"npusim takes 'x' as \[N, C, H, W\] only, not 2x4xu1"):
        build.map_bits("y", "x", np.ones(1, np.uint8), np.zeros(1, np.uint8))


def test_a_model_without_integer_operators_is_refused() -> None:
    build = builder()
    build.parameter("x", TensorType((1,), F32), "Parameter 'x'")
    with pytest.raises(InvalidGraphError, match="^net: no integer operator lies between its inputs and outputs$"):
        build.finish()

"""Tests of the binary fully connected layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.work import UnitKind
from npusim.ops import evaluate
from npusim.ops.binary_fully_connected import BinaryFullyConnected
from tests.ops.popcount import bits, bound_to, kinds, levels, product, random_stage, run
from tests.ops.tiling import check_tiled, random_tiles

PLAIN = BinaryFullyConnected()


@pytest.mark.parametrize("seed", range(30))
def test_every_tiling_gives_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, channels, filters = int(rng.integers(1, 5)), int(rng.choice([1, 8, 63, 64, 65, 300])), int(rng.integers(1, 6))
    arrays = [bits(rng, (n, channels)), bits(rng, (filters, channels))]
    expected, op = product(arrays[0], arrays[1].T), PLAIN
    if rng.random() < 0.5:
        stage = random_stage(rng, filters, channels, 3)
        op = replace(op, out_type="u2")
        arrays, expected = [*arrays, *stage], levels(expected, 1, stage[0], stage[1], op)
    types = kinds(arrays, *("u1", "u1", "i32", "u1")[: len(arrays)])
    got = check_tiled(op, arrays, types, random_tiles(rng, op.bind(types).work))
    np.testing.assert_array_equal(got, expected)


def test_binarized_input() -> None:
    x = np.int8([[-3, 0, 5]])
    for binarize, made in (("gt0", [0, 0, 1]), ("ge0", [0, 1, 1]), ("lt0", [1, 0, 0])):
        got = evaluate("binary_fully_connected", [x, np.eye(3, dtype=np.uint8)], types=["i8", "u1"], binarize=binarize)
        np.testing.assert_array_equal(got, product(np.array([made]), np.eye(3, dtype=np.int64)))


def test_work() -> None:
    work = bound_to(PLAIN, [(2, 9), (5, 9)], "u1", "u1")[0].work
    assert (work.unit, work.points, work.macs) == (UnitKind.POPCOUNT, 2 * 9 * 5, True)


@pytest.mark.parametrize(
    ("change", "shapes", "types", "message"),
    [
        ({}, [(2, 9), (5, 8)], ("u1", "u1"), r"rule channels_match\), got weight \[5, 8\] for input \[2, 9\]"),
        ({}, [(9,), (5, 9)], ("u1", "u1"), r"rule rank\), got input of shape \[9\] for \[N, C\]"),
        ({}, [(2, 9), (5, 9, 1)], ("u1", "u1"), r"rule rank\), got weight of shape \[5, 9, 1\] for \[O, C\]"),
        ({"binarize": "gt0"}, [(2, 9), (5, 9)], ("u1", "u1"), r"rule binarize_bits\), got binarize 'gt0'"),
        ({"out_type": "u16"}, [(2, 9), (5, 9)], ("u1", "u1"), r"rule out_type\), got out_type 'u16'"),
        ({}, [(2, 9), (5, 9)], ("u1", "u2"), r"rule operand_types\), got weight u2"),
    ],
)
def test_rules(change: dict[str, Any], shapes: list[Any], types: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"binary_fully_connected: .*{message}"):
        bound_to(replace(PLAIN, **change), shapes, *types)


def test_values_that_are_no_bits() -> None:
    with pytest.raises(UnpredictableError, match=r"rule binary_value\), got input 2 at index \[1, 0\]"):
        run(PLAIN, [np.array([[1, 0], [2, 0]]), (3, 2)], "i16", "u1")

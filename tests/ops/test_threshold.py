"""Tests of the thresholds as an operator of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.ir.work import UnitKind
from npusim.ops import evaluate
from npusim.ops.threshold import Threshold
from tests.ops.popcount import bound_to, kinds, levels, random_stage, run
from tests.ops.tiling import check_tiled, random_array, random_tiles

PLAIN = Threshold(axis=1, compare="gt")


@pytest.mark.parametrize("kind", ["i8", "i16", "i32"])
@pytest.mark.parametrize("seed", range(15))
def test_every_tiling_gives_the_definition(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 5))))
    axis = int(rng.integers(len(shape)))
    out, steps, offset = [("u1", 1, 0), ("u2", 3, 0), ("u8", 20, 7), ("i2", 2, -1), ("i4", 14, -7)][
        int(rng.integers(5))
    ]
    op = Threshold(axis=axis, compare=str(rng.choice(["gt", "ge"])), offset=offset, out_type=out)
    x = rng.integers(-20, 21, shape) if rng.random() < 0.7 else random_array(rng, kinds([np.empty(shape)], kind)[0])
    stage = random_stage(rng, shape[axis], 20, steps)[: int(rng.integers(1, 3))]
    arrays = [x.astype({"i8": np.int8, "i16": np.int16, "i32": np.int32}[kind]), *stage]
    types = kinds(arrays, *(kind, "i32", "u1")[: len(arrays)])
    got = check_tiled(op, arrays, types, random_tiles(rng, op.bind(types).work))
    np.testing.assert_array_equal(got, levels(x, axis, stage[0], stage[1] if len(stage) > 1 else None, op))
    assert str(op.bind(types).output.dtype) == out


def test_both_ends_of_int32() -> None:
    x = np.int32([[-(2**31), 2**31 - 1]])
    for compare, wanted in (("gt", [0, 0]), ("ge", [1, 1])):
        op = replace(PLAIN, compare=compare)
        assert run(op, [x, np.int32([-(2**31), 2**31 - 1])], "i32", "i32").ravel().tolist() == wanted


def test_large_tensors_are_done_in_pieces() -> None:
    rng = np.random.default_rng(0)
    x, t = rng.integers(-9, 9, (3, 5, 80, 90)).astype(np.int32), rng.integers(-9, 9, (5, 3)).astype(np.int32)
    got = run(replace(PLAIN, out_type="u2"), [x, t], "i32", "i32")
    np.testing.assert_array_equal(got, sum((x > t[:, k].reshape(1, 5, 1, 1)).astype(int) for k in range(3)))


def test_as_attributes() -> None:
    x = np.int32([[1, 1, 1]])
    assert evaluate("threshold", [x], axis=1, thresholds={"values": [0, 1, 2], "compare": "ge"}).tolist() == [[1, 1, 0]]
    assert evaluate("threshold", [x], axis=1, compare="gt", thresholds=[0], invert=[0, 1, 0]).tolist() == [[1, 0, 1]]


def test_work() -> None:
    assert bound_to(PLAIN, [(2, 3), (3,)], "i32", "i32")[0].work.unit is UnitKind.VECTOR


@pytest.mark.parametrize(
    ("change", "shapes", "types", "message"),
    [
        ({"axis": 2}, [(2, 3), (3,)], ["i32", "i32"], r"rule axis_range\), got axis 2 for input \[2, 3\]"),
        ({"axis": -1}, [(2, 3), (3,)], ["i32", "i32"], r"rule axis_range\), got axis -1"),
        ({}, [(2, 3), (2,)], ["i32", "i32"], r"rule threshold_shape\), got thresholds \[2\] for 3 channels"),
        ({}, [(2, 3), (3,), (3, 1)], ["i32", "i32", "u1"], r"rule threshold_shape\), got invert \[3, 1\]"),
        ({}, [(2, 3), (3,)], ["i32", "i8"], r"rule threshold_types\), got thresholds i8"),
        ({}, [(2, 3), (3,), (3,)], ["i32", "i32", "i8"], r"rule threshold_types\), got invert i8"),
        (
            {},
            [(2, 3), (3,)],
            ["i48", "i32"],
            r"no type rule for input i48, thresholds i32; legal: \(i8, i32, u1\) -> u1",
        ),
        ({"compare": "=="}, [(2, 3), (3,)], ["i32", "i32"], r"rule compare\), got compare '=='"),
        ({"out_type": "i16"}, [(2, 3), (3,)], ["i32", "i32"], r"rule level_type\), got out_type 'i16'"),
        ({"offset": 1}, [(2, 3), (3,)], ["i32", "i32"], r"rule level_range\), got offset 1 with 1 steps for u1"),
        ({}, [(2, 3)], ["i32"], r"takes 2 to 3 operands \(input, thresholds, invert\), got 1"),
    ],
)
def test_rules(change: dict[str, Any], shapes: list[Any], types: list[str], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"threshold: .*{message}"):
        bound_to(replace(PLAIN, **change), shapes, *types)

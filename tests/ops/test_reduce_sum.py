"""Tests of REDUCE_SUM."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import I32, Array
from npusim.ops import evaluate_bound
from npusim.ops.reduce_sum import ReduceSum
from tests.ops.elementwise import run, wrap
from tests.ops.reduction import check_against, check_axis_rule, check_types
from tests.ops.tiling import check_tiled, fold_tiles, random_array, random_tiles

LOWEST, HIGHEST = -(2**31), 2**31 - 1


def oracle(line: list[int], policy: Policy) -> tuple[int, int]:
    """The sum of a line under a policy, and the number of its overflows."""
    total = events = 0
    for x in line:
        exact = total + x
        total = wrap(exact, 32) if policy == "wrap" else min(max(exact, LOWEST), HIGHEST)
        events += total != exact
    return total, events


def test_types() -> None:
    check_types(ReduceSum, {"i32": "i32"})


def test_axis_rule() -> None:
    check_axis_rule(ReduceSum, I32)


def test_oracle_and_tilings() -> None:
    def values(rng: np.random.Generator, kind: TensorType) -> Array:
        return rng.integers(-(2**28), 2**28, kind.shape).astype(np.int32)

    check_against(ReduceSum, sum, I32, values)


def test_partial_sums_on_the_limits() -> None:
    x = [[HIGHEST, LOWEST, -1, 2, 0], [LOWEST, HIGHEST, 1, HIGHEST, LOWEST]]
    assert run(ReduceSum(1), x, types=[I32]).tolist() == [[0], [-1]]


@pytest.mark.parametrize(
    "line, value",
    [
        ([HIGHEST, 1, -5], 2**31),
        ([0, LOWEST, -1, 1, 1], LOWEST - 1),
        ([-5, HIGHEST, 5, HIGHEST], 2 * HIGHEST),
    ],
)
def test_a_partial_sum_outside_int32_is_unpredictable_whatever_the_final_sum(line: list[int], value: int) -> None:
    message = rf"^reduce_sum: partial sum {value} at output index \[0, 1\] is outside i32"
    for tile in range(1, len(line) + 1):
        kind = TensorType((len(line), 2), I32)
        x = np.stack([np.ones(len(line), np.int32), np.array(line, np.int32)], axis=1)
        with pytest.raises(UnpredictableError, match=message):
            fold_tiles(ReduceSum(0).bind([kind]), [x], [tile, 2], Overflow("refuse", "reduce_sum"))


def test_the_index_is_that_of_the_whole_output() -> None:
    op = ReduceSum(1)
    bound = op.bind([TensorType((4, 5, 6), I32)])
    x = np.zeros((1, 2, 2), np.int32)
    x[0, :, 1] = HIGHEST
    with pytest.raises(UnpredictableError, match=r"^layer 'x': partial sum 4294967294 at output index \[3, 0, 5\]"):
        op.step(bound, None, [x], Box((3, 2, 4), (4, 4, 6)), Overflow("refuse", "layer 'x'"))


@pytest.mark.parametrize("policy", ["wrap", "saturate"])
def test_policies_for_studies_of_hardware(policy: Policy) -> None:
    rng = np.random.default_rng(11)
    for shape, axis in (((9,), 0), ((5, 7), 0), ((5, 7), 1), ((3, 8, 4), 1)):
        kind = TensorType(shape, I32)
        bound = ReduceSum(axis).bind([kind])
        x = random_array(rng, kind)
        tiles = random_tiles(rng, bound.work)
        out = check_tiled(ReduceSum(axis), [x], [kind], tiles, policy)
        lines = np.moveaxis(x, axis, -1).reshape(-1, shape[axis]).tolist()
        sums = [oracle(line, policy) for line in lines]
        assert np.moveaxis(out, axis, -1).ravel().tolist() == [total for total, _ in sums]
        overflow = Overflow(policy)
        fold_tiles(bound, [x], tiles, overflow)
        assert overflow.events == sum(events for _, events in sums) > 0


@pytest.mark.parametrize("shape, axis", [((200_000,), 0), ((3, 70_002), 1), ((70_002, 3), 0), ((2, 70_001), 0)])
def test_large_tensors_are_checked_in_pieces(shape: tuple[int, ...], axis: int) -> None:
    x = np.full(shape, HIGHEST, np.int32)
    np.moveaxis(x, axis, 0)[1::2] = -HIGHEST
    bound = ReduceSum(axis).bind([TensorType(shape, I32)])
    assert not evaluate_bound(bound, [x], Overflow()).any()

    last = [n - 1 for n in shape]
    x[tuple(last)] = HIGHEST
    last[axis] = 0
    with pytest.raises(UnpredictableError, match=rf"partial sum {2 * HIGHEST} at output index \{last} is outside i32"):
        evaluate_bound(bound, [x], Overflow())
    assert evaluate_bound(bound, [x], Overflow("wrap"))[tuple(last)] == -2
    assert evaluate_bound(bound, [x], Overflow("saturate"))[tuple(last)] == HIGHEST

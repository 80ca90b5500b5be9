"""GATHER against its formula."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import I8, I32
from npusim.ops import evaluate
from npusim.ops.gather import Gather
from tests.ops.movement import SEEDS, check_elements, random_operand, random_type
from tests.ops.tiling import fold_tiles


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_and_whole_pick_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k, c, w = (int(v) for v in rng.integers(1, 6, 4))
    dtype = random_type(rng)
    values = random_operand(rng, (n, k, c), dtype)
    indices = rng.integers(0, k, (n, w)).astype(np.int32)
    check_elements(rng, Gather(), [values, indices], [dtype, "i32"], lambda b, i, ch: values[b, indices[b, i], ch])


@pytest.mark.parametrize("bad", [5, -1, 2**31 - 1])
def test_index_out_of_range(bad: int) -> None:
    values, indices = np.zeros((2, 5, 1), np.int8), np.int32([[0, 4, 0], [1, 2, bad]])
    message = rf"gather: indices must lie in 0..4, got {bad} at index \[1, 2\]; TOSA leaves"
    with pytest.raises(UnpredictableError, match=message):
        evaluate("gather", [values, indices])
    bound = Gather().bind([TensorType((2, 5, 1), I8), TensorType((2, 3), I32)])
    with pytest.raises(UnpredictableError, match=message):
        fold_tiles(bound, [values, indices], (1, 1, 1), Overflow(where="gather"))


@pytest.mark.parametrize(
    ("values", "indices", "rule"),
    [((2, 5), (2, 3), "ranks"), ((2, 5, 1), (2, 3, 1), "ranks"), ((2, 5, 1), (1, 3), "same_batch")],
)
def test_rules(values: tuple[int, ...], indices: tuple[int, ...], rule: str) -> None:
    with pytest.raises(InvalidGraphError, match=rf"rule {rule}\), got values \[2, 5.*\], indices \["):
        evaluate("gather", [np.zeros(values, np.int8), np.zeros(indices, np.int32)])


def test_indices_are_i32() -> None:
    with pytest.raises(InvalidGraphError, match="no type rule for values i8, indices i16"):
        evaluate("gather", [np.zeros((1, 1, 1), np.int8), np.zeros((1, 1), np.int16)])

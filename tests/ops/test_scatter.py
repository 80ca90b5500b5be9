"""SCATTER against its formula."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import I8, I32, Array
from npusim.ops import evaluate
from npusim.ops.scatter import Scatter
from tests.ops.movement import SEEDS, check_elements, random_operand, random_type
from tests.ops.tiling import fold_tiles


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_and_whole_replace_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k, c = (int(v) for v in rng.integers(1, 6, 3))
    w = int(rng.integers(1, k + 1))
    dtype = random_type(rng)
    values, rows = random_operand(rng, (n, k, c), dtype), random_operand(rng, (n, w, c), dtype)
    indices = np.stack([rng.permutation(k)[:w] for _ in range(n)]).astype(np.int32)

    def element(i: int, row: int, channel: int) -> int:
        for j in range(w):
            if indices[i, j] == row:
                return rows[i, j, channel]
        return values[i, row, channel]

    check_elements(rng, Scatter(), [values, indices, rows], [dtype, "i32", dtype], element)


def refuse_whole_and_tiled(indices: Array, message: str) -> None:
    """The indices are refused with ``message`` by the whole operator and by tiles of one element."""
    arrays = [np.zeros((2, 4, 1), np.int8), indices, np.zeros((*indices.shape, 1), np.int8)]
    with pytest.raises(UnpredictableError, match=message):
        evaluate("scatter", arrays)
    types = [TensorType(x.shape, t) for x, t in zip(arrays, (I8, I32, I8), strict=True)]
    with pytest.raises(UnpredictableError, match=message):
        fold_tiles(Scatter().bind(types), arrays, (1, 1, 1), Overflow(where="scatter"))


@pytest.mark.parametrize("bad", [4, -1])
def test_index_out_of_range(bad: int) -> None:
    message = rf"scatter: indices must lie in 0..3, got {bad} at index \[1, 2\]; TOSA leaves"
    refuse_whole_and_tiled(np.int32([[0, 3, 1], [1, 2, bad]]), message)


def test_repeated_index() -> None:
    message = r"scatter: indices must name a row at most once, got row 2 of batch 1 at \[0, 2\]; TOSA leaves"
    refuse_whole_and_tiled(np.int32([[0, 1, 2], [2, 1, 2]]), message)


def test_more_indices_than_rows_always_repeat_one() -> None:
    refuse_whole_and_tiled(np.int32([[0, 1, 2, 3, 3], [0, 1, 2, 3, 0]]), "row 3 of batch 0")


@pytest.mark.parametrize(
    ("values", "indices", "rows", "rule"),
    [
        ((2, 5), (2, 3), (2, 3, 1), "ranks"),
        ((2, 5, 1), (3,), (2, 3, 1), "ranks"),
        ((2, 5, 1), (2, 3), (2, 3), "ranks"),
        ((2, 5, 1), (1, 3), (2, 3, 1), "same_sizes"),
        ((2, 5, 1), (2, 3), (1, 3, 1), "same_sizes"),
        ((2, 5, 1), (2, 3), (2, 2, 1), "same_sizes"),
        ((2, 5, 1), (2, 3), (2, 3, 2), "same_sizes"),
    ],
)
def test_rules(values: tuple[int, ...], indices: tuple[int, ...], rows: tuple[int, ...], rule: str) -> None:
    with pytest.raises(InvalidGraphError, match=rf"rule {rule}\), got values_in \[2, 5.*\], indices .*, input \["):
        evaluate("scatter", [np.zeros(values, np.int8), np.zeros(indices, np.int32), np.zeros(rows, np.int8)])

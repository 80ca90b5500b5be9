"""Tests of MATMUL_T; rules and arithmetic that it shares with MATMUL are tested there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.numerics.types import DTYPES
from npusim.ops.matmul import Matmul
from npusim.ops.matmul_t import MatmulT
from tests.ops.convolution import bind, evaluate, sum_of, tensors, zero_point
from tests.ops.tiling import check_tiled, indices, random_array, random_tiles

TYPES = (("i8", "i8"), ("i16", "i16"), ("f32", "f32"))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("seed", range(12))
def test_every_tiling_gives_the_definition(types: tuple[str, ...], seed: int, shared: bool) -> None:
    rng = np.random.default_rng(seed)
    n, h, c, w = (int(v) for v in rng.integers(1, 8, 4))
    op = MatmulT(*(zero_point(rng, DTYPES[t]) for t in types))
    kinds = tensors([(n, h, c), (1 if shared else n, w, c)], types)
    a, b = (random_array(rng, t) for t in kinds)
    bound = op.bind(kinds)
    got = check_tiled(op, [a, b], kinds, random_tiles(rng, bound.work))
    for i, y, x in indices(got.shape):
        row, column = a[i, y].tolist(), b[0 if shared else i, x].tolist()
        terms = [(p - op.a_zp, q - op.b_zp) for p, q in zip(row, column, strict=True)]
        assert got[i, y, x] == sum_of(terms, 0, bound.accumulator)


def test_it_is_matmul_of_the_transposed() -> None:
    rng = np.random.default_rng(0)
    a, b = (random_array(rng, t) for t in tensors([(2, 3, 5), (2, 4, 5)], TYPES[0]))
    expected = evaluate(Matmul(a_zp=3, b_zp=-5), [a, b.transpose(0, 2, 1)], TYPES[0])
    np.testing.assert_array_equal(evaluate(MatmulT(a_zp=3, b_zp=-5), [a, b], TYPES[0]), expected)


@pytest.mark.parametrize(
    ("op", "shapes", "types", "message"),
    [
        (MatmulT(), [(2, 3), (4, 3)], TYPES[0], r"rule rank\), got a of shape \[2, 3\] for \[N, H, C\]"),
        (MatmulT(), [(1, 2, 3), (4, 3)], TYPES[0], r"rule rank\), got b of shape \[4, 3\] for \[D, W, C\]"),
        (MatmulT(), [(1, 2, 3), (1, 3, 4)], TYPES[0], r"rule common_axis\), got a \[1, 2, 3\], b \[1, 3, 4\]"),
        (MatmulT(), [(3, 2, 3), (2, 4, 3)], TYPES[0], r"rule batch\), got a \[3, 2, 3\], b \[2, 4, 3\]"),
        (MatmulT(a_zp=1), [(1, 2, 3), (1, 4, 3)], TYPES[1], r"rule zero_point\), got a_zp 1 for i16"),
        (MatmulT(a_zp=-129), [(1, 2, 3), (1, 4, 3)], TYPES[0], r"rule zero_point_range\), got a_zp -129"),
    ],
)
def test_rules(op: MatmulT, shapes: Any, types: Any, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"matmul_t: .*{message}"):
        bind(op, shapes, types)


def test_one_b_for_the_whole_batch_is_read_once() -> None:
    work = MatmulT().bind(tensors([(3, 2, 3), (1, 4, 3)], TYPES[0])).work
    assert work.reads[1].footprint(work.index, work.space).shape == (1, 4, 3)

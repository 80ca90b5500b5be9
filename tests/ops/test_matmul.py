"""Tests of MATMUL, and of what it shares with MATMUL_T."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.work import Loop, UnitKind
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import DTYPES, Array, DType
from npusim.ops.matmul import Matmul
from tests.ops.convolution import bind, evaluate, sum_of, tensors, zero_point
from tests.ops.tiling import check_tiled, fold_tiles, indices, random_array, random_tiles

TYPES = (("i8", "i8"), ("i16", "i16"), ("f32", "f32"))
I8_TYPES = TYPES[0]
SEED = Matmul(dialect="seed")


def oracle(op: Matmul, a: Array, b: Array, dtype: DType) -> Array:
    if a.ndim == 3:
        return np.stack([oracle(op, x, y, dtype) for x, y in zip(a, b, strict=True)])
    out = np.zeros((a.shape[0], b.shape[1]), dtype.storage)
    for m, n in indices(out.shape):
        terms = [(x - op.a_zp, y - op.b_zp) for x, y in zip(a[m].tolist(), b[:, n].tolist(), strict=True)]
        out[m, n] = sum_of(terms, 0, dtype)
    return out


@pytest.mark.parametrize("dialect", ["tosa", "seed"])
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("seed", range(15))
def test_every_tiling_gives_the_definition(types: tuple[str, ...], seed: int, dialect: str) -> None:
    rng = np.random.default_rng(seed)
    m, k, n, batch = (int(v) for v in rng.integers(1, 9, 4))
    op = Matmul(*(zero_point(rng, DTYPES[t]) for t in types), dialect)
    outer = (batch,) if dialect == "tosa" else ()
    kinds = tensors([(*outer, m, k), (*outer, k, n)], types)
    arrays = [random_array(rng, t) for t in kinds]
    bound = op.bind(kinds)
    got = check_tiled(op, arrays, kinds, random_tiles(rng, bound.work))
    np.testing.assert_array_equal(got, oracle(op, *arrays, bound.accumulator))


def test_an_example() -> None:
    op = Matmul(a_zp=1, b_zp=-1)
    assert evaluate(op, [[[[2, 3]]], [[[0, 1, 2], [9, -1, 4]]]], I8_TYPES).tolist() == [[[21, 2, 13]]]


@pytest.mark.parametrize(
    ("op", "shapes", "types", "message"),
    [
        (Matmul(), [(2, 3), (3, 4)], I8_TYPES, r"rule rank\), got a of shape \[2, 3\] for \[N, H, C\]"),
        (Matmul(), [(1, 2, 3), (3, 4)], I8_TYPES, r"rule rank\), got b of shape \[3, 4\] for \[N, C, W\]"),
        (SEED, [(1, 2, 3), (1, 3, 4)], I8_TYPES, r"rule rank\), got a of shape \[1, 2, 3\] for \[M, K\]"),
        (Matmul(), [(1, 2, 3), (1, 4, 3)], I8_TYPES, r"rule common_axis\), got a \[1, 2, 3\], b \[1, 4, 3\]"),
        (SEED, [(2, 3), (4, 3)], I8_TYPES, r"rule common_axis\), got a \[2, 3\], b \[4, 3\]"),
        (Matmul(), [(2, 2, 3), (1, 3, 4)], I8_TYPES, r"rule batch\), got a \[2, 2, 3\], b \[1, 3, 4\]"),
        (Matmul(a_zp=-7), [(1, 2, 3), (1, 3, 4)], TYPES[1], r"rule zero_point\), got a_zp -7 for i16"),
        (Matmul(b_zp=2), [(1, 2, 3), (1, 3, 4)], TYPES[2], r"rule zero_point\), got b_zp 2 for f32"),
        (Matmul(b_zp=128), [(1, 2, 3), (1, 3, 4)], I8_TYPES, r"rule zero_point_range\), got b_zp 128"),
        (Matmul(dialect="old"), [(2, 3), (3, 4)], I8_TYPES, r"rule dialect\), got dialect 'old'"),
        (Matmul(), [(1, 2, 3), (1, 3, 4)], ("i8", "i16"), r"no type rule for a i8, b i16"),
    ],
)
def test_rules(op: Matmul, shapes: Any, types: Any, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"matmul: .*{message}"):
        bind(op, shapes, types)


@pytest.mark.parametrize("dialect", ["tosa", "seed"])
def test_overflow_names_the_absolute_output(dialect: str) -> None:
    """Two products of -32768 * -32768 are 2^31; int48 takes 2^17 - 1 of them, and the next one is too much."""
    length = 1 << 17
    a, b = np.zeros((3, length), np.int16), np.zeros((length, 2), np.int16)
    a[2], b[:, 1] = -32768, -32768
    outer = (None, ...) if dialect == "tosa" else (...,)
    arrays = [a[outer], b[outer]]
    bound = Matmul(dialect=dialect).bind(tensors([x.shape for x in arrays], TYPES[1]))
    where = r"\[0, 2, 1\]" if dialect == "tosa" else r"\[2, 1\]"
    for tiles in ({}, {"h": 2, "w": 1, "c": 50000}):
        with pytest.raises(UnpredictableError, match=rf"partial sum {1 << 47} at output index {where} is outside i48"):
            fold_tiles(bound, arrays, tiles, Overflow())
    counter = Overflow("saturate")
    assert fold_tiles(bound, arrays, {"h": 2}, counter).max() == (1 << 47) - 1
    assert counter.events == 1


def test_work() -> None:
    batched = Matmul().bind(tensors([(5, 2, 3), (5, 3, 4)], I8_TYPES)).work
    assert [(d.name, d.extent, d.loop) for d in batched.dims] == [
        ("n", 5, Loop.BATCH),
        ("h", 2, Loop.ROW),
        ("w", 4, Loop.OUT_CHANNEL),
        ("c", 3, Loop.IN_CHANNEL),
    ]
    assert batched.points == 5 * 2 * 4 * 3 and batched.macs and batched.unit is UnitKind.MAC
    flat = SEED.bind(tensors([(2, 3), (3, 4)], I8_TYPES)).work
    assert [d.loop for d in flat.dims] == [Loop.ROW, Loop.OUT_CHANNEL, Loop.IN_CHANNEL]

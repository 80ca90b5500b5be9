"""Tests of the binary product of matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ops.binary_matmul import BinaryMatmul
from tests.ops.popcount import bits, bound_to, kinds, levels, product, random_stage, run
from tests.ops.tiling import check_tiled, random_tiles

PLAIN = BinaryMatmul()


@pytest.mark.parametrize("seed", range(40))
def test_every_tiling_gives_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = int(rng.integers(1, 6)), int(rng.choice([1, 7, 64, 65, 300])), int(rng.integers(1, 6))
    batch: list[tuple[int, ...]] = [(), ()]
    if rng.random() < 0.5:
        batch = [(3,), (int(rng.choice([1, 3])),)]
    a, b = bits(rng, (*batch[0], m, k)), bits(rng, (*batch[1], k, n))
    expected = product(a, b)
    op = replace(PLAIN, transpose_b=bool(rng.integers(2)))
    arrays = [a, np.swapaxes(b, -1, -2).copy() if op.transpose_b else b]
    if rng.random() < 0.4:
        stage = random_stage(rng, n, k, 1)
        arrays, expected = [*arrays, *stage], levels(expected, expected.ndim - 1, stage[0], stage[1], op)
    types = kinds(arrays, *("u1", "u1", "i32", "u1")[: len(arrays)])
    got = check_tiled(op, arrays, types, random_tiles(rng, op.bind(types).work))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("types", "wide"), [(("i8", "i8"), (0, 1)), (("i8", "u1"), (0,)), (("u1", "i16"), (1,))])
def test_binarize_is_for_whatever_is_not_bits(types: tuple[str, str], wide: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    arrays = [bits(rng, (3, 9)), bits(rng, (9, 4))]
    given = [x.astype(np.int64) * 5 - 2 if i in wide else x for i, x in enumerate(arrays)]
    got = run(replace(PLAIN, binarize="ge0"), given, *types)
    np.testing.assert_array_equal(got, product(*arrays))


@pytest.mark.parametrize(
    ("change", "shapes", "types", "message"),
    [
        ({}, [(5, 7), (6, 3)], ("u1", "u1"), r"rule common_axis\), got a \[5, 7\], b \[6, 3\]"),
        ({}, [(5, 7), (1, 7, 3)], ("u1", "u1"), r"rule rank\), got a \[5, 7\], b \[1, 7, 3\]"),
        ({}, [(2, 5, 7), (3, 7, 3)], ("u1", "u1"), r"rule batch\)"),
        ({"binarize": "lt0"}, [(5, 7), (7, 3)], ("u1", "u1"), r"rule binarize_bits\), got binarize 'lt0'"),
        ({"binarize": "lt0"}, [(5, 7), (7, 3)], ("u1", "u8"), r"rule binarize_signed\), got binarize 'lt0' for u8"),
        ({}, [(5, 7), (7, 3)], ("u1", "u4"), r"rule operand_types\), got b u4"),
        (
            {},
            [(5, 7), (7, 3), (2,)],
            ("u1", "u1", "i32"),
            r"rule threshold_shape\), got thresholds \[2\] for 3 channels",
        ),
    ],
)
def test_rules(change: dict[str, Any], shapes: list[Any], types: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"binary_matmul: .*{message}"):
        bound_to(replace(PLAIN, **change), shapes, *types)


def test_values_that_are_no_bits() -> None:
    with pytest.raises(UnpredictableError, match=r"rule binary_value\), got b -1 at index \[1, 1\]"):
        run(PLAIN, [(2, 2), np.array([[1, 0], [0, -1]])], "u1", "i32")

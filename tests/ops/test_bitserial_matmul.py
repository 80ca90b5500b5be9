"""Tests of the bit-serial product of matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.work import Loop, UnitKind
from npusim.ops.bitserial_matmul import BitserialMatmul
from tests.ops.popcount import OPERANDS, bound_to, elements, kinds, levels, number, product, random_stage, run
from tests.ops.tiling import check_tiled, random_tiles

PLAIN = BitserialMatmul()


@pytest.mark.parametrize("seed", range(60))
def test_every_tiling_gives_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (OPERANDS[int(i)] for i in rng.integers(0, len(OPERANDS), 2))
    m, k, n = int(rng.integers(1, 6)), int(rng.choice([1, 7, 64, 65, 130])), int(rng.integers(1, 6))
    batch: list[tuple[int, ...]] = [(), ()]
    if rng.random() < 0.5:
        batch = [(3,), (int(rng.choice([1, 3])),)]
    a, b = elements(rng, (*batch[0], m, k), x), elements(rng, (*batch[1], k, n), y)
    expected = product(a, b, number(x[0]), number(y[0]))
    transpose = bool(rng.integers(2))
    op = replace(PLAIN, input_kind=x[0], input_bits=x[2], weight_kind=y[0], weight_bits=y[2], transpose_b=transpose)
    arrays, names = [a, np.swapaxes(b, -1, -2).copy() if transpose else b], [x[1], y[1]]
    if rng.random() < 0.4:
        stage = random_stage(rng, n, 100, 7)[: int(rng.integers(1, 3))]
        op = replace(op, out_type="u3", compare="ge")
        expected = levels(expected, expected.ndim - 1, stage[0], stage[1] if len(stage) > 1 else None, op)
        arrays, names = [*arrays, *stage], [*names, "i32", "u1"][: 2 + len(stage)]
    types = kinds(arrays, *names)
    got = check_tiled(op, arrays, types, random_tiles(rng, op.bind(types).work))
    np.testing.assert_array_equal(got, expected)


def test_a_layer_of_two_bits_by_two_bits_goes_on_with_two_bits() -> None:
    """Ternary levels of a ternary product: thresholds of a signed quantiser, offset -1."""
    rng = np.random.default_rng(1)
    x, w = rng.integers(-1, 2, (4, 64)), rng.integers(-1, 2, (10, 64))
    op = replace(PLAIN, input_kind="ternary", weight_kind="ternary", transpose_b=True, out_type="i2", offset=-1)
    got = run(op, [x, w, np.int32([[-5, 4]]), np.uint8([0] * 9 + [1])], "i2", "i2", "i32", "u1")
    sums = x @ w.T
    expected = np.where(sums > 4, 1, np.where(sums > -5, 0, -1))
    expected[:, 9] *= -1
    np.testing.assert_array_equal(got, expected)


def test_work() -> None:
    work = bound_to(PLAIN, [(5, 7), (7, 3)], "u2", "i4")[0].work
    assert work.unit is UnitKind.POPCOUNT
    assert [(d.name, d.extent) for d in work.dims if d.loop is Loop.BIT_PLANE] == [
        ("input_plane", 2),
        ("weight_plane", 4),
    ]


@pytest.mark.parametrize(
    ("change", "shapes", "types", "message"),
    [
        ({}, [(5, 7), (6, 3)], ("u1", "u1"), r"rule common_axis\), got a \[5, 7\], b \[6, 3\]"),
        ({"transpose_b": True}, [(5, 7), (7, 3)], ("u1", "u1"), r"rule common_axis\), got a \[5, 7\], b \[7, 3\]"),
        ({}, [(2, 5, 7), (7, 3)], ("u1", "u1"), r"rule rank\), got a \[2, 5, 7\], b \[7, 3\]"),
        ({}, [(7,), (7,)], ("u1", "u1"), r"rule rank\), got a \[7\], b \[7\]"),
        ({}, [(2, 5, 7), (3, 7, 3)], ("u1", "u1"), r"rule batch\), got a \[2, 5, 7\], b \[3, 7, 3\]"),
        ({"input_kind": "ternary"}, [(5, 7), (7, 3)], ("u2", "u1"), r"rule kind_type\), got input_kind ternary for u2"),
        ({}, [(5, 7), (7, 3)], ("i48", "u1"), r"rule operand_types\), got a i48"),
        ({"out_type": "i8"}, [(5, 9), (9, 3)], ("i4", "i4"), r"rule sum_range\), got sums of 9 products in -504..576"),
    ],
)
def test_rules(change: dict[str, Any], shapes: list[Any], types: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"bitserial_matmul: .*{message}"):
        bound_to(replace(PLAIN, **change), shapes, *types)


def test_numbers_beyond_their_bits() -> None:
    with pytest.raises(UnpredictableError, match=r"rule number_range\), got b -2 at index \[1, 0\]"):
        run(replace(PLAIN, weight_bits=1), [(2, 2), np.array([[0, 0], [-2, 0]])], "u1", "i8")

"""Exact products and accumulation against loops over Python integers."""

from __future__ import annotations

import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.numerics import gemm
from npusim.numerics.gemm import (
    Factor,
    accumulate,
    accumulate_float,
    add_checked,
    blocks,
    contract,
    exact_matmul,
    float_for,
    magnitude,
)
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import F32, I8, I16, I32, I48, Array, DType

I12 = DType("i12", 12, -2048, 2047, np.dtype(np.int16))
"""A narrow accumulator, so that small random numbers overflow it often."""

POLICIES: tuple[Policy, ...] = ("refuse", "wrap", "saturate")


def same(index: tuple[int, ...]) -> tuple[int, ...]:
    return index


def python_product(a: Array, b: Array) -> list[list[int]]:
    x, y = a.astype(int).tolist(), b.astype(int).T.tolist()
    return [[sum(p * q for p, q in zip(row, column, strict=True)) for column in y] for row in x]


def python_sums(start: int, products: list[int], dtype: DType, policy: Policy) -> tuple[int, list[int]]:
    """The accumulator and the numbers that did not fit it, one addition at a time."""
    total, outside = start, []
    for p in products:
        total += p
        if not dtype.minimum <= total <= dtype.maximum:
            outside.append(total)
            if policy == "wrap":
                total = (total - dtype.minimum) % (1 << dtype.bits) + dtype.minimum
            elif policy == "saturate":
                total = min(max(total, dtype.minimum), dtype.maximum)
    return total, outside


@pytest.mark.parametrize(
    ("max_a", "max_b", "dtype"),
    [
        (128, 128, np.int8),
        (255, 255, np.int16),
        (255, 128, np.int16),
        (1 << 15, 128, np.int32),
        (1 << 15, 1 << 15, int),
    ],
)
@pytest.mark.parametrize("length", [1, 257, 258, 259, 1024, 1025, 3000])
def test_product_is_exact(max_a: int, max_b: int, dtype: Any, length: int) -> None:
    """Random factors, and rows whose sums are as large and as odd as the magnitudes allow."""
    rng = np.random.default_rng(length)
    a = rng.integers(-max_a, max_a, (4, length), endpoint=False)
    b = rng.integers(-max_b, max_b, (length, 3), endpoint=False)
    a[0], b[:, 0] = -max_a, -max_b
    a[1, ::2], a[1, 1::2] = -max_a, 1 - max_a
    got = exact_matmul(a.astype(dtype), b.astype(dtype), max_a, max_b)
    assert got.tolist() == python_product(a, b)
    assert got.dtype == (np.int32 if length * max_a * max_b < 1 << 31 else np.int64)


def test_one_float32_product_would_not_be_exact() -> None:
    """What the cutting into pieces is for: the same numbers in one float32 product come out wrong."""
    a, b = np.full((1, 1001), 255, np.int16), np.full((1001, 1), 255, np.int16)
    assert float_for(255, 255, 1001) == np.float32
    assert exact_matmul(a, b, 255, 255).tolist() == [[1001 * 65025]]
    assert int((a.astype(np.float32) @ b.astype(np.float32))[0, 0]) != 1001 * 65025


def test_product_of_batches_and_of_floats() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(-128, 128, (2, 3, 4, 50)), rng.integers(-128, 128, (2, 3, 50, 5))
    got = exact_matmul(a.astype(np.float32), b.astype(np.int8), 128, 128)
    for i, j in product(range(2), range(3)):
        assert got[i, j].tolist() == python_product(a[i, j], b[i, j])


def test_product_refuses_what_it_cannot_add_exactly() -> None:
    one = np.ones((1, 4), np.int64)
    with pytest.raises(ValueError, match="18014398509481984, 4 of them, cannot be added exactly"):
        exact_matmul(one, one.T, 1 << 54, 1)
    with pytest.raises(ValueError, match="cannot be added exactly"):
        exact_matmul(np.ones((1, 1 << 11)), np.ones((1 << 11, 1)), 1 << 26, 1 << 27)


def test_magnitude_of_the_smallest_integer() -> None:
    assert magnitude(np.array([-128, 5], np.int8)) == 128
    assert magnitude(np.array([-(1 << 63)])) == 1 << 63
    assert magnitude(np.empty(0, np.int8)) == 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(12))
def test_accumulation_is_the_loop(policy: Policy, seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = (int(v) for v in rng.integers(1, 9, 3))
    scale = int(rng.choice([3, 12, 40, 300]))
    a, b = rng.integers(-scale, scale + 1, (m, k)), rng.integers(-20, 21, (k, n))
    acc = rng.integers(-2048, 2048, (m, n)).astype(np.int16) if seed % 3 else None
    overflow = Overflow(policy, "here")
    expected, outside = np.zeros((m, n), np.int16), {}
    for i, j in product(range(m), range(n)):
        products = [int(x) * int(y) for x, y in zip(a[i], b[:, j], strict=True)]
        start = 0 if acc is None else int(acc[i, j])
        total, wrong = python_sums(start, products, I12, policy)
        if wrong:
            outside[i, j] = wrong
        if policy != "refuse" or not wrong:
            expected[i, j] = total

    def run() -> Array:
        return accumulate(acc, a, b, scale, 20, I12, overflow, lambda i: (7, *i))

    if policy == "refuse" and outside:
        (i, j), wrong = next(iter(outside.items()))
        with pytest.raises(UnpredictableError, match=rf"here: partial sum {wrong[0]} at output index \[7, {i}, {j}\]"):
            run()
    else:
        got = run()
        assert got.dtype == np.int16
        np.testing.assert_array_equal(got, expected)
        assert overflow.events == sum(map(len, outside.values()))


@pytest.mark.parametrize(("dtype", "top"), [(I32, (1 << 31) - 1), (I48, (1 << 47) - 1)])
def test_accumulation_up_to_the_last_value(dtype: DType, top: int) -> None:
    """A sum may reach the limit, not pass it; a total that comes back does not excuse the partial sum."""
    acc = np.array([[top - 12]], dtype.storage)
    a, b = np.array([[3, 1]]), np.array([[4], [-1]])
    assert accumulate(acc, a, b, 127, 127, dtype, Overflow(), same).tolist() == [[top - 1]]
    with pytest.raises(UnpredictableError, match=rf"partial sum {top + 1} at output index \[0, 0\] is outside {dtype}"):
        accumulate(acc + 1, a, b, 127, 127, dtype, Overflow(), same)
    wrapped = Overflow("wrap")
    assert accumulate(acc + 1, a, b, 127, 127, dtype, wrapped, same).tolist() == [[top]]
    assert wrapped.events == 2
    clamped = Overflow("saturate")
    assert accumulate(acc + 1, a, b, 127, 127, dtype, clamped, same).tolist() == [[top - 1]]
    assert clamped.events == 1
    low = np.array([[-top - 1]], dtype.storage)
    assert accumulate(low, -a, -b, 127, 127, dtype, Overflow(), same).tolist() == [[-top - 1 + 11]]
    with pytest.raises(UnpredictableError, match=f"partial sum {-top - 13}"):
        accumulate(low, -a, b, 127, 127, dtype, Overflow(), same)


def test_the_products_of_a_long_reduction_pass_int32_only_with_the_worst_zero_points() -> None:
    """33025 products of 255 * 255 fit, one more does not."""
    for length, fits in ((33025, True), (33026, False)):
        a, b = np.full((1, length), 255, np.int16), np.full((length, 1), 255, np.int16)
        if fits:
            assert accumulate(None, a, b, 255, 255, I32, Overflow(), same).tolist() == [[65025 * length]]
        else:
            with pytest.raises(UnpredictableError, match=f"partial sum {65025 * length} "):
                accumulate(None, a, b, 255, 255, I32, Overflow(), same)


def test_looking_at_suspects_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-300, 301, (20, 6)), rng.integers(-20, 21, (6, 7))
    for policy in ("wrap", "saturate"):
        whole, pieces = Overflow(policy), Overflow(policy)
        expected = accumulate(None, a, b, 300, 20, I12, whole, same)
        monkeypatch.setattr(gemm, "BLOCK", 13)
        np.testing.assert_array_equal(accumulate(None, a, b, 300, 20, I12, pieces, same), expected)
        monkeypatch.undo()
        assert whole.events == pieces.events > 0


def test_accumulation_in_batches_of_matrices() -> None:
    rng = np.random.default_rng(8)
    a, b = rng.integers(-300, 301, (2, 3, 6)), rng.integers(-20, 21, (2, 6, 4))
    acc = rng.integers(-2048, 2048, (2, 3, 4)).astype(np.int16)
    together, apart = Overflow("saturate"), Overflow("saturate")
    got = accumulate(acc, a, b, 300, 20, I12, together, same)
    for i in range(2):
        np.testing.assert_array_equal(got[i], accumulate(acc[i], a[i], b[i], 300, 20, I12, apart, same))
    assert together.events == apart.events > 0


def test_float_accumulation_is_the_loop() -> None:
    rng = np.random.default_rng(1)
    a, b, acc = (rng.standard_normal(s).astype(np.float32) for s in ((3, 40), (40, 2), (3, 2)))
    got = accumulate_float(acc, a, b)
    for i, j in product(range(3), range(2)):
        total = acc[i, j]
        for k in range(40):
            total = np.float32(total + np.float32(a[i, k] * b[k, j]))
        assert got[i, j] == total
    assert accumulate_float(None, a, b).dtype == np.float32


def test_blocks_cover_in_order() -> None:
    for shape in [(), (5,), (3, 4), (2, 3, 5), (1, 1)]:
        for limit in (1, 2, 7, 100):
            covered = [i for block in blocks(shape, limit) for i in product(*(range(s.start, s.stop) for s in block))]
            assert covered == list(product(*map(range, shape)))
            assert all(np.prod([s.stop - s.start for s in b]) <= limit for b in blocks(shape, limit))


def windows_case(rng: np.random.Generator, kind: DType) -> tuple[Array, Array, Array]:
    x = rng.integers(-128, 128, (2, 3, 4, 2, 5)).astype(kind.storage)
    w = rng.integers(-128, 128, (6, 4, 2, 5)).astype(np.int8)
    acc = rng.integers(-1000, 1000, (2, 3, 6)).astype(np.int32)
    return x, w, acc


@pytest.mark.parametrize(("block", "panel"), [(1 << 20, 1 << 24), (7, 11), (1, 1), (64, 40)])
def test_contraction_is_the_same_in_any_blocks(monkeypatch: pytest.MonkeyPatch, block: int, panel: int) -> None:
    x, w, acc = windows_case(np.random.default_rng(0), I8)
    expected = np.zeros((2, 3, 6), int)
    for n, p, c in product(range(2), range(3), range(6)):
        terms = ((int(x[n, p, *r]) + 128) * (int(w[c, *r]) - 3) for r in product(range(4), range(2), range(5)))
        expected[n, p, c] = int(acc[n, p, c]) + sum(terms)
    monkeypatch.setattr(gemm, "BLOCK", block)
    monkeypatch.setattr(gemm, "PANEL", panel)
    before = acc.copy()
    got = contract(acc, Factor.of(x, I8, -128), Factor.of(w, I8, 3), I32, Overflow(), same)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(acc, before)
    nothing = contract(None, Factor.of(x, I8, -128), Factor.of(w, I8, 3), I32, Overflow(), same)
    np.testing.assert_array_equal(nothing, expected - acc)


@pytest.mark.parametrize("block", [1 << 20, 7, 1])
def test_contraction_says_where_it_overflows(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    x, w = np.zeros((2, 3, 4), np.int8), np.ones((6, 4), np.int8)
    x[1, 2] = 100
    w[4, 1:] = -100
    monkeypatch.setattr(gemm, "BLOCK", block)
    left, right = Factor.of(x, I8), Factor.of(w, I8)
    with pytest.raises(UnpredictableError, match=r"pooling sum -9900 at output index \[1, 2, 5\] is outside i12"):
        contract(None, left, right, I12, Overflow(), lambda i: (*i[:2], i[2] + 1), "pooling sum")
    overflow = Overflow("saturate")
    got = contract(None, left, right, I12, overflow, same)
    assert got[1, 2].tolist() == [400, 400, 400, 400, -2048, 400]
    assert overflow.events == 3


@pytest.mark.parametrize("block", [1 << 20, 7])
def test_float_contraction_keeps_the_order(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((4, 3, 5), (2, 3, 5)))
    monkeypatch.setattr(gemm, "BLOCK", block)
    got = contract(None, Factor.of(x, F32), Factor.of(w, F32), F32, Overflow(), same)
    np.testing.assert_array_equal(got, accumulate_float(None, x.reshape(4, 15), w.reshape(2, 15).T))


def test_contraction_of_a_long_axis_stays_small() -> None:
    x, w = np.full((40, 65535), 7, np.int8), np.full((300, 65535), -3, np.int8)
    tracemalloc.start()
    got = contract(None, Factor.of(x, I8, -128), Factor.of(w, I8), I32, Overflow(), same)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (got == -3 * 135 * 65535).all()
    assert peak < 256 << 20


@pytest.mark.parametrize(
    ("policy", "expected"), [("wrap", [2047, -2048, 2047, -1998]), ("saturate", [2047, 2047, -2048, 2047])]
)
def test_checked_addition(policy: Policy, expected: list[int]) -> None:
    acc, addend = np.array([[2000, 2047, -2048, 2047]], np.int16), np.array([47, 1, -1, 51], np.int16)
    with pytest.raises(UnpredictableError, match=r"sum with bias 2048 at output index \[9, 1\] is outside i12"):
        add_checked(acc, addend, I12, Overflow(), lambda i: (9, i[1]), "sum with bias")
    overflow = Overflow(policy)
    got = add_checked(acc, addend, I12, overflow, same, "sum with bias")
    assert got.tolist() == [expected] and got.dtype == np.int16
    assert overflow.events == 3
    assert add_checked(acc[:, :1], addend[:1], I12, Overflow(), same, "sum").tolist() == [[2047]]


def test_checked_addition_at_the_ends_of_int48() -> None:
    top = np.array([I48.maximum], np.int64)
    overflow = Overflow("wrap")
    assert add_checked(top, np.array([1]), I48, overflow, same, "sum").tolist() == [I48.minimum]
    assert overflow.events == 1


def test_checked_addition_of_floats() -> None:
    x = np.array([1e8], np.float32)
    got = add_checked(x, np.array([3.0], np.float32), F32, Overflow(), same, "sum")
    assert got.dtype == np.float32 and got[0] == np.float32(1e8) + np.float32(3)


def test_factors_know_their_magnitude() -> None:
    x = np.zeros(1, np.int8)
    assert Factor.of(x, I8).magnitude == 128
    assert Factor.of(x, I8, 127).magnitude == 255
    assert Factor.of(x, I8, -128).magnitude == 255
    assert Factor.of(x, I16).magnitude == 1 << 15

"""Packing of bits into words, and counts of combined rows: numpy and numba against each other and plain integers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from npusim.numerics import popcount
from npusim.numerics.popcount import (
    Combine,
    Route,
    Words,
    as_words,
    count_ones,
    numba_available,
    pack_bytes,
    pack_words,
    popcount_matmul,
)
from npusim.numerics.types import Array

needs_numba = pytest.mark.skipif(not numba_available(), reason="numba is not installed (extra 'fast')")
ROUTES = ["numpy", pytest.param("numba", marks=needs_numba), "auto"]


def counts(a: Array, b: Array, combine: str) -> list[list[int]]:
    """Ones in combined rows of bits, as Python integers."""
    rows, columns = ([int("".join(map(str, row)), 2) for row in x.tolist()] for x in (a, b))
    return [[(p ^ q if combine == "xor" else p & q).bit_count() for q in columns] for p in rows]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("combine", ["xor", "and"])
@pytest.mark.parametrize(
    ("rows", "columns", "length"),
    [
        (1, 1, 1),
        (3, 2, 64),
        (4, 8, 65),
        (5, 9, 200),
        (7, 33, 63),
        (2, 40, 577),
        (9, 64, 130),
        (70, 31, 128),
        (1, 97, 300),
    ],
)
def test_counts_of_random_and_extreme_rows(
    route: Route, combine: Combine, rows: int, columns: int, length: int
) -> None:
    rng = np.random.default_rng(rows * 1000 + length)
    for density in (0.0, 0.5, 1.0):
        a = (rng.random((rows, length)) < density).astype(np.uint8)
        b = (rng.random((columns, length)) < rng.choice([0.0, 0.5, 1.0])).astype(np.uint8)
        got = popcount_matmul(pack_words(a), pack_words(b), combine, route)
        assert got.dtype == np.int32
        assert got.tolist() == counts(a, b, combine)


def random_words(rng: np.random.Generator, *shape: int) -> Words:
    words = rng.integers(0, 2**64, shape, np.uint64)
    extreme = rng.random(shape)
    return np.where(extreme < 0.1, np.uint64(0), np.where(extreme > 0.9, np.uint64(2**64 - 1), words))


@needs_numba
@pytest.mark.parametrize("combine", ["xor", "and"])
@pytest.mark.parametrize("seed", range(20))
def test_both_routes_count_alike(combine: Combine, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns, words = (int(n) for n in rng.integers(1, (60, 150, 40)))
    a, b = random_words(rng, rows, words), random_words(rng, columns, words)
    if seed % 3 == 0:
        a, b = np.asfortranarray(a), b[::-1]
    np.testing.assert_array_equal(
        popcount_matmul(a, b, combine, "numba"), popcount_matmul(a, b, combine, "numpy"), strict=True
    )


@needs_numba
def test_both_routes_count_alike_without_the_hosts_vector_instructions() -> None:
    program = """
import numpy as np
from npusim.numerics.popcount import popcount_matmul
rng = np.random.default_rng(0)
a, b = rng.integers(0, 2**64, (13, 9), np.uint64), rng.integers(0, 2**64, (45, 9), np.uint64)
a[0], b[0] = 2**64 - 1, 0
for combine in ("xor", "and"):
    assert (popcount_matmul(a, b, combine, "numba") == popcount_matmul(a, b, combine, "numpy")).all(), combine
print("alike")
"""
    masked = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run([sys.executable, "-c", program], env=masked, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "alike", done.stderr


def test_counts_larger_than_a_byte_and_16_bits() -> None:
    ones = np.full((2, 1100), 2**64 - 1, np.uint64)
    assert popcount_matmul(ones, ones, "and", "numpy").tolist() == [[70400, 70400]] * 2
    if numba_available():
        assert popcount_matmul(ones, ones, "and", "numba").tolist() == [[70400, 70400]] * 2


def test_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    a, b = random_words(rng, 11, 4), random_words(rng, 7, 4)
    expected = np.bitwise_count(a[:, None] ^ b).sum(-1)
    for block in (1, 5, 7, 20, 1000):
        monkeypatch.setattr(popcount, "BLOCK", block)
        np.testing.assert_array_equal(popcount_matmul(a, b, "xor", "numpy"), expected)


def test_rows_without_words() -> None:
    empty = np.zeros((2, 0), np.uint64)
    for route in ("numpy", "numba") if numba_available() else ("numpy",):
        assert popcount_matmul(empty, empty, "xor", route).tolist() == [[0, 0], [0, 0]]  # type: ignore[arg-type]


def test_auto_takes_numba_for_large_products_only(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.zeros((4, 2), np.uint64)
    monkeypatch.setattr(popcount, "NUMBA_WORDS", 33)
    monkeypatch.setattr(popcount, "numba_available", lambda: pytest.fail("numba was asked for"))
    popcount_matmul(a, a, "xor")
    monkeypatch.setattr(popcount, "NUMBA_WORDS", 32)
    monkeypatch.setattr(popcount, "numba_available", lambda: False)
    assert popcount_matmul(a, a, "xor").tolist() == [[0] * 4] * 4


@pytest.mark.parametrize(
    ("a", "b", "more", "message"),
    [
        ((2, 3), (2, 4), {}, r"rows of \[2, 3\] and \[2, 4\] words cannot be combined"),
        ((3,), (2, 3), {}, r"rows of \[3\] and \[2, 3\] words"),
        ((2, 3), (2, 3), {"combine": "or"}, "combine 'or' must be one of"),
        ((2, 3), (2, 3), {"route": "cuda"}, "route 'cuda' of"),
    ],
)
def test_refusals(a: tuple[int, ...], b: tuple[int, ...], more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        popcount_matmul(np.zeros(a, np.uint64), np.zeros(b, np.uint64), **{"combine": "xor", **more})


def test_rows_too_long_for_their_counts() -> None:
    long = np.broadcast_to(np.uint64(1), (1, 1 << 25))
    with pytest.raises(ValueError, match="rows of 33554432 words hold counts beyond int32; at most 33554431"):
        popcount_matmul(long, long, "xor")


def test_packing() -> None:
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 2, (3, 5, 70))
    assert pack_bytes(bits).shape == (3, 5, 9)
    assert pack_words(bits).shape == (3, 5, 2)
    np.testing.assert_array_equal(count_ones(pack_words(bits)), bits.sum(-1))
    np.testing.assert_array_equal(np.unpackbits(pack_bytes(bits), axis=-1, count=70, bitorder="little"), bits)
    assert as_words(np.full((1, 9), 255, np.uint8)).view(np.uint8).tolist() == [[255] * 9 + [0] * 7]

"""Products of encoded numbers by counting ones in planes, against Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.numerics import planes
from npusim.numerics.planes import Encoding, Kind, Planes, plane_matmul
from npusim.numerics.types import Array

ENCODINGS = [
    *(Encoding("integer", bits, signed) for bits in range(1, 9) for signed in (False, True)),
    Encoding("bipolar"),
    Encoding("ternary"),
]


def elements(rng: np.random.Generator, encoding: Encoding, *shape: int) -> Array:
    low, high = (0, 1) if encoding.kind == "bipolar" else encoding.range
    x = rng.integers(low, high, shape, endpoint=True)
    extreme = rng.random(shape)
    x = np.where(extreme < 0.1, low, np.where(extreme > 0.9, high, x))
    return x.astype(np.int8 if low < 0 else np.uint8)


@pytest.mark.parametrize("x", ENCODINGS, ids=str)
def test_every_pair_of_encodings(x: Encoding) -> None:
    rng = np.random.default_rng(x.bits)
    for y in ENCODINGS:
        length = int(rng.choice([1, 63, 64, 65, 200]))
        a, b = elements(rng, x, 4, length), elements(rng, y, 3, length)
        got = plane_matmul(Planes.of(a, x), Planes.of(b, y), length)
        expected = [
            [sum(p * q for p, q in zip(r, s, strict=True)) for s in y.numbers(b).tolist()]
            for r in x.numbers(a).tolist()
        ]
        assert got.tolist() == expected, y
        assert got.dtype == np.int32


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
def test_planes_are_worth_their_numbers(encoding: Encoding) -> None:
    low, high = (0, 1) if encoding.kind == "bipolar" else encoding.range
    x = np.arange(low, high + 1).astype(np.int8 if low < 0 else np.uint8)
    total = np.full(len(x), encoding.constant)
    for weight, bits in zip(encoding.weights, encoding.split(x), strict=True):
        assert set(np.unique(bits)) <= {0, 1}
        total = total + weight * bits.astype(int)
    np.testing.assert_array_equal(total, encoding.numbers(x))
    assert (int(total.min()), int(total.max())) == encoding.range


@pytest.mark.parametrize(("kind", "bits", "passes"), [("integer", 5, 5), ("bipolar", 1, 1), ("ternary", 1, 1)])
def test_passes(kind: Kind, bits: int, passes: int) -> None:
    assert Encoding(kind, bits).passes == passes


def test_bits_times_signs_need_one_count_a_plane() -> None:
    """sum_k 2^k (2 popc(a_k & w) - popc(a_k)), for unsigned a and w of -1 and +1."""
    rng = np.random.default_rng(0)
    x, y = Encoding("integer", 3), Encoding("bipolar")
    a, w = elements(rng, x, 1, 100), elements(rng, y, 1, 100)
    expected = sum(2**k * (2 * int((plane & w).sum()) - int(plane.sum())) for k, plane in enumerate(x.split(a)))
    assert plane_matmul(Planes.of(a, x), Planes.of(w, y), 100).item() == expected


def test_sums_at_the_end_of_int32_whose_terms_go_beyond() -> None:
    """Two's complement: -128 * -128 comes from the top planes alone, 127 * 127 from many terms of both signs."""
    x = Encoding("integer", 8, signed=True)
    length = (2**31 - 1) // (128 * 128)
    for value in (-128, 127, -1):
        a = np.full((1, length), value, np.int8)
        assert plane_matmul(Planes.of(a, x), Planes.of(a, x), length).item() == length * value * value


def test_rows_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    x, y = Encoding("integer", 2), Encoding("ternary")
    a, b = Planes.of(elements(rng, x, 9, 70), x), Planes.of(elements(rng, y, 4, 70), y)
    expected = plane_matmul(a, b, 70)
    monkeypatch.setattr(planes, "BLOCK", 5)
    np.testing.assert_array_equal(plane_matmul(a, b, 70), expected)

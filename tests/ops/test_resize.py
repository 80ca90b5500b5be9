"""RESIZE against its loops on Python integers, and vectors with known answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.numerics.types import Array
from npusim.ops import evaluate, resize
from npusim.ops.resize import Resize
from tests.ops.movement import check_elements, random_operand

LEGAL: dict[str, Any] = {"scale": (2, 1, 2, 1), "offset": (0, 0), "border": (0, 0), "mode": "nearest"}


def oracle(op: Resize, x: Array, n: int, oy: int, ox: int, c: int) -> int:
    """One output element by TOSA's pseudo-code, in Python integers."""
    (y_n, y_d, x_n, x_d), (height, width) = op.scale, x.shape[1:3]
    y, x_at = oy * y_d + op.offset[0], ox * x_d + op.offset[1]
    iy, ix = y // y_n, x_at // x_n
    ry, rx = y - iy * y_n, x_at - ix * x_n
    iy0, iy1 = max(iy, 0), min(iy + 1, height - 1)
    ix0, ix1 = max(ix, 0), min(ix + 1, width - 1)
    if op.mode == "nearest":
        return int(x[n, iy1 if 2 * ry >= y_n else iy0, ix1 if 2 * rx >= x_n else ix0, c])
    top = int(x[n, iy0, ix0, c]) * (x_n - rx) + int(x[n, iy0, ix1, c]) * rx
    bottom = int(x[n, iy1, ix0, c]) * (x_n - rx) + int(x[n, iy1, ix1, c]) * rx
    return top * (y_n - ry) + bottom * ry


def random_axis(rng: np.random.Generator, size: int) -> tuple[int, int, int, int]:
    """Legal (n, d, offset, border) of an axis, with at most 12 outputs."""
    while True:
        n = int(rng.integers(1, 9))
        d = int(rng.integers(1, 16 * n))
        offset = int(rng.integers(-n, 2 * n))
        border = int(rng.integers(-n, n))
        span = (size - 1) * n - offset + border
        if span >= 0 and span % d == 0 and span // d < 12:
            return n, d, offset, border


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("dtype", ["i8", "i16"])
@pytest.mark.parametrize("seed", range(10))
def test_tiles_and_whole_match_the_loops(mode: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(v) for v in rng.integers(1, [3, 6, 6, 4]))
    y, x = random_axis(rng, shape[1]), random_axis(rng, shape[2])
    op = Resize((*y[:2], *x[:2]), (y[2], x[2]), (y[3], x[3]), mode)
    image = random_operand(rng, shape, dtype)
    check_elements(rng, op, [image], [dtype], lambda *i: oracle(op, image, *i))


@pytest.mark.parametrize("dtype", ["i8", "i16"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_largest_bilinear_values_fit(dtype: str, sign: int) -> None:
    limit = 2 ** (int(dtype[1:]) - 1)
    value = -limit if sign < 0 else limit - 1
    out = evaluate(
        "resize",
        [np.full((1, 2, 2, 1), value, f"int{dtype[1:]}")],
        scale=[2048, 1, 2048, 1],
        offset=[1024, 2047],
        border=[-1023, 0],
        mode="bilinear",
    )
    assert out.shape == (1, 2, 2, 1)
    assert (out == value * 2048 * 2048).all()


def test_bilinear_in_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.random.default_rng(0).integers(-128, 128, (1, 7, 5, 2)).astype(np.int8)
    attributes = {**LEGAL, "scale": [4, 1, 4, 1], "mode": "bilinear"}
    whole = evaluate("resize", [image], **attributes)
    monkeypatch.setattr(resize, "CHUNK_ELEMENTS", 3 * 17 * 2)
    np.testing.assert_array_equal(evaluate("resize", [image], **attributes), whole)


def test_half_pixel_bilinear_doubling_of_a_ramp() -> None:
    image = np.int8([0, 4]).reshape(1, 1, 2, 1)
    out = evaluate("resize", [image], scale=[1, 1, 4, 2], offset=[0, -1], border=[0, 1], mode="bilinear")
    np.testing.assert_array_equal(out.ravel(), [0, 4, 12, 16])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "cubic"}, r"rule mode\), got mode 'cubic'"),
        ({"scale": [2, 1, 2]}, r"rule entries\), got scale \[2, 1, 2\], offset \[0, 0\], border \[0, 0\]"),
        ({"offset": [0]}, r"rule entries\), got .* offset \[0\]"),
        ({"border": [0, 0, 0]}, r"rule entries\), got .* border \[0, 0, 0\]"),
        ({"scale": [0, 1, 2, 1]}, r"rule scale_positive\), got scale \[0, 1, 2, 1\]"),
        ({"scale": [2, 1, 2, -1]}, r"rule scale_positive\), got scale \[2, 1, 2, -1\]"),
        ({"scale": [2049, 1, 2, 1]}, r"rule scale_limit\), got scale \[2049, 1, 2, 1\]"),
        ({"scale": [2, 32, 2, 1]}, r"rule downscale\), got scale \[2, 32, 2, 1\]"),
        ({"offset": [-3, 0]}, r"rule offset\), got offset \[-3, 0\] with scale \[2, 1, 2, 1\]"),
        ({"offset": [0, 32]}, r"rule offset\), got offset \[0, 32\] with scale"),
        ({"border": [2, 0]}, r"rule border\), got border \[2, 0\] with scale"),
        ({"border": [0, -33]}, r"rule border\), got border \[0, -33\] with scale"),
        ({"scale": [2, 3, 2, 1]}, r"rule exact_size\), got \(3 - 1\) \* 2 - 0 \+ 0 = 4 with d = 3"),
        ({"offset": [5, 0]}, r"rule exact_size\), got \(3 - 1\) \* 2 - 5 \+ 0 = -1 with d = 1"),
    ],
)
def test_rules(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        evaluate("resize", [np.zeros((1, 3, 3, 1), np.int8)], **{**LEGAL, **change})


def test_rank_rule() -> None:
    with pytest.raises(InvalidGraphError, match=r"rule rank\), got input \[3, 3, 1\]"):
        evaluate("resize", [np.zeros((3, 3, 1), np.int8)], **LEGAL)


def test_size_limit_rule() -> None:
    with pytest.raises(
        InvalidGraphError, match=r"rule size_limit\), got input \[1, 1, 8193, 1\] .* \[1, 1, 16385, 1\]"
    ):
        evaluate("resize", [np.zeros((1, 1, 8193, 1), np.int8)], **LEGAL)


def test_wide_types_are_not_resized() -> None:
    with pytest.raises(InvalidGraphError, match=r"resize: no type rule for input i32; legal: \(i8\) -> i8; "):
        evaluate("resize", [np.zeros((1, 3, 3, 1), np.int32)], **LEGAL)

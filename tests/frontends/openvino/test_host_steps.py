"""What the host computes around an IR's graph, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InputError
from npusim.frontends.openvino.host_steps import add_constant, as_bits, as_levels, as_type, max_pool


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8])
def test_max_pool_takes_what_lies_in_the_image(dtype: type) -> None:
    x = np.random.default_rng(1).integers(-100, 0, (2, 3, 6, 5)).astype(dtype)
    got = max_pool(x, kernel=(3, 2), stride=(2, 1), pads=(1, 2, 1, 0))
    assert got.shape == (2, 3, 4, 5)
    for n, c, p, q in np.ndindex(*got.shape):
        rows, columns = range(2 * p - 1, 2 * p + 2), range(q - 1, q + 1)
        assert got[n, c, p, q] == max(x[n, c, i, j] for i in rows for j in columns if 0 <= i < 6 and 0 <= j < 5)


def test_bits_by_a_rule_or_as_they_are() -> None:
    x = np.float32([[-1, 0, 1, 2]])
    assert as_bits(x, "x", "gt0").tolist() == [[0, 0, 1, 1]]
    assert as_bits(x, "x", "ge0").tolist() == [[0, 1, 1, 1]]
    assert as_bits(x, "x", "lt0").tolist() == [[1, 0, 0, 0]]
    assert as_bits(np.float32([0, 1]), "x", "none").tolist() == [0, 1]
    with pytest.raises(InputError, match=r"input 'x' holds -1.0 at index \[0, 0\], BinaryConvolution reads 0 and 1"):
        as_bits(x, "x", "none")
    with pytest.raises(InputError, match=r"input 'x' holds nan at index \[1\]"):
        as_bits(np.float32([0, np.nan]), "x", "none")


def test_levels_and_types() -> None:
    bits = np.uint8([[[0, 1]], [[1, 0]]]).transpose(1, 0, 2)
    levels = as_levels(bits, np.float32([-1, 5]), np.float32([1, 6]))
    assert (levels.tolist(), levels.dtype) == ([[[-1, 1], [6, 5]]], np.float32)
    assert as_type(np.int32([3]), "float16").dtype == np.float16
    shifted = add_constant(np.int32([[1, 2]]), np.float32([[0.25]]))
    assert (shifted.tolist(), shifted.dtype) == ([[1.25, 2.25]], np.float32)

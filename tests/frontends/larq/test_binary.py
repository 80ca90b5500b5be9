"""Polarity, packing and thresholds of Larq's bits."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.frontends.larq.binary import Convolution, scaled, sign_bits, signs, words


def test_the_sign_of_zero_is_plus() -> None:
    x = np.array([1, 0.0, -0.0, -1e-45, -1, np.inf, -np.inf, np.nan], np.float32)
    assert sign_bits(x).tolist() == [1, 1, 1, 0, 0, 1, 0, 1]
    assert signs(np.array([0, 1], np.uint8)).tolist() == [-1, 1]
    assert signs(np.array([0, 1], np.uint8)).dtype == np.float32


@pytest.mark.parametrize(("channels", "wanted"), [(1, 1), (32, 1), (33, 2), (64, 2), (65, 3)])
def test_channels_are_padded_to_words(channels: int, wanted: int) -> None:
    assert words(channels) == wanted


@pytest.mark.parametrize("length", [1, 2, 9, 32])
def test_thresholds_say_the_same_of_sums_as_larqs_of_counts(length: int) -> None:
    """For every count of differing bits and every threshold, those outside its range too."""
    layer = Convolution({}, np.zeros((1, 1, 1, length), np.uint8), length, -length, length, False)
    given = np.array([*range(-2, length + 3), -(2**31), 2**31 - 1], np.int32)
    found = layer.thresholds(given)
    assert found.dtype == np.int32
    for different in range(length + 1):
        larq_bit = different > given  # 1 stands for -1
        np.testing.assert_array_equal(length - 2 * different >= found, ~larq_bit)


def test_floats_are_clipped_before_they_are_scaled() -> None:
    y = scaled(np.array([[-3, 1, 9]]), 0, 6, np.array([2, -1, 0.5], np.float32), np.array([1, 0, -1], np.float32))
    assert y.tolist() == [[1, -1, 2]]
    assert y.dtype == np.float32

"""Attributes of an IR's layers as operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.frontends.openvino.operators import integers_of, per_channel, pooling
from npusim.frontends.openvino.reader import Layer
from npusim.ir.tensor import TensorType
from npusim.numerics.types import F32, Array
from npusim.ops import evaluate


def pool(**attributes: Any) -> Layer:
    stated = {"kernel": "2,2", "strides": "2,2", "pads_begin": "0,0", "pads_end": "0,0", **attributes}
    return Layer("0", "pool", "MaxPool", "opset1", stated, (), ())


@pytest.mark.parametrize("auto_pad", ["explicit", "valid", "same_upper", "same_lower"])
@pytest.mark.parametrize("rounding", ["floor", "CEIL"])
@pytest.mark.parametrize("kernel", [2, 3])
def test_poolings_of_any_size(auto_pad: str, rounding: str, kernel: int) -> None:
    for n in range(3, 9):
        for stride in range(1, kernel + 1):
            layer = pool(kernel=f"{kernel},{kernel}", strides=f"{stride},{stride}", pads_begin="1,1", pads_end="0,0",
                         auto_pad=auto_pad, rounding_type=rounding)  # fmt: skip
            before = 1 if auto_pad == "explicit" else 0
            if auto_pad.startswith("same"):
                positions = math.ceil(n / stride)
                total = max(0, (positions - 1) * stride + kernel - n)
                before = total // 2 if auto_pad == "same_upper" else total - total // 2
            else:
                whole = math.ceil if rounding == "CEIL" else math.floor
                positions = whole((n + before - kernel) / stride) + 1
            op, shape = pooling(layer, TensorType((1, 1, n, n), F32))
            assert shape == (1, 1, positions, positions)
            bits: Array = np.random.default_rng(n).integers(0, 2, (1, 1, n, n)).astype(np.uint8)
            found = evaluate("binary_max_pool2d", [bits], types=["u1"], **op.attributes())
            for p, q in np.ndindex(positions, positions):
                rows, columns = (slice(max(0, i * stride - before), i * stride - before + kernel) for i in (p, q))
                assert found[0, 0, p, q] == bits[0, 0, rows, columns].max()


def test_a_last_window_wholly_behind_the_image_is_refused() -> None:
    layer = pool(kernel="1,1", strides="3,3", rounding_type="ceil")
    with pytest.raises(InvalidGraphError, match=r"got pad \[0, 2, 0, 2\] for kernel \[1, 1\]"):
        pooling(layer, TensorType((1, 1, 5, 5), F32))


def test_one_number_or_one_for_each_channel() -> None:
    for shape in ((), (1,), (1, 1, 1, 1)):
        assert per_channel("c", np.full(shape, 7), (2, 3, 4, 5)).tolist() == [7]
    for shape in ((1, 3, 1, 1), (3, 1, 1)):
        assert per_channel("c", np.arange(3).reshape(shape), (2, 3, 4, 5)).tolist() == [0, 1, 2]
    assert per_channel("c", np.arange(3), (2, 3)).tolist() == [0, 1, 2]
    for shape in ((5,), (2, 1, 1, 1), (1, 1, 4, 1), (1, 2, 1, 1), (1, 1, 3, 1, 1)):
        with pytest.raises(InvalidGraphError, match="npusim takes one number, or one for each channel"):
            per_channel("c", np.zeros(shape), (2, 3, 4, 5))


def test_lists_of_integers() -> None:
    assert integers_of(pool(strides=" 2, -3"), "strides") == (2, -3)
    for text in ("", "1,", "1.0", "1 2", "٣"):
        with pytest.raises(InvalidGraphError, match="attribute strides .* must be integers with commas between them"):
            integers_of(pool(strides=text), "strides")

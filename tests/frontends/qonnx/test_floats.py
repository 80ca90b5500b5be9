"""Float operators that the host computes itself, where the reference implementation of ONNX is wrong."""

from __future__ import annotations

import pickle
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.frontends.qonnx import load_qonnx
from npusim.frontends.qonnx.floats import max_pool
from tests.frontends.qonnx.networks import Network, check, through_tiles


def by_window(kernel: Any, strides: Any, dilations: Any, pads: Any, ceil_mode: bool, x: Any) -> Any:
    """Every window on its own: the largest of those of its taps that lie in the image."""
    axes = range(len(kernel))
    reach = [(kernel[i] - 1) * dilations[i] + 1 for i in axes]
    sizes = []
    for i in axes:
        steps = (x.shape[2 + i] + pads[i] + pads[i + len(kernel)] - reach[i]) / strides[i]
        count = (ceil(steps) if ceil_mode else int(steps)) + 1
        sizes.append(count - ((count - 1) * strides[i] >= x.shape[2 + i] + pads[i]))
    y = np.full((*x.shape[:2], *sizes), -np.inf, np.float32)
    for at in product(*map(range, sizes)):
        for tap in product(*map(range, kernel)):
            place = [a * s - p + t * d for a, s, p, t, d in zip(at, strides, pads, tap, dilations, strict=False)]
            if all(0 <= p < n for p, n in zip(place, x.shape[2:], strict=True)):
                y[:, :, *at] = np.maximum(y[:, :, *at], x[:, :, *place])
    return y


@pytest.mark.parametrize("seed", range(30))
def test_max_pool_by_window(seed: int) -> None:
    r = np.random.default_rng(seed)
    axes = int(r.integers(1, 4))
    kernel, strides, dilations = (r.integers(1, high, axes).tolist() for high in (4, 4, 3))
    pads = [int(r.integers(0, k)) for k in kernel * 2]
    x = r.normal(size=(2, 2, *r.integers(5, 9, axes))).astype(np.float32)
    ceil_mode = bool(r.integers(2))
    got = max_pool(kernel, strides, dilations, pads, "NOTSET", ceil_mode, x)
    np.testing.assert_array_equal(got, by_window(kernel, strides, dilations, pads, ceil_mode, x), strict=True)


@pytest.mark.parametrize(("mode", "pads"), [("SAME_UPPER", [1, 0, 1, 1]), ("SAME_LOWER", [1, 1, 1, 0])])
def test_max_pool_that_keeps_sizes(mode: str, pads: list[int]) -> None:
    """A kernel of 3 rows takes one pad on either side, one of 2 columns a single one, behind or before."""
    x = np.random.default_rng(0).normal(size=(1, 2, 7, 6)).astype(np.float32)
    got = max_pool([3, 2], [1, 1], [1, 1], [0] * 4, mode, False, x)
    assert got.shape == x.shape
    np.testing.assert_array_equal(got, by_window([3, 2], [1, 1], [1, 1], pads, False, x), strict=True)
    assert max_pool([2, 2], [2, 4], [1, 1], [0] * 4, mode, False, x).shape == (1, 2, 4, 2)
    assert max_pool([1, 1], [2, 2], [1, 1], [0] * 4, mode, False, x).shape == (1, 2, 4, 3)


def test_max_pool_of_whole_numbers() -> None:
    x = np.array([[[[-5, -7], [-9, -6]]]], np.int8)
    pads = [1, 1, 1, 1]
    assert max_pool([2, 2], [1, 1], [1, 1], pads, "NOTSET", False, x)[0, 0].tolist() == [
        [-5, -5, -7],
        [-5, -5, -6],
        [-9, -6, -6],
    ]


@pytest.mark.parametrize("pads", [[1, 1, 0, 0], [0, 1, 1, 2], [1, 0, 1, 2]])
def test_pads_differ_on_every_side_of_a_max_pool_on_the_host(pads: list[int], tmp_path: Path) -> None:
    net = Network(2, 3, 7, 6)
    pooled = net.op("MaxPool", "x", kernel_shape=[2, 3], pads=pads)
    sums = net.op("Conv", net.quant(pooled, 3, 0.5), np.float32([[[[1]], [[-1]], [[1]]]]))
    x = np.random.default_rng(1).normal(size=(2, 3, 7, 6)).astype(np.float32)
    check(net, tmp_path, net.op("MaxPool", sums, kernel_shape=[2, 3], pads=pads), x=x, tiles=False)


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [2, 0]},
        {"kernel_shape": [2, 2], "strides": [0, 1]},
        {"kernel_shape": [2, 2], "dilations": [1, -1]},
        {"kernel_shape": [2, 2], "pads": [0, 0, 0, -1]},
        {"strides": [1, 1]},
    ],
)
def test_max_pools_that_are_none(attributes: dict[str, Any], tmp_path: Path) -> None:
    net = Network(1, 3, 7, 6)
    out = net.op("Conv", net.quant(net.op("MaxPool", "x", **attributes), 3), np.ones((1, 3, 1, 1)))
    with pytest.raises(InvalidGraphError, match=r"MaxPool 'n0' (kernel, strides|attribute strides must be 0)"):
        load_qonnx(net.save(tmp_path, out))


def test_a_max_pool_that_is_larger_than_its_image(tmp_path: Path) -> None:
    net = Network(1, 3, 2, 2)
    out = net.op("Conv", net.quant(net.op("MaxPool", "x", kernel_shape=[3, 3]), 3), np.ones((1, 3, 1, 1)))
    with pytest.raises(InvalidGraphError, match="MaxPool 'n0' cannot be computed: window shape"):
        load_qonnx(net.save(tmp_path, out))


@pytest.mark.parametrize(("opset", "axis", "together"), [(9, 1, (1, 2, 3)), (12, -2, (2, 3)), (13, 1, (1,))])
def test_softmax_of_several_axes_before_version_13(
    opset: int, axis: int, together: tuple[int, ...], tmp_path: Path
) -> None:
    net = Network(2, 3, 4, 5, opset=opset)
    sums = net.op("Conv", net.bipolar("x"), np.float32([[[[1]], [[-1]], [[1]]], [[[1]], [[1]], [[1]]]]))
    out = net.op("Softmax", sums, axis=axis)
    model = load_qonnx(net.save(tmp_path, sums, out))
    x = np.random.default_rng(1).normal(size=(2, 3, 4, 5)).astype(np.float32)
    got = through_tiles(model, x)[1]
    powers = np.exp(got[sums])
    np.testing.assert_allclose(got[out], powers / powers.sum(together, keepdims=True), rtol=1e-6)
    assert pickle.loads(pickle.dumps(model)).host is not None


@pytest.mark.parametrize("opset", [11, 13])
def test_log_softmax_of_numbers_far_apart(opset: int, tmp_path: Path) -> None:
    net = Network(1, 4, opset=opset)
    sums = net.op("MatMul", net.quant("x", 8, 1.0), np.float32([[100, -100], [0, 1], [1, 0], [2, 2]]))
    out = net.op("LogSoftmax", sums, axis=1)
    got = through_tiles(load_qonnx(net.save(tmp_path, out)), np.float32([[2, 0, 0, 0]]))[1]
    np.testing.assert_array_equal(got[out], [[0, -400]])


def test_a_max_pool_that_cannot_be_moved_is_one_of_the_host(tmp_path: Path) -> None:
    """Behind the last layer, that is; before a quantiser it is refused."""
    net = Network(2, 3, 8, 7)
    sums = net.op("Conv", net.quant("x", 3, 0.5), np.float32([[[[1]], [[-1]], [[1]]]]))
    pooled = net.op("MaxPool", sums, kernel_shape=[2, 2], dilations=[2, 1], strides=[1, 2])
    x = np.random.default_rng(1).normal(size=(2, 3, 8, 7)).astype(np.float32)
    check(net, tmp_path, pooled, x=x, tiles=False)
    out = net.op("Conv", net.bipolar(pooled), np.float32([[[[1]]]]))
    with pytest.raises(
        InvalidGraphError, match=r"MaxPool 'n2' cannot be moved behind a quantiser: dilations must be 1"
    ):
        load_qonnx(net.save(tmp_path, out))

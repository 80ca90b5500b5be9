"""Random networks of convolutions: every output equals the oracle's, or the reader says what it cannot fold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.frontends.qonnx import load_qonnx
from tests.frontends.qonnx.networks import QONNX, Network, evaluate, whole

MODES = ("ROUND", "FLOOR", "CEIL", "ROUND_TO_ZERO", "UP", "HALF_UP", "HALF_DOWN")


def quantised(net: Network, r: Any, x: str) -> str:
    scale = 2.0 ** r.integers(-2, 3)
    match r.integers(4):
        case 0:
            return net.bipolar(x, scale)
        case 1:
            levels = r.normal(size=(1, r.integers(1, 6))) * 3
            bias = -scale * r.integers(0, 3)
            return net.op("MultiThreshold", x, levels, domain=QONNX, out_bias=float(bias), out_scale=float(scale))
    signed, mode = int(r.integers(2)), str(r.choice(MODES))
    return net.quant(x, r.integers(2, 5), scale, r.integers(-1, 2), signed, rounding_mode=mode)


def weights(net: Network, r: Any, *shape: int) -> str:
    match r.integers(3):
        case 0:
            return net.bipolar(r.normal(size=shape), 2.0 ** r.integers(-2, 2, size=(shape[0], 1, 1, 1)))
        case 1:
            return net.constant(r.integers(-3, 4, size=shape))
    return net.quant(r.normal(size=shape) * 2, r.integers(2, 6), 2.0 ** r.integers(-2, 2), narrow=int(r.integers(2)))


def convolved(net: Network, r: Any, x: str, channels: int) -> tuple[str, int]:
    groups = int(r.choice([d for d in range(1, channels + 1) if channels % d == 0]))
    filters = groups * int(r.integers(1, 4))
    operands = [x, weights(net, r, filters, channels // groups, *r.integers(1, 4, size=2))]
    if r.integers(3) == 0:
        operands.append(net.constant(r.integers(-3, 4, size=filters)))
    window = {"pads": r.integers(1, 3, size=4), "strides": r.integers(1, 3, size=2), "dilations": [1, r.integers(1, 3)]}
    lists = {k: [int(n) for n in v] for k, v in window.items()}
    return net.op("Conv", *operands, group=groups, **lists), filters


def floats(net: Network, r: Any, y: str, channels: int) -> str:
    match r.integers(7):
        case 0:
            normal = r.normal(size=(3, channels))
            return net.norm(y, *normal, r.uniform(0.5, 20, channels))
        case 1:
            return net.op("Relu", y)
        case 2:
            return net.op("Mul", y, r.normal(size=(channels, 1, 1)))
        case 3:
            return net.op("Add", y, r.normal(size=(1, channels, 1, 1)))
        case 4:
            return net.op("Clip", y, -1.3, 2.9)
        case 5:
            return net.op("MaxPool", y, kernel_shape=[2, 2], pads=[0, 1, 1, 0])
    return net.op("Sub", r.normal(size=(channels, 1, 1)), y)


@pytest.mark.parametrize("seed", range(6))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    equal = 0
    for k in range(8):
        r = np.random.default_rng((seed, k))
        channels = int(r.integers(1, 7))
        net = Network(2, channels, 9, 8)
        y, outputs = quantised(net, r, "x"), []
        for _ in range(r.integers(1, 3)):
            y, channels = convolved(net, r, y, channels)
            for _ in range(r.integers(4)):
                y = floats(net, r, y, channels)
            y = quantised(net, r, y)
            outputs.append(y)
        x = (2 * r.normal(size=net.shape)).astype(np.float32)
        try:
            model = load_qonnx(net.save(tmp_path, *outputs))
        except InvalidGraphError as e:
            assert any(why in str(e) for why in ("second max-pool", "falling float", "fall in others", "be folded"))
            continue
        got, want = whole(model, x)[1], evaluate(net.model(*outputs), {"x": x})
        for v in outputs:
            np.testing.assert_array_equal(got[v], want[v], strict=True)
        equal += 1
    assert equal >= 4

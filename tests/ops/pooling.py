"""What the tests of poolings share: random attributes and the taps of one window."""

from __future__ import annotations

from typing import Any

import numpy as np


def random_attributes(rng: np.random.Generator) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Attributes of a pooling and a shape of its input, legal in the seed and often in TOSA 1.0 too."""
    kernel, stride, size = (tuple(map(int, rng.integers(1, n, 2))) for n in (5, 4, 7))
    pad = [int(rng.integers(0, kernel[i // 2])) for i in range(4)]
    for i in (0, 1):
        if size[i] + pad[2 * i] + pad[2 * i + 1] < kernel[i]:
            pad[2 * i] = pad[2 * i + 1] = kernel[i] - 1
    travel = [size[i] + pad[2 * i] + pad[2 * i + 1] - kernel[i] for i in (0, 1)]
    exact = all(t % s == 0 for t, s in zip(travel, stride, strict=True))
    n, c = (int(v) for v in rng.integers(1, 4, 2))
    attributes = {"kernel": kernel, "stride": stride, "pad": tuple(pad), "dialect": "tosa" if exact else "seed"}
    return attributes, (n, *size, c)


def inside(op: Any, shape: tuple[int, ...], oy: int, ox: int) -> list[tuple[int, int]]:
    """Rows and columns of the taps of window (oy, ox) that lie in the image, in the order of the loops."""
    taps = [
        (oy * op.stride[0] - op.pad[0] + ky, ox * op.stride[1] - op.pad[2] + kx)
        for ky in range(op.kernel[0])
        for kx in range(op.kernel[1])
    ]
    return [(y, x) for y, x in taps if 0 <= y < shape[1] and 0 <= x < shape[2]]

"""Random operators with accumulators, and rescales; each function appends one operator of TOSA to a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

from .writer import MOST_ELEMENTS, GraphWriter, Shape

ACCUMULATORS = {"INT8": "INT32", "INT16": "INT48"}
BIAS_LIMITS = {"INT32": 1 << 31, "INT48": 1 << 47}
MOST_PRODUCTS = 1 << 18


def convolution(g: GraphWriter, name: str, spatial: int) -> None:
    """CONV2D, CONV3D and DEPTHWISE_CONV2D."""
    x = g.operand(("INT8", "INT16"), (spatial + 2, spatial + 2))
    n, *size, channels = g.shape(x)
    kernel = [_kernel(g) for _ in size]
    axes = [_window(g, length, k, g.choices.sample((1, 1, 2, 3))) for length, k in zip(size, kernel, strict=True)]
    positions = [a[-1] for a in axes]
    room = max(1, min(MOST_ELEMENTS // (n * prod(positions)), MOST_PRODUCTS // (n * prod(positions) * prod(kernel))))
    if name == "DEPTHWISE_CONV2D":
        multiplier = g.choices.integer(1, max(1, min(4, room // channels)))
        weight_shape, outputs = (*kernel, channels, multiplier), channels * multiplier
    else:
        outputs = g.choices.integer(1, max(1, min(17, room // channels)))
        weight_shape = (outputs, *kernel, channels)
    attributes = {
        "pad": tuple(p for a in axes for p in a[:2]),
        "stride": tuple(a[2] for a in axes),
        "dilation": tuple(a[3] for a in axes),
    }
    _weighted(g, name, x, weight_shape, outputs, (n, *positions, outputs), attributes)


def transpose_conv2d(g: GraphWriter) -> None:
    """TRANSPOSE_CONV2D."""
    x = g.operand(("INT8", "INT16"), (4, 4))
    n, *size, channels = g.shape(x)
    out_pad: list[int] = []
    stride, kernel, positions = [], [], []
    for length in size:
        k, s = _kernel(g), g.choices.integer(1, 4)
        before, after = (g.choices.integer(1 - k, 3) for _ in range(2))
        if (length - 1) * s + before + after + k < 1:
            before = after = 0
        out_pad += [before, after]
        stride.append(s)
        kernel.append(k)
        positions.append((length - 1) * s + before + after + k)
    room = max(1, min(MOST_ELEMENTS // (n * prod(positions)), MOST_PRODUCTS // (n * prod(size) * prod(kernel))))
    outputs = g.choices.integer(1, max(1, min(9, room // channels)))
    attributes = {"out_pad": tuple(out_pad), "stride": tuple(stride)}
    _weighted(g, "TRANSPOSE_CONV2D", x, (outputs, *kernel, channels), outputs, (n, *positions, outputs), attributes)


def _weighted(
    g: GraphWriter, name: str, x: str, weight_shape: Shape, outputs: int, shape: Shape, attributes: Mapping[str, object]
) -> None:
    """Append an operator with weights, bias and zero points."""
    dtype = g.dtype(x)
    weight_dtype = "INT8" if dtype == "INT16" else g.choices.sample(("INT8", "INT8", "INT4"))
    weight = _exactly(g, weight_shape, weight_dtype)
    accumulator = ACCUMULATORS[dtype]
    limit = BIAS_LIMITS[accumulator] >> g.choices.sample((4, 12, 0))
    bias_shape = (g.choices.sample((outputs, 1)),)
    bias = g.fresh(bias_shape, accumulator, -limit, limit - 1)
    points = [g.number(g.zero_point(t), t) for t in (dtype, weight_dtype)]
    g.emit(name, (x, weight, bias, *points), shape, accumulator, {**attributes, "acc_type": accumulator})


def _exactly(g: GraphWriter, shape: Shape, dtype: str) -> str:
    """A value of this type and shape: an earlier one if there is one, now and then, or a fresh one."""
    old = [v for v in g.values if g.dtype(v) == dtype and g.shape(v) == shape]
    if old and g.choices.chance(1, 2):
        return g.choices.sample(old[::-1])
    return g.fresh(shape, dtype)


def _kernel(g: GraphWriter) -> int:
    """A kernel size, seldom so long that the mapper splits it."""
    return g.choices.integer(17, 40) if g.choices.chance(1, 16) else g.choices.sample((1, 3, g.choices.integer(1, 5)))


def _window(g: GraphWriter, size: int, kernel: int, stride: int) -> tuple[int, int, int, int, int]:
    """(pad before, pad after, stride, dilation, positions) of a window that fits and leaves no remainder."""
    dilation = g.choices.sample((1, 1, 2, 3))
    before, after = (g.choices.sample((0, 1, g.choices.integer(0, 6))) for _ in range(2))
    travel = size - 1 + before + after - (kernel - 1) * dilation
    missing = -travel if travel < 0 else -travel % stride
    return before, after + missing, stride, dilation, (travel + missing) // stride + 1


def pool(g: GraphWriter, name: str) -> None:
    """AVG_POOL2D and MAX_POOL2D."""
    x = g.operand(("INT8", "INT16"), (4, 4))
    n, *size, channels = g.shape(x)
    dtype = g.dtype(x)
    kernel, stride, positions = [], [], []
    pads: list[int] = []
    for length in size:
        k = g.choices.sample((1, 3, g.choices.integer(1, 6)))
        s = g.choices.integer(1, 4)
        legal = [
            (before, after)
            for before in range(k)
            for after in range(k)
            if length + before + after >= k and (length + before + after - k) % s == 0
        ]
        if not legal:
            k, s, legal = 1, 1, [(0, 0)]
        before, after = g.choices.sample(legal)
        pads += [before, after]
        kernel.append(k)
        stride.append(s)
        positions.append((length + before + after - k) // s + 1)
    attributes: dict[str, object] = {"kernel": tuple(kernel), "stride": tuple(stride), "pad": tuple(pads)}
    inputs = [x]
    if name == "AVG_POOL2D":
        attributes["acc_type"] = "INT32"
        inputs += [g.number(g.zero_point(dtype), dtype) for _ in range(2)]
    g.emit(name, inputs, (n, *positions, channels), dtype, attributes)


def matmul(g: GraphWriter, transposed: bool) -> None:
    """MATMUL, or MATMUL_T whose second operand has the common axis last."""
    a = g.operand(("INT8", "INT16"), (3, 3))
    n, h, c = g.shape(a)
    dtype = g.dtype(a)
    room = max(1, min(MOST_ELEMENTS // max(n * h, n * c), MOST_PRODUCTS // (n * h * c)))
    w = g.choices.integer(1, max(1, min(17, room)))
    b = _exactly(g, (n, w, c) if transposed else (n, c, w), dtype)
    points = [g.number(g.zero_point(dtype), dtype) for _ in range(2)]
    g.emit("MATMUL_T" if transposed else "MATMUL", (a, b, *points), (n, h, w), ACCUMULATORS[dtype])


def rescale(g: GraphWriter, x: str | None = None) -> None:
    """RESCALE of ``x``, or of any value."""
    x = x or g.operand(("INT8", "INT16", "INT32", "INT48"), (0, 5))
    dtype, shape = g.dtype(x), g.shape(x)
    output = g.choices.sample(("INT8", "INT16", "INT32"))
    narrow = {"INT8", "INT16"}
    scale32 = dtype != "INT48" and not g.choices.chance(1, 3)
    modes = ("SINGLE_ROUND", "DOUBLE_ROUND", "INEXACT_ROUND") if scale32 else ("SINGLE_ROUND", "INEXACT_ROUND")
    rounding = g.choices.sample(modes)
    unsigned = g.choices.sample(("", "", "input", "output")) if {dtype, output} <= narrow else ""
    per_channel = bool(shape) and g.choices.chance(1, 2)
    scales = (shape[-1] if per_channel else 1,)
    wide, width = ("INT32", 31) if scale32 else ("INT16", 15)
    if g.choices.chance(1, 3):  # any
        multiplier, shift = g.elements(scales, wide, 0, (1 << width) - 1), g.elements(scales, "INT8", 2, 62)
    else:  # as networks have them: a scale of 1 or a little less
        multiplier = g.elements(scales, wide, 1 << (width - 1), (1 << width) - 1)
        shortest = width - 1 + g.choices.integer(0, 9)
        shift = g.elements(scales, "INT8", shortest, shortest + g.choices.integer(0, 2))
    points = [_rescale_zero_point(g, t, unsigned == side) for t, side in ((dtype, "input"), (output, "output"))]
    attributes = {
        "scale32": scale32,
        "rounding_mode": rounding,
        "per_channel": per_channel,
        "input_unsigned": unsigned == "input",
        "output_unsigned": unsigned == "output",
    }
    made = g.emit(
        "RESCALE", (x, g.constant(multiplier, wide), g.constant(shift, "INT8"), *points), shape, output, attributes
    )
    if rounding == "INEXACT_ROUND":
        g.close(made, unsigned == "output")


def _rescale_zero_point(g: GraphWriter, dtype: str, unsigned: bool) -> str:
    if dtype == "INT16" and unsigned:
        return g.number(g.choices.sample((0, -32768)), dtype)  # the bits of 32768
    return g.number(g.zero_point(dtype), dtype)


OPERATORS: dict[str, Callable[[GraphWriter], None]] = {
    "CONV2D": partial(convolution, name="CONV2D", spatial=2),
    "CONV3D": partial(convolution, name="CONV3D", spatial=3),
    "DEPTHWISE_CONV2D": partial(convolution, name="DEPTHWISE_CONV2D", spatial=2),
    "TRANSPOSE_CONV2D": transpose_conv2d,
    "MATMUL": partial(matmul, transposed=False),
    "MATMUL_T": partial(matmul, transposed=True),
    "AVG_POOL2D": partial(pool, name="AVG_POOL2D"),
    "MAX_POOL2D": partial(pool, name="MAX_POOL2D"),
    "RESCALE": rescale,
}
"""By TOSA's name."""

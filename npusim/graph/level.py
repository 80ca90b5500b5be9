"""The limits of TOSA's level 8K: the largest sizes that every implementation of that level takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from npusim.graph.graph import Graph, Node
from npusim.numerics.types import ceil_div

Level = Literal["8k", "none"]
"""``8k``: the limits below hold. ``none``: no limits."""

MAX_RANK: Final = 6
MAX_KERNEL: Final = 8192
MAX_STRIDE: Final = 8192
MAX_SCALE: Final = 256
MAX_TENSOR_BYTES: Final = (1 << 31) - 1
MAX_TENSOR_LIST_SIZE: Final = 64

_KERNEL_AXES: Final = {
    "conv2d": slice(1, 3),
    "conv3d": slice(1, 4),
    "depthwise_conv2d": slice(0, 2),
    "transpose_conv2d": slice(1, 3),
}
"""The spatial axes of the weight, which is operand 1."""


def check_level(graph: Graph) -> list[str]:
    """One message for every value and attribute of ``graph`` that exceeds a limit; none if it keeps to level 8K.

    Limits (TOSA 1.0, "Levels"): rank <= 6; kernel * dilation and every pad <= 8192; stride <= 8192; scale of a resize
    <= 256; tensors of a list <= 64; bytes of a tensor < 2^31, where an int4 counts as one byte.
    """
    problems = []
    for value, tensor in graph.types.items():
        rank, nbytes = len(tensor.shape), tensor.size * max(1, tensor.dtype.bits // 8)
        if rank > MAX_RANK:
            problems.append(f"value {value!r} has rank {rank} {list(tensor.shape)}, the limit is {MAX_RANK}")
        if nbytes > MAX_TENSOR_BYTES:
            problems.append(f"value {value!r} ({tensor}) has {nbytes} bytes, the limit is {MAX_TENSOR_BYTES}")
    for node in graph.nodes:
        problems += [
            f"node {node.name!r} ({node.op.name}) has {what} {list(got)}, the limit is {limit}"
            for what, got, limit in _measures(node)
            if max(got) > limit
        ]
    return [f"{graph.name}: {p} in TOSA's level 8K; choose level 'none' to lift it" for p in problems]


def _measures(node: Node) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """What of a node has a limit: its name, values and limit."""
    attributes = node.op.attributes()
    kernel: tuple[int, ...] = attributes.get("kernel", ())
    if node.op.name in _KERNEL_AXES:
        kernel = node.bound.operands[1].shape[_KERNEL_AXES[node.op.name]]
    pad = next((name for name in ("pad", "out_pad") if name in attributes), None)
    if kernel and pad:  # others with a kernel are no operators of TOSA
        dilation = attributes.get("dilation", (1,) * len(kernel))
        yield "kernel * dilation", tuple(k * d for k, d in zip(kernel, dilation, strict=True)), MAX_KERNEL
        yield pad, attributes[pad], MAX_KERNEL
        yield "stride", attributes["stride"], MAX_STRIDE
    if node.op.name == "resize":
        y_n, y_d, x_n, x_d = attributes["scale"]
        yield "scale (rounded up)", (ceil_div(y_n, y_d), ceil_div(x_n, x_d)), MAX_SCALE
    if node.op.variadic:
        yield "a tensor list of size", (len(node.inputs),), MAX_TENSOR_LIST_SIZE

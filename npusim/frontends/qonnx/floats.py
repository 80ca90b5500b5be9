"""Float operators of ONNX as functions: by the standard's reference implementation, or here where that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, Final

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.qonnx.reader import STANDARD, OnnxNode
from npusim.numerics.types import Array

EXACT: Final = frozenset(
    {"Abs", "Add", "Cast", "Clip", "Concat", "Div", "Flatten", "Gather", "Identity", "Max", "Min", "Mul", "Neg", "Relu"}
    | {"Reshape", "Slice", "Sqrt", "Squeeze", "Sub", "Transpose", "Unsqueeze"}
)
"""Operators that are one IEEE operation on each element, or none."""

MOVES: Final = frozenset({"Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"})
"""Operators that compute nothing."""

NOT_A_FUNCTION: Final = frozenset(
    {"If", "Loop", "Scan", "SequenceMap", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
    | {"Bernoulli", "Multinomial"}
)
"""Operators that run other graphs or draw random numbers."""


FLATTENING: Final = frozenset({"Softmax", "LogSoftmax", "Hardmax"})
"""Operators that in old versions of the standard take all axes from ``axis`` on as one."""

FLATTENS_BEFORE: Final = 13
"""The version from which on they take ``axis`` alone."""


def is_float_operator(node: OnnxNode) -> bool:
    """Whether the node is an operator of the standard that the host can compute."""
    from onnx import defs

    return node.domain in STANDARD and node.operator not in NOT_A_FUNCTION and bool(defs.has(node.operator))


def function_of(node: OnnxNode, opset: int, constants: Mapping[str, Array]) -> Callable[..., Array]:
    """The node as a function of those of its inputs that are not among ``constants``, each once, in their order."""
    data = tuple(dict.fromkeys(v for v in node.inputs if v and v not in constants))
    if node.operator == "BatchNormalization":
        if node.integer("training_mode", 0):
            raise InvalidGraphError("is in training mode; export the model for inference")
        epsilon = np.float32(node.number("epsilon", 1e-5))
        return partial(normalise, epsilon, node.inputs, dict(constants), data)
    if node.operator == "MaxPool" and len(data) == 1:
        return _max_pool(node)
    if node.operator in FLATTENING and len(data) == 1:
        return _along_axis(node, opset, data)
    return partial(evaluate_node, node.proto, opset, dict(constants), data)


def evaluate_node(proto: bytes, opset: int, constants: Mapping[str, Array], data: Sequence[str], *arrays: Array) -> Any:
    """The first output of a node for the ``arrays`` of the tensors ``data``."""
    return _evaluator(proto, opset).run(None, {**constants, **dict(zip(data, arrays, strict=True))})[0]


def _along_axis(node: OnnxNode, opset: int, data: Sequence[str]) -> Callable[..., Array]:
    from onnx import NodeProto, helper

    flattens = opset < FLATTENS_BEFORE
    axis = node.integer("axis", 1 if flattens else -1)
    along = 1 if flattens else axis
    function = partial(log_softmax, along)
    if node.operator != "LogSoftmax":
        proto = NodeProto.FromString(node.proto)
        del proto.attribute[:]
        proto.attribute.append(helper.make_attribute("axis", along))
        function = partial(evaluate_node, proto.SerializeToString(), opset, {}, data)
    return partial(flattened, axis, function) if flattens else function


def log_softmax(axis: int, x: Array) -> Array:
    """LogSoftmax of an axis. The reference implementation takes the logarithm of powers that may have become 0."""
    below = x - x.max(axis, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis, keepdims=True)))


def flattened(axis: int, function: Callable[[Array], Array], x: Array) -> Array:
    """``function`` of the rows of ``x`` with the axes before ``axis`` as rows, the others as columns.

    The reference implementation of the operators of FLATTENING takes ``axis`` alone in all versions.
    """
    return np.asarray(function(x.reshape(prod(x.shape[:axis]), -1)).reshape(x.shape))


def normalise(
    epsilon: np.float32, inputs: Sequence[str], constants: Mapping[str, Array], data: Sequence[str], *arrays: Array
) -> Array:
    """BatchNormalization of axis 1 by constants, in float32, as onnxruntime orders its operations.

    The reference implementation takes the statistics of the batch up to version 9 of the operator.
    """
    given = {**constants, **dict(zip(data, arrays, strict=True))}
    x, scale, bias, mean, variance = (given[v] for v in inputs)
    slope = scale / np.sqrt(variance + epsilon)
    offset = bias - mean * slope
    shape = (-1, *[1] * (x.ndim - 2))
    return np.asarray(x * slope.reshape(shape) + offset.reshape(shape))


def _max_pool(node: OnnxNode) -> Callable[..., Array]:
    kernel = node.attributes.get("kernel_shape", ())
    axes = len(kernel) if isinstance(kernel, list | tuple) else 0
    kernel, pads = node.integers("kernel_shape", (1,) * axes), node.integers("pads", (0,) * 2 * axes)
    strides, dilations = (node.integers(name, (1,) * axes) for name in ("strides", "dilations"))
    if not axes or min(*kernel, *strides, *dilations) < 1 or min(pads) < 0:
        raise InvalidGraphError("kernel, strides and dilations must be 1 or more and pads 0 or more on every axis")
    mode, ceil_mode = node.text("auto_pad", "NOTSET"), bool(node.integer("ceil_mode", 0))
    return partial(max_pool, kernel, strides, dilations, pads, mode, ceil_mode)


def max_pool(
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    mode: str,
    ceil_mode: bool,
    x: Array,
) -> Array:
    """MaxPool of the axes behind the first two by the formulas of the standard (version 22 of the operator).

    ``pads`` are those before all axes, then those behind. ``mode`` is auto_pad; with ``ceil_mode`` a last window may
    reach beyond the pads if it begins before them. The reference implementation takes pads of strides of 1 for those
    of other sides, and drops windows with SAME_LOWER.
    """
    ends = []
    for i, n in enumerate(x.shape[2:]):
        reach, stride = (kernel[i] - 1) * dilations[i] + 1, strides[i]
        before, behind = (pads[i], pads[i + len(kernel)]) if mode == "NOTSET" else (0, 0)
        if mode.startswith("SAME"):
            total = max(0, ((n - 1) // stride) * stride + reach - n)
            before = total // 2 if mode == "SAME_UPPER" else total - total // 2
            behind = total - before
        rest = (n + before + behind - reach) % stride
        if ceil_mode and rest and n + before + behind - reach + stride - rest < n + before:
            behind += stride - rest
        ends.append((before, behind))
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    padded = np.pad(x, ((0, 0), (0, 0), *ends), constant_values=lowest)
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reaches, tuple(range(2, x.ndim)))
    taken = windows[:, :, *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations)]
    return np.asarray(taken.max(tuple(range(x.ndim, taken.ndim))))


@lru_cache(maxsize=1024)
def _evaluator(proto: bytes, opset: int) -> Any:
    from onnx import NodeProto, helper
    from onnx.reference import ReferenceEvaluator

    node = NodeProto.FromString(proto)
    inputs = list(dict.fromkeys(v for v in node.input if v))
    reads, gives = ([helper.make_empty_tensor_value_info(v) for v in names] for names in (inputs, node.output[:1]))
    graph = helper.make_graph([node], "node", reads, gives)
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))


def tried(function: Callable[..., Array], *arrays: Array) -> Array:
    """``function`` of ``arrays``; InvalidGraphError where it cannot be computed."""
    try:
        with np.errstate(all="ignore"):
            found = function(*arrays)
    except Exception as e:  # what the reference implementation raises is up to each operator
        reason = (str(e) or type(e).__name__).splitlines()[0]
        raise InvalidGraphError(f"cannot be computed: {reason}; export the model again") from None
    if not isinstance(found, np.ndarray | np.generic):
        raise InvalidGraphError("gives no tensor; export the model without sequences and optional values")
    return np.asarray(found)


def scaled(scale: Array, x: Array) -> Array:
    """The integers ``x`` times ``scale`` in float32."""
    return np.asarray(x.astype(np.float32) * scale)


def as_float(x: Array) -> Array:
    """The integers ``x`` in float32."""
    return x.astype(np.float32)


def from_bits(scale: Array, x: Array) -> Array:
    """The bits ``x``, which stand for -1 and +1, times ``scale`` in float32."""
    return scaled(scale, 2 * x.astype(np.int8) - 1)


def plus(term: Array, x: Array) -> Array:
    """``x`` plus a term."""
    return np.asarray(x + term)


def agreements(length: int, sums: Array) -> Array:
    """How many of ``length`` bits agree, of the sum of their products as -1 and +1 (FINN's XnorPopcountMatMul)."""
    return np.asarray((sums + np.float32(length)) * np.float32(0.5))

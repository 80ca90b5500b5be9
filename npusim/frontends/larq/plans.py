"""Which builtin float operators run on the host: their operands and options checked, their output shapes.

Shapes: the reference kernels of TensorFlow Lite, as for :mod:`npusim.frontends.larq.kernels`, which computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.larq.kernels import (
    ACTIVATIONS,
    ELEMENTWISE,
    Clip,
    Window,
    average_pool_2d,
    clipped,
    conv_2d,
    depthwise_conv_2d,
    elementwise,
    fully_connected,
    max_pool_2d,
    mean,
    pad,
    reshape,
    softmax,
)
from npusim.frontends.larq.reader import LarqOperator, LarqTensor
from npusim.numerics.types import Array


@dataclass(frozen=True, slots=True)
class Plan:
    """What the host does for one operator: ``function`` of the arrays of ``inputs``, which gives ``shape``."""

    function: Callable[..., Array]
    inputs: tuple[str, ...]
    shape: tuple[int, ...]


def activation(operator: LarqOperator) -> Clip:
    """The range of the operator's fused activation. Raises InvalidGraphError for one that is more than clipping."""
    name = operator.options.get("fused_activation_function", "NONE")
    if name not in ACTIVATIONS:
        raise InvalidGraphError(f"fused activation {name}; npusim has {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def plan(operator: LarqOperator, tensors: Mapping[str, LarqTensor]) -> Plan:
    """What the host does for a builtin operator.

    Raises InvalidGraphError where the operator's operands and options do not go together or with its declared output,
    FileFormatError for constants whose bytes do not fill their shape.
    """
    operands = [None if v is None else tensors[v] for v in operator.inputs]
    wide = [t.name for t in (*operands, tensors[operator.outputs[0]]) if t is not None and t.dtype not in _PLAIN]
    if wide or len(operator.outputs) != 1:
        shown = ", ".join(f"{v!r} ({tensors[v].dtype})" for v in wide) or "several outputs"
        raise InvalidGraphError(f"has {shown}; npusim reads Larq networks of float32: convert without quantisation")
    try:
        found = PLANS[operator.kind](_Operands(operator, operands))
    except IndexError:
        raise InvalidGraphError(f"has {len(operands)} inputs, which are too few") from None
    declared = tensors[operator.outputs[0]].shape
    if found.shape != declared:
        raise InvalidGraphError(f"gives shape {list(found.shape)}, the file declares {list(declared)}")
    return found


_PLAIN: Final = ("FLOAT32", "INT32")  # integers are axes and shapes


@dataclass(frozen=True, slots=True)
class _Operands:
    operator: LarqOperator
    given: list[LarqTensor | None]

    @property
    def options(self) -> Mapping[str, Any]:
        return self.operator.options

    def data(self, i: int, rank: int | None = None) -> LarqTensor:
        """An operand that is computed; ``rank`` is the one it must have."""
        t = self.given[i]
        if t is None or t.data is not None or t.dtype != "FLOAT32":
            raise InvalidGraphError(f"input {i} must be computed float32, got {'none' if t is None else repr(t.name)}")
        if rank is not None and len(t.shape) != rank:
            raise InvalidGraphError(f"input {t.name!r} has shape {list(t.shape)}; it must have rank {rank}")
        return t

    def constant(self, i: int, dtype: str, shape: tuple[int | None, ...] | None = None) -> Array:
        """A constant operand of ``dtype``; None in ``shape`` is any length."""
        t = self.given[i]
        if t is None or t.data is None or t.dtype != dtype:
            raise InvalidGraphError(
                f"input {i} must be a constant of {dtype}, got {'none' if t is None else repr(t.name)}"
            )
        if shape is not None and (
            len(shape) != len(t.shape) or any(n not in (None, m) for n, m in zip(shape, t.shape, strict=True))
        ):
            wanted = [n or "any" for n in shape]
            raise InvalidGraphError(f"constant {t.name!r} has shape {list(t.shape)}; it must be {wanted}")
        return t.array()

    def bias(self, i: int, channels: int) -> Array:
        """An optional constant of one float a channel."""
        if len(self.given) <= i or self.given[i] is None:
            return np.zeros(channels, np.float32)
        return self.constant(i, "FLOAT32", (channels,))


def _plan_conv_2d(o: _Operands) -> Plan:
    x = o.data(0, 4)
    n, *size, channels = x.shape
    weight = o.constant(1, "FLOAT32", (None, None, None, channels))
    window = Window.of(o.options, size, weight.shape[1:3])
    bias = o.bias(2, len(weight))
    function = partial(conv_2d, weight=weight, bias=bias, window=window, clip=activation(o.operator))
    return Plan(function, (x.name,), (n, *window.positions(size), len(weight)))


def _plan_depthwise_conv_2d(o: _Operands) -> Plan:
    x = o.data(0, 4)
    n, *size, channels = x.shape
    weight = o.constant(1, "FLOAT32", (1, None, None, None))
    if weight.shape[3] % channels:
        raise InvalidGraphError(f"has {weight.shape[3]} filters for {channels} channels; they must be a multiple")
    window = Window.of(o.options, size, weight.shape[1:3])
    split = weight.reshape(*weight.shape[1:3], channels, -1)
    bias = o.bias(2, weight.shape[3])
    function = partial(depthwise_conv_2d, weight=split, bias=bias, window=window, clip=activation(o.operator))
    return Plan(function, (x.name,), (n, *window.positions(size), weight.shape[3]))


def _plan_pool(o: _Operands, function: Callable[..., Array]) -> Plan:
    x = o.data(0, 4)
    n, *size, channels = x.shape
    window = Window.of(o.options, size, (o.options["filter_height"], o.options["filter_width"]))
    shape = (n, *window.positions(size), channels)
    return Plan(partial(function, window=window, clip=activation(o.operator)), (x.name,), shape)


def _plan_fully_connected(o: _Operands) -> Plan:
    x = o.data(0)
    if o.options["weights_format"]:
        raise InvalidGraphError("has shuffled weights; convert the model without them")
    weight = o.constant(1, "FLOAT32", (None, None))
    outputs, inputs = weight.shape
    size = prod(x.shape)
    keep = o.options["keep_num_dims"]
    if size % inputs or (keep and x.shape[-1] != inputs):
        raise InvalidGraphError(f"has {inputs} weights an output for input {list(x.shape)}")
    shape = (*x.shape[:-1], outputs) if keep else (size // inputs, outputs)
    bias = o.bias(2, outputs)
    function = partial(fully_connected, weight=weight, bias=bias, shape=shape, clip=activation(o.operator))
    return Plan(function, (x.name,), shape)


def _plan_mean(o: _Operands) -> Plan:
    x = o.data(0)
    rank = len(x.shape)
    given = [int(a) for a in o.constant(1, "INT32").reshape(-1)]
    if any(not -rank <= a < rank for a in given):
        raise InvalidGraphError(f"has axes {given} for shape {list(x.shape)}")
    axes = tuple(sorted({a % rank for a in given}))
    keep = o.options["keep_dims"]
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes)
    return Plan(partial(mean, axes=axes, keep=keep), (x.name,), shape)


def _plan_softmax(o: _Operands) -> Plan:
    x = o.data(0)
    beta = np.array(o.options["beta"], np.uint32).view(np.float32)
    return Plan(partial(softmax, beta=beta), (x.name,), x.shape)


def _plan_elementwise(o: _Operands) -> Plan:
    kind = o.operator.kind
    a, b = (o.given[i] for i in (0, 1))
    if a is None or b is None or (a.data is not None and b.data is not None):
        raise InvalidGraphError("must have two operands, one of them computed at least")
    left, right = (None if t.data is None else o.constant(i, "FLOAT32") for i, t in enumerate((a, b)))
    inputs = tuple(o.data(i).name for i, t in enumerate((a, b)) if t.data is None)
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise InvalidGraphError(f"shapes {list(a.shape)} and {list(b.shape)} do not go together") from None
    function = partial(elementwise, kind=kind, left=left, right=right, clip=activation(o.operator))
    return Plan(function, inputs, shape)


def _plan_clip(o: _Operands) -> Plan:
    x = o.data(0)
    return Plan(partial(clipped, clip=ACTIVATIONS[o.operator.kind]), (x.name,), x.shape)


def _plan_reshape(o: _Operands) -> Plan:
    x = o.data(0)
    wanted = [int(n) for n in (o.constant(1, "INT32").reshape(-1) if len(o.given) > 1 else o.options["new_shape"])]
    rest = prod(n for n in wanted if n != -1)
    if wanted.count(-1) > 1 or min(wanted, default=1) < -1 or rest < 1 or prod(x.shape) % rest:
        raise InvalidGraphError(f"has shape {wanted} for input {list(x.shape)}")
    shape = tuple(prod(x.shape) // rest if n == -1 else n for n in wanted)
    if prod(shape) != prod(x.shape):
        raise InvalidGraphError(f"has shape {wanted} for input {list(x.shape)}")
    return Plan(partial(reshape, shape=shape), (x.name,), shape)


def _plan_pad(o: _Operands) -> Plan:
    x = o.data(0)
    paddings = tuple((int(a), int(b)) for a, b in o.constant(1, "INT32", (len(x.shape), 2)))
    if min(min(p) for p in paddings) < 0:
        raise InvalidGraphError(f"has paddings {paddings}; they must not be negative")
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, paddings, strict=True))
    return Plan(partial(pad, paddings=paddings), (x.name,), shape)


PLANS: Final[Mapping[str, Callable[[_Operands], Plan]]] = {
    "CONV_2D": _plan_conv_2d,
    "DEPTHWISE_CONV_2D": _plan_depthwise_conv_2d,
    "MAX_POOL_2D": partial(_plan_pool, function=max_pool_2d),
    "AVERAGE_POOL_2D": partial(_plan_pool, function=average_pool_2d),
    "FULLY_CONNECTED": _plan_fully_connected,
    "MEAN": _plan_mean,
    "SOFTMAX": _plan_softmax,
    **dict.fromkeys(ELEMENTWISE, _plan_elementwise),
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1"), _plan_clip),
    "RESHAPE": _plan_reshape,
    "PAD": _plan_pad,
}

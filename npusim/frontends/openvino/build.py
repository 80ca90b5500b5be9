"""Builds the integer graph and the host's steps of an OpenVINO IR, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.model import Model, ModelOptions
from npusim.frontends.openvino import host_steps
from npusim.frontends.openvino.elements import integer_range
from npusim.frontends.openvino.values import Bits, Convolution, HostValue, Pool, Shift, Sums
from npusim.graph.graph import GraphBuilder
from npusim.graph.host import Host, HostStep
from npusim.ir.tensor import TensorType
from npusim.numerics.types import BOOL, I32, U1, Array
from npusim.ops import Op, make_op
from npusim.ops.binary_conv2d import BinaryConv2d
from npusim.ops.binary_max_pool2d import BinaryMaxPool2d

BINARIZE_MEANINGS: Final = {"gt0": "above 0", "ge0": "of at least 0", "lt0": "below 0"}
"""Which elements become 1."""


class Builder:
    """The model so far. The names of its layers are taken; what comes between them gets names of its own."""

    def __init__(self, name: str, layers: Iterable[str], options: ModelOptions) -> None:
        self.name, self.options = name, options
        self._graph = GraphBuilder(name)
        self._taken = set(layers)
        self._nodes: set[str] = set()
        self._forms: dict[tuple[str, str], str] = {}
        self._inputs: dict[str, TensorType] = {}
        self._outputs: dict[str, TensorType] = {}
        self._results: dict[str, None] = {}
        self._before: list[HostStep] = []
        self._after: list[HostStep] = []
        self._remarks: dict[str, None] = {}

    @property
    def problems(self) -> list[str]:
        """All found so far."""
        return self._graph.problems

    def finish(self) -> Model:
        """The model, or InvalidGraphError with all problems."""
        if not self.problems and not self._nodes:
            self.problems.append(f"{self.name}: no integer operator lies between its inputs and outputs")
        if self.problems:
            raise InvalidGraphError(self.problems)
        graph = self._graph.finish(tuple(self._results))
        steps = tuple(self._before), tuple(self._after)
        return Model(graph, Host(self._inputs, self._outputs, *steps, remarks=tuple(self._remarks)))

    def remark(self, text: str) -> None:
        """Say once how the model was read."""
        if text:
            self._remarks[text] = None

    def fresh(self, name: str) -> str:
        """``name``, or a variation of it that nothing has."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _form(self, value: str, form: str) -> tuple[str, bool]:
        """The name of another form of ``value``, and whether it is still to be made."""
        is_new = (value, form) not in self._forms
        if is_new:
            self._forms[value, form] = self.fresh(f"{value}.{form}")
        return self._forms[value, form], is_new

    # -- before the graph ---------------------------------------------------------------------------------------------

    def parameter(self, name: str, tensor: TensorType, maker: str) -> HostValue | Bits:
        """An input of the model; one of u1 is an input of the graph as it is."""
        self._inputs[name] = tensor
        if tensor.dtype is not U1:
            return HostValue(name, tensor, maker)
        self._graph.input(name, tensor)
        return Bits(name, tensor, np.zeros(1, np.uint8), np.ones(1, np.uint8))

    def host(self, maker: str, name: str, function: Callable[..., Array], inputs: Sequence[HostValue]) -> None:
        """A step that makes the value ``name`` before the graph runs."""
        self._before.append(HostStep(maker, function, tuple(x.value for x in inputs), name))

    def input_bits(self, name: str, shape: tuple[int, ...]) -> None:
        """An input of the graph that the host makes."""
        self._graph.input(name, TensorType(shape, U1))

    def binary_input(self, data: HostValue | Bits | Sums) -> tuple[str, TensorType]:
        """What a convolution reads of ``data``: bits, or sums that its operator binarises itself."""
        rule = self.options.binarize
        if isinstance(data, Bits) and data.are_levels:
            return data.value, TensorType(data.tensor.shape, U1)
        if rule != "none" and data.tensor.dtype is not BOOL:
            self.remark(f"binarize {rule}: elements {BINARIZE_MEANINGS[rule]} that a BinaryConvolution reads are 1")
        if isinstance(data, Sums):
            return str(self.settle(data).source), TensorType(data.tensor.shape, I32)
        bits = TensorType(data.tensor.shape, U1)
        if isinstance(data, Bits):
            low, high = (host_steps.binarized(x, rule) for x in (data.low, data.high))
            if rule == "none" or low.any() or not high.all():
                raise InvalidGraphError(
                    f"it reads the levels {data.low[0]:g} and {data.high[0]:g} of {data.value!r} in channel 0, its "
                    "input must be 0 or 1: let FakeQuantize give 0 and 1, or state binarize gt0 for levels around 0"
                )
            return data.value, bits
        dtype = data.tensor.dtype
        if dtype.storage.kind == "u" and rule in ("ge0", "lt0"):
            raise InvalidGraphError(f"binarize {rule!r} says nothing about unsigned {dtype}; state gt0 or none")
        value, is_new = self._form(data.value, "bits")
        if is_new:
            rule = "none" if dtype is BOOL else rule
            self.host(data.maker, value, partial(host_steps.as_bits, name=data.value, binarize=rule), (data,))
            self._graph.input(value, bits)
        return value, bits

    # -- the graph ----------------------------------------------------------------------------------------------------

    def constant(self, name: str, tensor: TensorType, array: Array) -> str:
        """A constant of the graph; its name."""
        name = self.fresh(name)
        self._graph.constant(name, tensor, array)
        return name

    def node(self, name: str, op: Op, inputs: Sequence[str], output: str) -> str:
        """An operator, called after the layer it comes from; its output."""
        while name in self._nodes:
            name += "_"
        self._nodes.add(name)
        self._graph.node(name, op, tuple(inputs), output)
        return output

    def settle(self, data: Sums) -> Sums:
        """The same sums as a value of the graph, with nothing pending: whole constants are added, a MaxPool refused."""
        value, (low, high) = self._plain(data), data.bounds
        for layer in data.pending:
            if isinstance(layer, Pool):
                raise InvalidGraphError(
                    f"it reads sums behind MaxPool {layer.name!r}: npusim pools sums only before a FakeQuantize or a "
                    "Result; put FakeQuantize before the MaxPool"
                )
            constant = layer.array.reshape((1,) * (4 - layer.array.ndim) + layer.array.shape)
            least, most = integer_range(data.tensor.dtype)
            whole = np.isfinite(constant).all() and (constant == np.trunc(constant)).all()
            low, high = (low + int(constant.min()), high + int(constant.max())) if whole else (least - 1, most + 1)
            if low < least or high > most:
                raise InvalidGraphError(
                    f"it reads sums behind the constant of Add {layer.name!r}, which must be whole numbers with which "
                    f"every sum stays in {least}..{most}"
                )
            integers = TensorType(constant.shape, I32)
            added = self.constant(f"{layer.name}.constant", integers, constant.astype(np.int32))
            value = self.node(layer.name, make_op("add", {}), (value, added), self.fresh(f"{layer.name}.sums"))
        return replace(data, source=value, bounds=(low, high), pending=(), alone=False)

    def _plain(self, data: Sums) -> str:
        """The value of the sums themselves."""
        source = data.source
        if isinstance(source, str):
            return source
        if (source.name, "sums") not in self._forms:
            self._forms[source.name, "sums"] = self.node(source.name, source.op, source.inputs, source.name)
        return source.name

    def threshold(self, name: str, data: Sums, thresholds: Array, invert: Array, varies: Array) -> str:
        """Bits (sum >= threshold) xor invert, then the maximum over the pending pools' windows; their value.

        A maximum of sums is the or of bits that rise with them, and the and of those that fall (``invert``). Where both
        kinds are among the channels that are not constant (``varies``), the rising bits are pooled and inverted after.
        """
        pools = [p for p in data.pending if isinstance(p, Pool)]
        falls = invert[varies].astype(np.bool_)
        mixed = bool(pools and falls.any() and not falls.all())
        operands = self._stage(name, thresholds, np.zeros_like(invert) if mixed else invert)
        value = self.fresh(f"{name}.unpooled") if pools else name
        source = data.source
        if isinstance(source, Convolution) and data.alone:
            self.node(source.name, replace(source.op, compare="ge"), (*source.inputs, *operands), value)
        else:
            stage = make_op("threshold", {"axis": 1, "compare": "ge"})
            self.node(name, stage, (self._plain(data), *operands), value)
        combine = "and" if falls.size and falls.all() else "or"
        for i, p in enumerate(pools, 1):
            last = i == len(pools) and not mixed
            output = name if last else self.fresh(f"{name}.pooled")
            value = self.node(p.name, replace(p.op, combine=combine), (value,), output)
        return self.map_bits(name, value, invert, 1 - invert) if mixed else value

    def _stage(self, name: str, thresholds: Array, invert: Array) -> list[str]:
        """Thresholds, and invert bits where there are any, as constants."""
        shape = thresholds.shape
        operands = [self.constant(f"{name}.thresholds", TensorType(shape, I32), thresholds.astype(np.int32))]
        if invert.any():
            operands.append(self.constant(f"{name}.invert", TensorType(shape, U1), invert.astype(np.uint8)))
        return operands

    def map_bits(self, name: str, value: str, zero: Array, one: Array) -> str:
        """Bits that are ``zero`` where those of ``value`` are 0, and ``one`` where they are 1; their value. Both are
        [C], or [1] for all channels.

        A convolution of each channel with a single +1 gives -1 and +1, which thresholds map to any bits.
        """
        if not zero.any() and one.all():
            return value
        operands = self._stage(name, np.where(zero != one, 1, 2), zero)
        op, ones = self._each_channel(value)
        return self.node(name, replace(op, compare="ge"), (value, ones, *operands), name)

    def sums_of_bits(self, bits: Bits) -> Sums:
        """The -1 and +1 that bits stand for, as sums."""
        if not ((bits.low == -1).all() and (bits.high == 1).all()):
            raise InvalidGraphError(
                f"it reads the levels {bits.low[0]:g} and {bits.high[0]:g} of {bits.value!r} in channel 0; npusim adds "
                "integer sums, and bits that stand for -1 and 1"
            )
        value, is_new = self._form(bits.value, "sums")
        if is_new:
            op, ones = self._each_channel(bits.value)
            self.node(value, op, (bits.value, ones), value)
        return Sums(value, bits.tensor, (-1, 1), alone=False)

    def _each_channel(self, value: str) -> tuple[BinaryConv2d, str]:
        """A convolution of each channel of ``value`` with a single element, and its weight of +1."""
        tensor = self._graph.type_of(value)
        if tensor is None or len(tensor.shape) != 4:
            raise InvalidGraphError(f"npusim takes {value!r} as [N, C, H, W] only, not {tensor}")
        ones = np.ones((tensor.shape[1], 1, 1, 1), np.uint8)
        op = BinaryConv2d(
            stride=(1, 1), dilation=(1, 1), pads_begin=(0, 0), pads_end=(0, 0), pad_value="minus_one", groups=len(ones)
        )
        return op, self.constant(f"{value}.ones", TensorType(ones.shape, U1), ones)

    # -- behind the graph ---------------------------------------------------------------------------------------------

    def result(self, name: str, title: str, data: HostValue | Bits | Sums) -> None:
        """An output of the model, in the model's type."""
        if isinstance(data, HostValue):
            raise InvalidGraphError(f"it reads {data.maker} with no integer operator between; leave this output out")
        if isinstance(data, Bits):
            value = data.value
            self._after.append(
                HostStep(title, partial(host_steps.as_levels, low=data.low, high=data.high), (value,), name)
            )
        else:
            value = last = self._plain(data)
            for layer in data.pending:
                output = self.fresh(f"{layer.name}.output")
                self._after.append(_host_step(layer, last, output))
                last = output
            cast = partial(host_steps.as_type, dtype=data.tensor.dtype.storage.name)
            self._after.append(HostStep(title, cast, (last,), name))
        self._results[value] = None
        self._outputs[name] = data.tensor


def pool_function(op: BinaryMaxPool2d, shape: tuple[int, ...]) -> Callable[..., Array]:
    """A MaxPool of numbers [N, C, H, W] on the host."""
    return partial(host_steps.max_pool, kernel=op.kernel, stride=op.stride, pads=op.pads(shape[2:]))


def _host_step(layer: Shift | Pool, source: str, output: str) -> HostStep:
    if isinstance(layer, Shift):
        function: Callable[..., Array] = partial(host_steps.add_constant, constant=layer.array)
        return HostStep(f"Add {layer.name!r}", function, (source,), output)
    return HostStep(f"MaxPool {layer.name!r}", pool_function(layer.op, layer.shape), (source,), output)

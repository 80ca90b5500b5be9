"""From the layers of an OpenVINO IR of binary operators to an integer graph and what the host does around it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.model import Model, ModelOptions
from npusim.frontends.openvino import host_steps
from npusim.frontends.openvino.build import Builder, pool_function
from npusim.frontends.openvino.elements import (
    PRECISIONS,
    check_static,
    constant_array,
    integer_range,
    stated_type,
)
from npusim.frontends.openvino.operators import convolution, numeric, per_channel, pooling, text_of
from npusim.frontends.openvino.quantizer import Quantizer, quantize
from npusim.frontends.openvino.reader import Layer, Port
from npusim.frontends.openvino.values import Bits, Constant, Convolution, HostValue, Pool, Shift, Sums, Value
from npusim.ir.tensor import TensorType
from npusim.numerics.types import BOOL, F16, F32, I32, U1, Array, DType
from npusim.ops import make_op

INPUTS: Final = {
    "Parameter": 0, "Const": 0, "Constant": 0, "BinaryConvolution": 2, "FakeQuantize": 5, "MaxPool": 1, "Add": 2,
    "Result": 1,
}  # fmt: skip
"""The operators that npusim reads, and how many inputs each has."""

VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {"MaxPool": ("opset1", "opset8")}
"""Operator sets whose definition is the one read here; opset1 where nothing is said."""


def to_model(layers: Sequence[Layer], data: bytes, name: str, options: ModelOptions) -> Model:
    """The model of ``layers`` (each behind its sources), whose constants are in ``data``.

    Takes BinaryConvolution, FakeQuantize of two levels, MaxPool and Add. Input floats are pooled, added and binarised
    on the host in their own type. Sums stay integer up to a FakeQuantize, which becomes integer thresholds with the
    constants added before it folded in, or up to a Result, where the host writes them in the type of the model, which
    must hold every possible sum exactly. A MaxPool of sums is done on the bits behind them, as a maximum commutes with
    a threshold. The result of a convolution has its input's type; for an input of u1 or boolean it is i32.

    Raises InvalidGraphError with every problem: unknown operators, or else broken rules.
    """
    unknown = list(_unknown(layers))
    if unknown:
        raise InvalidGraphError([f"{name}: {problem}" for problem in unknown])
    return _Conversion(layers, data, name, options).run()


def _unknown(layers: Sequence[Layer]) -> Iterator[str]:
    """One message for each kind of operator that npusim does not read."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for layer in layers:
        if layer.kind not in INPUTS or layer.version not in ("", *VERSIONS.get(layer.kind, ("opset1",))):
            found[layer.kind, layer.version].append(layer.name)
    for (kind, version), names in found.items():
        known = ", ".join(k for k in INPUTS if k != "Constant")
        yield (
            f"operator {kind} of {version or 'no opset'} is not known to npusim ({len(names)} in the file, the first "
            f"is {names[0]!r}); of an OpenVINO IR it reads {known} of opset1, and MaxPool of opset8"
        )


class _Conversion:
    """One conversion under way: what each layer's output is."""

    def __init__(self, layers: Sequence[Layer], data: bytes, name: str, options: ModelOptions) -> None:
        self.layers, self.data, self.options = layers, data, options
        self.build = Builder(name, [layer.name for layer in layers], options)
        self.readers = Counter(source for layer in layers for source in layer.sources)
        self.values: dict[tuple[str, int], Value] = {}

    def run(self) -> Model:
        """The model, or all problems."""
        for layer in self.layers:
            where = f"{self.build.name}: {layer}"
            try:
                check_ports(layer)
                sources = [self.values[s] for s in layer.sources if s in self.values]
                if len(sources) < len(layer.sources):
                    continue  # behind a fault
                value = self.convert(layer, sources, where)
                if value is not None:
                    self.values[layer.number, 0] = value
                    check_result(layer.outputs[0], value.tensor)
            except InvalidGraphError as e:
                self.build.problems.extend(p if p.startswith(where) else f"{where}: {p}" for p in e.problems)
        return self.build.finish()

    def convert(self, layer: Layer, sources: Sequence[Value], where: str) -> Value | None:
        """The value that the layer makes; None for a Result."""
        for i, (port, source) in enumerate(zip(layer.inputs, sources, strict=True)):
            if port.shape != source.tensor.shape:
                raise InvalidGraphError(
                    f"input {i} is stated as {list(port.shape)} and reads {list(source.tensor.shape)}; export the "
                    "model again"
                )
        first = sources[0] if sources else None
        if isinstance(first, Constant) and not (layer.kind == "Add" and not isinstance(sources[1], Constant)):
            raise InvalidGraphError("input 0 is a constant: compute its result before the model is exported")
        match layer.kind:
            case "Parameter":
                return self.build.parameter(layer.name, stated_type(layer), layer.title)
            case "Result":
                assert first is not None and not isinstance(first, Constant)
                self.build.result(layer.name, layer.title, first)
                return None
            case "BinaryConvolution":
                return self.convolve(layer, sources[0], sources[1])
            case "FakeQuantize":
                return self.quantize(layer, sources[0], sources[1:], where)
            case "MaxPool":
                return self.pool(layer, sources[0])
            case "Add":
                return self.add(layer, sources[0], sources[1])
        return Constant(*constant_array(layer, self.data, self.options.bit_order))

    def alone(self, layer: Layer) -> bool:
        """Whether at most one layer reads what this one makes."""
        return self.readers[layer.number, 0] <= 1

    def convolve(self, layer: Layer, data: Value, kernel: Value) -> Value:
        """BinaryConvolution: sums of bits, or of what ``binarize`` makes bits of."""
        if not isinstance(kernel, Constant) or kernel.tensor.dtype is not U1:
            got = f"is of {kernel.tensor.dtype}" if isinstance(kernel, Constant) else "is computed"
            raise InvalidGraphError(f"its kernel {got}; it must be a constant of element_type u1")
        if isinstance(data, Constant):
            raise InvalidGraphError("its input is a constant")
        value, tensor = self.build.binary_input(data)
        model = data.tensor.dtype
        result = I32 if model in (U1, BOOL) else model
        op, bound, remark = convolution(layer, (tensor, kernel.tensor), result, self.options)
        self.build.remark(remark)
        self.build.remark(f"bit_order {self.options.bit_order}: the first element of u1 constants is the "
                          f"{'least' if self.options.bit_order == 'lsb' else 'most'} significant bit")  # fmt: skip
        weight = self.build.constant(f"{layer.name}.weight", kernel.tensor, kernel.array)
        most = int(np.prod(kernel.array.shape[1:]))
        source = Convolution(layer.name, op, (value, weight))
        return Sums(source, TensorType(bound.output.shape, result), (-most, most), self.alone(layer))

    def quantize(self, layer: Layer, data: Value, limits: Sequence[Value], where: str) -> Value:
        """FakeQuantize of two levels: floats or sums to bits, or bits to other bits."""
        if text_of(layer, "levels").strip() != "2":
            raise InvalidGraphError(f"attribute levels {text_of(layer, 'levels')!r} must be 2")
        check_broadcast(layer)
        quantizer = _quantizer(limits, data.tensor)
        low, high = quantizer.low, quantizer.high
        if isinstance(data, HostValue):
            bits = partial(quantize, quantizer=quantizer, name=layer.name)
            self.build.host(layer.title, layer.name, bits, (data,))
            self.build.input_bits(layer.name, data.tensor.shape)
            return Bits(layer.name, data.tensor, low, high)
        if isinstance(data, Bits):
            made = [quantizer.bits(quantizer.passes(x)) for x in (data.low, data.high)]
            return Bits(self.build.map_bits(layer.name, data.value, *made), data.tensor, low, high)
        assert isinstance(data, Sums)
        shifts = [p for p in data.pending if isinstance(p, Shift)]
        added = [per_channel(f"the constant of Add {p.name!r}", p.array, data.tensor.shape) for p in shifts]
        thresholds, invert = quantizer.thresholds(where, data.tensor.shape[1], added, data.bounds)
        varies = np.broadcast_to(~quantizer.constant, invert.shape)
        value = self.build.threshold(layer.name, data, thresholds, invert, varies)
        return Bits(value, data.tensor, low, high)

    def pool(self, layer: Layer, data: Value) -> Value:
        """MaxPool: of floats on the host, of bits in the graph, of sums later, behind their threshold."""
        if any(self.readers[layer.number, i] for i in range(1, len(layer.outputs))):
            raise InvalidGraphError("its indices (output 1) are read; npusim computes the values only")
        op, shape = pooling(layer, data.tensor)
        tensor = TensorType(shape, data.tensor.dtype)
        if isinstance(data, HostValue):
            self.build.host(layer.title, layer.name, pool_function(op, data.tensor.shape), (data,))
            return HostValue(layer.name, tensor, layer.title)
        if isinstance(data, Bits):
            self.build.node(layer.name, op, (data.value,), layer.name)
            return replace(data, value=layer.name, tensor=tensor)
        assert isinstance(data, Sums)
        pending = (*data.pending, Pool(layer.name, op, data.tensor.shape))
        return replace(data, tensor=tensor, pending=pending, alone=data.alone and self.alone(layer))

    def add(self, layer: Layer, a: Value, b: Value) -> Value:
        """Add: of floats on the host, of sums in the graph; a constant behind sums is folded later."""
        check_broadcast(layer)
        if isinstance(a, Constant):
            a, b = b, a
        numeric("the second operand", b.tensor, a.tensor.dtype)
        try:
            shape = np.broadcast_shapes(a.tensor.shape, b.tensor.shape)
        except ValueError:
            raise InvalidGraphError(
                f"its operands {list(a.tensor.shape)} and {list(b.tensor.shape)} do not broadcast"
            ) from None
        tensor = TensorType(shape, a.tensor.dtype)
        if isinstance(a, HostValue):
            if isinstance(b, Constant):
                self.build.host(layer.title, layer.name, partial(host_steps.add_constant, constant=b.array), (a,))
                return HostValue(layer.name, tensor, layer.title)
            if isinstance(b, HostValue):
                self.build.host(layer.title, layer.name, np.add, (a, b))
                return HostValue(layer.name, tensor, layer.title)
        if isinstance(b, Constant):
            sums = self._sums(a)
            if shape != sums.tensor.shape:
                raise InvalidGraphError(f"its constant {list(b.tensor.shape)} widens its data {list(a.tensor.shape)}")
            pending = (*sums.pending, Shift(layer.name, b.array))
            return replace(sums, pending=pending, alone=sums.alone and self.alone(layer))
        terms = [self.build.settle(self._sums(x)) for x in (a, b)]
        low, high = (sum(x.bounds[i] for x in terms) for i in (0, 1))
        least, most = integer_range(tensor.dtype)
        if low < least or high > most:
            raise InvalidGraphError(
                f"its sums in {low}..{high} do not all fit {tensor.dtype}, which holds every integer in {least}..{most}"
            )
        self.build.node(layer.name, make_op("add", {}), [str(x.source) for x in terms], layer.name)
        return Sums(layer.name, tensor, (low, high), alone=False)

    def _sums(self, data: Value) -> Sums:
        if isinstance(data, Sums):
            return data
        if isinstance(data, Bits):
            return self.build.sums_of_bits(data)
        what = f"{data.maker}, which is computed on the host" if isinstance(data, HostValue) else "a constant"
        raise InvalidGraphError(f"it adds integer sums and {what}: binarise that first")


def _quantizer(limits: Sequence[Value], data: TensorType) -> Quantizer:
    if data.dtype not in (F32, F16):
        raise InvalidGraphError(f"it reads {data.dtype}; FakeQuantize is defined for floats")
    arrays: list[Array] = []
    for what, limit in zip(("input_low", "input_high", "output_low", "output_high"), limits, strict=True):
        if not isinstance(limit, Constant):
            raise InvalidGraphError(f"{what} is computed; it must be a constant")
        numeric(what, limit.tensor, data.dtype)
        arrays.append(per_channel(what, limit.array, data.shape))
    return Quantizer(*np.broadcast_arrays(*arrays))


def check_ports(layer: Layer) -> None:
    """Refuse a wrong number of ports, and dimensions that are not static."""
    wanted = INPUTS[layer.kind]
    if len(layer.inputs) != wanted:
        raise InvalidGraphError(f"has {len(layer.inputs)} inputs, its operator takes {wanted}")
    made = {"Result": (0,), "MaxPool": (1, 2)}.get(layer.kind, (1,))
    if len(layer.outputs) not in made:
        raise InvalidGraphError(
            f"has {len(layer.outputs)} outputs, its operator has {made[-1]}; export the model again"
        )
    for port in (*layer.inputs, *layer.outputs):
        check_static(f"port {port.number} of {['?' if n < 0 else n for n in port.shape]}", port.shape)


def check_result(port: Port, tensor: TensorType) -> None:
    """Refuse an output port that states another shape or element type than the operator gives."""
    if port.shape != tensor.shape:
        raise InvalidGraphError(
            f"output port {port.number} is stated as {list(port.shape)}, the operator gives {list(tensor.shape)}; "
            "export the model again"
        )
    stated: DType | None = PRECISIONS.get(port.precision, None)
    widened = tensor.dtype is I32 and stated in (U1, BOOL)  # sums of u1 and boolean, which those types cannot hold
    if port.precision and stated is not tensor.dtype and not widened:
        raise InvalidGraphError(
            f"output port {port.number} is stated as {port.precision}, the operator gives {tensor.dtype}; export the "
            "model again"
        )


def check_broadcast(layer: Layer) -> None:
    """Refuse rules of broadcasting other than numpy's, or than none where nothing is broadcast."""
    rule = text_of(layer, "auto_broadcast", "numpy")
    alike = len({port.shape for port in layer.inputs}) == 1
    if rule.lower() != "numpy" and not (rule.lower() == "none" and alike):
        shapes = ", ".join(str(list(port.shape)) for port in layer.inputs)
        raise InvalidGraphError(f"attribute auto_broadcast {rule!r} must be numpy for operands of {shapes}")

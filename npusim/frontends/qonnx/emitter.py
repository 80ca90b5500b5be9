"""Emits integer operators into a graph: sums that wait for the thresholds behind them, poolings, moves, widenings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.folding import Thresholds
from npusim.frontends.qonnx.layers import Layer, pooling
from npusim.frontends.qonnx.numbers import Numbers
from npusim.frontends.qonnx.reader import OnnxNode
from npusim.graph.graph import GraphBuilder
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I32, U1, Array
from npusim.ops import make_op


@dataclass(frozen=True)
class _Sum:
    """A layer whose operator is not emitted yet, since thresholds may be fused into it."""

    name: str
    op: str
    attributes: Mapping[str, Any]
    input: str
    weight: tuple[TensorType, Array]


class Emitter:
    """The graph so far. ``taken`` are names that values must not have unless they are asked for."""

    def __init__(self, name: str, taken: set[str]) -> None:
        self.builder = GraphBuilder(name)
        self._taken = taken
        self._inputs: set[str] = set()
        self._nodes: set[str] = set()
        self._sums: dict[str, _Sum] = {}

    def fresh(self, name: str) -> str:
        """``name``, with as many dashes behind it as make it a new one."""
        while name in self._taken:
            name += "-"
        self._taken.add(name)
        return name

    def type_of(self, value: str) -> TensorType:
        """Of a value that is emitted."""
        found = self.builder.type_of(value)
        assert found is not None, value
        return found

    def exists(self, value: str) -> bool:
        """Whether a value is emitted or waits to be; one that broke a rule is not."""
        return value in self._sums or self.builder.type_of(value) is not None

    def input(self, value: str, tensor: TensorType) -> None:
        """Define an input of the graph."""
        self.builder.input(value, tensor)
        self._inputs.add(value)

    def sum(self, node: OnnxNode, x: str, layer: Layer, output: str) -> tuple[int, ...]:
        """The shape of the sums ``output`` of a layer, emitted when first read. Raises InvalidGraphError."""
        name = self._node_name(node)
        weight = TensorType(layer.weight.shape, layer.numbers.dtype)
        shape = make_op(layer.op, layer.attributes).bind([self.type_of(x), weight]).output.shape
        self._sums[output] = _Sum(name, layer.op, layer.attributes, x, (weight, layer.weight))
        return shape

    def _operands(self, waiting: _Sum) -> tuple[str, str]:
        value = self.fresh(f"{waiting.name}.weight")
        self.builder.constant(value, *waiting.weight)
        return waiting.input, value

    def value(self, base: str) -> str:
        """``base``, emitted by now."""
        waiting = self._sums.pop(base, None)
        if waiting is not None:
            self._emit(waiting.name, waiting.op, waiting.attributes, self._operands(waiting), base)
        return base

    def threshold(
        self, node: OnnxNode, base: str, axis: int, found: Thresholds, numbers: Numbers, alone: bool, output: str
    ) -> None:
        """``numbers`` by thresholds of ``base``: in the operator that sums it if it is read ``alone``."""
        values, offset = found.values, numbers.low
        if numbers.packed_signs:
            offset = 0
        elif numbers.bipolar:
            values = np.repeat(values, 2, 1)  # -1 plus twice the bit
        attributes = {"compare": "ge", "offset": offset, "out_type": numbers.dtype.name}
        fused = self._sums.pop(base, None) if alone else None
        name = self._node_name(node) if fused is None else fused.name
        stage = {f"{name}.thresholds": (I32, values)}
        if found.invert.any():
            stage[f"{name}.invert"] = (U1, found.invert)
        operands = []
        for value, (dtype, array) in stage.items():
            operands.append(self.fresh(value))
            self.builder.constant(operands[-1], TensorType(array.shape, dtype), np.ascontiguousarray(array))
        if fused is None:
            self._emit(name, "threshold", {"axis": axis, **attributes}, (self.value(base), *operands), output)
        else:
            self._emit(name, fused.op, {**fused.attributes, **attributes}, (*self._operands(fused), *operands), output)

    def pool(self, node: OnnxNode, value: str, falls: bool, output: str) -> None:
        """The largest of each window of an NCHW value, or if the integers fall where the numbers rise the smallest."""
        window, (top, bottom, left, right), mode = pooling(node)
        name, dtype = self._node_name(node), self.type_of(value).dtype
        if dtype is U1:
            pads = {"pads_begin": (top, left), "pads_end": (bottom, right), "auto_pad": mode}
            combine = {"combine": "and" if falls else "or"}
            self._emit(name, "binary_max_pool2d", {**window, **pads, **combine}, (value,), output)
            return
        if dtype is not I8 or falls or mode not in ("explicit", "valid"):
            raise InvalidGraphError(
                f"a max-pool of {dtype} elements must have pads of its own and no falling float operators behind it "
                "before they are quantised"
            )
        before, after = self.fresh(f"{name}.nhwc"), self.fresh(f"{name}.pooled")
        pad = {"pad": (top, bottom, left, right) if mode == "explicit" else (0, 0, 0, 0)}
        self._emit(f"{name}.to_nhwc", "transpose", {"perms": (0, 2, 3, 1)}, (value,), before)
        self._emit(name, "max_pool2d", {**window, **pad}, (before,), after)
        self._emit(f"{name}.to_nchw", "transpose", {"perms": (0, 3, 1, 2)}, (after,), output)

    def move(self, node: OnnxNode, value: str, shape: tuple[int, ...], perms: tuple[int, ...] | None, out: str) -> None:
        """A transpose by ``perms``, or without them a reshape to ``shape``."""
        op, attributes = ("reshape", {"new_shape": shape}) if perms is None else ("transpose", {"perms": perms})
        self._emit(self._node_name(node), op, attributes, (value,), out)

    def add(self, node: OnnxNode, a: str, b: str, output: str) -> None:
        """The sum of two values in i32; i8 ones are widened."""
        name, operands = self._node_name(node), []
        for value in (a, b):
            if self.type_of(value).dtype is not I32:
                wide = self.fresh(f"{value}.i32")
                self._emit(f"{name}.{wide}", "cast", {"out_type": "i32"}, (value,), wide)
                value = wide
            operands.append(value)
        self._emit(name, "add", {}, tuple(operands), output)

    def result(self, base: str) -> str:
        """``base`` as an output of the graph: emitted by now, and under another name if it is an input."""
        if self.value(base) not in self._inputs:
            return base
        output = self.fresh(f"{base}.result")
        self._emit(output, "identity", {}, (base,), output)
        return output

    def _node_name(self, node: OnnxNode) -> str:
        name = node.name or f"{node.operator}_{node.outputs[0]}"
        while name in self._nodes:
            name += "-"
        self._nodes.add(name)
        return name

    def _emit(self, name: str, op: str, attributes: Mapping[str, Any], inputs: tuple[str, ...], output: str) -> None:
        # The seed's dialect: a window that does not fit is dropped, as in ONNX.
        self.builder.node(name, make_op(op, attributes, "seed"), inputs, output)

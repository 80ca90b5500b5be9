"""The integer part of a Larq network under way: npusim's graph, and what the file must say of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.larq.binary import words
from npusim.frontends.larq.reader import LarqTensor
from npusim.graph.graph import GraphBuilder
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I32, U1, Array
from npusim.ops import make_op


class IntegerPart:
    """A graph being built. ``bits`` are its values of bits, which have the names of the file's ``tensors``."""

    def __init__(self, name: str, tensors: Mapping[str, LarqTensor]) -> None:
        self.builder = GraphBuilder(name)
        self.tensors = tensors
        self.bits: set[str] = set()

    def shape(self, value: str) -> tuple[int, ...]:
        """That of a value of the graph."""
        known = self.builder.type_of(value)
        assert known is not None
        return known.shape

    def input(self, value: str, shape: tuple[int, ...]) -> None:
        """Bits that the graph gets."""
        self.builder.input(value, TensorType(shape, U1))
        self.bits.add(value)

    def constant(self, name: str, array: Array) -> str:
        """A constant of i32, or of bits, called ``name``, or a variation of it that no other value has."""
        while self.builder.type_of(name) is not None:
            known = self.builder.constant_of(name)
            if known is not None and known.dtype == array.dtype and np.array_equal(known, array):
                return name
            name += "_"
        self.builder.constant(name, TensorType(array.shape, U1 if array.dtype == np.uint8 else I32), array)
        return name

    def thresholds(self, output: str, values: Array, invert: Array | None = None) -> tuple[str, ...]:
        """The constants of a threshold stage that makes ``output``; invert bits only where one is set."""
        names = [self.constant(f"{output}.thresholds", values)]
        if invert is not None and invert.any():
            names.append(self.constant(f"{output}.invert", invert))
        return tuple(names)

    def node(
        self, name: str, kind: str, attributes: Mapping[str, Any], inputs: tuple[str, ...], output: str
    ) -> tuple[int, ...]:
        """Append an operator that makes ``output``; its shape. Raises InvalidGraphError for a broken rule of it."""
        op = make_op(kind, attributes)
        made = op.bind([t for v in inputs if (t := self.builder.type_of(v)) is not None]).output
        self.builder.node(name, op, inputs, output)
        if made.dtype is U1:
            self.bits.add(output)
        return made.shape

    def require(self, value: str, shape: Sequence[int], dtype: str) -> None:
        """Refuse what the file declares of ``value`` unless it is this; words of INT32 hold 32 channels."""
        t = self.tensors[value]
        if t.dtype != dtype:
            raise InvalidGraphError(
                f"{value!r} is {t.dtype}, it must be {dtype}: npusim reads Larq networks of float32 (Larq leaves open "
                "how ties round to int8): convert without quantisation"
            )
        declared = (*shape[:-1], words(shape[-1])) if dtype == "INT32" and shape else tuple(shape)
        if t.shape != declared:
            raise InvalidGraphError(f"{value!r} must have shape {list(declared)}, the file declares {list(t.shape)}")

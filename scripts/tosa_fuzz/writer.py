"""Builds a random TOSA graph value by value: which values there are, fresh inputs and constants, their elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.tosa import (
    TosaBlock,
    TosaFile,
    TosaOperator,
    TosaRegion,
    TosaShape,
    TosaTensor,
    encode_constant,
    schema,
)
from npusim.frontends.tosa.native import ELEMENT_TYPES
from npusim.numerics.types import Array

from .choices import Choices

VERSION = (1, 1, 0, True)
MOST_ELEMENTS = 1 << 12
Shape = tuple[int, ...]
CONSTANT_ONLY = frozenset({"INT4", "INT48"})
"""Element types that the reference model does not take from outside."""


@dataclass(frozen=True, slots=True)
class RandomGraph:
    """A graph and its inputs, in the order of the file and in storage types of the file's (signed) types.

    ``tolerances`` are by how much outputs may differ from the reference; ``unsigned`` are those outputs of which that
    is to be said of the unsigned numbers that their bits stand for. ``broken``: something of it was made wrong.
    """

    file: TosaFile
    inputs: tuple[Array, ...]
    tolerances: Mapping[str, int]
    unsigned: frozenset[str]
    broken: bool = False

    @property
    def block(self) -> TosaBlock:
        """The only block."""
        return self.file.regions[0].blocks[0]

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators that are no constants."""
        return tuple(o.name for o in self.block.operators if not o.name.startswith("CONST"))


class GraphWriter:
    """A graph under way. ``values`` are the tensors that operators may read, the latest last."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.tensors: dict[str, TosaTensor] = {}
        self.shapes: dict[str, TosaShape] = {}
        self.operators: list[TosaOperator] = []
        self.inputs: dict[str, Array] = {}
        self.values: list[str] = []
        self.tolerances: dict[str, int] = {}
        self.unsigned: set[str] = set()

    # -- values ------------------------------------------------------------------------------------------------

    def shape(self, value: str) -> Shape:
        """The shape of a value."""
        return self.tensors[value].shape

    def dtype(self, value: str) -> str:
        """TOSA's name of its element type."""
        return self.tensors[value].dtype

    def operand(
        self, dtypes: Sequence[str], rank: tuple[int, int], fits: Callable[[Shape], bool] = lambda shape: True
    ) -> str:
        """A value of one of the types, of a rank from the least to the most, of a shape that fits; old or new.

        ``fits`` must hold for shapes of small sizes.
        """
        old = [v for v in self.values if self.dtype(v) in dtypes and rank[0] <= len(self.shape(v)) <= rank[1]]
        old = [v for v in old if fits(self.shape(v))]
        if old and self.choices.integer(0, 3):
            return self.choices.sample(old[::-1])
        dtype = self.choices.sample(dtypes)
        while True:
            shape = self.sizes(self.choices.integer(*rank))
            if fits(shape):
                return self.fresh(shape, dtype)

    def sizes(self, rank: int, most: int = 9) -> Shape:
        """A random small shape."""
        shape: list[int] = []
        for _ in range(rank):
            room = MOST_ELEMENTS // prod(shape)
            limit = self.choices.sample((3, most, 33))
            shape.append(self.choices.integer(1, max(1, min(room, limit))))
        return tuple(shape)

    def fresh(self, shape: Shape, dtype: str, low: int | None = None, high: int | None = None) -> str:
        """A new input or constant with random elements in ``low..high``, by default all of the type."""
        array = self.elements(shape, dtype, low, high)
        if dtype in CONSTANT_ONLY or self.choices.chance(1, 4):
            return self.constant(array, dtype)
        name = self._name("input")
        self.tensors[name] = TosaTensor(name, shape, dtype)
        self.inputs[name] = array
        self.values.append(name)
        return name

    def constant(self, array: Array, dtype: str) -> str:
        """A constant."""
        name = self._name("const")
        self.tensors[name] = TosaTensor(name, array.shape, dtype, encode_constant(array, dtype))
        self._append("CONST", {}, (), name)
        return name

    def number(self, value: int, dtype: str) -> str:
        """A constant of shape [1]."""
        return self.constant(np.full(1, value, ELEMENT_TYPES[dtype].storage), dtype)

    def constant_shape(self, values: Sequence[int]) -> str:
        """A constant shape."""
        name = self._name("shape")
        self.shapes[name] = TosaShape(name, tuple(values))
        self._append("CONST_SHAPE", {}, (), name)
        return name

    def zero_point(self, dtype: str) -> int:
        """A zero point for a tensor of this type: 0 unless it is int8."""
        if dtype != "INT8":
            return 0
        return self.choices.sample((0, -128, 127, self.choices.integer(-128, 127)))

    # -- elements ----------------------------------------------------------------------------------------------

    def elements(self, shape: Shape, dtype: str, low: int | None = None, high: int | None = None) -> Array:
        """Random elements in ``low..high``: all alike, few different ones, of some width, the extremes, or any."""
        kind = ELEMENT_TYPES[dtype]
        low = kind.minimum if low is None else low
        high = kind.maximum if high is None else high
        style = self.choices.sample((0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 7, 7))
        rng = np.random.default_rng(self.choices.integer(0, (1 << 32) - 1))
        if style < 4:
            around = self.choices.integer(low, high) if style == 3 else (0, low, high)[style]
            near = far = around
        elif style == 4:
            near, far = -3, 3
        elif style == 5:
            width = self.choices.integer(0, kind.bits - 1)
            near, far = -(1 << width), (1 << width) - 1
        else:
            near, far = low, high
        near, far = max(low, min(near, high)), min(high, max(far, low))
        made = rng.integers(near, far, shape, np.int64, endpoint=True)
        if style == 6:
            ends = np.asarray([low, high, max(low, 0), high - (high > low), low + (high > low)])
            made = np.where(rng.random(shape) < 0.7, ends[rng.integers(0, 5, shape)], made)
        return np.asarray(made).astype(kind.storage)

    # -- operators ---------------------------------------------------------------------------------------------

    def emit(
        self, name: str, inputs: Sequence[str], shape: Shape, dtype: str, attributes: Mapping[str, Any] | None = None
    ) -> str:
        """Append an operator; the name of its output, which later operators may read."""
        output = self._name(name.lower())
        self.tensors[output] = TosaTensor(output, shape, dtype)
        self._append(name, attributes or {}, tuple(inputs), output)
        self.values.append(output)
        return output

    def close(self, value: str, unsigned: bool) -> None:
        """Keep later operators from reading ``value``, which may be a step off the reference."""
        self.values.remove(value)
        self.tolerances[value] = 1
        if unsigned:
            self.unsigned.add(value)

    def finish(self) -> RandomGraph:
        """The graph; its outputs are all values that no operator reads, and some that one does."""
        read = {v for o in self.operators for v in o.inputs}
        made = [o.outputs[0] for o in self.operators if o.outputs[0] in (*self.values, *self.tolerances)]
        outputs = [v for v in made if v not in read or (self.dtype(v) != "INT48" and self.choices.chance(1, 8))]
        block = TosaBlock("main", tuple(self.operators), self.tensors, self.shapes, tuple(self.inputs), ())
        tolerances = {v: self.tolerances.get(v, 0) for v in outputs}
        return pruned(block, self.inputs, tolerances, frozenset(self.unsigned))

    def _append(self, name: str, attributes: Mapping[str, Any], inputs: tuple[str, ...], output: str) -> None:
        full = {field.name: field.absent for field in schema.ATTRIBUTES[name]} | dict(attributes)
        if "nan_mode" in full:
            full["nan_mode"] = "PROPAGATE"
        self.operators.append(TosaOperator(name, full, inputs, (output,), len(self.operators)))

    def _name(self, what: str) -> str:
        return f"{what}_{len(self.tensors) + len(self.shapes)}"


def pruned(
    block: TosaBlock, inputs: Mapping[str, Array], tolerances: Mapping[str, int], unsigned: frozenset[str]
) -> RandomGraph:
    """The graph of the outputs that have a tolerance, with nothing in it that they do not need."""
    needed = set(tolerances)
    operators = []
    for o in reversed(block.operators):
        if o.outputs[0] in needed:
            needed.update(o.inputs)
            operators.append(o)
    left = {v: a for v, a in inputs.items() if v in needed}
    whole = TosaBlock(
        block.name,
        tuple(replace(o, index=i) for i, o in enumerate(reversed(operators))),
        {v: t for v, t in block.tensors.items() if v in needed},
        {v: s for v, s in block.shapes.items() if v in needed},
        tuple(left),
        tuple(tolerances),
    )
    file = TosaFile(VERSION, (TosaRegion("main", (whole,)),))
    return RandomGraph(file, tuple(left.values()), tolerances, unsigned & set(tolerances))

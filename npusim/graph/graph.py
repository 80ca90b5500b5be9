"""An operator graph in single-assignment form: named values, nodes in dependency order, constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from npusim.errors import InvalidGraphError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import Array
from npusim.ops import Bound, Op


@dataclass(frozen=True)
class Node:
    """One operator applied to named values; ``name`` is unique in its graph and is what reports show."""

    name: str
    op: Op
    inputs: tuple[str, ...]
    output: str
    bound: Bound


@dataclass(frozen=True)
class State:
    """A variable that lives from run to run: the value a run starts from, the one it leaves, and the first contents."""

    name: str
    input: str
    output: str
    initial: Array


@dataclass(frozen=True)
class Graph:
    """A verified graph.

    ``inputs`` and ``outputs`` include those of ``states``; ``data_inputs`` and ``data_outputs`` are the others.

    ``types`` has every value. ``constants`` hold arrays in storage types. ``nodes`` are in an order in which every
    input is an earlier output, a graph input or a constant.
    """

    name: str
    types: Mapping[str, TensorType]
    constants: Mapping[str, Array]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    states: tuple[State, ...] = ()

    @property
    def data_inputs(self) -> tuple[str, ...]:
        """The inputs a caller provides."""
        return tuple(v for v in self.inputs if v not in {s.input for s in self.states})

    @property
    def data_outputs(self) -> tuple[str, ...]:
        """The outputs a caller gets."""
        return self.outputs[: len(self.outputs) - len(self.states)]

    @cached_property
    def producer(self) -> Mapping[str, Node]:
        """The node that makes each computed value."""
        return {n.output: n for n in self.nodes}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value (a node once, however often it reads it)."""
        found: dict[str, list[Node]] = {v: [] for v in self.types}
        for n in self.nodes:
            for v in dict.fromkeys(n.inputs):
                found[v].append(n)
        return {v: tuple(ns) for v, ns in found.items()}


class GraphBuilder:
    """Collects values and nodes in order and checks each as it comes; :meth:`finish` returns the graph.

    All faults are collected, so that one run shows every mistake of a file.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[str] = []
        self._types: dict[str, TensorType] = {}
        self._constants: dict[str, Array] = {}
        self._inputs: list[str] = []
        self._nodes: list[Node] = []
        self._states: list[State] = []
        self._names: set[str] = set()
        self._broken: set[str] = set()

    def type_of(self, value: str) -> TensorType | None:
        """The type of a value already defined."""
        return self._types.get(value)

    def constant_of(self, value: str) -> Array | None:
        """The array of a constant already defined."""
        return self._constants.get(value)

    def _define(self, value: str, tensor: TensorType, what: str) -> bool:
        if value in self._types:
            self.problems.append(f"{self.name}: {what} {value!r} is defined twice; every value needs a name of its own")
            return False
        self._types[value] = tensor
        return True

    def input(self, value: str, tensor: TensorType) -> None:
        """Define a graph input."""
        if any(n < 1 for n in tensor.shape):
            self.problems.append(
                f"{self.name}: input {value!r} has shape {list(tensor.shape)}; every dimension must be at least 1"
            )
        if self._define(value, tensor, "input"):
            self._inputs.append(value)

    def constant(self, value: str, tensor: TensorType, array: Array) -> None:
        """Define a constant; ``array`` has the shape and the storage type of ``tensor``."""
        if array.shape != tensor.shape or array.dtype != tensor.dtype.storage:
            raise ValueError(f"constant {value}: array {array.shape} {array.dtype} for {tensor}")
        if self._define(value, tensor, "constant"):
            self._constants[value] = array

    def node(self, name: str, op: Op, inputs: tuple[str, ...], output: str, declared: TensorType | None = None) -> None:
        """Append an operator. ``declared``: the output type a file states; it must be the one the rules give."""
        where = f"{self.name}: node {name!r} ({op.name})"
        if name in self._names:
            self.problems.append(f"{where}: the name is used twice; give every node its own")
        self._names.add(name)
        missing = [v for v in dict.fromkeys(inputs) if v not in self._types]
        if missing:
            unknown = [v for v in missing if v not in self._broken]
            if unknown:
                self.problems.append(
                    f"{where}: reads {', '.join(map(repr, unknown))}, which no earlier node, input or constant defines"
                )
            self._give_up(output, declared)
            return
        try:
            bound = op.bind([self._types[v] for v in inputs])
        except InvalidGraphError as e:
            self.problems += [f"{where}: {p}" for p in e.problems]
            self._give_up(output, declared)
            return
        if declared is not None and bound.output != declared:
            self.problems.append(
                f"{where}: output {output!r} is declared {declared}, the operator gives {bound.output}"
            )
        if self._define(output, bound.output, "output"):
            self._nodes.append(Node(name, op, inputs, output, bound))

    def _give_up(self, output: str, declared: TensorType | None) -> None:
        """Go on after a node at fault: later nodes are checked against the declared type, or pass over the value."""
        known = declared or self._types.get(output)
        if known is None:
            self._broken.add(output)
        else:
            self._define(output, known, "output")

    def state(self, state: State, tensor: TensorType) -> None:
        """Define a variable: its input value is defined here, its output value by a later node (or is the input)."""
        self.input(state.input, tensor)
        self._states.append(state)

    def finish(self, outputs: tuple[str, ...]) -> Graph:
        """The graph; InvalidGraphError with all problems found."""
        for s in self._states:
            made = self._types.get(s.output)
            if made is not None and made != self._types[s.input]:
                self.problems.append(
                    f"{self.name}: variable {s.name!r} is {self._types[s.input]} and is written as {made}; "
                    "they must agree"
                )
        for v in (*outputs, *(s.output for s in self._states)):
            if v not in self._types and v not in self._broken:
                self.problems.append(f"{self.name}: output {v!r} is not defined by any node")
        if not outputs:
            self.problems.append(f"{self.name}: the graph has no outputs; name at least one")
        if self.problems:
            raise InvalidGraphError(self.problems)
        return Graph(
            self.name,
            self._types,
            self._constants,
            tuple(self._inputs),
            (*outputs, *(s.output for s in self._states)),
            tuple(self._nodes),
            tuple(self._states),
        )

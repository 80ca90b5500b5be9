"""Builds the operator graph that a workload YAML writes out, with every fault at its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

from npusim.config import Loc
from npusim.errors import InputError
from npusim.frontends.workload.data import constant_array, did_you_mean, tensor_type
from npusim.frontends.workload.faults import Faults
from npusim.frontends.workload.schema import ConstantSpec, GraphSpec, OperatorSpec, WorkloadSpec
from npusim.graph.graph import Graph, GraphBuilder
from npusim.graph.level import check_level
from npusim.ir.tensor import TensorType
from npusim.ops import Op, as_operand, complete_types, make_op, op_class, op_names

_CULPRIT: Final = re.compile(r": attribute '?(\w+)|, got (\w+) |: (\w+) (?:has shape|at index|holds|is ragged)")
"""Where the messages of an operator name the attribute or operand at fault."""


def build_graph(graph: GraphSpec, spec: WorkloadSpec, name: str, folder: Path, faults: Faults) -> Graph | None:
    """The graph called ``name`` of the workload ``spec``; None if ``faults`` got new ones.

    Relative paths start at ``folder``. A constant among an operator's inputs or attributes is called after operator and
    operand, such as ``conv1.weight``.
    """
    before = len(faults.found)
    names = [*graph.inputs, *graph.constants, *(operator.value for operator in graph.operators)]
    reader = _Reader(spec, folder, faults, GraphBuilder(name), names)
    for value, text in graph.inputs.items():
        reader.read_input(("graph", "inputs", value), value, text)
    for value, constant in graph.constants.items():
        reader.read_constant(("graph", "constants", value), value, constant)
    for index, operator in enumerate(graph.operators):
        reader.read_operator(("graph", "operators", index), operator)
    reader.check_outputs(("graph", "outputs"), graph.outputs)
    if len(faults.found) > before:
        return None
    built = reader.builder.finish(graph.outputs)
    if spec.dialect == "tosa" and spec.level == "8k":
        faults.add(("graph",), *(p.removeprefix(f"{name}: ") for p in check_level(built)))
    return built


@dataclass(slots=True)
class _Reader:
    """A graph under way. ``broken`` are the values whose origin is at fault: what reads them is not blamed for it."""

    spec: WorkloadSpec
    folder: Path
    faults: Faults
    builder: GraphBuilder
    names: Collection[str]
    """All values of the graph, those further down too."""
    broken: set[str] = field(default_factory=set)

    def read_input(self, loc: Loc, value: str, text: str) -> None:
        """Define an input of the graph."""
        with self._origin(loc, value):
            self.builder.input(value, tensor_type(text))

    def read_constant(self, loc: Loc, value: str, constant: ConstantSpec) -> None:
        """Define a constant."""
        with self._origin(loc, value):
            tensor = tensor_type(constant.type)
            array = constant_array(constant, tensor, value, self.spec.seed, self.folder)
            self.builder.constant(value, tensor, array)

    def read_operator(self, loc: Loc, operator: OperatorSpec) -> None:
        """Append an operator."""
        operator, places = _taken_apart(loc, operator)
        op = self._op(loc, operator, places)
        stated = [n for n in operator.attributes if op and n in op.attribute_operands]
        operands = (n for n in (op.operand_name(i) if op else str(i) for i in count()) if n not in stated)
        values: dict[str, str] = {}
        for index, (operand, item) in enumerate(zip(operands, operator.inputs, strict=False)):
            places[operand] = (*loc, "inputs", index)
            values[operand] = item if isinstance(item, str) else f"{operator.name}.{operand}"
            if isinstance(item, str):
                self._check_defined(places[operand], item)
            else:
                self.read_constant(places[operand], values[operand], item)
        if op is None or any(v in self.broken or self.builder.type_of(v) is None for v in values.values()):
            self.broken.add(operator.value)
            return
        with self._origin(loc, operator.value, places):
            values |= self._define_stated(op, operator, stated, values)
            self.builder.node(operator.name, op, tuple(values[n] for n in _ordered(op, values)), operator.value)

    def check_outputs(self, loc: Loc, outputs: tuple[str, ...]) -> None:
        """Check that the outputs of the graph are there, each once."""
        if not outputs:
            self.faults.add(loc, "the graph has no outputs; name at least one value")
        for index, value in enumerate(outputs):
            self._check_defined((*loc, index), value)
            if value in outputs[:index]:
                self.faults.add((*loc, index), f"output {value!r} is listed twice; remove one")

    @contextmanager
    def _origin(self, loc: Loc, value: str, places: Mapping[str, Loc] = MappingProxyType({})) -> Iterator[None]:
        """Note what goes wrong within, at ``loc`` or at the part in ``places`` that is to blame; ``value`` breaks."""
        before = len(self.faults.found)
        try:
            yield
        except InputError as error:
            self._blame(loc, error.problems, places)
        self._blame(loc, self.builder.problems, places)
        self.builder.problems.clear()
        if len(self.faults.found) > before:
            self.broken.add(value)

    def _blame(self, loc: Loc, problems: Iterable[str], places: Mapping[str, Loc]) -> None:
        for problem in problems:
            culprit = _CULPRIT.search(problem)
            name = culprit[culprit.lastindex or 0] if culprit else ""
            self.faults.add(places.get(name, loc), problem.removeprefix(f"{self.builder.name}: "))

    def _op(self, loc: Loc, operator: OperatorSpec, places: Mapping[str, Loc]) -> Op | None:
        """The operator with its attributes, but those that stand for operands."""
        with self.faults.at((*loc, "op")):
            stated = op_class(operator.op).attribute_operands
            with self._origin(loc, operator.value, places):
                attributes = {n: v for n, v in operator.attributes.items() if n not in stated}
                return make_op(operator.op, attributes, self.spec.dialect)
        return None

    def _define_stated(
        self, op: Op, operator: OperatorSpec, stated: Iterable[str], values: Mapping[str, str]
    ) -> dict[str, str]:
        """Define the operands that are given as attributes as constants; their names by operand."""
        known = {n: t.dtype for n, v in values.items() if (t := self.builder.type_of(v))}
        order = _ordered(op, [*values, *stated])
        names = {n: f"{operator.name}.{n}" for n in stated}
        for operand, dtype in zip(order, complete_types(op, order, known), strict=True):
            if operand in names:
                array = as_operand(f"{op.name}: {operand}", operator.attributes[operand], dtype)
                self.builder.constant(names[operand], TensorType(array.shape, dtype), array)
        return names

    def _check_defined(self, loc: Loc, value: str) -> None:
        if value in self.broken or self.builder.type_of(value) is not None:
            return
        if value in self.names:
            self.faults.add(loc, f"the value {value!r} is made further down; move its operator above what reads it")
        else:
            hint = did_you_mean(value, self.names)
            self.faults.add(loc, f"no input, constant or operator makes the value {value!r}{hint}")


def _taken_apart(loc: Loc, operator: OperatorSpec) -> tuple[OperatorSpec, dict[str, Loc]]:
    """The operator with grouped attributes as the attributes they are made of, and where each of these stands."""
    written = operator.attributes
    groups = {n: group for n, group in written.items() if isinstance(group, Mapping)}
    places: dict[str, Loc] = {k: (*loc, "attributes", n, k) for n, group in groups.items() for k in group}
    places |= {n: (*loc, "attributes", n) for n in written}
    if operator.op in op_names():
        operator = replace(operator, attributes=dict(op_class(operator.op).take_apart(written)))
    return operator, places


def _ordered(op: Op, operands: Collection[str]) -> list[str]:
    """Names of operands in the order in which the operator takes them."""
    return [n for n in op.operands if n in operands] + [n for n in operands if n not in op.operands]

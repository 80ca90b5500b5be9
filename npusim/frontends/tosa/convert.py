"""From the records of a TOSA file to an operator graph in npusim's native form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from npusim.errors import FileFormatError, InvalidGraphError
from npusim.frontends.tosa.native import ELEMENT_TYPES, constant_array, to_native
from npusim.frontends.tosa.reader import read_tosa
from npusim.frontends.tosa.records import TosaBlock, TosaFile, TosaOperator, TosaTensor
from npusim.graph.graph import Graph, GraphBuilder, State
from npusim.graph.level import Level, check_level
from npusim.ir.tensor import TensorType
from npusim.numerics.types import U8, U16, Array
from npusim.ops import Op, make_op, op_names

DECLARATIONS: Final = frozenset({"CONST", "CONST_SHAPE", "VARIABLE"})
"""Operators that compute nothing: what they state is in the tensors and shapes of the block."""

CONTROL_FLOW: Final = {"COND_IF": ("then_graph", "else_graph"), "WHILE_LOOP": ("cond_graph", "body_graph")}
"""Operators that run other graphs of the file, and the attributes that name those."""

UNSIGNED: Final = {"INT8": U8, "INT16": U16}
"""What a rescale reads a tensor as when it is told that its input is unsigned."""

_OWN: Final = ", ".join(ELEMENT_TYPES)
VARIABLE_ACCESSES: Final = frozenset({"VARIABLE_READ", "VARIABLE_WRITE"})


def load_tosa(path: str | Path, level: Level = "8k") -> Graph:
    """The graph of the TOSA file at ``path``, named like the file without its suffix.

    Raises FileFormatError when it cannot be read or is not a TOSA file, and what ``to_graph`` raises.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise FileFormatError(f"{path}: cannot be read ({e.strerror}); name a TOSA file") from None
    return replace(to_graph(read_tosa(data, str(path)), str(path), level), name=Path(path).stem)


def to_graph(file: TosaFile, name: str, level: Level = "8k") -> Graph:
    """The main graph of ``file`` (the first block of its first region), called ``name`` in messages too.

    Values keep their names; nodes are called after their operator and their place among the nodes, like ``conv2d_3``.
    Types are the file's, except that an input which is read as unsigned only (TOSA has no unsigned types, RESCALE has a
    flag) is u8 or u16; an output that is written as unsigned keeps its signed type and the same bits.
    Constants that an operator needs before the run (zero points, shapes, the shift of MUL, ...) become its attributes.
    A variable becomes a State: a read of it is an identity of what it holds at that place in the file, what it holds at
    the end is the state's output.

    Raises InvalidGraphError with all problems found: operators and element types that npusim does not know, or else
    broken rules of operators and graph, or else exceeded limits of the ``level``. FileFormatError for bytes of a
    constant that do not fit its type.
    """
    if not file.regions or not file.regions[0].blocks:
        raise InvalidGraphError(f"{name}: the file has no graph; export the model again")
    block = file.regions[0].blocks[0]
    unsupported = list(_unsupported(block))
    if unsupported:
        raise InvalidGraphError([f"{name}: {problem}" for problem in unsupported])
    try:
        graph = _Conversion(block, name).run()
    except FileFormatError as e:
        raise FileFormatError([f"{name}: {problem}" for problem in e.problems]) from None
    problems = check_level(graph) if level == "8k" else []
    if problems:
        raise InvalidGraphError(problems)
    return graph


def _unsupported(block: TosaBlock) -> Iterator[str]:
    """One message for each kind of operator, and each input or output, that no graph of npusim can have."""
    known = {*op_names(), *(o.lower() for o in DECLARATIONS | VARIABLE_ACCESSES)}
    makers: dict[str, list[str]] = defaultdict(list)
    for operator in block.operators:
        if operator.name in DECLARATIONS:
            continue
        if operator.name in CONTROL_FLOW:
            graphs = ", ".join(repr(operator.attributes.get(a, "")) for a in CONTROL_FLOW[operator.name])
            fault = f"is control flow (graphs {graphs}), which npusim does not run"
        elif operator.name.lower() not in known:
            fault = "is not known to npusim"
        elif types := sorted(_foreign_types(block, (*operator.inputs, *operator.outputs))):
            fault = f"uses {', '.join(types)} tensors, npusim has only {_OWN}: quantise the whole model"
        else:
            continue
        makers[f"operator {operator.name} {fault}"].append(operator.outputs[0] if operator.outputs else "nothing")
    for problem, outputs in makers.items():
        yield f"{problem} ({len(outputs)} in the file, the first makes {outputs[0]!r})"
    for what, values in (("input", block.inputs), ("output", block.outputs)):
        for value in values:
            for dtype in _foreign_types(block, (value,)):
                yield f"graph {what} {value!r} is of {dtype}, npusim has only {_OWN}: quantise the whole model"


def _foreign_types(block: TosaBlock, values: Iterable[str]) -> set[str]:
    return {block.tensors[v].dtype for v in values if v in block.tensors} - set(ELEMENT_TYPES)


class _Conversion:
    """One conversion under way: the graph so far, and what the variables hold at this place of the file."""

    def __init__(self, block: TosaBlock, name: str) -> None:
        self.block = block
        self.builder = GraphBuilder(name)
        made = [(o, v) for o in block.operators for v in o.outputs if v in block.tensors]
        self.constants = {v: block.tensors[v] for o, v in made if o.name == "CONST"}
        self.computed = {v for o, v in made if o.name not in DECLARATIONS and o.name != "VARIABLE_WRITE"}
        self.accesses: dict[int, tuple[str, str]] = {}
        """By the index of an operator that reads or writes a variable: variable and value."""
        self.held: dict[str, str] = {}
        """The value that a variable holds."""
        self.nodes = 0

    def run(self) -> Graph:
        unsigned = _read_as_unsigned(self.block)
        for value in self.block.inputs:
            self._input(value, value in unsigned)
        states = self._define_states()
        for operator in self.block.operators:
            if operator.name in VARIABLE_ACCESSES:
                self._access(operator)
            elif operator.name not in DECLARATIONS:
                self._operator(operator)
        for state in states:
            if self.held[state.name] != state.output:
                self._node("identity", make_op("identity", {}), (self.held[state.name],), state.output)
        self._define_constants(self.block.outputs)
        return self.builder.finish(self.block.outputs)

    def _fault(self, where: str, problem: str) -> None:
        self.builder.problems.append(f"{self.builder.name}: {where}: {problem}")

    def _input(self, value: str, unsigned: bool) -> None:
        tensor = self.block.tensors.get(value)
        if tensor is None:
            self._fault(f"input {value!r}", "the file does not describe it; export the model again")
        else:
            self.builder.input(value, TensorType(tensor.shape, UNSIGNED[tensor.dtype]) if unsigned else _type(tensor))

    def _define_constants(self, values: Iterable[str]) -> None:
        """Make those of ``values`` that are constants of the file constants of the graph."""
        for value in values:
            if value in self.constants and self.builder.type_of(value) is None:
                tensor = self.constants[value]
                self.builder.constant(value, _type(tensor), self._array(tensor))

    def _array(self, tensor: TosaTensor) -> Array:
        """The array of a constant; zeros in place of one at fault."""
        try:
            return constant_array(tensor)
        except InvalidGraphError as e:
            self.builder.problems += [f"{self.builder.name}: {p}" for p in e.problems]
            return np.zeros(tensor.shape, ELEMENT_TYPES[tensor.dtype].storage)

    def _operator(self, operator: TosaOperator) -> None:
        name, outputs = operator.name.lower(), operator.outputs
        where = f"node '{name}_{self.nodes}' ({name})"
        described = [v for v in outputs if v in self.block.tensors]
        try:
            if len(outputs) != 1 or not described:
                raise InvalidGraphError(f"must have one output that the file describes, got {list(outputs)}")
            op, operands = to_native(operator, self.block, self.constants)
        except InvalidGraphError as e:
            for problem in e.problems:
                self._fault(f"{where} with output {outputs[0]!r}" if outputs else where, problem)
            for value in described:
                # So that what follows is checked too: with its problem this graph is never finished.
                self.builder.input(value, _type(self.block.tensors[value]))
            self.nodes += 1
            return
        self._node(name, op, operands, outputs[0])

    def _node(self, name: str, op: Op, operands: tuple[str, ...], output: str) -> None:
        self._define_constants(operands)
        declared = self.block.tensors.get(output)
        self.builder.node(f"{name}_{self.nodes}", op, operands, output, None if declared is None else _type(declared))
        self.nodes += 1

    # -- variables ---------------------------------------------------------------------------------------------

    def _define_states(self) -> list[State]:
        """A state for every variable that is read or written. Its output is the value that is written last."""
        tensors: dict[str, TosaTensor] = {}
        last: dict[str, str] = {}
        for operator in self.block.operators:
            if operator.name not in VARIABLE_ACCESSES:
                continue
            names = (*operator.inputs, *operator.outputs)
            variables = [t for v in names if (t := self.block.tensors.get(v)) is not None and t.is_variable]
            values = [v for v in names if v not in {t.name for t in variables}]
            if len(variables) != 1 or len(values) != 1:
                where = f"operator {operator.name} {operator.index} of the file"
                self._fault(where, f"must name one variable and one value, got {list(names)}")
                continue
            variable = variables[0].variable_name or variables[0].name
            tensors.setdefault(variable, variables[0])
            if operator.name == "VARIABLE_WRITE":
                last[variable] = values[0]
            self.accesses[operator.index] = variable, values[0]
        taken = set(self.block.outputs)
        states = []
        for variable, tensor in tensors.items():
            output = last.get(variable, tensor.name)
            if variable in last and (output in taken or output not in self.computed):
                output = _unused_name(f"{tensor.name}.next", self.block)
            taken.add(output)
            states.append(self._define_state(variable, tensor, output))
        return states

    def _define_state(self, variable: str, tensor: TosaTensor, output: str) -> State:
        initial: Array = np.zeros(0)  # of a graph that is never finished
        if tensor.data is None:
            self._fault(f"variable {variable!r}", "it has no first value; export the model with one")
        else:
            initial = self._array(tensor)
        state = State(variable, tensor.name, output, initial)
        self.builder.state(state, _type(tensor))
        self.held[variable] = tensor.name
        return state

    def _access(self, operator: TosaOperator) -> None:
        if operator.index not in self.accesses:
            return
        variable, value = self.accesses[operator.index]
        if operator.name == "VARIABLE_READ":
            self._node("variable_read", make_op("identity", {}), (self.held[variable],), value)
        else:
            self.held[variable] = value
            self._define_constants((value,))


def _read_as_unsigned(block: TosaBlock) -> set[str]:
    """The 8- and 16-bit inputs that serve as the unsigned input of rescales and for nothing else."""
    unsigned: set[str] = set()
    otherwise = set(block.outputs)
    for o in block.operators:
        is_unsigned = o.name == "RESCALE" and o.attributes.get("input_unsigned", False)
        (unsigned if is_unsigned else otherwise).update(o.inputs)
    found = unsigned.intersection(block.inputs) - otherwise
    return {v for v in found if v in block.tensors and block.tensors[v].dtype in UNSIGNED}


def _type(tensor: TosaTensor) -> TensorType:
    return TensorType(tensor.shape, ELEMENT_TYPES[tensor.dtype])


def _unused_name(name: str, block: TosaBlock) -> str:
    """``name``, or a variation of it that no tensor has."""
    while name in block.tensors:
        name += "_"
    return name

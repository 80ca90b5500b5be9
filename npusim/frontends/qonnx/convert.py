"""From the nodes of an ONNX file to an integer graph and the float operators around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from npusim.errors import InvalidGraphError
from npusim.frontends.model import Model
from npusim.frontends.qonnx.chains import step_of
from npusim.frontends.qonnx.floats import EXACT, MOVES, function_of, is_float_operator, tried
from npusim.frontends.qonnx.integers import integer_inputs, integer_operator, quantise
from npusim.frontends.qonnx.layers import XNOR
from npusim.frontends.qonnx.numbers import Weights
from npusim.frontends.qonnx.quantisers import is_quantiser
from npusim.frontends.qonnx.reader import ELEMENT_TYPES, QUANTISING, OnnxFile, OnnxNode, read_onnx
from npusim.frontends.qonnx.state import Constant, State, Tensor
from npusim.graph.host import Host, HostStep
from npusim.ir.tensor import TensorType


def load_qonnx(path: str | Path) -> Model:
    """The QONNX or FINN network in the ONNX file ``path``, its graph named like the file without its suffix.

    The graph begins with the integers of the first quantisers and ends with the last integer tensors; what floats are
    before and behind it is computed on the host, each operator as the ONNX standard's reference implementation does,
    but batch norms, max-pools and the family of Softmax as onnxruntime does.
    Scales, batch norms, ReLUs, clips and max-pools between a sum and the next quantiser become its thresholds.

    Raises FileFormatError where the file cannot be read, and InvalidGraphError with all operators that are not known,
    or else with all that cannot be made integer operators.
    """
    file = read_onnx(path)
    problems = list(_unknown(file))
    if problems:
        raise InvalidGraphError([f"{path}: {p}" for p in problems])
    state = State(file, str(path))
    _convert(state, str(path))
    model = _finish(state, str(path))
    return replace(model, graph=replace(model.graph, name=Path(path).stem))


def _unknown(file: OnnxFile) -> Iterator[str]:
    """One message for each kind of operator that npusim does not have."""
    kinds: dict[str, list[OnnxNode]] = {}
    for node in file.nodes:
        if not (is_quantiser(node) or is_float_operator(node) or (node.operator == XNOR and node.domain in QUANTISING)):
            kinds.setdefault(".".join(filter(None, (node.domain, node.operator))), []).append(node)
    for kind, nodes in kinds.items():
        yield (
            f"operator {kind} is not known to npusim ({len(nodes)} in the file, the first is {nodes[0].label}); "
            "export the model without it"
        )


def _convert(state: State, name: str) -> None:
    """Convert all nodes; problems end up with those of the graph. What depends on a node at fault is passed over."""
    broken: set[str] = set()
    integer_inputs(state)
    for node in state.file.nodes:
        try:
            if not broken.intersection(node.inputs):
                _node(state, node)
        except InvalidGraphError as e:
            state.emitter.builder.problems += [
                f"{name}: {p if p.startswith(node.label) else f'{node.label} {p}'}" for p in e.problems
            ]
        broken.update(v for v in node.outputs if v not in state.tensors)


def _node(state: State, node: OnnxNode) -> None:
    if not node.outputs:
        raise InvalidGraphError("has no output; export the model again")
    if node.outputs[0] in state.tensors:
        raise InvalidGraphError(f"gives {node.outputs[0]!r}, which exists already; every tensor needs its own name")
    missing = [v for v in node.inputs if v and v not in state.tensors]
    if missing:
        names = ", ".join(map(repr, missing))
        raise InvalidGraphError(f"reads {names}, which no earlier node, input or constant defines")
    data = [t for v in dict.fromkeys(node.inputs) if v and isinstance(t := state.tensors[v], Tensor)]
    if is_quantiser(node):
        quantise(state, node)
    elif not data and node.operator != XNOR:
        _constant(state, node)
    elif node.operator == "Shape":
        state.tensors[node.outputs[0]] = Constant(tried(state.function(node), data[0].example))
    else:
        why = integer_operator(state, node)
        if why is not None:
            _float_operator(state, node, data, why)


def _constant(state: State, node: OnnxNode) -> None:
    """A node of constants only. Moving quantised weights keeps them quantised."""
    array = tried(state.function(node))
    source = state.tensors.get(node.inputs[0]) if node.inputs and node.operator in MOVES else None
    weights = None
    if isinstance(source, Constant) and source.weights is not None:
        others = {v: a for v, a in state.constants(node).items() if v != node.inputs[0]}
        move = function_of(node, state.file.opset, others)
        numbers, scale = tried(move, source.weights.numbers), tried(move, source.weights.scale)
        weights = Weights(numbers, scale, source.weights.range)
    state.tensors[node.outputs[0]] = Constant(array, weights)


def _float_operator(state: State, node: OnnxNode, data: list[Tensor], why: str) -> None:
    """Any other operator: a step of the host, and of the chain behind integers if it has a place there.

    ``why``: it has none.
    """
    if node.operator == XNOR:
        raise InvalidGraphError(f"is no operator on floats: {why or 'its first operand is not quantised'}")
    if len({t.late for t in data}) > 1:
        raise InvalidGraphError("combines floats before the integer graph with ones behind it; quantise both")
    function, output = state.function(node), node.outputs[0]
    example = tried(function, *(t.example for t in data))
    step = HostStep(node.label, function, tuple(t.host for t in data), output)
    if not data[0].late:
        state.before.append(step)
        state.tensors[output] = Tensor(example, output)
        return
    state.after.append((step, node.operator in EXACT))
    chain = data[0].chain
    if not why and (chain is None or len(data) > 1):
        why = next((t.why for t in data if t.why), f"{node.label} combines several tensors")
    if not why and chain is not None:
        try:
            if example.shape != data[0].example.shape:
                raise InvalidGraphError("it changes the shape of floats that are not quantised yet")
            following = step_of(node, chain, state.constants(node), function)
            chain = chain.then(following, state.file.read_once(node.inputs[0]))
        except InvalidGraphError as e:
            why = f"{node.label} cannot be folded into thresholds: {e}"
    state.tensors[output] = Tensor(example, output, True, None if why else chain, why)


def _finish(state: State, name: str) -> Model:
    """The graph and the host of all that the outputs of the model need."""
    builder, outputs = state.emitter.builder, {}
    for value in dict.fromkeys(state.file.outputs):
        tensor = state.tensors.get(value)
        kinds = [t for t in ELEMENT_TYPES.values() if isinstance(tensor, Tensor) and t.storage == tensor.example.dtype]
        if isinstance(tensor, Tensor) and tensor.late and kinds:
            outputs[value] = TensorType(tensor.example.shape, kinds[0])
        elif isinstance(tensor, Tensor) and tensor.late:
            builder.problems.append(f"{name}: output {value!r} is of {tensor.example.dtype}; cast it to float32")
        elif tensor is not None:
            builder.problems.append(
                f"{name}: output {value!r} follows from no quantised tensor; npusim runs quantised networks only"
            )
        elif not builder.problems:
            builder.problems.append(f"{name}: output {value!r} is made by no node; export the model again")
    after = _needed([step for step, _ in state.after], set(outputs))
    made = {step.output for step in after}
    results = {v: state.emitter.result(v) for step in after for v in step.inputs if v not in made}
    if builder.problems:
        raise InvalidGraphError(builder.problems)
    graph = builder.finish(tuple(results.values()))
    after = [replace(step, inputs=tuple(results.get(v, v) for v in step.inputs)) for step in after]
    before = _needed(state.before, set(graph.data_inputs))
    exact = all(exact for step, exact in state.after if step.output in made)
    remarks = list(state.file.remarks)
    if state.rounding:
        remarks.append(
            f"floats round in the sums of {', '.join(state.rounding)} (for their scales or biases), in an order that "
            "the model leaves open; npusim takes the exact sum and scales it"
        )
    return Model(graph, Host(state.file.inputs, outputs, tuple(before), tuple(after), exact, tuple(remarks)))


def _needed(steps: list[HostStep], wanted: set[str]) -> list[HostStep]:
    """Those of the steps that make the tensors ``wanted``."""
    kept: list[HostStep] = []
    for step in reversed(steps):
        if step.output in wanted:
            kept.insert(0, step)
            wanted = wanted | set(step.inputs)
    return kept

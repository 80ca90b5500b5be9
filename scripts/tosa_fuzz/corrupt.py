"""Breaks one thing of a random graph, most often so that it is no longer valid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npusim.frontends.tosa import TosaBlock, TosaOperator

from .choices import Choices
from .writer import RandomGraph

OTHER_TYPES = ("INT8", "INT16", "INT32", "BOOL")


def corrupt(choices: Choices, graph: RandomGraph) -> RandomGraph:
    """The graph with another attribute, another constant shape, or an output that is declared otherwise."""
    block = graph.block
    operator = choices.sample([o for o in block.operators if not o.name.startswith("CONST")])
    changed = choices.sample((_declared_shape, _declared_type, _attribute, _constant_shape))(choices, block, operator)
    region = replace(graph.file.regions[0], blocks=(changed,))
    return replace(graph, file=replace(graph.file, regions=(region,)), broken=True)


def _declared_shape(choices: Choices, block: TosaBlock, operator: TosaOperator) -> TosaBlock:
    tensor = block.tensors[operator.outputs[0]]
    wrong = _other_entry(choices, tensor.shape) if tensor.shape else (1,)
    return replace(block, tensors={**block.tensors, tensor.name: replace(tensor, shape=wrong)})


def _declared_type(choices: Choices, block: TosaBlock, operator: TosaOperator) -> TosaBlock:
    tensor = block.tensors[operator.outputs[0]]
    return replace(block, tensors={**block.tensors, tensor.name: replace(tensor, dtype=choices.sample(OTHER_TYPES))})


def _attribute(choices: Choices, block: TosaBlock, operator: TosaOperator) -> TosaBlock:
    numbers = {k: v for k, v in operator.attributes.items() if v and type(v) is tuple or type(v) is int}
    if not numbers:
        return _declared_shape(choices, block, operator)
    name = choices.sample(list(numbers))
    old = numbers[name]
    new = _other_entry(choices, old) if isinstance(old, tuple) else _other_entry(choices, (old,))[0]
    changed = replace(operator, attributes={**operator.attributes, name: new})
    return replace(block, operators=tuple(changed if o is operator else o for o in block.operators))


def _constant_shape(choices: Choices, block: TosaBlock, operator: TosaOperator) -> TosaBlock:
    shapes = [v for v in operator.inputs if v in block.shapes and block.shapes[v].values]
    if not shapes:
        return _attribute(choices, block, operator)
    shape = block.shapes[choices.sample(shapes)]
    changed = replace(shape, values=_other_entry(choices, shape.values))
    return replace(block, shapes={**block.shapes, shape.name: changed})


def _other_entry(choices: Choices, values: Sequence[int]) -> tuple[int, ...]:
    at = choices.integer(0, len(values) - 1)
    other = choices.sample((values[at] + 1, values[at] - 1, 0, -1, values[at] + 7, 9000))
    return (*values[:at], other, *values[at + 1 :])

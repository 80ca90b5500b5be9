"""What of a model stays on the host: its float operators before and after the integer graph, computed but not timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from npusim.graph.graph import Graph
from npusim.ir.tensor import TensorType
from npusim.numerics.types import Array


@dataclass(frozen=True)
class HostStep:
    """One operator on the host: ``function`` of the arrays of ``inputs`` gives that of ``output``.

    ``name`` is what reports show, such as ``Mul 'scaled'``. The function is one of a module, or a partial of one, so
    that a step can be sent to another process.
    """

    name: str
    function: Callable[..., Array]
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class Host:
    """The operators around an integer graph, in order of execution.

    ``inputs`` and ``outputs`` are the model's own, by name; ``before`` makes the inputs of the graph of them, ``after``
    the model's outputs of the graph's. An input or output that both have under the same name passes as it is.
    ``exact``: every step of ``after`` is one IEEE operation on each element, so that its results are equal on every
    host; where floats are summed in an order that the model leaves open, they are close only. ``remarks`` say how the
    model was read, where its format leaves a choice.
    """

    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]
    before: tuple[HostStep, ...] = ()
    after: tuple[HostStep, ...] = ()
    exact: bool = True
    remarks: tuple[str, ...] = ()

    @staticmethod
    def of(graph: Graph) -> Host:
        """Of a graph that is the whole model: nothing is left for the host."""
        inputs, outputs = graph.data_inputs, graph.data_outputs
        return Host({v: graph.types[v] for v in inputs}, {v: graph.types[v] for v in outputs})

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the steps."""
        return tuple(step.name for step in (*self.before, *self.after))

    def known_inputs(self, graph: Graph) -> dict[str, TensorType]:
        """What may be given by name: inputs of the model, or those of the graph that are made of them."""
        return {**{v: graph.types[v] for v in graph.data_inputs}, **self.inputs}

    def known_outputs(self, graph: Graph) -> dict[str, TensorType]:
        """What a run gives: outputs of the graph, and those of the model that are made of them."""
        return {**{v: graph.types[v] for v in graph.data_outputs}, **self.outputs}

    def prepare(self, graph: Graph, given: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs of ``graph`` that follow from ``given``, which holds some of ``inputs``."""
        found = _computed(self.before, given)
        return {v: found[v] for v in graph.data_inputs if v in found}

    def complete(self, results: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of the model that follow from ``results``, outputs of the graph."""
        found = _computed(self.after, results)
        return {v: found[v] for v in self.outputs if v in found}


def _computed(steps: Iterable[HostStep], given: Mapping[str, Array]) -> dict[str, Array]:
    """``given`` and what the steps make of it, as far as their inputs are there."""
    found = dict(given)
    for step in steps:
        if all(v in found for v in step.inputs):
            with np.errstate(all="ignore"):  # a model may divide by zero: what IEEE says of that is its result
                found[step.output] = step.function(*(found[v] for v in step.inputs))
    return found

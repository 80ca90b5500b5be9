"""Evaluate a graph operator by operator, each as a whole: the plain twin of the tile executor."""

from __future__ import annotations

from collections.abc import Mapping

from npusim.graph.graph import Graph
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import Array
from npusim.ops import evaluate_bound


def evaluate_graph(
    graph: Graph, inputs: Mapping[str, Array], policies: Mapping[str, Policy] | None = None
) -> dict[str, Array]:
    """The graph outputs by name, in storage types; arguments as for :func:`npusim.functional.execute`."""
    policies = policies or {}
    values: dict[str, Array] = {**graph.constants, **inputs}
    last_use = {v: i for i, n in enumerate(graph.nodes) for v in n.inputs}
    for i, n in enumerate(graph.nodes):
        overflow = Overflow(policies.get(n.bound.accumulator.name, "refuse"), f"layer {n.name!r}: {n.op.name}")
        values[n.output] = evaluate_bound(n.bound, [values[v] for v in n.inputs], overflow)
        for v in set(n.inputs):
            if last_use[v] == i and v not in graph.outputs:
                values.pop(v, None)
    return {v: values[v] for v in graph.outputs}

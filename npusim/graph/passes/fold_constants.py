"""Evaluate, before mapping, what depends on constants alone, and drop what no output needs."""

from __future__ import annotations

from dataclasses import dataclass

from npusim.graph.graph import Graph
from npusim.numerics.overflow import Overflow
from npusim.ops import evaluate_bound


@dataclass(frozen=True)
class FoldConstants:
    """Nodes whose operands are all constants become constants; unused nodes and constants go.

    The bits are those of the operator's own evaluation; an unpredictable constant is refused here as it would be
    in the run.
    """

    def __call__(self, graph: Graph) -> Graph:
        """The folded graph."""
        constants = dict(graph.constants)
        nodes = []
        for n in graph.nodes:
            if n.inputs and all(v in constants for v in n.inputs) and n.output not in graph.outputs:
                where = f"layer {n.name!r} (constant): {n.op.name}"
                constants[n.output] = evaluate_bound(n.bound, [constants[v] for v in n.inputs], Overflow(where=where))
            else:
                nodes.append(n)
        needed = set(graph.outputs)
        kept = []
        for n in reversed(nodes):
            if n.output in needed:
                needed.update(n.inputs)
                kept.append(n)
        live = needed | set(graph.inputs)
        return Graph(
            graph.name,
            {v: t for v, t in graph.types.items() if v in live},
            {v: a for v, a in constants.items() if v in live},
            graph.inputs,
            graph.outputs,
            tuple(reversed(kept)),
            graph.states,
        )

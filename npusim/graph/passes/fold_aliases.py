"""Find the operators that move nothing: reshapes and identities, whose output has its input's addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from npusim.graph.graph import Graph, Node

_ADDRESS_EQUAL = frozenset({"reshape", "identity"})


@dataclass(frozen=True)
class Aliases:
    """``root`` maps every value to the value whose memory it shares; ``nodes`` are those that still do work."""

    root: Mapping[str, str]
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class FoldAliases:
    """Row-major, densely packed tensors of one size and element type have equal addresses element by element.

    A reshape keeps the row-major order (TOSA 1.0, RESHAPE), so its output is its input's memory under another shape,
    and it needs no command. A slice of leading axes would be equal too, but at an offset; it is left as work.
    """

    def __call__(self, graph: Graph) -> Aliases:
        """The alias table and the nodes left."""
        root: dict[str, str] = {v: v for v in graph.types}
        nodes = []
        for n in graph.nodes:
            source = graph.types[n.inputs[0]] if n.inputs else None
            if n.op.name in _ADDRESS_EQUAL and source is not None:
                out = n.bound.output
                assert source.size == out.size and source.dtype == out.dtype, "the operator's own rules say so"
                root[n.output] = root[n.inputs[0]]
            else:
                nodes.append(n)
        return Aliases(root, tuple(nodes))

"""The operator graph: values, nodes, the verifier and the passes over them."""

from npusim.graph.graph import Graph, GraphBuilder, Node, State

__all__ = ["Graph", "GraphBuilder", "Node", "State"]

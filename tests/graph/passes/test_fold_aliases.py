"""Alias folding: reshapes and identities share their input's memory, everything else is work."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import HealthCheck, given, settings

from npusim.functional import evaluate_graph
from npusim.graph import Graph
from npusim.graph.passes.fold_aliases import FoldAliases
from tests.graph.networks import Network, random_inputs
from tests.properties.random_graphs import graphs


def test_a_chain_of_reshapes_and_identities_has_the_first_value_as_its_root() -> None:
    net = Network()
    x = net.input("x", 1, 2, 3, 4)
    y = net.clamp("y", x)
    flat = net.apply("flat", "reshape", y, new_shape=(6, 4))
    same = net.apply("same", "identity", flat)
    tall = net.apply("tall", "reshape", same, new_shape=(24,))
    aliases = FoldAliases()(net.finish(net.clamp("z", tall)))
    assert dict(aliases.root) == {"x": "x", "y": "y", "flat": "y", "same": "y", "tall": "y", "z": "z"}
    assert [n.name for n in aliases.nodes] == ["y", "z"]


def test_inputs_and_constants_are_roots_too() -> None:
    net = Network()
    x, k = net.input("x", 6), net.constant(6)
    graph = net.finish(net.apply("a", "reshape", x, new_shape=(2, 3)), net.apply("b", "reshape", k, new_shape=(3, 2)))
    aliases = FoldAliases()(graph)
    assert dict(aliases.root) == {"x": "x", k: k, "a": "x", "b": k}
    assert aliases.nodes == ()


def test_what_moves_elements_is_work_even_where_the_addresses_would_be_equal() -> None:
    net = Network()
    x = net.input("x", 4, 6)
    some = net.apply("rows", "slice", x, start=(0, 0), size=(2, 6))
    turned = net.apply("turned", "transpose", x, perms=(1, 0))
    aliases = FoldAliases()(net.finish(some, turned))
    assert [n.name for n in aliases.nodes] == ["rows", "turned"]
    assert all(v == root for v, root in aliases.root.items())


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(graphs())
def test_an_alias_holds_the_elements_of_its_root_in_the_same_order(graph: Graph) -> None:
    aliases = FoldAliases()(graph)
    assert set(aliases.root) == set(graph.types)
    folded = [n for n in graph.nodes if n not in aliases.nodes]
    assert [n.output for n in folded] == [n.output for n in graph.nodes if aliases.root[n.output] != n.output]
    everything = dataclasses.replace(graph, outputs=tuple(graph.types))
    values = evaluate_graph(everything, random_inputs(graph.types, graph.inputs))
    for v, root in aliases.root.items():
        assert aliases.root[root] == root and graph.types[v].dtype is graph.types[root].dtype
        np.testing.assert_array_equal(values[v].ravel(), values[root].ravel())

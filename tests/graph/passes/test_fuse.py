"""Fusion: which nodes become one region, where chains are cut, and that regions are well formed whatever the graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npusim.functional import evaluate_graph
from npusim.graph import Graph
from npusim.graph.passes.fold_aliases import FoldAliases
from npusim.graph.passes.fuse import Fuse
from npusim.graph.region import Region
from npusim.ir.work import UnitKind
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import I16, I32, I48, Array
from npusim.ops import evaluate_bound
from tests.graph.networks import Network, random_inputs
from tests.properties.random_graphs import graphs

PIPELINE = frozenset({"rescale", "clamp", "add", "sub", "maximum", "minimum"})


def fuse(graph: Graph, tail_operators: frozenset[str] = PIPELINE, enabled: bool = True) -> tuple[Region, ...]:
    return Fuse(tail_operators, enabled)(graph, FoldAliases()(graph).nodes)


def names(regions: tuple[Region, ...]) -> list[list[str]]:
    return [[m.name for m in r.members] for r in regions]


def crossing_bits(graph: Graph, regions: tuple[Region, ...]) -> list[int]:
    return [graph.types[r.output].dtype.bits for r in regions]


def image(net: Network, name: str = "x") -> str:
    return net.input(name, 1, 4, 5, 4)


# -- one anchor and its tail ---------------------------------------------------------------------------------------


def test_a_convolution_its_rescale_and_its_clamp_are_one_region() -> None:
    net = Network()
    graph = net.finish(net.clamp("clamp", net.rescale("rescale", net.conv("conv", image(net)))))
    (region,) = fuse(graph)
    assert names((region,)) == [["conv", "rescale", "clamp"]] and region.output == "clamp"


def test_without_fusion_every_node_is_a_region() -> None:
    net = Network()
    graph = net.finish(net.clamp("clamp", net.rescale("rescale", net.conv("conv", image(net)))))
    assert names(fuse(graph, enabled=False)) == [["conv"], ["rescale"], ["clamp"]]


def test_the_anchor_comes_first_even_where_other_members_precede_it_in_the_graph() -> None:
    net = Network()
    skipped = net.rescale("skipped", image(net, "s"), "i32")
    conv = net.conv("conv", image(net))
    graph = net.finish(net.rescale("out", net.apply("sum", "add", skipped, conv)))
    assert names(fuse(graph)) == [["conv", "skipped", "sum", "out"]]


def test_a_reduction_on_the_vector_unit_is_an_anchor_that_any_operator_may_follow() -> None:
    net = Network()
    pool = net.apply("pool", "max_pool2d", image(net), kernel=(2, 2), stride=(1, 1), pad=(0, 1, 0, 1))
    graph = net.finish(net.clamp("clamp", net.table("table", pool)))
    assert names(fuse(graph)) == [["pool", "table", "clamp"]]


def test_element_wise_work_without_a_reduction_is_a_region_of_its_own() -> None:
    net = Network()
    a, b = net.rescale("a", image(net), "i32"), net.rescale("b", image(net, "y"), "i32")
    graph = net.finish(net.rescale("out", net.apply("product", "mul", a, b, shift=9)))
    assert names(fuse(graph)) == [["a", "b", "product", "out"]]


def test_a_value_that_one_member_reads_twice_is_made_inside() -> None:
    net = Network()
    conv = net.conv("conv", image(net))
    total = net.rescale("rescale", net.apply("twice", "add", conv, conv))
    graph = net.finish(net.clamp("clamp", total))
    assert names(fuse(graph)) == [["conv", "twice", "rescale", "clamp"]]


def test_a_value_that_two_members_read_is_made_inside() -> None:
    net = Network()
    conv = net.conv("conv", image(net))
    a, b = net.rescale("a", conv, "i8"), net.rescale("b", conv, "i8")
    wide = net.rescale("wide", net.clamp("clamp", a), "i32")
    graph = net.finish(net.rescale("out", net.apply("sum", "add", wide, net.rescale("other", b, "i32"))))
    assert [sorted(r) for r in names(fuse(graph))] == [["a", "b", "clamp", "conv", "other", "out", "sum", "wide"]]


# -- residual blocks -----------------------------------------------------------------------------------------------


def residual_block(net: Network, main: str, skipped: str) -> str:
    """As quantised networks write it: both sides are widened, added, and brought back to 8 bits."""
    a, b = net.rescale("wide_main", main, "i32"), net.rescale("wide_skipped", skipped, "i32")
    return net.rescale("out", net.apply("sum", "add", a, b))


def test_a_residual_block_is_one_region_behind_its_convolution() -> None:
    net = Network()
    x = image(net)
    graph = net.finish(residual_block(net, net.rescale("narrow", net.conv("conv", x)), x))
    regions = fuse(graph)
    assert names(regions) == [["conv", "narrow", "wide_main", "wide_skipped", "sum", "out"]]
    assert crossing_bits(graph, regions) == [8]


def test_a_residual_block_over_two_convolutions_is_cut_at_8_bits() -> None:
    net = Network()
    x = net.rescale("n0", net.conv("c0", image(net)))
    inner = net.clamp("r1", net.rescale("n1", net.conv("c1", x)))
    block = residual_block(net, net.rescale("n2", net.conv("c2", inner)), x)
    graph = net.finish(net.rescale("n3", net.conv("c3", block)))
    regions = fuse(graph)
    assert names(regions) == [
        ["c0", "n0"],
        ["c1", "n1", "r1"],
        ["c2", "n2", "wide_main", "wide_skipped", "sum", "out"],
        ["c3", "n3"],
    ]
    assert crossing_bits(graph, regions) == [8, 8, 8, 8]


def test_of_two_convolutions_into_one_sum_one_keeps_its_chain_up_to_its_narrowest_value() -> None:
    net = Network()
    x = image(net)
    main = net.clamp("clamp", net.rescale("n1", net.conv("c1", x)))
    graph = net.finish(residual_block(net, main, net.rescale("n2", net.conv("c2", x))))
    regions = fuse(graph)
    # the last of equally narrow values: the clamp goes with the convolution before it
    assert names(regions) == [["c1", "n1", "clamp"], ["c2", "n2", "wide_main", "wide_skipped", "sum", "out"]]
    assert crossing_bits(graph, regions) == [8, 8]


def test_two_accumulators_added_raw_leave_one_wide_value() -> None:
    net = Network()
    x = image(net)
    total = net.apply("sum", "add", net.conv("c1", x), net.conv("c2", x))
    graph = net.finish(net.clamp("clamp", net.rescale("rescale", total)))
    regions = fuse(graph)
    assert names(regions) == [["c1"], ["c2", "sum", "rescale", "clamp"]]
    assert crossing_bits(graph, regions) == [32, 8]


def test_of_three_accumulators_the_second_takes_the_chain_that_the_first_allows() -> None:
    net = Network()
    x = image(net)
    narrow = net.rescale("narrow", net.apply("s1", "add", net.conv("c1", x), net.conv("c2", x)))
    wide = net.rescale("wide", narrow, "i32")
    graph = net.finish(net.rescale("out", net.apply("s2", "add", wide, net.conv("c3", x))))
    regions = fuse(graph)
    assert names(regions) == [["c1"], ["c2", "s1", "narrow"], ["c3", "wide", "s2", "out"]]
    assert crossing_bits(graph, regions) == [32, 8, 8]


def test_an_int48_accumulator_stays_inside() -> None:
    net = Network()
    x = net.rescale("in", image(net), "i16")
    weight, bias = net.constant(4, 1, 1, 4), net.constant(4, dtype=I48)
    wide = net.apply("conv", "conv2d", x, weight, bias, pad=(0,) * 4, stride=(1, 1), dilation=(1, 1))
    multiplier, shift = net.constant(1, dtype=I16, lo=1 << 14, hi=1 << 14), net.constant(1, lo=22, hi=22)
    out = net.apply(
        "out", "rescale", wide, multiplier, shift, scale32=False, rounding="single", per_channel=False,
        input_unsigned=False, output_unsigned=False, out_type="i16",
    )  # fmt: skip
    graph = net.finish(net.table("table", net.rescale("narrow", out)))
    regions = fuse(graph)
    assert names(regions) == [["in"], ["conv", "out", "narrow"], ["table"]]
    assert crossing_bits(graph, regions) == [16, 8, 8]


# -- where chains end ----------------------------------------------------------------------------------------------


def test_an_operator_that_the_pipeline_lacks_cuts_at_the_narrow_value() -> None:
    net = Network()
    graph = net.finish(net.clamp("clamp", net.table("table", net.rescale("rescale", net.conv("conv", image(net))))))
    assert names(fuse(graph)) == [["conv", "rescale"], ["table", "clamp"]]
    assert names(fuse(graph, PIPELINE | {"table"})) == [["conv", "rescale", "table", "clamp"]]
    assert names(fuse(graph, frozenset())) == [["conv"], ["rescale", "table", "clamp"]]


def test_the_cut_is_behind_the_last_narrowest_value_and_before_a_widening() -> None:
    net = Network()
    narrow = net.clamp("clamp", net.rescale("narrow", net.conv("conv", image(net))))
    wide = net.rescale("wide", narrow, "i32")
    graph = net.finish(net.rescale("out", net.apply("square", "mul", wide, wide, shift=9)))
    regions = fuse(graph)
    assert names(regions) == [["conv", "narrow", "clamp"], ["wide", "square", "out"]]
    assert crossing_bits(graph, regions) == [8, 8]


def test_a_pipeline_that_cannot_add_leaves_the_sum_of_a_residual_block_to_the_vector_unit() -> None:
    net = Network()
    x = image(net)
    graph = net.finish(residual_block(net, net.rescale("narrow", net.conv("conv", x)), x))
    regions = fuse(graph, frozenset({"rescale", "clamp"}))
    assert names(regions) == [["conv", "narrow"], ["wide_main", "wide_skipped", "sum", "out"]]


def test_graph_outputs_are_never_swallowed() -> None:
    net = Network()
    conv = net.conv("conv", image(net))
    rescale = net.rescale("rescale", conv)
    graph = net.finish(net.clamp("clamp", rescale), rescale)
    assert names(fuse(graph)) == [["conv", "rescale"], ["clamp"]]


def test_a_value_with_a_reader_outside_is_never_swallowed() -> None:
    net = Network()
    rescale = net.rescale("rescale", net.conv("conv", image(net)))
    clamp = net.clamp("clamp", rescale)
    graph = net.finish(clamp, net.rescale("next", net.conv("c2", rescale)))
    assert names(fuse(graph)) == [["conv", "rescale"], ["clamp"], ["c2", "next"]]


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("reshape", {"new_shape": (1, 20, 4)}),
        ("transpose", {"perms": (0, 2, 1, 3)}),
        ("slice", {"start": (0, 1, 0, 0), "size": (1, 3, 5, 4)}),
        ("reverse", {"axis": 1}),
        ("pad", {"padding": (0, 0, 1, 0, 0, 0, 0, 0), "pad_const": 0}),
        ("tile", {"multiples": (1, 2, 1, 1)}),
        ("reduce_max", {"axis": 1}),
    ],
)
def test_a_reader_at_other_indices_leaves_the_value_outside(op: str, attributes: dict[str, object]) -> None:
    net = Network()
    rescale = net.rescale("rescale", net.conv("conv", image(net)), "i32" if op == "reduce_max" else "i8")
    moved = net.apply("moved", op, rescale, **attributes)
    graph = net.finish(net.apply("last", "reverse", moved, axis=0))
    # behind a reshape the reader sees another name of the same memory
    assert names(fuse(graph, PIPELINE | {op, "reverse"})) == [
        ["conv", "rescale"],
        ["last"] if op == "reshape" else ["moved", "last"],
    ]


def test_a_square_transpose_has_its_inputs_shape_and_still_reads_at_other_indices() -> None:
    net = Network()
    rescale = net.rescale("rescale", net.conv("conv", net.input("x", 1, 4, 4, 4)))
    graph = net.finish(net.apply("turned", "transpose", rescale, perms=(0, 2, 1, 3)))
    assert names(fuse(graph, PIPELINE | {"transpose"})) == [["conv", "rescale"], ["turned"]]


def test_a_broadcast_value_is_not_read_index_by_index() -> None:
    net = Network()
    bias = net.rescale("bias", net.input("b", 1, 1, 1, 4), "i32")
    graph = net.finish(net.rescale("out", net.apply("sum", "add", net.conv("conv", image(net)), bias)))
    assert names(fuse(graph)) == [["bias"], ["conv", "sum", "out"]]


def test_a_value_that_serves_as_a_table_is_not_read_index_by_index() -> None:
    net = Network()
    made = net.clamp("made", net.input("x", 256))
    graph = net.finish(net.apply("looked_up", "table", made, made))
    assert names(fuse(graph)) == [["made"], ["looked_up"]]


def test_a_resize_looks_past_the_end_even_of_an_axis_of_size_1() -> None:
    net = Network()
    narrow = net.clamp("clamp", net.input("x", 1, 1, 1, 4))
    graph = net.finish(
        net.apply("same", "resize", narrow, scale=(2, 1, 2, 1), offset=(-1, -1), border=(-1, -1), mode="nearest")
    )
    assert names(fuse(graph)) == [["clamp"], ["same"]]


def test_a_reduction_in_the_middle_takes_no_producer_inside() -> None:
    net = Network()
    wide = net.rescale("wide", image(net), "i32")
    graph = net.finish(net.rescale("out", net.apply("total", "reduce_sum", wide, axis=1)))
    assert names(fuse(graph)) == [["wide"], ["total", "out"]]


# -- whatever the graph --------------------------------------------------------------------------------------------


KINDS = ("conv", "conv", "sum", "sum", "rescale", "rescale", "widen", "clamp", "table", "reverse", "pool", "abs")


@st.composite
def tangles(draw: st.DrawFn) -> Graph:
    """Graphs of one shape: any operator on earlier values, mostly those not yet read, so that long chains meet."""
    net = Network()
    narrow, wide = [net.input("x", 1, 2, 3, 4), net.input("y", 1, 2, 3, 4)], [net.input("z", 1, 2, 3, 4, dtype=I32)]
    read: set[str] = set()

    def pick(values: list[str]) -> str:
        unread = [v for v in values if v not in read]
        fresh = draw(st.integers(0, 3)) > 0
        value = draw(st.sampled_from(unread if unread and fresh else values))
        read.add(value)
        return value

    for i, kind in enumerate(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=14))):
        node = f"{kind}{i}"
        if kind == "conv":
            source = draw(st.sampled_from(narrow))
            read.add(source)
            wide.append(net.conv(node, source))
        elif kind == "sum":
            wide.append(net.apply(node, "maximum", pick(wide), pick(wide)))
        elif kind == "abs":
            wide.append(net.apply(node, "abs", pick(wide)))
        elif kind == "rescale":
            narrow.append(net.rescale(node, pick(wide)))
        elif kind == "widen":
            wide.append(net.rescale(node, pick(narrow), "i32"))
        elif kind == "clamp":
            narrow.append(net.clamp(node, pick(narrow)))
        elif kind == "table":
            narrow.append(net.table(node, pick(narrow)))
        elif kind == "reverse":
            narrow.append(net.apply(node, "reverse", pick(narrow), axis=draw(st.integers(0, 3))))
        else:
            window = {"kernel": (2, 2), "stride": (1, 1), "pad": (1, 0, 0, 1)}
            narrow.append(net.apply(node, "max_pool2d", pick(narrow), **window))
    made = [v for v in (*narrow, *wide) if v not in ("x", "y", "z")]
    also = draw(st.lists(st.sampled_from(made), max_size=1))
    return net.finish(*dict.fromkeys([*(v for v in made if v not in read), *also]))


def check_regions(graph: Graph, regions: tuple[Region, ...], tail_operators: frozenset[str]) -> None:
    nodes = FoldAliases()(graph).nodes
    # a partition: every node that does work is in one region
    members = [m.name for r in regions for m in r.members]
    assert sorted(members) == sorted(n.name for n in nodes)
    for r in regions:
        inside = {m.output for m in r.members}
        for m in r.members[:-1]:
            readers = graph.consumers[m.output]
            # a single output: other members are read inside, by at least one, and by nothing else
            assert readers and all(n.output in inside for n in readers) and m.output not in graph.outputs
            assert m.bound.output.shape == r.output_type.shape
        reducing = [m for m in r.members if any(d.reduce for d in m.bound.work.dims)]
        assert reducing in ([], [r.anchor])
        if r.work.unit is not UnitKind.VECTOR:
            assert {m.op.name for m in r.tail} <= tail_operators
        assert all(m.bound.work.unit is UnitKind.VECTOR for m in r.tail)
        # members in dependency order: each reads the region's inputs and members before it
        seen = {x.value for x in r.inputs}
        for m in r.members:
            assert seen >= set(m.inputs)
            seen.add(m.output)


def evaluate_regions(graph: Graph, regions: tuple[Region, ...], inputs: dict[str, Array]) -> dict[str, Array]:
    """Region by region, each seeing only outputs of regions before it: an order in which no cycle can hide."""
    root = FoldAliases()(graph).root
    values = {**graph.constants, **inputs}
    for r in regions:
        local = {}
        for x in r.inputs:
            assert root[x.value] in values, f"{r.name} reads {x.value} before it is made"
            local[x.value] = values[root[x.value]].reshape(x.type.shape)
        for m in r.members:
            local[m.output] = evaluate_bound(m.bound, [local[v] for v in m.inputs], Overflow())
        values[r.output] = local[r.output]
    return {v: values[root[v]].reshape(graph.types[v].shape) for v in graph.outputs}


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.one_of(tangles(), graphs()), st.sets(st.sampled_from([*sorted(PIPELINE), "disabled"]), max_size=2))
def test_regions_partition_the_graph_in_dependency_order(graph: Graph, lacking: set[str]) -> None:
    regions = fuse(graph, PIPELINE - lacking, enabled="disabled" not in lacking)
    check_regions(graph, regions, PIPELINE - lacking)
    inputs = random_inputs(graph.types, graph.inputs)
    got, want = evaluate_regions(graph, regions, inputs), evaluate_graph(graph, inputs)
    for v in graph.outputs:
        np.testing.assert_array_equal(got[v], want[v])

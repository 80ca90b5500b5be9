"""Regions: what the members read, seen from the anchor's iteration space, and the members' own boxes."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npusim.frontends.chip import load_chip
from npusim.graph import Graph
from npusim.graph.passes.fold_aliases import FoldAliases
from npusim.graph.passes.fuse import Fuse
from npusim.graph.region import Region, RegionInput, make_region
from npusim.ir.box import Box
from npusim.ir.work import Axis, along
from npusim.numerics.types import I32
from tests.graph.networks import Network
from tests.properties.random_graphs import graphs

ZERO = Axis()


def region_of(net: Network, output: str) -> Region:
    """The region of all nodes of the network, in their order."""
    graph = net.finish(output)
    return make_region(graph, graph.nodes)


def reads(region: Region, value: str) -> list[RegionInput]:
    return [x for x in region.inputs if x.value == value]


def only(region: Region, value: str) -> RegionInput:
    (found,) = reads(region, value)
    return found


def test_the_parts_of_a_region() -> None:
    net = Network()
    x = net.input("x", 1, 5, 5, 3)
    region = region_of(net, net.clamp("clamp", net.rescale("rescale", net.conv("conv", x, 4, 3))))
    assert (region.name, region.anchor.name, region.output) == ("conv", "conv", "clamp")
    assert [m.name for m in region.tail] == ["rescale", "clamp"]
    assert str(region.output_type) == "1x5x5x4xi8"
    assert region.work is region.anchor.bound.work
    # values made inside are no inputs; constants are marked
    assert [(x.value, x.constant) for x in region.inputs] == [("x", False), *((f"k{i}", True) for i in range(1, 5))]


def test_the_anchors_own_reads_are_as_the_operator_states_them() -> None:
    net = Network()
    conv = net.conv("conv", net.input("x", 1, 5, 5, 3), 4, 3)
    region = region_of(net, net.rescale("rescale", conv))
    rows, columns = Axis((("oy", 1), ("ky", 1)), -1), Axis((("ox", 1), ("kx", 1)), -1)
    assert only(region, "x").access.axes == (along("n"), rows, columns, along("ic"))
    weight, bias = only(region, "k1"), only(region, "k2")
    assert weight.access.axes == (along("oc"), along("ky"), along("kx"), along("ic"))
    assert bias.access.axes == (along("oc"),)
    # a bias waits for the end of the reduction, taps and weights do not
    assert (only(region, "x").access.final, weight.access.final, bias.access.final) == (False, False, True)
    assert (only(region, "x").uses, bias.uses) == (((0, 0),), ((0, 2),))


def test_parameters_of_a_rescale_are_per_output_channel_or_one_for_all() -> None:
    for per_channel, axes in ((True, (along("oc"),)), (False, (ZERO,))):
        net = Network()
        conv = net.conv("conv", net.input("x", 1, 5, 5, 3))
        region = region_of(net, net.rescale("rescale", conv, per_channel=per_channel))
        for value, operand in (("k3", 1), ("k4", 2)):
            parameter = only(region, value)
            assert parameter.access.axes == axes and parameter.access.final
            assert parameter.uses == ((1, operand),)


def test_a_broadcast_operand_is_read_along_the_axes_it_has() -> None:
    net = Network()
    conv = net.conv("conv", net.input("x", 2, 5, 6, 3))
    channels = net.constant(1, 1, 1, 4, dtype=I32)
    rows = net.constant(2, 5, 1, 1, dtype=I32)
    everything = net.constant(1, 1, 1, 1, dtype=I32)
    sums = net.apply("b", "add", rows, net.apply("a", "add", conv, channels))
    region = region_of(net, net.apply("c", "add", sums, everything))
    assert only(region, channels).access.axes == (ZERO, ZERO, ZERO, along("oc"))
    assert only(region, rows).access.axes == (along("n"), along("oy"), ZERO, ZERO)
    assert only(region, everything).access.axes == (ZERO,) * 4
    assert [only(region, v).uses for v in (channels, rows, everything)] == [((1, 1),), ((2, 0),), ((3, 1),)]
    assert all(only(region, v).access.final for v in (channels, rows, everything))


def test_the_skipped_value_of_a_residual_block_is_read_along_the_output() -> None:
    net = Network()
    skipped = net.input("skipped", 2, 5, 5, 4)
    main = net.rescale("main", net.conv("conv", net.input("x", 2, 5, 5, 3)), "i32")
    wide = net.rescale("wide", skipped, "i32")
    region = region_of(net, net.rescale("out", net.apply("sum", "add", main, wide)))
    x = only(region, "skipped")
    assert x.access.axes == tuple(map(along, ("n", "oy", "ox", "oc")))
    assert x.access.final and x.uses == ((2, 0),)


def test_a_value_read_in_two_ways_is_two_inputs() -> None:
    net = Network()
    x = net.input("x", 1, 5, 5, 4)
    main = net.rescale("main", net.conv("conv", x, 4, 3), "i32")
    region = region_of(net, net.rescale("out", net.apply("sum", "add", main, net.rescale("wide", x, "i32"))))
    taps, skipped = reads(region, "x")
    assert (taps.uses, skipped.uses) == (((0, 0),), ((2, 0),))
    assert taps.access.axes[1] == Axis((("oy", 1), ("ky", 1)), -1) and skipped.access.axes[1] == along("oy")
    assert (taps.access.final, skipped.access.final) == (False, True)


def test_both_operands_of_a_product_may_be_one_value() -> None:
    net = Network()
    x = net.input("x", 1, 4, 4)
    region = region_of(net, net.apply("square", "matmul", x, x))
    assert [(r.uses, r.access.axes[1:]) for r in reads(region, "x")] == [
        (((0, 0),), (along("h"), along("c"))),
        (((0, 1),), (along("c"), along("w"))),
    ]


def test_a_value_read_twice_in_one_way_is_one_input_that_comes_with_its_earliest_use() -> None:
    net = Network()
    x = net.input("x", 2, 3)
    a, b = net.rescale("a", x, "i32"), net.rescale("b", x, "i32")
    region = region_of(net, net.apply("sum", "add", a, b))
    assert only(region, "x").uses == ((0, 0), (1, 0))
    assert not only(region, "x").access.final, "the anchor needs it at once"
    assert [only(region, f"k{i}").access.final for i in (1, 3)] == [False, True]


def test_a_value_that_two_members_of_the_tail_read_is_final_still() -> None:
    net = Network()
    conv = net.conv("conv", net.input("x", 1, 5, 5, 3))
    k = net.constant(1, 1, 1, 4, dtype=I32)
    region = region_of(net, net.apply("b", "maximum", net.apply("a", "add", conv, k), k))
    assert only(region, k).uses == ((1, 1), (2, 1)) and only(region, k).access.final


def test_a_tail_that_moves_elements_is_followed_through() -> None:
    net = Network()
    image = net.input("image", 1, 7, 6, 4, dtype=I32)
    conv = net.conv("conv", net.input("x", 1, 5, 6, 3))
    part = net.apply("part", "slice", image, start=(0, 2, 0, 0), size=(1, 5, 6, 4))
    turned = net.apply("turned", "reverse", part, axis=2)
    region = region_of(net, net.apply("sum", "add", conv, turned))
    # reverse reads what slice made; slice reads rows two further down
    assert only(region, "image").access.axes == (along("n"), along("oy", 1, 2), along("ox"), along("oc"))


def test_a_table_is_read_whole() -> None:
    net = Network()
    conv = net.conv("conv", net.input("x", 1, 5, 5, 3))
    region = region_of(net, net.table("table", net.rescale("rescale", conv)))
    assert only(region, "k5").access.axes == (Axis(whole=256),) and only(region, "k5").access.final


def test_members_boxes_behind_an_anchor_with_a_reduction() -> None:
    net = Network()
    conv = net.conv("conv", net.input("x", 1, 5, 6, 3), 8, 3)
    region = region_of(net, net.rescale("rescale", conv, per_channel=True))
    assert [d.name for d in region.work.dims] == ["n", "oy", "ox", "oc", "ky", "kx", "ic"]
    assert region.own_dims == ((0, 1, 2, 3, -1, -1, -1), (0, 1, 2, 3))
    out = Box((0, 1, 2, 4), (1, 3, 6, 8))
    assert region.member_box(1, out) == out
    assert region.member_box(0, out) == Box((0, 1, 2, 4, 0, 0, 0), (1, 3, 6, 8, 3, 3, 3))


def test_members_boxes_behind_an_anchor_with_a_constant_output_axis() -> None:
    net = Network()
    x, other = net.input("x", 2, 7, 4, dtype=I32), net.input("other", 2, 1, 4, dtype=I32)
    total = net.apply("total", "reduce_sum", x, axis=1)
    turned = net.apply("turned", "reverse", other, axis=1)
    k = net.constant(2, 1, 1, dtype=I32)
    region = region_of(net, net.apply("scaled", "maximum", net.apply("sum", "add", total, turned), k))
    assert region.own_dims == ((0, -1, 2), (0, 1, 2), (0, 1, 2), (0, 1, 2))
    out = Box((1, 0, 2), (2, 1, 4))
    assert region.member_box(0, out) == Box((1, 0, 2), (2, 7, 4))
    assert [region.member_box(m, out) for m in (1, 2, 3)] == [out] * 3
    # the anchor walks along seven rows; what is read beside its one row of sums does not move with them
    assert only(region, "other").access.axes == (along("d0"), ZERO, along("d2"))
    assert only(region, k).access.axes == (along("d0"), ZERO, ZERO)
    assert only(region, "x").access.axes == (along("d0"), along("d1"), along("d2"))


def fused(graph: Graph) -> tuple[Region, ...]:
    operators = load_chip("micro", []).output_pipeline.operators
    return Fuse(frozenset(operators))(graph, FoldAliases()(graph).nodes)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_composed_accesses_reach_what_each_member_reads_for_its_own_box(data: st.DataObject) -> None:
    """For any box of the region's space: the footprint of an input is that of the member's own access."""
    region = data.draw(st.sampled_from(fused(data.draw(graphs()))))
    work = region.work
    lo = tuple(data.draw(st.integers(0, d.extent - 1)) for d in work.dims)
    box = Box(lo, tuple(data.draw(st.integers(a + 1, d.extent)) for a, d in zip(lo, work.dims, strict=True)))
    out = work.write.footprint(work.index, box)
    inside = {m.output for m in region.members}
    wanted = {
        (k, a.operand): a
        for k, m in enumerate(region.members)
        for a in m.bound.work.reads
        if m.inputs[a.operand] not in inside
    }
    uses = [(x, use) for x in region.inputs for use in x.uses]
    assert sorted(use for _, use in uses) == sorted(wanted)
    for x, (k, operand) in uses:
        member = region.members[k]
        assert member.inputs[operand] == x.value and x.type == member.bound.operands[operand]
        own = box if k == 0 else region.member_box(k, out)
        index = member.bound.work.index
        assert x.access.footprint(work.index, box) == wanted[k, operand].footprint(index, own)
        assert member.bound.work.write.footprint(index, own) == out
        assert not x.access.final or k > 0 or wanted[k, operand].final

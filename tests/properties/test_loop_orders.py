"""Loops in any order, reductions outside and operands loaded anew: the same bits, and no more sums than weighed."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from npusim.errors import DoesNotFitError
from npusim.frontends.chip import load_chip
from npusim.functional import evaluate_graph, execute, program_order
from npusim.graph import Graph
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.mapper import map_graph
from npusim.program import Compute
from npusim.program.verify import verify
from npusim.timing import simulate
from tests.plain import conv, matmul
from tests.properties.random_graphs import random_input

GRAPHS = (matmul(7, 9, 5), conv(5, 6, 4), conv(6, 3, 5, kernel=2, pad=0, batch=2, rescaled=False))


@st.composite
def chips(draw: st.DrawFn) -> Chip:
    """``micro`` with sums in the SRAM or in memories of their own, one array or several, few or many queues."""
    base = load_chip("micro", [])
    mac = dataclasses.replace(
        base.units[0],
        instances=draw(st.integers(1, 3)),
        accumulator_bytes=draw(st.sampled_from([0, 256, 4096])),
    )
    channels = draw(st.integers(1, 4))
    return dataclasses.replace(
        base,
        units=(mac, *base.units[1:]),
        sram=dataclasses.replace(base.sram, size_bytes=draw(st.sampled_from([2048, 65536]))),
        dma=dataclasses.replace(base.dma, channels=channels),
    )


@st.composite
def mappings(draw: st.DrawFn, graph: Graph) -> LayerOptions:
    """Any tile, any order of some or all dimensions."""
    dims = graph.nodes[0].bound.work.dims
    order = draw(st.permutations([d.name for d in dims]))
    return LayerOptions(
        tile={d.name: draw(st.integers(1, d.extent)) for d in dims if draw(st.booleans())},
        order=tuple(order[: draw(st.integers(0, len(order)))]),
        buffers=draw(st.integers(1, 3)),
        reload=draw(st.booleans()),
    )


@settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_order_of_the_loops_gives_the_same_bits(data: st.DataObject) -> None:
    graph, chip = data.draw(st.sampled_from(GRAPHS)), data.draw(chips())
    layer = graph.nodes[0].name
    try:
        mapped = map_graph(graph, chip, MappingOptions(layers={layer: data.draw(mappings(graph))}))
    except DoesNotFitError:
        assume(False)
        raise
    assume(len(mapped.program) <= 1500)
    verify(mapped.program)
    inputs = random_input(graph, data.draw(st.integers(0, 2**32 - 1)))
    want = evaluate_graph(graph, inputs)
    for moments in (simulate(mapped.program, chip).moments, program_order(mapped.program)):
        got, _ = execute(mapped.program, inputs, moments)
        for v in graph.outputs:
            np.testing.assert_array_equal(got[v], want[v])
    plan = mapped.plan.layers[0]
    boxes = [c for c in mapped.program if isinstance(c, Compute) and c.layer == 0]
    outputs = {plan.region.work.write.footprint(plan.region.work.index, c.box) for c in boxes}
    assert sum(c.first for c in boxes) == sum(c.last for c in boxes) == len(outputs)
    open_now, most = set(), 0
    for c in boxes:
        assert c.accumulator is not None or (c.first and c.last)
        open_now.add(plan.region.work.write.footprint(plan.region.work.index, c.box))
        most = max(most, len(open_now))
        if c.last:
            open_now.discard(plan.region.work.write.footprint(plan.region.work.index, c.box))
    assert most <= max(len(plan.accumulator_slots), 1)

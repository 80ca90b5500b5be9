"""Random graphs, mapped onto random chips: what properties of programs and their timing are tested on."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st

from npusim.errors import DoesNotFitError
from npusim.frontends.chip import load_chip
from npusim.graph import Graph
from npusim.hardware import Chip
from npusim.mapping.mapper import Mapped, map_graph
from tests.properties.random_graphs import chips, graphs, mapping_options, random_tiles

SLOW = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@st.composite
def mapped_graphs(draw: st.DrawFn, pieces: int = 4) -> tuple[Graph, Chip, Mapped]:
    """A random graph on a random chip or a preset, under a searched or a random tiling."""
    graph, options = draw(graphs(pieces)), draw(mapping_options())
    chip = draw(st.one_of(chips(), chips(), st.sampled_from(["micro", "edge", "server"]).map(load_chip)))
    try:
        mapped = map_graph(graph, chip, options)
        if draw(st.booleans()):
            dims = {p.region.name: {d.name: (d.extent, d.splittable) for d in p.region.work.dims}
                    for p in mapped.plan.layers}  # fmt: skip
            mapped = map_graph(graph, chip, random_tiles(draw, options, dims))
    except DoesNotFitError:
        assume(False)
    assume(len(mapped.program) <= 1500)
    return graph, chip, mapped

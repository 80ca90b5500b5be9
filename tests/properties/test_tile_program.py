"""The promise: timed order, program order and whole evaluation give the same bits, whatever graph, chip and tiling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from npusim.errors import DoesNotFitError, NpusimError, ProgramError
from npusim.functional import evaluate_graph, execute, program_order
from npusim.graph import Graph
from npusim.hardware import Chip
from npusim.ir.mapping_options import MappingOptions
from npusim.mapping.mapper import Mapped, map_graph
from npusim.program import TileProgram
from npusim.program.verify import verify
from npusim.timing import simulate
from tests.properties.random_graphs import chips, graphs, mapping_options, random_input, random_tiles

SLOW = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def map_or_skip(graph: Graph, chip: Chip, options: MappingOptions) -> Mapped:
    try:
        return map_graph(graph, chip, options)
    except DoesNotFitError:
        assume(False)
        raise


def layer_dims(mapped: Mapped) -> dict[str, dict[str, tuple[int, bool]]]:
    return {p.region.name: {d.name: (d.extent, d.splittable) for d in p.region.work.dims} for p in mapped.plan.layers}


@settings(SLOW, max_examples=150)
@given(st.data())
def test_timed_order_program_order_and_whole_evaluation_agree(data: st.DataObject) -> None:
    graph, chip, options = data.draw(graphs()), data.draw(chips()), data.draw(mapping_options())
    mapped = map_or_skip(graph, chip, options)
    if data.draw(st.booleans()):
        mapped = map_or_skip(graph, chip, random_tiles(data.draw, options, layer_dims(mapped)))
    assume(len(mapped.program) <= 1500)
    inputs = random_input(graph, data.draw(st.integers(0, 2**32 - 1)))
    want = evaluate_graph(graph, inputs)
    timeline = simulate(mapped.program, chip)
    for moments in (timeline.moments, program_order(mapped.program)):
        got, _ = execute(mapped.program, inputs, moments)
        for v in graph.outputs:
            np.testing.assert_array_equal(got[v], want[v])


def drop(program: TileProgram, command: int, dependency: int) -> TileProgram:
    c = program.commands[command]
    c = c._replace(deps=tuple(d for d in c.deps if d != dependency))
    return replace(program, commands=(*program.commands[:command], c, *program.commands[command + 1 :]))


@settings(SLOW, max_examples=60)
@given(st.data())
def test_a_dropped_dependency_is_caught_or_changes_no_bit(data: st.DataObject) -> None:
    graph, chip, options = data.draw(graphs(3)), data.draw(chips()), data.draw(mapping_options())
    mapped = map_or_skip(graph, chip, options)
    mapped = map_or_skip(graph, chip, random_tiles(data.draw, options, layer_dims(mapped)))
    program = mapped.program
    edges = [(c.id, d) for c in program for d in c.deps]
    assume(edges and len(program) <= 400)
    inputs = random_input(graph, 7)
    want, _ = execute(program, inputs, program_order(program))
    for command, dependency in data.draw(st.lists(st.sampled_from(edges), min_size=1, max_size=8, unique=True)):
        broken = drop(program, command, dependency)
        try:
            verify(broken)
        except ProgramError:
            continue
        # silent: then the dependency was implied by others, and no timing may change a bit
        got, _ = execute(broken, inputs, simulate(broken, chip).moments)
        for v in graph.outputs:
            np.testing.assert_array_equal(got[v], want[v], err_msg=f"command {command} lost {dependency}")


@pytest.mark.parametrize("seed", range(3))
def test_the_verifier_catches_most_dropped_dependencies(seed: int) -> None:
    """The property above is not vacuous: on a tiled convolution chain most drops are caught, some give wrong bits."""
    from tests.properties.chains import convolution_chain, small_chip

    graph, chip = convolution_chain(seed), small_chip()
    program = map_graph(graph, chip, MappingOptions(residency=seed != 1)).program
    inputs = random_input(graph, seed)
    want, _ = execute(program, inputs, program_order(program))
    caught = wrong = implied = 0
    for c in program:
        for d in c.deps:
            broken = drop(program, c.id, d)
            try:
                verify(broken)
                flagged = False
            except ProgramError:
                flagged = True
            try:
                got, _ = execute(broken, inputs, simulate(broken, chip).moments)
                differs = any(not np.array_equal(got[v], want[v]) for v in graph.outputs)
            except NpusimError:
                differs = True
            assert flagged or not differs, f"command {c.id} lost {d}: wrong bits and the verifier is silent"
            caught, wrong, implied = caught + flagged, wrong + differs, implied + (not flagged)
    assert caught > 20 and wrong > 5
    assert caught > 2 * implied

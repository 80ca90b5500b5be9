"""The mapper as a whole: its passes, its switches, its last check."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import InputError, ProgramError
from npusim.frontends.chip import load_chip
from npusim.graph import GraphBuilder
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping import mapper
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8
from npusim.ops import op_class
from npusim.program import Load, TileProgram
from npusim.timing import simulate
from tests.plain import chain, conv, matmul, plain_chip
from tests.properties.chains import convolution_chain


def test_layers_are_regions_and_their_tails_run_with_them() -> None:
    names = lambda m: [[n.op.name for n in p.region.members] for p in m.plan.layers]  # noqa: E731
    assert names(map_graph(conv(4, 2, 3), plain_chip(), MappingOptions())) == [["conv2d", "rescale"]]
    assert names(map_graph(conv(4, 2, 3), plain_chip(), MappingOptions(fuse=False))) == [["conv2d"], ["rescale"]]
    alone = plain_chip("output_pipeline.operators=[clamp]")
    assert names(map_graph(conv(4, 2, 3), alone, MappingOptions())) == [["conv2d"], ["rescale"]]


def test_constants_are_folded_and_reshapes_cost_nothing() -> None:
    b = GraphBuilder("folded")
    b.input("a", TensorType((1, 2, 6), I8))
    b.constant("k", TensorType((1, 3, 4), I8), np.arange(12, dtype=np.int8).reshape(1, 3, 4))
    b.node("turn", op_class("transpose")(perms=(0, 2, 1)), ("k",), "turned")
    b.node("reshape", op_class("reshape")(new_shape=(1, 3, 4)), ("a",), "seen")
    b.node("mm", op_class("matmul")(), ("seen", "turned"), "y")
    mapped = map_graph(b.finish(("y",)), plain_chip(), MappingOptions())
    assert [p.region.name for p in mapped.plan.layers] == ["mm"]
    assert mapped.program.home["seen"] == "a"
    assert "turned" in mapped.program.graph.constants
    assert "k" not in mapped.program.graph.types


def test_the_program_and_the_plan_are_of_the_same_layers() -> None:
    mapped = map_graph(chain(3), plain_chip(), MappingOptions())
    assert mapped.program.regions == tuple(p.region for p in mapped.plan.layers)
    assert {c.layer for c in mapped.program} == {0, 1, 2}


def test_equal_calls_give_equal_programs() -> None:
    chip = load_chip("micro", ["sram.size_bytes=8192"])
    first, second = (map_graph(convolution_chain(0), chip, MappingOptions()).program for _ in range(2))
    assert first.commands == second.commands
    assert first.slots == second.slots


def test_a_program_that_breaks_a_rule_never_leaves_the_mapper(monkeypatch: pytest.MonkeyPatch) -> None:
    emit = mapper.Emitter.program

    def broken(self: mapper.Emitter) -> TileProgram:
        p = emit(self)
        last = p.commands[-1]
        return TileProgram(
            p.graph, p.regions, p.home, p.sram_bytes, p.slots, (*p.commands[:-1], last._replace(deps=()))
        )

    monkeypatch.setattr(mapper.Emitter, "program", broken)
    with pytest.raises(ProgramError, match="read after write|not ordered"):
        map_graph(matmul(4, 4, 4), plain_chip(), MappingOptions())


def test_faults_of_the_manual_mapping_name_the_layer() -> None:
    with pytest.raises(InputError, match=r"mapping: no layer is called 'conv1'; the layers are conv"):
        map_graph(conv(4, 2, 3), plain_chip(), MappingOptions(layers={"conv1": LayerOptions()}))
    with pytest.raises(InputError, match=r"mapping of layer 'conv': unknown dimension 'k'"):
        map_graph(conv(4, 2, 3), plain_chip(), MappingOptions(layers={"conv": LayerOptions(tile={"k": 1})}))


def test_constants_of_the_next_layer_come_while_this_one_computes() -> None:
    chip = load_chip("edge")
    graph = convolution_chain(0, layers=4, size=8, channels=64)
    early, late = (map_graph(graph, chip, MappingOptions(prefetch=p)).program for p in (True, False))

    def overlaps(p: TileProgram) -> int:
        """Layers whose first load starts before the layer before has finished."""
        spans = simulate(p, chip).spans
        ends = [max(s.finish for s in spans if s.layer == k) for k in range(4)]
        begins = [min(spans[c.id].start for c in p if c.layer == k and isinstance(c, Load)) for k in range(1, 4)]
        return sum(begin < end for begin, end in zip(begins, ends, strict=False))

    assert overlaps(early) == 3
    assert simulate(early, chip).cycles < simulate(late, chip).cycles


@pytest.mark.parametrize("preset", ["micro", "edge", "server"])
def test_more_buffers_are_not_slower_for_one_tiling(preset: str) -> None:
    chip = load_chip(preset, ["sram.size_bytes=1048576"])
    tile = {"oy": 7, "ox": 28, "oc": 32, "ic": 64}
    cycles = [
        simulate(
            map_graph(
                conv(28, 64, 64), chip, MappingOptions(layers={"conv": LayerOptions(tile=tile, buffers=b)})
            ).program,
            chip,
        ).cycles
        for b in (1, 2, 3)
    ]
    assert cycles[0] > cycles[1] >= cycles[2]

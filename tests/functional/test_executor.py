"""Tile programs on real bytes: right ones give the operators' bits, broken ones wrong bits or an error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npusim.errors import ProgramError, ReadinessError, UnpredictableError
from npusim.functional import evaluate_graph, execute, program_order
from npusim.functional.executor import Moment
from npusim.graph import Graph, GraphBuilder
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I4, I8, I16, I32, I48, U1, Array
from npusim.ops import op_class
from npusim.program import Command, Compute, Load, Store, TileProgram
from npusim.timing import simulate
from tests.plain import chain, conv, matmul, plain_chip
from tests.properties.chains import convolution_chain, small_chip

ROWS = {"h": 1, "w": 4, "c": 4}


def given(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    found = {}
    for v in graph.data_inputs:
        t = graph.types[v]
        found[v] = rng.integers(t.dtype.minimum, t.dtype.maximum, t.shape, np.int64, endpoint=True).astype(
            t.dtype.storage
        )
    return found


def tiled(graph: Graph, layer: str = "mm", **options: object) -> TileProgram:
    return map_graph(graph, plain_chip(), MappingOptions(layers={layer: LayerOptions(**options)})).program  # type: ignore[arg-type]


def changed(program: TileProgram, command: int, **fields: object) -> TileProgram:
    c = program.commands[command]._replace(**fields)
    return replace(program, commands=(*program.commands[:command], c, *program.commands[command + 1 :]))


def kinds(program: TileProgram, kind: type[Command]) -> list[int]:
    return [c.id for c in program if isinstance(c, kind)]


# -- right programs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("residency", [True, False])
@pytest.mark.parametrize("sram_bytes", [4096, 8192, 65536])
def test_bits_are_those_of_the_whole_operators_in_either_order(sram_bytes: int, residency: bool) -> None:
    graph, chip = convolution_chain(3), small_chip(sram_bytes)
    program = map_graph(graph, chip, MappingOptions(residency=residency)).program
    x = given(graph)
    want = evaluate_graph(graph, x)
    for moments in (program_order(program), simulate(program, chip).moments):
        got, events = execute(program, x, moments)
        assert got.keys() == want.keys()
        np.testing.assert_array_equal(got["y1"], want["y1"])
        assert events == {"conv0": 0, "conv1": 0}


def narrow(weights: bool) -> Graph:
    """A convolution with int4 weights, or a concatenation of int4 tensors of odd sizes."""
    b = GraphBuilder("narrow")
    rng = np.random.default_rng(0)
    if weights:
        b.input("x", TensorType((1, 6, 5, 3), I8))
        b.constant("w", TensorType((5, 3, 3, 3), I4), rng.integers(-7, 8, (5, 3, 3, 3), np.int8))
        b.constant("bias", TensorType((5,), I32), rng.integers(-99, 99, (5,), np.int32))
        b.node("op", op_class("conv2d")(pad=(1, 1, 1, 1), stride=(1, 1), dilation=(1, 1)), ("x", "w", "bias"), "y")
    else:
        b.input("x", TensorType((1, 6, 5, 3), I4))
        b.input("z", TensorType((1, 6, 5, 2), I4))
        b.node("first", op_class("concat")(axis=3), ("x", "z"), "xz")
        b.node("op", op_class("concat")(axis=2), ("xz", "xz"), "y")
    return b.finish(("y",))


@pytest.mark.parametrize("channel_granule", [1, 4])
@pytest.mark.parametrize("residency", [True, False])
@pytest.mark.parametrize("weights", [True, False])
def test_packed_types_run_packed(weights: bool, residency: bool, channel_granule: int) -> None:
    graph = narrow(weights)
    chip = plain_chip(f"sram.channel_granule={channel_granule}", "units.0.macs_per_cycle={i8xi4: 1}")
    tile = {"oy": 2, "ox": 3, "oc": 2} if weights else {"d1": 4, "d2": 3, "d3": 1}
    layers = {"op": LayerOptions(tile=tile)}
    program = map_graph(graph, chip, MappingOptions(residency=residency, layers=layers)).program
    if channel_granule == 1:
        assert any(s.dtype is I4 and s.nbytes < np.prod(s.shape) for s in program.slots)
    x = given(graph)
    for moments in (program_order(program), simulate(program, chip).moments):
        np.testing.assert_array_equal(execute(program, x, moments)[0]["y"], evaluate_graph(graph, x)["y"])


def test_partial_sums_of_48_bits_go_through_memory() -> None:
    b = GraphBuilder("wide")
    rng = np.random.default_rng(0)
    b.input("x", TensorType((1, 4, 4, 6), I16))
    b.constant("w", TensorType((3, 1, 1, 6), I8), rng.integers(-128, 128, (3, 1, 1, 6), np.int8))
    b.constant("bias", TensorType((3,), I48), rng.integers(-(1 << 46), 1 << 46, (3,), np.int64))
    b.node("op", op_class("conv2d")(pad=(0,) * 4, stride=(1, 1), dilation=(1, 1)), ("x", "w", "bias"), "y")
    graph = b.finish(("y",))
    chip = plain_chip("units.0.macs_per_cycle={i16xi8: 1}")
    program = map_graph(graph, chip, MappingOptions(layers={"op": LayerOptions(tile={"oy": 3, "ic": 4})})).program
    sums = {c.accumulator.slot for c in program if isinstance(c, Compute) and c.accumulator}
    assert {program.slots[s].dtype for s in sums} == {I48}
    x = given(graph)
    np.testing.assert_array_equal(execute(program, x, program_order(program))[0]["y"], evaluate_graph(graph, x)["y"])


def test_bits_of_one_bit_tensors() -> None:
    b = GraphBuilder("bits")
    b.input("x", TensorType((3, 11), U1))
    b.node("op", op_class("transpose")(perms=(1, 0)), ("x",), "y")
    graph = b.finish(("y",))
    program = map_graph(
        graph, plain_chip(), MappingOptions(layers={"op": LayerOptions(tile={"d0": 4, "d1": 2})})
    ).program
    x = given(graph)
    np.testing.assert_array_equal(execute(program, x, program_order(program))[0]["y"], x["x"].T)


def test_the_memory_of_partial_sums_behind_the_sram_works() -> None:
    graph = matmul(6, 6, 6)
    chip = plain_chip("units.0.accumulator_bytes=64", "units.0.instances=2")
    program = map_graph(graph, chip, MappingOptions(layers={"mm": LayerOptions(tile={"h": 2, "w": 4, "c": 2})})).program
    x = given(graph)
    got = execute(program, x, simulate(program, chip).moments)[0]
    np.testing.assert_array_equal(got["y"], evaluate_graph(graph, x)["y"])


def test_every_graph_output_comes_out_also_one_that_stays_and_one_that_is_an_input() -> None:
    graph = chain(2)
    graph = Graph(graph.name, graph.types, graph.constants, graph.inputs, ("y0", "a", "y1"), graph.nodes)
    program = map_graph(graph, plain_chip(), MappingOptions()).program
    x = given(graph)
    got, want = execute(program, x, program_order(program))[0], evaluate_graph(graph, x)
    assert list(got) == list(want) == ["y0", "a", "y1"]
    for v in want:
        np.testing.assert_array_equal(got[v], want[v])


def test_inputs_are_left_alone() -> None:
    graph = chain(2)
    program = map_graph(graph, plain_chip(), MappingOptions()).program
    x = given(graph)
    before = x["a"].copy()
    out = execute(program, x, program_order(program))[0]["y1"]
    out += 1
    np.testing.assert_array_equal(x["a"], before)


# -- overflow --------------------------------------------------------------------------------------------------------


def overflowing() -> tuple[TileProgram, dict[str, Array]]:
    """All inputs and weights -128, and a bias just below the top of int32."""
    b = GraphBuilder("top")
    b.input("x", TensorType((1, 2, 2, 8), I8))
    b.constant("w", TensorType((2, 1, 1, 8), I8), np.full((2, 1, 1, 8), -128, np.int8))
    b.constant("bias", TensorType((2,), I32), np.array([0, (1 << 31) - 1], np.int32))
    b.node("op", op_class("conv2d")(pad=(0,) * 4, stride=(1, 1), dilation=(1, 1)), ("x", "w", "bias"), "y")
    program = map_graph(b.finish(("y",)), plain_chip(), MappingOptions()).program
    return program, {"x": np.full((1, 2, 2, 8), -128, np.int8)}


def test_overflow_is_refused_unless_the_chip_says_what_it_does() -> None:
    program, x = overflowing()
    with pytest.raises(UnpredictableError, match=r"layer 'op': conv2d"):
        execute(program, x, program_order(program))
    sums = 8 * 128 * 128
    for policy, top in (("saturate", (1 << 31) - 1), ("wrap", (1 << 31) - 1 + sums - (1 << 32))):
        got, events = execute(program, x, program_order(program), {"i32": policy})  # type: ignore[dict-item]
        assert got["y"].reshape(-1, 2).tolist() == [[sums, top]] * 4
        assert events == {"op": 4}


# -- broken programs -------------------------------------------------------------------------------------------------


def without(program: TileProgram, command: int) -> list[Moment]:
    """Program order, one command left out."""
    return [m for m in program_order(program) if m[1] != command]


def test_a_load_that_never_happens_is_noticed_by_who_reads() -> None:
    """Of two rows in two slots and of b, each in turn."""
    program, x = tiled(matmul(2, 4, 4), tile=ROWS, buffers=2), given(matmul(2, 4, 4))
    assert len(kinds(program, Load)) == 3
    for missing in kinds(program, Load):
        with pytest.raises(ReadinessError, match=r"command \d reads [ab]\[.*\] in slot \d before all of it is there"):
            execute(program, x, without(program, missing))


def test_a_computation_that_never_happens_is_noticed_by_the_store() -> None:
    program, x = tiled(matmul(4, 4, 4), tile=ROWS, buffers=1), given(matmul(4, 4, 4))
    first = kinds(program, Compute)[0]
    with pytest.raises(ReadinessError, match=rf"command {kinds(program, Store)[0]} reads y\[0:1, 0:1, 0:4\]"):
        execute(program, x, without(program, first))


def test_a_missing_load_into_a_used_slot_gives_wrong_bits() -> None:
    """The slot still holds the row before, so nothing but the result tells."""
    graph = matmul(4, 4, 4)
    program, x = tiled(graph, tile=ROWS, buffers=1), given(graph)
    rows = [i for i in kinds(program, Load) if program.slots[program.commands[i].parts[0].slot].value == "a"]  # type: ignore[union-attr]
    got = execute(program, x, without(program, rows[1]))[0]["y"]
    want = evaluate_graph(graph, x)["y"]
    np.testing.assert_array_equal(got[0, 1], want[0, 0])
    np.testing.assert_array_equal(got[0, [0, 2, 3]], want[0, [0, 2, 3]])


def test_an_early_overwrite_gives_wrong_bits_as_on_silicon() -> None:
    """One buffer; the second row does not wait for the first tile and lands in its slot before the tile starts."""
    graph, chip = matmul(4, 4, 4), plain_chip("dma.bytes_per_cycle=1", "dram.bytes_per_cycle=64")
    program = map_graph(graph, chip, MappingOptions(layers={"mm": LayerOptions(tile=ROWS, buffers=1)})).program
    x, want = given(graph), evaluate_graph(graph, given(graph))["y"]
    rows = [c for c in program if isinstance(c, Load) and program.slots[c.parts[0].slot].value == "a"]
    tile = next(c for c in program if isinstance(c, Compute))
    assert tile.id in rows[1].deps
    np.testing.assert_array_equal(execute(program, x, simulate(program, chip).moments)[0]["y"], want)
    broken = changed(program, rows[1].id, deps=tuple(d for d in rows[1].deps if d != tile.id))
    timeline = simulate(broken, chip)
    assert timeline.spans[rows[1].id].finish < timeline.spans[tile.id].start
    got = execute(broken, x, timeline.moments)[0]["y"]
    np.testing.assert_array_equal(got[0, 0], want[0, 1])
    np.testing.assert_array_equal(got[0, 1:], want[0, 1:])
    # in the order of the program nothing is wrong: it is the timing that makes the mistake
    np.testing.assert_array_equal(execute(broken, x, program_order(broken))[0]["y"], want)


def test_a_command_samples_when_it_starts_and_writes_when_it_finishes() -> None:
    graph = matmul(2, 4, 4)
    program, x = tiled(graph, tile=ROWS, buffers=1), given(graph)
    row = [i for i in kinds(program, Load) if program.slots[program.commands[i].parts[0].slot].value == "a"][1]  # type: ignore[union-attr]
    tile = kinds(program, Compute)[0]
    order = [m for m in program_order(program) if m[1] != row]
    at = order.index(("finish", tile))
    late: list[Moment] = [*order[:at], ("start", row), ("finish", row), *order[at:]]
    np.testing.assert_array_equal(execute(program, x, late)[0]["y"], evaluate_graph(graph, x)["y"])
    at = order.index(("start", tile))
    early: list[Moment] = [*order[:at], ("start", row), ("finish", row), *order[at:]]
    assert not np.array_equal(execute(program, x, early)[0]["y"], evaluate_graph(graph, x)["y"])


def test_a_wrong_address_gives_wrong_bits_or_an_error() -> None:
    graph = matmul(4, 4, 4)
    program, x = tiled(graph, tile=ROWS, buffers=2), given(graph)
    want = evaluate_graph(graph, x)["y"]
    a, b = (next(s for s in program.slots if s.value == v) for v in ("a", "b"))
    slots = tuple(replace(s, offset=b.offset) if s.index == a.index else s for s in program.slots)
    got = execute(replace(program, slots=slots), x, program_order(program))[0]["y"]
    assert not np.array_equal(got, want)


def test_a_command_that_never_finishes_is_an_error() -> None:
    program, x = tiled(matmul(2, 4, 4), tile=ROWS), given(matmul(2, 4, 4))
    last = len(program) - 1
    moments = [m for m in program_order(program) if m != ("finish", last)]
    with pytest.raises(ProgramError, match=rf"commands \[{last}\] started and never finished"):
        execute(program, x, moments)


def test_program_order_runs_one_command_after_the_other() -> None:
    program = tiled(matmul(1, 1, 1))
    assert list(program_order(program))[:4] == [("start", 0), ("finish", 0), ("start", 1), ("finish", 1)]
    assert len(list(program_order(program))) == 2 * len(program)


def test_padding_reads_as_the_zero_point() -> None:
    graph = conv(3, 2, 2, rescaled=False)
    convolution = op_class("conv2d")(pad=(1,) * 4, stride=(1, 1), dilation=(1, 1), input_zp=-128)
    b = GraphBuilder("padded")
    b.input("x", graph.types["x"])
    for v in ("w", "bias"):
        b.constant(v, graph.types[v], graph.constants[v])
    b.node("conv", convolution, ("x", "w", "bias"), "y")
    graph = b.finish(("y",))
    program = tiled(graph, "conv", tile={"oy": 1, "ox": 1})
    x = {"x": np.full((1, 3, 3, 2), -128, np.int8)}
    got = execute(program, x, program_order(program))[0]["y"]
    np.testing.assert_array_equal(got, np.broadcast_to(graph.constants["bias"], got.shape))

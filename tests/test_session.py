"""One run from a job to its result: what it returns, what it refuses, what it checks of itself."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re

import numpy as np
import pytest

from npusim import session
from npusim.errors import DoesNotFitError, InputError, InternalError, MismatchError, UnpredictableError
from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.graph.graph import State
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I4, I8, I32, Array
from npusim.ops import op_class
from npusim.report.result import Report
from npusim.session import Bits, Job, as_data, fingerprint, map_and_time, overflow_policies, run
from npusim.timing import simulate
from tests.plain import chain, conv, matmul, plain_chip
from tests.properties.chains import convolution_chain, small_chip


def random(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {v: rng.integers(-128, 128, graph.types[v].shape, np.int8) for v in graph.data_inputs}


def job(graph: Graph, **fields: object) -> Job:
    given: dict[str, object] = {"chip": plain_chip(), "inputs": random(graph), **fields}
    return Job(graph=graph, **given)  # type: ignore[arg-type]


# -- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", ["timed", "whole", "off"])
def test_bits_do_not_change_the_timing(bits: Bits) -> None:
    graph, chip = convolution_chain(2), small_chip(8192)
    result = run(job(graph, chip=chip, bits=bits))
    assert result.report.totals == run(job(graph, chip=chip, bits="off")).report.totals
    assert result.timeline.cycles == result.report.totals.cycles
    if bits == "off":
        assert result.outputs == {}
        assert result.report.outputs == ()
        return
    x = random(graph)
    want = run(job(graph, inputs=x, bits="whole")).outputs["y1"]
    np.testing.assert_array_equal(result.outputs["y1"], want)
    assert result.report.outputs == (fingerprint("y1", graph.types["y1"], want),)


def test_the_report_says_what_was_run_and_survives_as_json() -> None:
    graph = conv(6, 2, 3)
    mapping = MappingOptions(layers={"conv": LayerOptions(tile={"oy": 2})})
    report = run(job(graph, mapping=mapping, seed=7, workload_sha256="ab" * 32)).report
    assert report.manifest.workload == "conv"
    assert report.manifest.workload_sha256 == "ab" * 32
    assert report.manifest.seed == 7
    assert report.manifest.chip == as_data(plain_chip())
    assert report.manifest.options["bits"] == "timed"
    assert report.manifest.options["mapping"]["layers"]["conv"]["tile"] == {"oy": 2}
    assert [(i.name, i.type) for i in report.manifest.inputs] == [("x", "1x6x6x2xi8")]
    assert Report.from_json(report.to_json()) == report


def test_equal_jobs_give_byte_equal_reports() -> None:
    graph = convolution_chain(5)
    first, second = (run(job(convolution_chain(5), chip=load_chip("edge"))) for _ in range(2))
    assert first.report.to_json() == second.report.to_json()
    assert first.timeline == second.timeline
    other = run(job(graph, chip=load_chip("edge"), inputs=random(graph, 1)))
    assert other.report.to_json() != first.report.to_json()
    assert other.report.totals == first.report.totals


def test_progress_is_told_step_by_step() -> None:
    for bits, last in (
        ("timed", "executing on SRAM bytes in timed order"),
        ("whole", "evaluating operator by operator"),
    ):
        told: list[str] = []
        run(job(matmul(2, 2, 2), bits=bits, mapping=MappingOptions(smaller_memories=False)), told.append)
        assert told[0] == f"mapping into {128 * 1024} bytes of SRAM"
        assert re.fullmatch(r"timing \d+ commands", told[1])
        assert told[2:] == [last]
    told = []
    run(job(matmul(2, 2, 2), bits="off"), told.append)
    assert [t for t in told if t.startswith("mapping")] == [
        f"mapping into {128 * 1024 >> k} bytes of SRAM" for k in range(8)
    ]


# -- plans for smaller memories --------------------------------------------------------------------------------------


def test_the_fastest_of_the_plans_for_this_memory_and_smaller_ones_is_taken() -> None:
    graph, chip = conv(14, 32, 32, rescaled=False), load_chip("edge")
    alone = {}
    for k in range(10, 21):
        smaller = dataclasses.replace(chip, sram=dataclasses.replace(chip.sram, size_bytes=1 << k))
        with contextlib.suppress(DoesNotFitError):
            alone[1 << k] = simulate(map_graph(graph, smaller, MappingOptions()).program, chip).cycles
    mapped, costs, timeline = map_and_time(graph, chip, MappingOptions(smaller_memories=True))
    assert timeline.cycles == min(alone.values())
    assert mapped.program.sram_bytes == max(n for n, cycles in alone.items() if cycles == timeline.cycles)
    assert timeline == simulate(mapped.program, chip)
    assert len(costs) == len(mapped.program)


def test_one_plan_is_made_where_smaller_memories_are_not_asked_for() -> None:
    graph, chip = convolution_chain(1), load_chip("micro")
    mapped, _, _ = map_and_time(graph, chip, MappingOptions(smaller_memories=False))
    assert mapped.program.commands == map_graph(graph, chip, MappingOptions()).program.commands


def test_what_fits_no_smaller_memory_is_mapped_into_its_own() -> None:
    graph, chip = matmul(1, 4096, 1), plain_chip("sram.size_bytes=8196")
    whole = MappingOptions(layers={"mm": LayerOptions(tile={"c": 4096})}, smaller_memories=True)
    assert map_and_time(graph, chip, whole)[0].program.sram_bytes == 8196
    with pytest.raises(DoesNotFitError, match="needs 8196 bytes of SRAM .* but there are 8195"):
        map_and_time(graph, plain_chip("sram.size_bytes=8195"), whole)


def test_a_graph_without_work_takes_no_time() -> None:
    b = GraphBuilder("nothing")
    b.input("x", TensorType((2, 6), I8))
    b.node("reshape", op_class("reshape")(new_shape=(3, 4)), ("x",), "y")
    graph = b.finish(("y",))
    result = run(job(graph))
    np.testing.assert_array_equal(result.outputs["y"], random(graph)["x"].reshape(3, 4))
    assert result.report.totals.cycles == 0
    assert result.report.layers == result.report.engines == ()
    assert result.report.totals.utilization == {}


def test_a_fingerprint_is_of_the_packed_bytes() -> None:
    x = np.array([-6, 2, 3, -2, -7], np.int8)
    found = fingerprint("v", TensorType((5,), I4), x)
    assert found.type == "5xi4"
    assert found.sha256 == hashlib.sha256(bytes.fromhex("2ae309")).hexdigest()


# -- expected outputs and labels -------------------------------------------------------------------------------------


def test_equal_outputs_pass_their_check() -> None:
    graph = matmul(2, 3, 4)
    want = run(job(graph)).outputs
    result = run(job(graph, expect=want))
    assert [(c.name, c.passed, c.detail) for c in result.report.checks] == [
        ("output y equals the expected one", True, "output 'y': all 8 values equal")
    ]
    result.require_match()


def test_a_difference_is_counted_and_the_first_one_shown() -> None:
    graph = matmul(2, 3, 4)
    want = run(job(graph)).outputs["y"].copy()
    want[0, 1, 2] += 5
    want[0, 1, 3] -= 1
    result = run(job(graph, expect={"y": want}))
    (check,) = result.report.checks
    assert not check.passed
    got = int(want[0, 1, 2]) - 5
    message = (
        f"output 'y' differs from the expected one in 2 of 8 values, first at [0, 1, 2]: got {got}, expected {got + 5}"
    )
    assert check.detail == message
    with pytest.raises(MismatchError) as caught:
        result.require_match()
    assert caught.value.problems == (message,)


def test_without_bits_nothing_is_compared_and_the_report_says_so() -> None:
    graph = matmul(2, 3, 4)
    result = run(job(graph, bits="off", expect={"y": np.zeros((1, 2, 4), np.int32)}))
    (check,) = result.report.checks
    assert check.detail == "output 'y' is not compared with the expected one: no bits were computed (bits: off)"
    result.require_match()


def test_accuracy_is_the_share_of_largest_logits_at_their_labels() -> None:
    b = GraphBuilder("classes")
    b.input("x", TensorType((4, 3), I8))
    b.node("op", op_class("clamp")(min_val=-128, max_val=127), ("x",), "y")
    graph = b.finish(("y",))
    x = {"x": np.array([[9, 0, 0], [0, 9, 0], [0, 0, 9], [9, 0, 0]], np.int8)}
    result = run(job(graph, inputs=x, labels=np.array([0, 1, 2, 2])))
    (check,) = result.report.checks
    assert check.name == "accuracy"
    assert check.passed
    assert check.detail.startswith("accuracy 75.00 % (3 of 4 right)")
    assert f"({result.timeline.cycles} cycles for 4)" in check.detail
    assert run(job(graph, inputs=x, labels=np.array([0, 1, 2, 2]), bits="off")).report.checks == ()
    with pytest.raises(InputError, match=r"labels: 3 labels for an output with 4 entries along its first axis"):
        run(job(graph, inputs=x, labels=np.array([0, 1, 2])))


# -- variables -------------------------------------------------------------------------------------------------------


def counter() -> Graph:
    """``total`` grows by the input with every run."""
    b = GraphBuilder("counter")
    tensor = TensorType((3,), I32)
    b.input("x", tensor)
    b.state(State("total", "before", "after", np.array([10, 20, 30], np.int32)), tensor)
    b.node("op", op_class("add")(), ("x", "before"), "after")
    b.node("out", op_class("negate")(), ("after",), "y")
    return b.finish(("y",))


@pytest.mark.parametrize("bits", ["timed", "whole"])
def test_variables_start_as_the_graph_says_and_live_on_from_run_to_run(bits: Bits) -> None:
    x = {"x": np.array([1, 2, 3], np.int32)}
    first = run(job(counter(), inputs=x, bits=bits))
    assert first.states["total"].tolist() == [11, 22, 33]
    assert first.outputs["y"].tolist() == [-11, -22, -33]
    assert list(first.outputs) == ["y"]
    second = run(job(counter(), inputs=x, bits=bits, states=first.states))
    assert second.states["total"].tolist() == [12, 24, 36]
    assert run(job(counter(), inputs=x, bits="off")).states == {}


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"inputs": {}}, r"^input 'a' \(1x2x3xi8\) is not given$"),
        (
            {"inputs": {"a": np.zeros((2, 3), np.int8)}},
            r"^input 'a' must be \[1, 2, 3\] int8 \(i8\), got \[2, 3\] int8$",
        ),
        ({"inputs": {"a": np.zeros((1, 2, 3))}}, r"input 'a' must be \[1, 2, 3\] int8 \(i8\), got \[1, 2, 3\] float64"),
        ({"expect": {"z": np.zeros(1)}}, r"^expected output 'z' is not one of the graph's: y$"),
        (
            {"expect": {"y": np.zeros((2, 4), np.int32)}},
            r"^expected output 'y' must be \[1, 2, 4\] int32 \(i32\), got \[2, 4\]",
        ),
        ({"states": {"s": np.zeros(1)}}, r"^state 's' is not one of the graph's: it has none$"),
    ],
)
def test_arrays_that_the_graph_does_not_take_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(job(matmul(2, 3, 4), **fields))


def test_a_variable_of_the_wrong_shape_is_refused() -> None:
    x = {"x": np.zeros(3, np.int32)}
    with pytest.raises(InputError, match=r"state 'total' must be \[3\] int32 \(i32\), got \[4\] int32"):
        run(job(counter(), inputs=x, states={"total": np.zeros(4, np.int32)}))
    with pytest.raises(InputError, match=r"state 'sum' is not one of the graph's: total"):
        run(job(counter(), inputs=x, states={"sum": np.zeros(3, np.int32)}))


def test_all_wrong_arrays_are_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        run(job(matmul(2, 3, 4), inputs={"c": np.zeros(1)}, expect={"z": np.zeros(1)}, states={"s": np.zeros(1)}))
    assert len(caught.value.problems) == 4


def test_what_does_not_fit_and_what_is_unpredictable_come_through() -> None:
    with pytest.raises(DoesNotFitError, match="layer 'mm'"):
        run(job(matmul(4, 4, 4), chip=plain_chip("sram.size_bytes=4")))
    b = GraphBuilder("top")
    b.input("x", TensorType((1, 1, 1, 1), I8))
    b.constant("w", TensorType((1, 1, 1, 1), I8), np.ones((1, 1, 1, 1), np.int8))
    b.constant("bias", TensorType((1,), I32), np.array([(1 << 31) - 1], np.int32))
    b.node("op", op_class("conv2d")(pad=(0,) * 4, stride=(1, 1), dilation=(1, 1)), ("x", "w", "bias"), "y")
    graph = b.finish(("y",))
    one = {"x": np.ones((1, 1, 1, 1), np.int8)}
    for bits in ("timed", "whole"):
        with pytest.raises(UnpredictableError, match="layer 'op'"):
            run(job(graph, inputs=one, bits=bits))
    run(job(graph, inputs=one, bits="off"))
    wrapping = plain_chip("units.0.accumulators={i32: wrap, i48: refuse}")
    result = run(job(graph, chip=wrapping, inputs=one))
    assert result.outputs["y"].item() == -(1 << 31)
    assert result.report.totals.overflow_events == result.report.layers[0].overflow_events == 1


def test_overflow_policies_are_those_of_the_arrays() -> None:
    assert overflow_policies(load_chip("edge")) == {"i32": "refuse", "i48": "refuse"}
    chip = load_chip("edge", ["units.0.accumulators={i32: saturate, i48: wrap}"])
    assert overflow_policies(chip) == {"i32": "saturate", "i48": "wrap"}
    assert overflow_policies(dataclasses.replace(chip, units=chip.units[1:])) == {}


# -- our own faults --------------------------------------------------------------------------------------------------


def test_tiles_that_do_not_do_the_work_are_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "tile_macs", lambda program: [7] * len(program.regions))
    with pytest.raises(InternalError, match=r"layer mm: its tiles do 7 points of 24"):
        run(job(matmul(2, 3, 4)))


def test_accounts_that_do_not_add_up_are_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "adds_up", lambda engines, cycles: False)
    with pytest.raises(InternalError, match=r"layer mm: busy, stalled and idle cycles do not add up to \d+"):
        run(job(matmul(2, 3, 4)))
    answers = iter([True, False])
    monkeypatch.setattr(session, "adds_up", lambda engines, cycles: next(answers))
    with pytest.raises(InternalError, match=r"^busy, stalled and idle cycles do not add up to the total$"):
        run(job(matmul(2, 3, 4)))


def test_layers_of_a_chain_make_up_the_run() -> None:
    report = run(job(chain(3))).report
    assert sum(x.cycles for x in report.layers) == report.totals.cycles
    assert report.totals.macs == sum(x.macs for x in report.layers) == 3 * 8 * 8 * 8

"""One run from a job to its result: map, time, execute, compare, account; the function behind CLI, tests and sweeps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from pydantic import TypeAdapter

from npusim.energy import layer_energy
from npusim.errors import InputError, InternalError, MismatchError, UserError
from npusim.functional import evaluate_graph, execute
from npusim.graph.graph import Graph
from npusim.graph.host import Host
from npusim.hardware import Chip
from npusim.hardware.units.mac_array import MacArray
from npusim.ir.mapping_options import MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import Mapped, map_graph, partition
from npusim.mapping.plan import Plan, Searched
from npusim.numerics.overflow import Policy
from npusim.numerics.packing import pack
from npusim.numerics.types import Array
from npusim.program.program import TileProgram
from npusim.report.build import adds_up, figures, tile_macs
from npusim.report.result import Check, Fingerprint, Manifest, Report
from npusim.timing.costs import ComputeCost, DmaCost, command_costs
from npusim.timing.simulator import simulate_costed
from npusim.timing.timeline import Timeline
from npusim.version import VERSION

Bits = Literal["timed", "whole", "off"]
"""``timed``: executed on SRAM bytes in the order that was timed. ``whole``: operator by operator. ``off``: no bits."""

Progress = Callable[[str], None]

SMALL_NETWORK = 16
"""Layers up to which plans for smaller memories are tried unasked."""

FLOAT_TOLERANCE = 1e-5
"""How far floats that the host sums may be from the expected ones, of the largest magnitude of the output: some tens of
float32's roundings (2^-24 each)."""

MANY_COMMANDS = 2000
"""Commands of a program from which on no plan for a still smaller memory, which has more, is tried."""


@dataclass(frozen=True)
class Job:
    """Everything a run depends on. Arrays are in storage types and already have the shapes of the graph's inputs.

    ``host`` is what of the model runs on the host behind the graph; ``expect`` may hold outputs of either.
    ``states`` are the contents of the graph's variables before the run, by name; those missing start as the graph says.
    ``labels`` are class indices, one for each entry along the first output's batch axis.
    """

    graph: Graph
    chip: Chip
    inputs: Mapping[str, Array]
    expect: Mapping[str, Array] = field(default_factory=dict)
    labels: Array | None = None
    mapping: MappingOptions = field(default_factory=MappingOptions)
    bits: Bits = "timed"
    seed: int | None = None
    workload_sha256: str = ""
    states: Mapping[str, Array] = field(default_factory=dict)
    host: Host | None = None

    @property
    def around(self) -> Host:
        """The host's part, which may be empty."""
        return self.host or Host.of(self.graph)


@dataclass(frozen=True)
class RunResult:
    """What a run gave. ``report`` is the part that survives as JSON; ``outputs``, those of the graph and those that the
    host makes of them, is empty with bits off."""

    report: Report
    outputs: Mapping[str, Array]
    states: Mapping[str, Array]
    program: TileProgram
    plan: Plan
    timeline: Timeline

    def require_match(self) -> None:
        """MismatchError with every failed comparison with an expected output."""
        failed = [c.detail for c in self.report.checks if not c.passed]
        if failed:
            raise MismatchError(failed)


def run(job: Job, progress: Progress = lambda _: None) -> RunResult:
    """Run a job.

    Raises what its parts raise: DoesNotFitError, UnpredictableError, InputError. Differences from the expected outputs
    are failed checks in the report, see :meth:`RunResult.require_match`.
    """
    graph, chip = job.graph, job.chip
    _check_arrays(job)
    mapped, costs, timeline = map_and_time(graph, chip, job.mapping, progress)
    program = mapped.program
    spent = layer_energy(program, chip, costs)
    given = {**job.inputs, **{s.input: job.states.get(s.name, s.initial) for s in graph.states}}
    outputs: dict[str, Array] = {}
    events: dict[str, int] = {}
    policies = overflow_policies(chip)
    if job.bits == "timed":
        progress("executing on SRAM bytes in timed order")
        outputs, events = execute(program, given, timeline.moments, policies)
    elif job.bits == "whole":
        progress("evaluating operator by operator")
        outputs = evaluate_graph(graph, given, policies)
    totals, engines, layers = figures(program, mapped.plan, timeline, costs, chip, events, spent)
    for layer, region, done in zip(layers, program.regions, tile_macs(program), strict=True):
        if done != region.work.points:
            raise InternalError(f"layer {layer.name}: its tiles do {done} points of {region.work.points}")
        if layer.span_cycles < layer.bound_cycles:
            raise InternalError(
                f"layer {layer.name}: simulated in {layer.span_cycles} cycles, below its bound of {layer.bound_cycles}"
            )
        if not adds_up(layer.engines, layer.cycles) or sum(layer.cycles_by_cause.values()) != layer.cycles:
            raise InternalError(f"layer {layer.name}: busy, stalled and idle cycles do not add up to {layer.cycles}")
    if not adds_up(engines, totals.cycles) or sum(x.cycles for x in layers) != totals.cycles:
        raise InternalError("busy, stalled and idle cycles do not add up to the total")
    if totals.cycles < totals.bound_cycles:
        raise InternalError(f"simulated in {totals.cycles} cycles, below the bound of {totals.bound_cycles}")
    data_outputs = {v: outputs[v] for v in graph.data_outputs if v in outputs}
    results = {**data_outputs, **job.around.complete(data_outputs)}
    known = job.around.known_outputs(graph)
    report = Report(
        schema_version=1,
        manifest=Manifest(
            npusim_version=VERSION,
            workload=graph.name,
            workload_sha256=job.workload_sha256,
            chip=as_data(chip),
            options={"bits": job.bits, "mapping": as_data(job.mapping)},
            seed=job.seed,
            inputs=tuple(fingerprint(v, graph.types[v], job.inputs[v]) for v in graph.data_inputs),
            remarks=job.around.remarks,
        ),
        totals=totals,
        engines=engines,
        layers=layers,
        checks=(*_compare(job, results), *_accuracy(job, results, timeline.cycles)),
        outputs=tuple(fingerprint(v, known[v], a) for v, a in results.items()),
        host=job.around.operators,
    )
    states = {s.name: outputs[s.output] for s in graph.states if s.output in outputs}
    return RunResult(report, results, states, program, mapped.plan, timeline)


def map_and_time(
    graph: Graph, chip: Chip, options: MappingOptions, progress: Progress = lambda _: None
) -> tuple[Mapped, list[ComputeCost | DmaCost], Timeline]:
    """The mapping of ``graph`` that simulates fastest, with the cost of each command and its timeline.

    One plan is made for the chip's SRAM and, as ``options.smaller_memories`` says, one for each smaller power of two
    down to where nothing fits. What a plan for less memory takes does not depend on how much there is, so among
    memories of powers of two the larger is never the slower, for programs of up to MANY_COMMANDS. Of equal plans the
    one for the larger memory is kept.
    """
    size = chip.sram.size_bytes
    sizes = [size]
    wanted = options.smaller_memories
    if wanted is None:
        wanted = len(graph.nodes) <= SMALL_NETWORK or len(partition(graph, chip, options)) <= SMALL_NETWORK
    if wanted:
        sizes += [1 << k for k in range(size.bit_length(), 9, -1) if 1 << k < size]
    searched = Searched()
    best: tuple[Mapped, list[ComputeCost | DmaCost], Timeline] | None = None
    for nbytes in sizes:
        progress(f"mapping into {nbytes} bytes of SRAM")
        smaller = replace(chip, sram=replace(chip.sram, size_bytes=nbytes))
        try:
            mapped = map_graph(graph, smaller, options, searched)
        except UserError:
            if nbytes == size:
                raise
            break
        progress(f"timing {len(mapped.program)} commands")
        costs = command_costs(mapped.program, smaller)
        timeline = simulate_costed(mapped.program, smaller, costs)
        if best is None or timeline.cycles < best[2].cycles:
            best = mapped, costs, timeline
        if len(mapped.program) > MANY_COMMANDS:
            break
    assert best is not None, "the chip's own memory is tried first"
    return best


def overflow_policies(chip: Chip) -> dict[str, Policy]:
    """What overflow does on this chip, by accumulator type."""
    return {str(k): p for u in chip.units if isinstance(u, MacArray) for k, p in u.accumulators.items()}


def fingerprint(name: str, tensor: TensorType, array: Array) -> Fingerprint:
    """Name, type and hash of a tensor's packed bytes."""
    digest = hashlib.sha256(pack(array, tensor.dtype).tobytes()).hexdigest()
    return Fingerprint(name=name, type=str(tensor), sha256=digest)


def as_data(record: Any) -> dict[str, Any]:
    """A record as plain JSON data."""
    data = TypeAdapter(type(record)).dump_python(record, mode="json")
    assert isinstance(data, dict)
    return data


def _check_arrays(job: Job) -> None:
    """InputError with every array that is missing, unknown or not of the type that the graph gives it."""
    graph = job.graph
    outputs = job.around.known_outputs(graph)
    types = {**graph.types, **outputs}
    problems = [f"input {v!r} ({graph.types[v]}) is not given" for v in graph.data_inputs if v not in job.inputs]
    for what, given, known in (
        ("input", job.inputs, {v: v for v in graph.data_inputs}),
        ("state", job.states, {s.name: s.input for s in graph.states}),
        ("expected output", job.expect, {v: v for v in outputs}),
    ):
        for name, got in given.items():
            if name not in known:
                problems.append(f"{what} {name!r} is not one of the graph's: {', '.join(known) or 'it has none'}")
                continue
            tensor = types[known[name]]
            if got.shape != tensor.shape or got.dtype != tensor.dtype.storage:
                problems.append(
                    f"{what} {name!r} must be {list(tensor.shape)} {tensor.dtype.storage} ({tensor.dtype}), "
                    f"got {list(got.shape)} {got.dtype}"
                )
    if problems:
        raise InputError(problems)


def _compare(job: Job, outputs: Mapping[str, Array]) -> list[Check]:
    checks = []
    for v, want in job.expect.items():
        got = outputs.get(v)
        if got is None:
            detail = f"output {v!r} is not compared with the expected one: no bits were computed (bits: {job.bits})"
            checks.append(Check(name=f"output {v} not compared", passed=True, detail=detail))
            continue
        if v in job.around.outputs and not job.around.exact:
            checks.append(_close(v, got, want))
            continue
        different = np.flatnonzero(got != want)
        name = f"output {v} equals the expected one"
        if not different.size:
            checks.append(Check(name=name, passed=True, detail=f"output {v!r}: all {want.size} values equal"))
            continue
        at = np.unravel_index(int(different[0]), want.shape)
        checks.append(
            Check(
                name=name,
                passed=False,
                detail=f"output {v!r} differs from the expected one in {different.size} of {want.size} values, "
                f"first at {[int(i) for i in at]}: got {got[at]}, expected {want[at]}",
            )
        )
    return checks


def _close(name: str, got: Array, want: Array) -> Check:
    """The check of floats that the host summed, in an order of its own."""
    largest = float(np.abs(want).max(initial=0))
    difference = float(np.abs(got.astype(np.float64) - want).max(initial=0))
    passed = difference <= largest * FLOAT_TOLERANCE
    detail = (
        f"output {name!r}, summed by the host in float32: it differs from the expected one by {difference:.3g} at "
        f"most, allowed is {FLOAT_TOLERANCE:g} of its largest magnitude, {largest:.3g}"
    )
    return Check(name=f"output {name} is close to the expected one", passed=passed, detail=detail)


def _accuracy(job: Job, outputs: Mapping[str, Array], cycles: int) -> list[Check]:
    if job.labels is None or not outputs:
        return []
    logits = outputs[next(iter(job.around.outputs))]
    if len(logits) != len(job.labels):
        raise InputError(
            f"labels: {len(job.labels)} labels for an output with {len(logits)} entries along its first axis"
        )
    right = int((logits.reshape(len(logits), -1).argmax(1) == job.labels).sum())
    share = 100 * right / len(logits)
    microseconds = 1e6 * cycles / job.chip.clock_hz / len(logits)
    detail = (
        f"accuracy {share:.2f} % ({right} of {len(logits)} right); latency {microseconds:.3f} µs an image "
        f"({cycles} cycles for {len(logits)})"
    )
    return [Check(name="accuracy", passed=True, detail=detail)]

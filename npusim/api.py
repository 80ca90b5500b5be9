"""The Python interface: the same power as the command line, with arrays in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from npusim.errors import InputError
from npusim.frontends.chip import load_chip
from npusim.frontends.tosa import load_tosa
from npusim.frontends.workload import Workload, load_array, load_workload, random_array, split_overrides
from npusim.graph import Graph
from npusim.graph.host import Host
from npusim.hardware import Chip
from npusim.ir.mapping_options import MappingOptions
from npusim.ir.tensor import TensorType
from npusim.numerics.types import Array
from npusim.ops import evaluate
from npusim.session import Bits, Job, Progress, RunResult
from npusim.session import run as run_job

__all__ = ["RunResult", "evaluate", "load_chip", "load_tosa", "load_workload", "make_job", "run"]

Given = Sequence[Array | str | Path] | Mapping[str, Array | str | Path]


def run(
    workload: Workload | Graph | str | Path,
    chip: Chip | str | Path | None = None,
    *,
    inputs: Given = (),
    expect: Given = (),
    bits: Bits = "timed",
    seed: int | None = None,
    overrides: Sequence[str] = (),
    mapping: MappingOptions | None = None,
    states: Mapping[str, Array] | None = None,
    progress: Progress = lambda _: None,
) -> RunResult:
    """Simulate a workload on a chip: its bits and its cycles.

    ``workload``: a workload YAML or a model file, or what :func:`load_workload` or :func:`load_tosa` returned.
    ``chip``: a preset's name, a YAML file or a Chip; default the workload's own. ``inputs`` and ``expect``: arrays or
    ``.npy`` files, in graph order or by name; missing inputs are random with ``seed``. ``overrides``: strings
    ``key=value`` as for ``--set``. ``mapping``: options of the mapper instead of the workload's. ``states``: contents
    of variables before the run, as an earlier result left them.

    Raises UserError subclasses for faults of the input; a difference from ``expect`` is a failed check of the report,
    which ``result.require_match()`` turns into a MismatchError.
    """
    job = make_job(workload, chip, inputs=inputs, expect=expect, bits=bits, seed=seed, overrides=overrides)
    return run_job(replace(job, states=states or {}, mapping=mapping or job.mapping), progress)


def make_job(
    workload: Workload | Graph | str | Path,
    chip: Chip | str | Path | None = None,
    *,
    inputs: Given = (),
    expect: Given = (),
    bits: Bits = "timed",
    seed: int | None = None,
    overrides: Sequence[str] = (),
) -> Job:
    """The job that :func:`run` runs, with every file read and every default settled."""
    for_workload, for_chip = split_overrides(list(overrides))
    if isinstance(workload, Graph):
        loaded = Workload.of_graph(workload)
    elif isinstance(workload, Workload):
        loaded = workload
    else:
        loaded = load_workload(Path(workload), for_workload)
    if for_workload and not isinstance(workload, str | Path):
        raise InputError(f"overrides {', '.join(for_workload)} are for a workload file; pass mapping= or seed= instead")
    if isinstance(chip, Chip):
        if for_chip:
            raise InputError(f"overrides {', '.join(for_chip)} are for a chip file; set them on the chip given")
        made = chip
    else:
        made = load_chip(chip if chip is not None else loaded.chip, for_chip)
    graph, host = loaded.graph, loaded.host or Host.of(loaded.graph)
    used_seed = loaded.seed if seed is None else seed
    given = {**loaded.inputs, **_arrays(inputs, tuple(host.inputs), host.known_inputs(graph), "input")}
    arrays = host.prepare(graph, given)
    random = [v for v in graph.data_inputs if v not in arrays]
    for v in random:
        lo, hi = loaded.input_ranges.get(v, (None, None))
        arrays[v] = random_array(graph.types[v], used_seed, v, lo, hi)
    return Job(
        graph=graph,
        chip=made,
        inputs=arrays,
        expect={
            **loaded.expect,
            **_arrays(expect, tuple(host.outputs), host.known_outputs(graph), "expected output"),
        },
        labels=loaded.labels,
        mapping=loaded.mapping,
        bits=bits,
        seed=used_seed if random else None,
        workload_sha256=loaded.sha256,
        host=host,
    )


def _arrays(given: Given, names: tuple[str, ...], known: Mapping[str, TensorType], what: str) -> dict[str, Array]:
    """The arrays given, by name: of ``known``, or in the order of ``names``, which are the model's."""
    if isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        if len(given) > len(names):
            raise InputError(f"{len(given)} {what}s are given, the graph has {len(names)}: {', '.join(names)}")
        pairs = list(zip(names, given, strict=False))
    problems = [f"{what} {v!r} is not one of the graph's: {', '.join(known)}" for v, _ in pairs if v not in known]
    if problems:
        raise InputError(problems)
    return {v: _array(a, known[v], f"{what} {v!r}") for v, a in pairs}


def _array(given: Array | str | Path, tensor: TensorType, what: str) -> Array:
    return load_array(Path(given), tensor, what) if isinstance(given, str | Path) else given

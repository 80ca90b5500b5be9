"""One test of TOSA's conformance suite: what it holds, and npusim's answer to it, whole and through tiles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from npusim.errors import DoesNotFitError
from npusim.frontends.chip import load_chip
from npusim.functional import execute
from npusim.graph.graph import Graph
from npusim.hardware import Chip
from npusim.ir.mapping_options import MappingOptions
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import Array
from npusim.timing import simulate

LADDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("micro", ()),
    ("edge", ()),
    ("server", ()),
    ("micro", ("sram.size_bytes=64 MiB",)),
)
"""Chips and overrides, the smallest first: a graph is run on the first one whose SRAM holds its tiles."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What an output must be: the array in ``reference``, each element within ``tolerance``.

    ``unsigned``: the file holds unsigned numbers as signed ones of the same bits.
    """

    name: str
    reference: Path
    tolerance: int
    unsigned: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A test. ``refused``: the graph must be refused as invalid, and has no references."""

    folder: Path
    file: Path
    refused: bool
    inputs: tuple[tuple[str, Path], ...]
    outputs: tuple[Expected, ...]


def read_case(folder: Path) -> Case:
    """The test in ``folder``. The reference of output k is ``reference-k.npy`` or, of a constant, its value's file.

    Outputs of an inexact rescale may be a step off, all others must be exact.
    """
    about = json.loads((folder / "desc.json").read_text())
    compliance = about.get("meta", {}).get("compliance", {}).get("tensors", {})
    outputs = []
    for k, (name, file) in enumerate(zip(about["ofm_name"], about["ofm_file"], strict=True)):
        made, how = folder / f"reference-{k}.npy", compliance.get(name, {})
        inexact = how.get("mode") == "RESCALE_INEXACT"
        unsigned = inexact and how["rescale_inexact_info"]["unsigned_data"]
        outputs.append(Expected(name, made if made.exists() else folder / file, int(inexact), unsigned))
    inputs = zip(about["ifm_name"], (folder / file for file in about["ifm_file"]), strict=True)
    return Case(folder, folder / about["tosa_file"], about["expected_failure"], tuple(inputs), tuple(outputs))


def read_inputs(case: Case, graph: Graph) -> dict[str, Array]:
    """The inputs in storage types; files hold unsigned tensors as signed ones of the same bits."""
    return {v: np.load(path).view(graph.types[v].dtype.storage) for v, path in case.inputs}


def run_tiles(graph: Graph, inputs: Mapping[str, Array]) -> tuple[str, dict[str, Array]]:
    """The chip used (``micro`` unless it is too small) and the outputs, from SRAM bytes in the order that was timed.

    The tile program has passed the verifier. DoesNotFitError if no chip of the ladder takes the graph.
    """
    for name, overrides in LADDER[:-1]:
        try:
            return name, _run_on(load(name, overrides), graph, inputs)
        except DoesNotFitError:
            continue
    name, overrides = LADDER[-1]
    return f"{name} with {', '.join(overrides)}", _run_on(load(name, overrides), graph, inputs)


@cache
def load(name: str, overrides: tuple[str, ...]) -> Chip:
    """A chip of the ladder."""
    return load_chip(name, overrides)


def _run_on(chip: Chip, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    program = map_graph(graph, chip, MappingOptions()).program
    return execute(program, inputs, simulate(program, chip).moments)[0]


def differences(case: Case, outputs: Mapping[str, Array]) -> list[str]:
    """What differs from the references, one line an output; none if all is as it must be."""
    found = ((e.name, compare(outputs[e.name], np.load(e.reference), e.tolerance, e.unsigned)) for e in case.outputs)
    return [f"output {name!r}: {difference}" for name, difference in found if difference]


def compare(got: Array, want: Array, tolerance: int = 0, unsigned: bool = False) -> str | None:
    """In what ``got`` differs from ``want``: type, shape, or some element by more than ``tolerance``; None: nothing."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if unsigned:
        got, want = (x.view(f"u{x.itemsize}") for x in (got, want))
    wrong = got != want if not tolerance else np.abs(got.astype(np.int64) - want) > tolerance
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{np.count_nonzero(wrong)} of {want.size} elements, first at {list(at)}: {got[at]} for {want[at]}"

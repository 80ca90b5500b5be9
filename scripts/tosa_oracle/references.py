"""Reference outputs of the conformance tests, computed once and kept beside each test."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from .case import Case, read_case
from .environment import Tools, ToolsError
from .model import Answer, ReferenceModel, Status, run_command_line
from .suite import PATIENCE_SECONDS, Say

BEYOND_BINDINGS = frozenset({"INT4", "INT48"})
"""Element types of inputs and outputs for which only the command line serves."""


def compute_references(tools: Tools, folders: Sequence[Path], jobs: int, say: Say) -> None:
    """Write ``reference-k.npy`` for every output k of the tests that lack them.

    ToolsError if the reference model finds a test wrong or unpredictable that the generator made to be valid.
    """
    missing = [case for case in map(read_case, folders) if not case.refused and not _reference(case, -1).exists()]
    if not missing:
        return
    say(f"computing the reference outputs of {len(missing)} tests")
    spoken = time.monotonic()
    for done, (case, answer) in enumerate(_answers(tools, missing, jobs), 1):
        if answer.status is not Status.VALID or len(answer.outputs) != len(case.outputs):
            raise ToolsError(
                f"the reference model finds {case.folder} {answer.status.name.lower()}; remove that folder"
            )
        for k, output in enumerate(answer.outputs):
            np.save(_reference(case, k), output)
        if time.monotonic() - spoken > PATIENCE_SECONDS:
            spoken = time.monotonic()
            say(f"computed the reference outputs of {done} of {len(missing)} tests")


def _answers(tools: Tools, cases: Sequence[Case], jobs: int) -> Iterator[tuple[Case, Answer]]:
    """What the model says of each test, in no particular order: by its command line or, a hundred times faster, not."""
    outside = [c for c in cases if _element_types(c) & BEYOND_BINDINGS]
    names = [[_output_file(c, k) for k in range(len(c.outputs))] for c in outside]
    with ReferenceModel(tools) as model:
        for case in cases:
            if not _element_types(case) & BEYOND_BINDINGS:
                yield case, model.run(case.file.read_bytes(), [np.load(path) for _, path in case.inputs])
    with ThreadPoolExecutor(jobs) as pool:
        yield from zip(
            outside, pool.map(lambda c, n: run_command_line(tools, c.folder, n), outside, names), strict=True
        )


def _reference(case: Case, k: int) -> Path:
    return case.folder / f"reference-{k % len(case.outputs)}.npy"


def _output_file(case: Case, k: int) -> str:
    file: str = json.loads((case.folder / "desc.json").read_text())["ofm_file"][k]
    return file


def _element_types(case: Case) -> set[str]:
    """The element types of inputs and outputs, by TOSA's names."""
    about = json.loads((case.folder / "desc.json").read_text())["meta"]
    made = about["data_gen"]["tensors"] | about["compliance"]["tensors"]
    names = (*(name for name, _ in case.inputs), *(e.name for e in case.outputs))
    return {made[name]["data_type"] for name in names}

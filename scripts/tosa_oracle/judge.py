"""The verdict on one conformance test: is npusim's answer, whole and through tiles, the one that must come."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from npusim.errors import FileFormatError, InvalidGraphError, NpusimError
from npusim.frontends.tosa import load_tosa
from npusim.functional import evaluate_graph
from npusim.numerics.types import Array

from .case import Case, differences, read_case, read_inputs, run_tiles
from .suite import operator_of

SELF = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a test. ``whole`` and ``tiles`` say what is wrong, empty if nothing is.

    ``chip`` is the one that the tiles ran on, empty for a test that must be ``refused``. ``peak_bytes`` is by how much
    either run made the process grow (0 where the system does not tell).
    """

    operator: str
    name: str
    refused: bool
    whole: str
    tiles: str
    chip: str
    peak_bytes: int
    seconds: float

    @property
    def expected(self) -> bool:
        """Whether both answers are as they must be."""
        return not self.whole and not self.tiles


def judge(folder: Path) -> Verdict:
    """Run the test in ``folder``. Never raises for what npusim does: any exception is a finding."""
    start = time.monotonic()
    case = read_case(folder)
    whole, tiles, chip, peak = _judge(case)
    seconds = time.monotonic() - start
    return Verdict(operator_of(folder), folder.name, case.refused, whole, tiles, chip, peak, seconds)


def _judge(case: Case) -> tuple[str, str, str, int]:
    """(what is wrong as a whole, through tiles, the chip, peak bytes)."""
    try:
        graph = load_tosa(case.file)
    except (InvalidGraphError, FileFormatError) as e:
        fault = "" if case.refused else f"refused: {e}"
        return fault, fault, "", 0
    except Exception as e:
        return (fault := _unexpected(e)), fault, "", 0
    if case.refused:
        return (fault := "not refused, but it must be"), fault, "", 0
    inputs = read_inputs(case, graph)
    chips: list[str] = []

    def through_tiles() -> dict[str, Array]:
        chip, outputs = run_tiles(graph, inputs)
        chips.append(chip)
        return outputs

    whole, peak = _run(case, lambda: evaluate_graph(graph, inputs))
    tiles, peak_tiled = _run(case, through_tiles)
    return whole, tiles, "".join(chips), max(peak, peak_tiled)


def _run(case: Case, run: Callable[[], dict[str, Array]]) -> tuple[str, int]:
    """(what is wrong with the outputs of ``run``, peak bytes)."""
    gc.collect()
    before = _forget_peak()
    try:
        outputs = run()
    except Exception as e:
        return _unexpected(e), 0
    grown = _memory("VmHWM") - before
    return "; ".join(differences(case, outputs)), grown


def _unexpected(e: Exception) -> str:
    kind = type(e).__name__
    return f"{kind}: {e}" if isinstance(e, NpusimError) else f"{kind} (a fault of npusim): {e}"


def _forget_peak() -> int:
    """Bytes of this process in memory, now also its peak (Linux, proc(5): clear_refs 5)."""
    try:
        (SELF / "clear_refs").write_text("5")
    except OSError:
        return 0
    return _memory("VmRSS")


def _memory(field: str) -> int:
    try:
        lines = (SELF / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(field)), 0)

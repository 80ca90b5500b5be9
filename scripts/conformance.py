"""``make conformance``: TOSA's conformance tests for the integer profile, npusim against the reference model.

The first run downloads TOSA's tools into ``.venv-tosa``, generates the tests (about 20 minutes for all) and computes
their reference outputs; all of it is kept in the cache, and what is there is not made again. Every test then runs
twice, operator by operator and as a tile program on bytes of SRAM in the order that was timed, and every output element
must equal the reference; tests that break a rule must be refused. The exit code is 1 if anything else happens.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

from scripts.tosa_oracle.environment import ToolsError, install_tools
from scripts.tosa_oracle.judge import Verdict, judge
from scripts.tosa_oracle.references import compute_references
from scripts.tosa_oracle.suite import (
    DEFAULT_CACHE,
    INTEGER_OPERATORS,
    PATIENCE_SECONDS,
    SEED_OPERATORS,
    generate,
)

SETS = {"all": INTEGER_OPERATORS, "seed": SEED_OPERATORS}
LARGEST_SHOWN = 10


def main(command_line: Sequence[str] | None = None) -> int:
    """Run the tests that the command line chooses; 0 if all are as expected, 1 if not, 2 if they cannot be made."""
    arguments = _arguments(command_line)
    operators = arguments.operator or SETS[arguments.set]
    try:
        tools = install_tools()
        folders = generate(tools, arguments.cache, operators, arguments.workers, _say)
        compute_references(tools, folders, arguments.workers, _say)
    except ToolsError as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    verdicts = sorted(_judge_all(folders, arguments.workers), key=lambda v: (v.operator, v.name))
    print("\n".join(summary(verdicts)))
    return 0 if all(v.expected for v in verdicts) else 1


def summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The report, line by line: surprises, larger chips, memory, totals by operator and over all."""
    for v in verdicts:
        for what, fault in (("whole", v.whole), ("tiles", v.tiles)):
            if fault:
                yield f"SURPRISE {v.name} ({what}): {fault}"
    elsewhere = [v for v in verdicts if v.chip not in ("", "micro")]
    yield f"{len(elsewhere)} tests have no tile that fits the SRAM of micro and ran on a larger chip"
    yield from (f"  {v.name}: {v.chip}" for v in elsewhere)
    yield "largest growth of memory in a test"
    for v in sorted(verdicts, key=lambda v: -v.peak_bytes)[:LARGEST_SHOWN]:
        yield f"  {v.peak_bytes / 2**20:6.0f} MiB {v.seconds:6.1f} s  {v.name}"
    by_operator = defaultdict(list)
    for v in verdicts:
        by_operator[v.operator].append(v)
    yield f"{'operator':24}{'tests':>7}{'refused':>9}{'whole':>7}{'tiles':>7}   as expected"
    for operator, some in by_operator.items():
        yield _row(operator, some)
    yield _row("all", verdicts)
    chips = Counter(v.chip for v in verdicts if v.chip)
    yield "chips: " + ", ".join(f"{chip} {n}" for chip, n in chips.most_common())
    right = sum(v.expected for v in verdicts)
    refusals = sum(v.expected and v.refused for v in verdicts)
    yield f"{right} of {len(verdicts)} as expected, {refusals} of them refusals"


def _row(operator: str, verdicts: Sequence[Verdict]) -> str:
    refused, whole, tiles = (
        sum(found) for found in zip(*((v.refused, not v.whole, not v.tiles) for v in verdicts), strict=True)
    )
    return f"{operator:24}{len(verdicts):7}{refused:9}{whole:7}{tiles:7}"


def _judge_all(folders: Sequence[Path], workers: int) -> Iterator[Verdict]:
    start = spoken = time.monotonic()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for the workers, which share the cores
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        names = {pool.submit(judge, folder): folder.name for folder in folders}
        waiting = set(names)
        while waiting:
            done, waiting = wait(waiting, PATIENCE_SECONDS, FIRST_COMPLETED)
            yield from (future.result() for future in done)
            if time.monotonic() - spoken > PATIENCE_SECONDS or not waiting:
                spoken = time.monotonic()
                at_work = "".join(f"; {names[future]} is running" for future in waiting if future.running())
                _say(f"ran {len(folders) - len(waiting)} of {len(folders)} tests in {spoken - start:.0f} s{at_work}")


def _say(line: str) -> None:
    print(line, flush=True)


def _arguments(command_line: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.conformance", description="Run TOSA's conformance tests.")
    parser.add_argument("--set", choices=SETS, default="all", help="all operators, or those of the draft of 2021")
    parser.add_argument("--operator", choices=INTEGER_OPERATORS, action="append", help="this operator only; repeatable")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where tests are kept (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time (default: %(default)s)")
    return parser.parse_args(command_line)


if __name__ == "__main__":
    sys.exit(main())

"""``make fuzz``: random TOSA graphs, npusim against the reference model, whole and through tiles.

Graph number k of a seed is always the same. A graph on which the answers differ is made small and written to a folder
with its inputs and the model's outputs; the command to run it again is printed. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from scripts.tosa_fuzz.choices import Choices
from scripts.tosa_fuzz.compare import Outcome
from scripts.tosa_fuzz.graphs import OPERATORS
from scripts.tosa_fuzz.minimise import kind_of_fault, load, minimise, run, sample, save
from scripts.tosa_oracle.environment import ROOT, Tools, ToolsError, install_tools
from scripts.tosa_oracle.model import ReferenceModel

DEFAULT_OUT = ROOT / "reports" / "fuzz"
CHUNK = 50
PATIENCE_SECONDS = 20
MOST_MINIMISED = 5


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of graph number ``number``, which consists of ``operators``."""

    number: int
    outcome: Outcome
    operators: tuple[str, ...]


def main(command_line: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 0 if all answers agree, 1 if not, 2 if there is no reference model."""
    arguments = _arguments(command_line)
    try:
        tools = install_tools()
    except ToolsError as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    if arguments.repro:
        with ReferenceModel(tools) as model:
            outcome = run(load(arguments.repro), model)
        print(f"{outcome.kind} {outcome.fault}")
        return int(outcome.kind == "finding")
    operators = tuple(arguments.operator or OPERATORS)
    judged = list(_judge_all(tools, arguments, operators))
    print("\n".join(summary(judged)))
    findings = [j for j in judged if j.outcome.kind == "finding"]
    kinds: dict[str, Judged] = {}
    for j in findings:
        kinds.setdefault(kind_of_fault(j.outcome), j)
    with ReferenceModel(tools) as model:
        for j in list(kinds.values())[:MOST_MINIMISED]:
            _report(j, arguments, operators, model)
    return int(bool(findings))


def summary(judged: Sequence[Judged]) -> Iterator[str]:
    """The report, line by line: findings, how often each operator ran, what came of the graphs."""
    for j in judged:
        if j.outcome.fault:
            yield f"FINDING graph {j.number} ({', '.join(j.operators)}): {j.outcome.fault}"
    counts = Counter(name for j in judged for name in j.operators)
    yield "operators: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))
    kinds = Counter(j.outcome.kind for j in judged)
    tiled = sum(j.outcome.tiled for j in judged)
    outcomes = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
    yield f"{len(judged)} graphs, {sum(counts.values())} operators, {tiled} graphs also through tiles: {outcomes}"


def judge_range(first: int, last: int, *, seed: int, operators: Sequence[str], tools: Tools) -> list[Judged]:
    """Judge the graphs ``first..last-1`` of a seed."""
    found = []
    with ReferenceModel(tools) as model:
        for number in range(first, last):
            drawn = sample(_choices(seed, number), operators)
            found.append(Judged(number, run(drawn, model), drawn[1].operators))
    return found


def _choices(seed: int, number: int) -> Choices:
    return Choices(f"{seed}:{number}")


def _judge_all(tools: Tools, arguments: argparse.Namespace, operators: Sequence[str]) -> Iterator[Judged]:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for the workers, which share the cores
    starts = range(arguments.first, arguments.first + arguments.count, CHUNK)
    ends = [min(a + CHUNK, arguments.first + arguments.count) for a in starts]
    work = partial(judge_range, seed=arguments.seed, operators=operators, tools=tools)
    start = spoken = time.monotonic()
    with ProcessPoolExecutor(arguments.workers, get_context("spawn")) as pool:
        for end, judged in zip(ends, pool.map(work, starts, ends), strict=True):
            yield from judged
            if time.monotonic() - spoken > PATIENCE_SECONDS:
                spoken = time.monotonic()
                done = end - arguments.first
                print(f"ran {done} of {arguments.count} graphs in {spoken - start:.0f} s", flush=True)


def _report(judged: Judged, arguments: argparse.Namespace, operators: Sequence[str], model: ReferenceModel) -> None:
    choices = _choices(arguments.seed, judged.number)
    sample(choices, operators)
    small = minimise(choices.made, operators, partial(run, model=model))
    folder = arguments.out / f"{arguments.seed}-{judged.number}"
    fault = run(small, model).fault
    save(folder, small, fault, model)
    print(f"graph {judged.number} made small: {', '.join(small[1].operators)}: {fault}")
    print(f"  python -m scripts.fuzz --repro {folder}")


def _arguments(command_line: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.fuzz", description="Random graphs, npusim against TOSA.")
    parser.add_argument("--count", type=int, default=3000, help="graphs to run (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which graphs (default: %(default)s)")
    parser.add_argument("--operator", choices=OPERATORS, action="append", help="of this operator only; repeatable")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="where findings go (default: %(default)s)")
    parser.add_argument("--repro", type=Path, metavar="FOLDER", help="run the finding in this folder again")
    return parser.parse_args(command_line)


if __name__ == "__main__":
    sys.exit(main())

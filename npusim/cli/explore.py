"""``npusim explore``: one workload on every chip of a design space."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from npusim.api import make_job
from npusim.errors import DoesNotFitError, InputError, UnpredictableError, UserError
from npusim.explore.pareto import pareto
from npusim.explore.points_files import figure_text, points_files, shares_of
from npusim.explore.space import space_of
from npusim.explore.sweep import FIGURES, Point, sweep
from npusim.report.files import write_files
from npusim.report.losses import SHARES
from npusim.report.text import percent, printable
from npusim.session import Job

OBJECTIVES = ("cycles", "dram_bytes")
"""What is weighed against each other if nothing else is asked for."""


@dataclass(frozen=True)
class WorkloadOn:
    """Makes the job of a point: a workload on a chip, the overrides of the point after those of all points."""

    workload: Path
    chip: str | None
    overrides: tuple[str, ...]

    def __call__(self, overrides: Mapping[str, str]) -> Job:
        texts = [*self.overrides, *(f"{k}={v}" for k, v in overrides.items())]
        return make_job(self.workload, self.chip, bits="off", overrides=texts)


def explore_command(
    workload: Path,
    chip: str | None,
    vary: Sequence[str],
    overrides: Sequence[str],
    objectives: Sequence[str],
    workers: int,
    out: Path | None,
) -> None:
    """Run the points, print them with the front marked, write points.csv and pareto.png.

    Points that do not run are listed with the reason. If none does, their errors are raised: UserError subclasses.
    """
    space, wanted = space_of(vary), tuple(dict.fromkeys(objectives)) or OBJECTIVES
    if not space:
        raise InputError("nothing varies; give --vary key=value,value,..., such as --vary sram.banks=4,8")
    job_of = WorkloadOn(workload, chip, tuple(overrides))
    with Console(stderr=True).status("starting") as status:
        points = sweep(job_of, space, wanted, workers, status.update if sys.stderr.isatty() else lambda _: None)
        if all(p.errors for p in points):
            raise _none_runs(points)
        status.update("drawing")
        title = f"{workload.stem} on {Path(chip).stem}" if chip else workload.stem
        directory = out if out is not None else Path("reports") / f"{workload.stem}-explore"
        write_files(directory, points_files(title, points, wanted))
    _print(title, points, wanted, directory)


def _none_runs(points: Sequence[Point]) -> UserError:
    """All errors of the points, once each, as an error of the kind of the first."""
    kinds = {kind.exit_code: kind for kind in (DoesNotFitError, UnpredictableError)}
    problems = list(dict.fromkeys(e for p in points for e in p.errors))
    most = 5
    rest = [f"{len(problems) - most} more errors, and no point runs"] if len(problems) > most else []
    return kinds.get(points[0].exit_code, InputError)([*problems[:most], *rest])


def _print(title: str, points: Sequence[Point], objectives: Sequence[str], directory: Path) -> None:
    front = set(pareto(points, objectives))
    keys = list(points[0].overrides)
    chosen = [o for o in objectives if o not in FIGURES and o not in keys]
    table = Table(title=Text(f"Points of {printable(title)}", "bold"), title_justify="left", box=None, padding=(0, 1))
    for header in ("#", "front", *keys, *chosen, *FIGURES):
        broken = printable(header).replace(".", ".\n").replace("dram_bytes", "DRAM bytes")
        table.add_column(Text(broken), justify="right", overflow="fold")
    for i, p in enumerate(points):
        if p.errors:
            continue
        numbers = [figure_text(o, p.objectives[o]) for o in chosen]
        figures = [figure_text(name, figure(p)) for name, figure in FIGURES.items()]
        cells = (str(i), "*" if i in front else "", *p.overrides.values(), *numbers, *figures)
        table.add_row(*(Text(printable(c)) for c in cells), style="bold" if i in front else "")
    console = Console(highlight=False)
    console.print(table)
    for problem in dict.fromkeys(e for p in points for e in p.errors):
        which = ", ".join(f"#{i}" for i, p in enumerate(points) if problem in p.errors)
        console.print(Text(f"not run: {which}: {printable(problem)}"), soft_wrap=True)
    note = f"*: no other point has at most as much of {', '.join(objectives)} and less of one"
    console.print(Text(note), soft_wrap=True)
    _print_losses(console, points)
    console.print(f"report: {directory}", soft_wrap=True)


def _print_losses(console: Console, points: Sequence[Point]) -> None:
    """What the cycles of the multipliers went to, one row a point."""
    shares = shares_of(points)
    if not shares:
        return
    table = Table(box=None, padding=(0, 1))
    for header in ("#", *(SHARES[s].label for s in shares)):
        table.add_column(Text(header.replace(" ", "\n")), justify="right", overflow="fold")
    for i, p in enumerate(points):
        if p.losses:
            table.add_row(str(i), *(percent(float(p.losses[s]), 1) for s in shares))
    console.print(Text("Cycles of the multipliers, percent by what they went to", "bold"), soft_wrap=True)
    console.print(table)
    meanings = "; ".join(f"{SHARES[s].label} = {SHARES[s].meaning}" for s in shares)
    console.print(Text(f"A row sums to 100: {meanings}."), soft_wrap=True)

"""``npusim run``: one workload on one chip."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from npusim.api import make_job
from npusim.report.bundle import result_files
from npusim.report.files import write_files
from npusim.report.mapping import loop_nest, mapping_yaml
from npusim.report.tables import engine_table, layer_table, totals_table
from npusim.report.text import printable
from npusim.session import Bits, Progress, run


def run_command(
    workload: Path,
    chip: str | None,
    inputs: list[Path],
    expect: list[Path],
    out: Path | None,
    bits: Bits,
    seed: int | None,
    overrides: list[str],
    sort: str,
    *,
    quiet: bool,
    show_mapping: bool,
    pictures: bool,
) -> None:
    """Simulate, print the tables, write the files; raises UserError subclasses, MismatchError after writing."""
    with _progress(quiet) as progress:
        progress(f"reading {workload}")
        job = make_job(workload, chip, inputs=inputs, expect=expect, bits=bits, seed=seed, overrides=overrides)
        result = run(job, progress)
        directory = out if out is not None else Path("reports") / job.graph.name
        progress("drawing pictures" if pictures else "writing files")
        mapping = mapping_yaml(result.plan, job.mapping)
        files = result_files(
            result.report, result.outputs, result.program, result.plan, job.chip, result.timeline, mapping, pictures
        )
        write_files(directory, files)
    if not quiet:
        console = Console(highlight=False)
        if show_mapping:
            for layer in result.plan.layers:
                console.print(loop_nest(layer), markup=False, soft_wrap=True)
        console.print(layer_table(result.report, sort))
        console.print(engine_table(result.report))
        console.print(totals_table(result.report))
        for remark in result.report.manifest.remarks:
            console.print("read:", remark, markup=False, soft_wrap=True)
        if result.report.host:
            names = ", ".join(map(printable, result.report.host))
            console.print(f"on the host, time not modelled: {names}", markup=False, soft_wrap=True)
        for check in result.report.checks:
            console.print("[green]ok[/green]  " if check.passed else "[red]FAIL[/red]", check.detail, soft_wrap=True)
        console.print(f"report: {directory}", soft_wrap=True)
    result.require_match()


@contextmanager
def _progress(quiet: bool) -> Iterator[Progress]:
    """A spinner with the current step on stderr where that is a terminal; silence elsewhere."""
    console = Console(stderr=True)
    if quiet or not sys.stderr.isatty():
        yield lambda step: None
        return
    with console.status("starting") as status:
        yield lambda step: status.update(step)

"""``npusim validate``: predictions against published measurements."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from npusim.errors import InputError
from npusim.explore.validate import CaseResult, cases_folder, load_cases, read_rows, run_case
from npusim.explore.validation_files import aim, percent, validation_files, verdict, worst
from npusim.report.files import write_files

PUBLISHED, SCRATCH = Path("reports/published"), Path("reports/validation")
"""Where files go: the published table is of all cases and their own rows; anything else goes elsewhere."""


def validate_command(names: list[str], rows: Path | None, out: Path | None, folder: Path | None, workers: int) -> None:
    """Run the cases, print their errors, write table, rows and plot; InputError for what is not there."""
    cases = load_cases(folder if folder is not None else cases_folder(), names)
    if not cases:
        raise InputError(f"{folder}: holds no validation case; each is a folder with a case.py")
    if rows is not None and len(cases) != 1:
        raise InputError(f"--rows {rows}: rows belong to one case, and {len(cases)} are to run; name one")
    console = Console(stderr=True)
    results = []
    with console.status("starting") as status:
        for case in cases:
            found = read_rows(case, rows)
            results.append(run_case(case, found, workers, status.update if sys.stderr.isatty() else lambda _: None))
        status.update("drawing")
        directory = out if out is not None else SCRATCH if names or rows is not None else PUBLISHED
        write_files(directory, validation_files(results))
    _print(results, directory)


def _print(results: list[CaseResult], directory: Path) -> None:
    table = Table(title="predicted against measured", title_justify="left")
    for header, right in (("case", False), ("rows", True), ("mean error", True), ("MAPE", True), ("worst row", False),
                          ("aim", False), ("", False)):  # fmt: skip
        table.add_column(header, justify="right" if right else "left", overflow="fold")
    for r in results:
        e = r.errors
        cells = (
            r.case.name, str(e.rows if e else 0), percent(e.mean if e else None, sign=True),
            percent(e.mape if e else None), worst(e), aim(r), verdict(r),
        )  # fmt: skip
        table.add_row(*map(Text, cells))
    console = Console(highlight=False)
    console.print(table)
    for r in results:
        for tool, error in r.case.peers:
            console.print(Text(f"{r.case.name}: {tool}: {error}"))
        for o in r.failed:
            console.print(Text(f"{r.case.name}: not predicted: {o.row.id}: {o.problem}"))
    console.print(f"report: {directory}", soft_wrap=True)

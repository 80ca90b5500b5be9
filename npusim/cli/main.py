"""The ``npusim`` command: arguments, progress on a terminal's stderr, exit codes."""

from __future__ import annotations

import sys
import traceback
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from npusim.cli.explore import explore_command
from npusim.cli.run import run_command
from npusim.cli.show import show_command
from npusim.cli.validate import validate_command
from npusim.errors import UserError
from npusim.version import VERSION

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Simulate a fixed-point neural processing unit: exact bits and cycles from one tile program.",
    epilog="Exit codes: 0 done; 1 npusim's own fault; 2 bad input; 3 unpredictable numbers; 4 does not fit the chip; "
    "5 the bits differ from those expected.",
)


class BitsChoice(StrEnum):
    """How outputs are computed."""

    timed = "timed"
    whole = "whole"
    off = "off"


class SortChoice(StrEnum):
    """Order of the layers in the table."""

    cycles = "cycles"
    order = "order"
    utilization = "utilization"
    dram = "dram"


def _version(wanted: bool) -> None:
    if wanted:
        print(f"npusim {VERSION}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("run")
def _run(
    workload: Annotated[Path, typer.Argument(metavar="WORKLOAD", help="A workload YAML, or a model file.")],
    chip: Annotated[
        str | None, typer.Option("--chip", metavar="FILE", help="A chip YAML or a preset: micro, edge, server.")
    ] = None,
    inputs: Annotated[
        list[Path] | None, typer.Option("--input", metavar="FILE.npy", help="Input, repeatable, in graph order.")
    ] = None,
    expect: Annotated[
        list[Path] | None,
        typer.Option("--expect", metavar="FILE.npy", help="Expected output, repeatable, in graph order."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where files go. Default: reports/<workload>.")
    ] = None,
    bits: Annotated[
        BitsChoice,
        typer.Option(
            "--bits", help="timed: executed in the order that was timed; whole: operator by operator; off: cycles only."
        ),
    ] = BitsChoice.timed,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of random inputs.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the chip or mapping.*, repeatable."),
    ] = None,
    sort: Annotated[SortChoice, typer.Option("--sort", help="Order of the layers in the table.")] = SortChoice.cycles,
    show_mapping: Annotated[
        bool,
        typer.Option("--show-mapping", help="Print the loop nest of every layer; mapping.yaml has it to give back."),
    ] = False,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Draw the pictures, or save the time.")
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of input errors too.")] = False,
) -> None:
    """Simulate WORKLOAD on a chip; print its layers and write report.json, layers.csv, outputs and plots."""
    run_command(
        workload,
        chip,
        inputs or [],
        expect or [],
        out,
        bits.value,
        seed,
        overrides or [],
        sort.value,
        quiet=quiet,
        show_mapping=show_mapping,
        pictures=pictures,
    )


@app.command("show")
def _show(
    chip: Annotated[str, typer.Argument(metavar="CHIP", help="A chip YAML or a preset: micro, edge, server.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a value, repeatable.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of input errors too.")] = False,
) -> None:
    """Print every value of a chip with its meaning."""
    show_command(chip, overrides or [])


@app.command("explore")
def _explore(
    workload: Annotated[Path, typer.Argument(metavar="WORKLOAD", help="A workload YAML, or a model file.")],
    chip: Annotated[
        str | None, typer.Option("--chip", metavar="FILE", help="A chip YAML or a preset: micro, edge, server.")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="KEY=VALUE,...", help="Values of a key, repeatable; all combinations are run."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a value at every point, repeatable."),
    ] = None,
    objectives: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            metavar="NAME",
            help="What there should be little of, repeatable: cycles, energy, dram_bytes, area, or the key of a number "
            "of the chip. Default: cycles and dram_bytes.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that share the points.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where files go. Default: reports/<workload>-explore.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of input errors too.")] = False,
) -> None:
    """Simulate WORKLOAD at every point of a design space, without bits; print points, write points.csv and a plot."""
    explore_command(workload, chip, vary or [], overrides or [], objectives or [], workers, out)


@app.command("validate")
def _validate(
    cases: Annotated[list[str] | None, typer.Argument(metavar="[CASE]...", help="Cases to run; default: all.")] = None,
    rows: Annotated[
        Path | None, typer.Option("--rows", metavar="FILE", help="Further rows of one case, in the form of its own.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Where files go. Default: reports/published for all cases, else reports/validation.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--cases", metavar="DIR", help="Where the cases are. Default: npusim's own.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that share the rows.")] = 1,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of input errors too.")] = False,
) -> None:
    """Predict published measurements; print the errors and write validation.md, validation.csv and a plot."""
    validate_command(cases or [], rows, out, folder, workers)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit the process with the documented code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code: Any = app(args=given, prog_name="npusim", standalone_mode=True)
    except UserError as e:
        if "--debug" in given:
            traceback.print_exc()
        for problem in e.problems:
            print(f"npusim: error: {problem}", file=sys.stderr)
        code = e.exit_code
    except KeyboardInterrupt:
        print("npusim: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        code = 0
    except Exception:
        traceback.print_exc()
        print(
            "npusim: internal error: this is npusim's own fault, not the input's; please report it with the lines "
            "above and the command line",
            file=sys.stderr,
        )
        code = 1
    raise SystemExit(code if isinstance(code, int) else 0)

"""What a validation leaves behind: the table of all errors in Markdown, every row as CSV, and the plot."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from npusim.explore.validate import CaseResult, Errors
from npusim.report.plots.validation import Series, validation_plot

PLOT_FILE = "validation.png"


def validation_files(results: Sequence[CaseResult]) -> dict[str, bytes]:
    """``validation.md``, ``validation.csv`` and the plot, equal bytes for equal results."""
    return {
        "validation.md": markdown(results).encode("utf-8"),
        "validation.csv": csv_text(results).encode("utf-8"),
        PLOT_FILE: plot(results),
    }


def percent(value: float | None, sign: bool = False) -> str:
    """An error to two digits, ``-`` where there is none."""
    return "-" if value is None else f"{value:+.2f}" if sign else f"{value:.2f}"


def aim(result: CaseResult) -> str:
    """What the case aims at."""
    names = {"mape": "MAPE", "each": "each row", "points": "each share"}
    unit = "points" if result.case.measure == "points" else "%"
    own = [f"{group} <= {most:g} {unit}" for group, most in result.case.group_targets.items()]
    return "; ".join([f"{names[result.case.measure]} <= {result.case.target:g} {unit}", *own])


def verdict(result: CaseResult) -> str:
    """Whether the aim is reached, and by how much it is missed."""
    if not result.limited:
        return "nothing predicted"
    if result.met:
        return "met"
    over = [f"{group} missed by {error - most:.2f}".strip() for group, (error, most) in result.limited.items()
            if error > most]  # fmt: skip
    missed = "; ".join(over) or f"met by {len(result.outcomes) - len(result.failed)} rows only"
    return f"{missed}, reported only" if result.case.reported_only else missed


def worst(errors: Errors | None) -> str:
    """The row that is furthest off, and by how much."""
    return "-" if errors is None else f"{errors.worst.row.id} ({errors.worst.error:+.2f})"


def peers(result: CaseResult) -> str:
    """What other tools are off on the same kind of truth."""
    return "; ".join(f"{tool}: {error}" for tool, error in result.case.peers) or "-"


def markdown(results: Sequence[CaseResult]) -> str:
    """The table of all cases, then each case with its groups, inferred values and rows without a prediction."""
    lines = [
        "# Predicted against measured",
        "",
        "Written by `npusim validate`. Errors are (predicted - measured) / measured in percent; of shares of cycles",
        "they are differences in percentage points. MAPE is the mean of their magnitudes. Every row is in",
        "[validation.csv](validation.csv); chips are in `configs/published`, cases in `validation`.",
        "",
        f"![Predicted against measured]({PLOT_FILE})",
        "",
        *_table(
            (
                "case",
                "rows",
                "mean error",
                "MAPE",
                "worst row",
                "aim",
                "",
                "errors of other tools on the same kind of truth",
            ),
            [
                (
                    r.case.name,
                    str(r.errors.rows if r.errors else 0),
                    percent(r.errors.mean if r.errors else None, sign=True),
                    percent(r.errors.mape if r.errors else None),
                    worst(r.errors),
                    aim(r),
                    verdict(r),
                    peers(r),
                )
                for r in results
            ],
        ),
    ]
    for r in results:
        lines += ["", f"## {r.case.name}", "", f"{r.case.title}. Source: {r.case.source}.", ""]
        lines += [f"- Chips: {', '.join(f'`{c}`' for c in r.case.chips)}"]
        chosen = ", ".join(f"`{v}`" for v in r.case.inferred) or "none"
        lines += [f"- Values chosen by looking at measured cycles: {chosen}"]
        lines += [f"- Not predicted: {o.row.id}: {o.problem}" for o in r.failed]
        groups = [
            (
                name,
                str(e.rows if e else 0),
                percent(e.mean if e else None, sign=True),
                percent(e.mape if e else None),
                worst(e),
            )
            for name, e in r.groups.items()
        ]
        lines += ["", *_table(("group", "rows", "mean error", "MAPE", "worst row"), groups)]
    return "\n".join(lines) + "\n"


def csv_text(results: Sequence[CaseResult]) -> str:
    """One row a measurement (RFC 4180); ``error`` in percent, or points for shares; empty without a prediction."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(("case", "group", "row", "unit", "measured", "predicted", "error"))
    for r in results:
        for o in r.outcomes:
            known = o.predicted is not None
            predicted = f"{o.predicted:.10g}" if known else ""
            error = f"{o.error:.4f}" if known else ""
            row = o.row
            writer.writerow((r.case.name, row.group, row.id, row.unit, f"{row.measured:.10g}", predicted, error))
    return buffer.getvalue()


def plot(results: Sequence[CaseResult]) -> bytes:
    """The plot of all rows with a prediction."""
    series: dict[str, list[Series]] = {"cycles": [], "percent of cycles": []}
    for r in results:
        errors = r.errors
        for unit, found in series.items():
            points = tuple(
                (o.row.measured, o.predicted) for o in r.outcomes if o.predicted is not None and o.row.unit == unit
            )
            if points and errors is not None:
                what = f"MAPE {errors.mape:.1f} %" if unit == "cycles" else f"mean {errors.mape:.1f} points off"
                found.append(Series(f"{r.case.name}: {what}, {len(points)} rows", points))
    return validation_plot(series["cycles"], series["percent of cycles"])


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]

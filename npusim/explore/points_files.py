"""What a sweep leaves behind: every point as CSV, and the Pareto plot of its first two objectives."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from npusim.explore.pareto import pareto
from npusim.explore.sweep import FIGURES, Number, Point
from npusim.report.losses import SHARES
from npusim.report.plots.pareto import Scale, Spot, pareto_plot
from npusim.report.text import NOT_MODELLED, count, energy, size, square

_TEXTS: dict[str, Callable[[int], str]] = {"energy": energy, "dram_bytes": size, "area": square}


def points_files(title: str, points: Sequence[Point], objectives: Sequence[str]) -> dict[str, bytes]:
    """``points.csv`` and ``pareto.png``, equal bytes for equal points."""
    return {
        "points.csv": csv_text(points, objectives).encode("utf-8"),
        "pareto.png": plot(title, points, objectives),
    }


def shares_of(points: Sequence[Point]) -> list[str]:
    """What multipliers' cycles went to in any point, in the order of SHARES."""
    return [s for s in SHARES if any(p.losses.get(s) for p in points)]


def figure_text(objective: str, number: Number | None) -> str:
    """A figure or a number of the chip, to three digits with its unit."""
    if number is None:
        return NOT_MODELLED
    if objective.endswith("size_bytes"):
        return size(int(number))
    if objective in FIGURES and objective != "cycles":
        return _TEXTS[objective](int(number))
    return f"{number:,}" if isinstance(number, int) else str(number)


def csv_text(points: Sequence[Point], objectives: Sequence[str]) -> str:
    """One row a point, in order (RFC 4180); figures are empty where there are none, and ``error`` says why.

    The ``share_..._fraction`` of a row sum to 1 but for rounding: what the cycles of the multipliers went to.
    """
    front = set(pareto(points, objectives))
    keys = list(points[0].overrides) if points else []
    chosen = [o for o in objectives if o not in FIGURES and o not in keys]
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")
    shares = shares_of(points)
    figures = ("cycles", "energy_femtojoules", "dram_bytes", "area_square_micrometres")
    fractions = [f"share_{s}_fraction" for s in shares]
    writer.writerow(("point", *keys, *chosen, *figures, *fractions, "front", "error"))
    for i, p in enumerate(points):
        values = (p.cycles, p.energy_femtojoules, p.dram_bytes, p.area_square_micrometres)
        missing = "" if p.errors else NOT_MODELLED
        writer.writerow((
            i,
            *(p.overrides[k] for k in keys),
            *(p.objectives.get(o, "") for o in chosen),
            *(missing if v is None else v for v in values),
            *(float(round(p.losses[s], 6)) if p.losses else "" for s in shares),
            str(i in front).lower(),
            " ".join(p.errors),
        ))  # fmt: skip
    return buffer.getvalue()


def plot(title: str, points: Sequence[Point], objectives: Sequence[str]) -> bytes:
    """The points by the first two objectives; with one objective alone, by it and their number."""
    front = set(pareto(points, objectives))
    done = [i for i, p in enumerate(points) if not p.errors]
    if len(objectives) > 1:
        x, y = objectives[:2]
        at = [(float(points[i].objectives[x]), float(points[i].objectives[y])) for i in done]
        scales = _scale(x), _scale(y)
    else:
        (y,) = objectives
        at = [(float(i), float(points[i].objectives[y])) for i in done]
        scales = Scale("point", str, chosen=True), _scale(y)
    spots = [Spot(f"#{i}", *xy, i in front) for i, xy in zip(done, at, strict=True)]
    failed = len(points) - len(done)
    facts = f"{len(points)} points, {len(front)} on the front of {', '.join(objectives)}"
    facts += f"; {failed} {'does' if failed == 1 else 'do'} not run" if failed else ""
    return pareto_plot(f"{title}: Pareto front", facts, *scales, spots, line=len(objectives) > 1)


def _scale(objective: str) -> Scale:
    if objective in FIGURES:
        labels = {"dram_bytes": "DRAM bytes"}
        return Scale(labels.get(objective, objective), _TEXTS.get(objective, count))
    return Scale(objective, size if objective.endswith("size_bytes") else count, chosen=True)

"""Sweeps: every point of a design space simulated, in one process or several, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from multiprocessing import get_context

from npusim.errors import InputError, UserError
from npusim.explore.space import Space, overrides_of
from npusim.hardware import Chip
from npusim.report.losses import losses
from npusim.report.result import Report
from npusim.session import Job, run

Number = int | Fraction
JobOf = Callable[[Mapping[str, str]], Job]
"""Makes the job of a point from its overrides. With several workers it must be picklable: a function of a module, or an
instance of a class of one."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a design space: its overrides and what came of them.

    A point that does not run has ``errors`` and the exit code of their kind, and None everywhere else. Energy and area
    are None, too, where the chip does not state them. ``objectives`` holds the number of each objective asked for,
    ``losses`` what the cycles of the chip's multipliers went to (see npusim.report.losses).
    """

    overrides: Mapping[str, str]
    cycles: int | None = None
    energy_femtojoules: int | None = None
    dram_bytes: int | None = None
    area_square_micrometres: int | None = None
    objectives: Mapping[str, Number] = field(default_factory=dict)
    losses: Mapping[str, Fraction] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    exit_code: int = 0


FIGURES: Mapping[str, Callable[[Point], int | None]] = {
    "cycles": lambda p: p.cycles,
    "energy": lambda p: p.energy_femtojoules,
    "dram_bytes": lambda p: p.dram_bytes,
    "area": lambda p: p.area_square_micrometres,
}
"""The figures of a point that can be objectives; any number of the chip, by its key, can be one as well."""


def sweep(
    job_of: JobOf, space: Space, objectives: Sequence[str], workers: int = 1, progress: Progress = lambda _: None
) -> tuple[Point, ...]:
    """Simulate every point of ``space``, bits off, in the order of ``overrides_of``.

    Each objective is a key of FIGURES or of a number of the chip, and less of it is better. Faults of the input
    (UserError: a value that breaks a rule, a chip that a layer does not fit) become a point's errors; npusim's own pass
    through. The points do not depend on ``workers``.
    """
    every = list(overrides_of(space))
    done: list[Point] = []
    if workers <= 1 or len(every) < 2:
        for overrides in every:
            progress(f"point {len(done) + 1} of {len(every)}")
            done.append(simulate_point(job_of, objectives, overrides))
        return tuple(done)
    with ProcessPoolExecutor(min(workers, len(every)), get_context("spawn")) as pool:
        for point in pool.map(partial(simulate_point, job_of, tuple(objectives)), every):
            done.append(point)
            progress(f"point {len(done)} of {len(every)}")
    return tuple(done)


def simulate_point(job_of: JobOf, objectives: Sequence[str], overrides: Mapping[str, str]) -> Point:
    """One point, without bits."""
    try:
        job = replace(job_of(overrides), bits="off")
        given = {o: chip_number(job.chip, o) for o in objectives if o not in FIGURES}
        result = run(job)
        point = _figures(overrides, result.report)
        numbers = {o: given[o] if o in given else _figure(point, o, job.chip) for o in objectives}
        return replace(point, objectives=numbers, losses=losses(result.report, result.plan, job.chip))
    except UserError as e:
        return Point(overrides, errors=e.problems, exit_code=e.exit_code)


def chip_number(chip: Chip, key: str) -> Number:
    """The number at ``key`` of a chip; list items by index, ``kind`` or ``name`` as in ``--set``.

    InputError for a key that there is not, or that is no number.
    """
    at: object = chip
    for step in key.split("."):
        at = _step(at, step)
    if isinstance(at, bool) or not isinstance(at, int | Fraction):
        raise InputError(
            f"objective {key!r}: is no number of chip {chip.name!r}; give {', '.join(FIGURES)}, or the key of a number "
            "as npusim show prints it, such as sram.size_bytes"
        )
    return at


def _step(at: object, step: str) -> object:
    """What ``step`` leads to; None if it leads nowhere."""
    if isinstance(at, tuple):
        if step.isdecimal():
            return at[int(step)] if len(step) < 10 and int(step) < len(at) else None
        named = [item for item in at if step in (getattr(item, "kind", None), getattr(item, "name", None))]
        return named[0] if len(named) == 1 else None
    if isinstance(at, Mapping):
        return at.get(step)
    return getattr(at, step, None) if step in getattr(at, "__dataclass_fields__", ()) else None


def _figures(overrides: Mapping[str, str], report: Report) -> Point:
    t = report.totals
    spent, parts = t.energy_femtojoules, t.area_square_micrometres
    return Point(
        overrides,
        cycles=t.cycles,
        energy_femtojoules=None if spent is None else sum(spent.values()),
        dram_bytes=t.dram_read_bytes + t.dram_write_bytes,
        area_square_micrometres=None if parts is None else sum(parts.values()),
    )


def _figure(point: Point, objective: str, chip: Chip) -> Number:
    figure = FIGURES[objective](point)
    if figure is None:
        section = "energy.femtojoules" if objective == "energy" else "energy.square_micrometres"
        raise InputError(
            f"objective {objective!r}: chip {chip.name!r} does not state what it takes; add {section} to the chip, "
            "or choose another objective"
        )
    return figure

"""Runs validation cases: finds them in a folder, predicts their rows, and sums up how far off the predictions are."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import yaml  # type: ignore[import-untyped]

from npusim.errors import InputError, UserError
from npusim.explore.validation import Case, Row

Progress = Callable[[str], None]

CASE_FILE = "case.py"


@dataclass(frozen=True)
class Outcome:
    """A row and what was predicted for it; ``predicted`` is None where ``problem`` says why there is no prediction."""

    row: Row
    predicted: float | None
    problem: str = ""

    @property
    def error(self) -> float:
        """Of a predicted row: in percent of the measured cycles, or in points where percent of cycles were measured."""
        assert self.predicted is not None, self.problem
        difference = self.predicted - self.row.measured
        return difference if self.row.unit == "percent of cycles" else 100 * difference / self.row.measured


@dataclass(frozen=True)
class Errors:
    """The errors of some rows: their mean, the mean and the largest of their magnitudes, and the row of the latter.

    ``mape`` of shares of cycles is the mean difference in points. Of several worst rows ``worst`` is the first.
    """

    rows: int
    mean: float
    mape: float
    largest: float
    worst: Outcome

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Errors | None:
        """The errors of the predicted rows among ``outcomes``; None if there are none."""
        done = [o for o in outcomes if o.predicted is not None]
        if not done:
            return None
        worst = max(done, key=lambda o: abs(o.error))
        total, magnitudes = sum(o.error for o in done), sum(abs(o.error) for o in done)
        return cls(len(done), total / len(done), magnitudes / len(done), abs(worst.error), worst)


@dataclass(frozen=True)
class CaseResult:
    """A case, and its rows with their predictions in the order of the file."""

    case: Case
    outcomes: tuple[Outcome, ...]

    @property
    def errors(self) -> Errors | None:
        """Of all rows; None if none could be predicted."""
        return Errors.of(self.outcomes)

    @property
    def groups(self) -> dict[str, Errors | None]:
        """Of the rows of each group, in the order in which the groups come."""
        names = dict.fromkeys(o.row.group for o in self.outcomes)
        return {g: Errors.of([o for o in self.outcomes if o.row.group == g]) for g in names}

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """Rows without a prediction."""
        return tuple(o for o in self.outcomes if o.predicted is None)

    @property
    def achieved(self) -> float | None:
        """What the target of the case limits; None without predictions."""
        return self.limited[""][0] if "" in self.limited else None

    @property
    def limited(self) -> dict[str, tuple[float, float]]:
        """What each target limits, and the target: the mean magnitude for ``mape``, else the largest error of a row.

        Under ``""`` of all groups without a target of their own, then of each that has one; without predictions none.
        """
        own = self.case.group_targets
        rest = Errors.of([o for o in self.outcomes if o.row.group not in own])
        limited = {"": (rest, self.case.target), **{g: (e, own[g]) for g, e in self.groups.items() if g in own}}
        mean = self.case.measure == "mape"
        return {g: (e.mape if mean else e.largest, most) for g, (e, most) in limited.items() if e is not None}

    @property
    def met(self) -> bool:
        """Every row is predicted, and every target is met."""
        limited = self.limited
        return bool(limited) and not self.failed and all(error <= most for error, most in limited.values())


def cases_folder() -> Path:
    """The folder ``validation`` beside the package; InputError where npusim is installed without it."""
    folder = Path(str(files("npusim"))).resolve().parent / "validation"
    if not folder.is_dir():
        raise InputError("npusim is installed without its validation cases; name their folder with --cases DIR")
    return folder


def load_cases(folder: Path, names: Sequence[str] = ()) -> list[Case]:
    """The cases in ``folder``, one in each subfolder that has a ``case.py``, or those called ``names``; sorted by name.

    InputError for a name that there is not, and for a ``case.py`` that does not hold a ``CASE`` of its folder's name.
    """
    known = {path.parent.name: path for path in folder.glob(f"*/{CASE_FILE}")}
    problems = []
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(known)) or 'none'}"
            problems.append(f"there is no validation case {name!r} in {folder}{hint}")
    if problems:
        raise InputError(problems)
    return [load_case(known[name]) for name in sorted(set(names or known))]


def load_case(path: Path) -> Case:
    """The ``CASE`` of a ``case.py``; InputError if it has none, or one that is not called like its folder."""
    case = getattr(_module(path), "CASE", None)
    if not isinstance(case, Case):
        raise InputError(f"{path}: has no CASE; a validation case is a module with CASE = Case(...)")
    if case.name != path.parent.name:
        raise InputError(f"{path}: CASE is called {case.name!r}; call it {path.parent.name!r} like its folder")
    return case


def _module(path: Path) -> ModuleType:
    name = f"npusim_validation_{path.parent.name}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a path that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def read_rows(case: Case, path: Path | None = None) -> list[Row]:
    """The rows of ``path``, by default of the case's own file.

    InputError if the file cannot be read, is not of the form that the case reads, or states two rows of one name or a
    measurement of no cycles.
    """
    path = path or case.rows_file
    try:
        rows = list(case.read(path))
    except UserError:
        raise
    except OSError as e:
        raise InputError(f"{path}: cannot read the rows of {case.name}: {e.strerror or e}") from e
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, yaml.YAMLError) as e:
        raise InputError(
            f"{path}: is not in the form of the rows of {case.name} ({type(e).__name__}: {e}); take {case.rows_file} "
            "as a model"
        ) from e
    twice = sorted({r.id for r in rows if sum(r.id == other.id for other in rows) > 1})
    problems = [f"{path}: the row {name!r} of {case.name} comes twice; give every row its own name" for name in twice]
    problems += [
        f"{path}: the row {r.id!r} of {case.name} states {r.measured} {r.unit}; errors are in percent of it, which "
        "takes more than 0"
        for r in rows
        if r.unit == "cycles" and not r.measured > 0
    ]
    if problems:
        raise InputError(problems)
    return rows


def run_case(case: Case, rows: Sequence[Row], workers: int = 1, progress: Progress = lambda _: None) -> CaseResult:
    """Predict ``rows``. A fault of the input (UserError) leaves its row without a prediction; others pass through.

    With ``workers`` > 1 as many processes share the rows; the result is the same.
    """
    outcomes = []
    if workers <= 1 or len(rows) < 2:
        for row in rows:
            progress(f"{case.name}: {row.id}")
            outcomes.append(_predict(case, row))
        return CaseResult(case, tuple(outcomes))
    path = case.rows_file.parent / CASE_FILE
    with ProcessPoolExecutor(workers, get_context("spawn"), _open, (path,)) as pool:
        for row, outcome in zip(rows, pool.map(_predict_opened, rows), strict=True):
            progress(f"{case.name}: {row.id}")
            outcomes.append(outcome)
    return CaseResult(case, tuple(outcomes))


def _predict(case: Case, row: Row) -> Outcome:
    try:
        return Outcome(row, case.predict(row))
    except UserError as e:
        return Outcome(row, None, " ".join(e.problems))


_opened: list[Case] = []
"""In a worker process: the case it was started for."""


def _open(path: Path) -> None:
    _opened[:] = [load_case(path)]


def _predict_opened(row: Row) -> Outcome:
    return _predict(_opened[0], row)

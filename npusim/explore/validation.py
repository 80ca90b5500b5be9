"""Predicted against measured: what a validation case is, and the errors of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Row:
    """One measurement.

    ``id`` is unique in its case; ``group`` names the part of the case it belongs to (a memory model, a network);
    ``measured`` is in ``unit``; ``facts`` are what the case's own reader found and its prediction needs.
    """

    id: str
    group: str
    measured: float
    unit: Literal["cycles", "percent of cycles"]
    facts: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Measurements others published, and how npusim predicts them.

    ``read`` turns a file in the published form into rows (so that further rows of the same form can be run);
    ``predict`` gives the prediction for one row, in the row's unit. ``measure`` says how the errors are summed up and
    ``target`` what is aimed at: ``mape`` (mean absolute percentage error of the rows), ``each`` (the largest absolute
    percentage error of a row), ``points`` (the largest difference in percentage points); ``group_targets`` are aims of
    single groups, which then do not count towards ``target``. ``inferred`` names the values
    of the chip that were chosen by looking at measured cycles, at most three. ``peers`` are (tool, its error) on the
    same kind of truth. ``reported_only``: the truth is itself a model, so a miss is no failure.
    """

    name: str
    title: str
    source: str
    chips: tuple[str, ...]
    rows_file: Path
    read: Callable[[Path], Sequence[Row]]
    predict: Callable[[Row], float]
    measure: Literal["mape", "each", "points"]
    target: float
    inferred: tuple[str, ...] = ()
    peers: tuple[tuple[str, str], ...] = ()
    reported_only: bool = False
    group_targets: Mapping[str, float] = field(default_factory=dict)

"""The contract of a compute unit: why it refuses a task, and pure cost functions of one box of work.

Cost functions work alike on Python integers (one tile) and on integer arrays (every candidate of a tile search).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from npusim.errors import InputError
from npusim.ir.work import UnitKind, Work
from npusim.numerics.types import DType

Count = Any
"""An int, or an array of ints with one entry per candidate."""


@dataclass(frozen=True)
class Task:
    """A piece of work as a unit sees it: the operator's name, the element types it reads, its iteration space.

    ``unrolling`` is which of the unit's unrollings its mapping demands (see :func:`chosen`); None: the fastest.
    """

    operator: str
    operands: tuple[DType, ...]
    accumulator: DType
    work: Work
    unrolling: str | int | None = None


class UnitSpec(ABC):
    """Parameters of one kind of compute unit; subclasses are frozen records read from the chip's YAML."""

    kind: str
    name: str | None
    serves: ClassVar[UnitKind]
    instances: int

    @property
    def label(self) -> str:
        """Its name in reports and mappings: as given, else what it serves (``mac``, ``popcount``, ``vector``)."""
        return self.name or self.serves.value

    @abstractmethod
    def refuses(self, task: Task) -> str | None:
        """Why this unit cannot do the task, naming what is missing and the remedy; None if it can."""

    @abstractmethod
    def cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """Cycles the unit is busy with a box of these extents, operands in SRAM and nothing else in its way."""

    @property
    def unrollings(self) -> tuple[str, ...]:
        """Names of the ways in which it can lay out a box's loops in space; none where there is nothing to tell."""
        return ()

    def unrolling(self, task: Task, extents: Sequence[int]) -> str | None:
        """The one of ``unrollings`` that it takes for a box; None if it has none."""
        return None

    def fill_cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """Those of ``cycles`` in which the unit fills or drains: all but the stream of operands; 0 if it is all."""
        return 0

    @property
    def overlapped(self) -> bool:
        """Whether a command starts while the one before drains, prepared while that one ran."""
        return False

    def reload_cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """Cycles to bring in what stays in the unit, beside the command before; on no unit but an overlapped one."""
        return 0

    def drain_cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """Cycles until a box is done once the next may start; on no unit but an overlapped one."""
        return 0

    @abstractmethod
    def passes(self, task: Task, extents: Sequence[Count]) -> tuple[Count, ...]:
        """How often each operand's tile is read from SRAM for a box of these extents."""

    def actions(self, task: Task, extents: Sequence[Count]) -> dict[str, Count]:
        """What the unit does for a box that costs energy: how often, by action (see ActionEnergies).

        InputError for a unit that does not say so: nothing is free by omission.
        """
        raise InputError(
            f"unit {self.label!r} ({self.kind}): its actions are not counted, so its energy is not modelled; "
            "set energy: null"
        )

    @abstractmethod
    def peak_per_cycle(self, task: Task) -> tuple[int, int]:
        """Most points of the task's space per cycle, as a fraction (numerator, denominator): 100 % utilisation."""


IM2COL = "im2col"
"""Begins the name of every unrolling that does all reduced loops as one."""


def chosen(unrollings: Sequence[str], choice: str | int | None) -> tuple[int, ...]:
    """Which of ``unrollings`` a person means by a name, a place in the list, or a word such as ``im2col`` for all that
    begin with it, before what they say in brackets.

    >>> chosen(("out_channel 8 x in_channel 8", "im2col (out_channel 8 x reduction 8)"), "im2col")
    (1,)
    """
    return tuple(i for i, name in enumerate(unrollings) if choice in (None, i, name, name.partition(" (")[0]))


def product(counts: Iterable[Count]) -> Count:
    """Product of ints or arrays, 1 for none.

    >>> product([2, 3, 7])
    42
    """
    total: Count = 1
    for c in counts:
        total = total * c
    return total


def largest(a: Count, b: Count) -> Count:
    """The larger of two counts, element-wise for arrays.

    >>> largest(3, 5)
    5
    """
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return max(a, b)


def smallest(a: Count, b: Count) -> Count:
    """The smaller of two counts, element-wise for arrays."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return min(a, b)

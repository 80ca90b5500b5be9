"""A systolic grid, register by register and cycle by cycle: what the closed forms of the MAC array must agree with.

It knows nothing of these forms. Operands enter at the left and at the top edge, row and column i a cycle later than the
ones before, and every cycle each element hands its two moving registers to its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Matrix = Sequence[Sequence[int]]
Place = tuple[int, int]


class Fold(NamedTuple):
    """A part of the work that fits the grid: its first row and column, the rows and columns it uses."""

    row: int
    column: int
    rows: int
    columns: int


class Operand(NamedTuple):
    """What a moving register holds: whose operand it is, its position in the stream, its value."""

    fold: Fold
    step: int
    value: int


@dataclass
class Trace:
    """What the simulation saw; cycles are counted from 1."""

    product: list[list[int]]
    last_multiplication: int = 0
    from_left: int = 0
    from_top: int = 0
    held: int = 0


def simulate(
    stationary: str, a: Matrix, b: Matrix, grid: tuple[int, int], overlapped: bool = False, reload_cycles: int = 0
) -> Trace:
    """a [M, K] times b [K, N] with ``stationary`` "output" or "weights" (b); ``from_top`` counts weights in the former.

    A fold begins ``reload_cycles`` after the one before has made its last multiplication or, if ``overlapped``, after
    the last operand of its stream has entered at the corner.
    """
    output = stationary == "output"
    m, k, n = len(a), len(b), len(b[0])
    length = k if output else m
    waiting = list(reversed(_cut((m, n) if output else (k, n), grid)))
    trace = Trace([[0] * n for _ in range(m)])
    right: dict[Place, Operand] = {}
    down: dict[Place, Operand] = {}
    weights: dict[Place, Fold] = {}
    begun: list[tuple[Fold, int]] = []
    cycle, begin, missing = 0, 1 + reload_cycles, 0

    while waiting or missing:
        cycle += 1
        if waiting and cycle == begin:
            fold = waiting.pop()
            begun.append((fold, cycle))
            missing += fold.rows * fold.columns * length
            begin += length + reload_cycles if overlapped else 0

        for fold, start in begun:
            for i in range(fold.rows):
                if 0 <= (step := cycle - start - i) < length:
                    value = a[fold.row + i][step] if output else a[step][fold.row + i]
                    _enter(right, (i, 0), Operand(fold, step, value))
                    trace.from_left += 1
            for j in range(fold.columns):
                if 0 <= (step := cycle - start - j) < length:
                    _enter(down, (0, j), Operand(fold, step, b[step][fold.column + j] if output else 0))
                    trace.from_top += 1
        begun = [(fold, start) for fold, start in begun if cycle < start + length + max(grid)]

        for place in right.keys() & down.keys():
            x, y = right[place], down[place]
            assert x[:2] == y[:2], "operands that meet belong together"
            fold, step, _ = x
            i, j = place
            missing -= 1
            trace.last_multiplication = cycle
            if output:
                trace.product[fold.row + i][fold.column + j] += x.value * y.value
                continue
            if weights.get(place) != fold:  # the shadow register takes over
                weights[place] = fold
                trace.held += 1
            down[place] = Operand(fold, step, y.value + x.value * b[fold.row + i][fold.column + j])
            if i + 1 == fold.rows:
                trace.product[step][fold.column + j] += down.pop(place).value

        right = {(i, j + 1): x for (i, j), x in right.items() if j + 1 < grid[1]}
        down = {(i + 1, j): y for (i, j), y in down.items() if i + 1 < grid[0]}
        if not overlapped and cycle >= begin and not missing:
            begin = cycle + 1 + reload_cycles
    return trace


def _cut(work: tuple[int, int], grid: tuple[int, int]) -> list[Fold]:
    return [
        Fold(i, j, min(grid[0], work[0] - i), min(grid[1], work[1] - j))
        for i in range(0, work[0], grid[0])
        for j in range(0, work[1], grid[1])
    ]


def _enter(registers: dict[Place, Operand], place: Place, operand: Operand) -> None:
    assert place not in registers, "two operands at one place"
    registers[place] = operand

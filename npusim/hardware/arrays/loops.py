"""What the kinds of arrays ask about a box: its extents by loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from npusim.hardware.base import Count, product
from npusim.ir.work import Dim, Loop

Extents = Sequence[tuple[Dim, Count]]
"""The dimensions of a task, each with how many of its points do real work."""

Stationary = Literal["weights", "ifmap", "output"]

KERNEL = frozenset({Loop.KERNEL_DEPTH, Loop.KERNEL_ROW, Loop.KERNEL_COLUMN})
POSITION = frozenset({Loop.BATCH, Loop.DEPTH, Loop.ROW, Loop.COLUMN})


def extent(pairs: Extents, *loops: Loop) -> Count:
    """Points of the dimensions that are one of ``loops``."""
    return product(n for d, n in pairs if d.loop in loops)

"""Half-open integer boxes: the only way npusim names a piece of a tensor or of an iteration space."""

from __future__ import annotations

from math import prod
from typing import NamedTuple


class Box(NamedTuple):
    """The index set ``lo[i] <= x[i] < hi[i]``; empty where some ``hi[i] <= lo[i]``.

    >>> Box((0, 2), (4, 5)).shape, Box((0, 2), (4, 5)).size
    ((4, 3), 12)
    """

    lo: tuple[int, ...]
    hi: tuple[int, ...]

    @staticmethod
    def whole(shape: tuple[int, ...]) -> Box:
        """The box of all indices of a tensor of ``shape``."""
        return Box((0,) * len(shape), shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent along each axis."""
        return tuple(max(0, b - a) for a, b in zip(self.lo, self.hi, strict=True))

    @property
    def size(self) -> int:
        """Number of indices."""
        return prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The numpy index of this box in an array that starts at the origin."""
        return tuple(slice(a, b) for a, b in zip(self.lo, self.hi, strict=True))

    def clip(self, shape: tuple[int, ...]) -> Box:
        """The part inside a tensor of ``shape``.

        >>> Box((-1, 3), (2, 9)).clip((4, 5))
        Box(lo=(0, 3), hi=(2, 5))
        """
        lo = tuple(min(max(a, 0), n) for a, n in zip(self.lo, shape, strict=True))
        hi = tuple(min(max(b, a), n) for a, b, n in zip(lo, self.hi, shape, strict=True))
        return Box(lo, hi)

    def relative_to(self, origin: tuple[int, ...]) -> Box:
        """The same indices counted from ``origin``."""
        return Box(
            tuple(a - o for a, o in zip(self.lo, origin, strict=True)),
            tuple(b - o for b, o in zip(self.hi, origin, strict=True)),
        )

    def intersects(self, other: Box) -> bool:
        """Whether some index is in both; a rank-0 box holds one index."""
        return all(
            a < d and c < b and a < b and c < d for a, b, c, d in zip(self.lo, self.hi, other.lo, other.hi, strict=True)
        )

    def contains(self, other: Box) -> bool:
        """Whether ``other`` lies within the bounds of this box; an empty one has to as well."""
        return all(a <= c and d <= b for a, b, c, d in zip(self.lo, self.hi, other.lo, other.hi, strict=True))

    def __str__(self) -> str:
        return "[" + ", ".join(f"{a}:{b}" for a, b in zip(self.lo, self.hi, strict=True)) + "]"

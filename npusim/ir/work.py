"""How an operator describes its work: an iteration space, and which part of each operand a box of it touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from npusim.ir.box import Box


class UnitKind(Enum):
    """The kind of hardware unit that can do a piece of work."""

    MAC = "mac"
    POPCOUNT = "popcount"
    VECTOR = "vector"


class Loop(Enum):
    """What a dimension of an iteration space means to a hardware unit that unrolls it.

    Convolutions, products and poolings all use these names, so a unit never needs an operator's own.
    """

    BATCH = "batch"
    ROW = "row"
    COLUMN = "column"
    DEPTH = "depth"
    CHANNEL = "channel"  # one channel at a time: depthwise, pooling, element-wise
    OUT_CHANNEL = "out_channel"
    IN_CHANNEL = "in_channel"
    KERNEL_ROW = "kernel_row"
    KERNEL_COLUMN = "kernel_column"
    KERNEL_DEPTH = "kernel_depth"
    BIT_PLANE = "bit_plane"  # passes of one-bit work that make up one multiply-accumulate of wider numbers


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension of an iteration space.

    ``reduce``: its points fold into the same outputs. ``splittable``: a tile may cover a part of it (where False,
    every tile covers it whole). ``every``: only one point in ``every`` does real work (the kernel dimensions of a
    strided transposed convolution).
    """

    name: str
    extent: int
    loop: Loop
    reduce: bool = False
    splittable: bool = True
    every: int = 1


@dataclass(frozen=True, slots=True)
class Axis:
    """The indices of one tensor axis that a box of the iteration space touches.

    Index = floor((offset + sum(coefficient * dim)) / divisor), and ``extra`` more indices behind it. ``whole`` >= 0:
    always 0..whole-1, whatever the box (a table, a gathered axis).
    """

    terms: tuple[tuple[str, int], ...] = ()
    offset: int = 0
    divisor: int = 1
    extra: int = 0
    whole: int = -1


def along(dim: str, coefficient: int = 1, offset: int = 0) -> Axis:
    """The axis ``offset + coefficient * dim``."""
    return Axis(((dim, coefficient),), offset)


@dataclass(frozen=True, slots=True)
class Access:
    """Which part of the operand at position ``operand`` a box touches, one :class:`Axis` per tensor axis.

    ``final``: the operand is needed only once the reduction is complete (a bias).
    """

    operand: int
    axes: tuple[Axis, ...]
    final: bool = False

    def footprint(self, index: Mapping[str, int], box: Box) -> Box:
        """Smallest box of operand indices touched, not clipped to the operand.

        ``index`` gives the position of each dimension in ``box``, which must not be empty.

        >>> rows = Access(0, (Axis((("oy", 2), ("ky", 1)), offset=-1),))
        >>> rows.footprint({"oy": 0, "ky": 1}, Box((0, 0), (2, 3)))
        Box(lo=(-1,), hi=(4,))
        """
        lo, hi = [], []
        for axis in self.axes:
            if axis.whole >= 0:
                lo.append(0)
                hi.append(axis.whole)
                continue
            a = b = axis.offset
            for name, c in axis.terms:
                i = index[name]
                first, last = box.lo[i], box.hi[i] - 1
                a += c * (first if c >= 0 else last)
                b += c * (last if c >= 0 else first)
            lo.append(a // axis.divisor)
            hi.append(b // axis.divisor + axis.extra + 1)
        return Box(tuple(lo), tuple(hi))


@dataclass(frozen=True)
class Work:
    """All that a mapper and a timing model may know about an operator.

    ``dims`` lists the dimensions; those with ``reduce`` are folded in the order listed, the last one fastest.
    ``write`` has one plain parallel dimension (coefficient 1) or a constant 0 per output axis.
    ``macs``: whether a point of the space is one multiply-accumulate (all bit planes of a point: one).
    """

    unit: UnitKind
    dims: tuple[Dim, ...]
    reads: tuple[Access, ...]
    write: Access
    macs: bool = False
    index: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {d.name: i for i, d in enumerate(self.dims)})

    @property
    def space(self) -> Box:
        """The whole iteration space."""
        return Box.whole(tuple(d.extent for d in self.dims))

    @property
    def points(self) -> int:
        """Number of points of the whole space, those on padding included (the dense MAC count of a convolution)."""
        return self.space.size

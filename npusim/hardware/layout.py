"""How tensors lie in DRAM where it is not row by row in the order of their axes: other orders, channels in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from npusim.config import record
from npusim.hardware.base import Count, largest, smallest
from npusim.ir.box import Box
from npusim.ir.work import Access, Loop, Work
from npusim.numerics.types import ceil_div

_FEATURES = frozenset({Loop.BATCH.value, Loop.DEPTH.value, Loop.ROW.value, Loop.COLUMN.value, Loop.CHANNEL.value})
_WEIGHTS = frozenset(loop.value for loop in Loop) - _FEATURES


@record
class Layouts:
    """The order of axes in DRAM, outermost first; null: the order of the tensor's own axes.

    ``channel/16`` stands for blocks of 16 channels, and a ``channel`` after it for the channels of a block. Axes that
    are not named come first. Only the cost of transfers depends on it: the bits are moved by index.
    """

    features: Annotated[
        tuple[str, ...] | None, Field(description="of feature maps: batch, depth, row, column, channel")
    ]
    weights: Annotated[
        tuple[str, ...] | None, Field(description="of constants: out_channel, in_channel, kernel_row, kernel_column")
    ]

    def __post_init__(self) -> None:
        for field, known in (("features", _FEATURES), ("weights", _WEIGHTS)):
            order: tuple[str, ...] = getattr(self, field) or ()
            for entry in order:
                name, block = _split(entry)
                if name not in known or block == 0:
                    raise ValueError(
                        f"{field}: {entry!r} is no axis; name one of {', '.join(sorted(known))}, blocks of it as in "
                        f"'{sorted(known)[0]}/16'"
                    )
                if order.count(entry) > 1 or sum(_split(e)[0] == name for e in order) > 2:
                    raise ValueError(f"{field}: {entry!r} is given twice; name each axis once, or its blocks and it")
                if block > 1 and name not in order[order.index(entry) :]:
                    raise ValueError(f"{field}: {entry!r} stands without {name!r} behind it; name that as well")

    def arrange(self, work: Work, access: Access, shape: tuple[int, ...], constant: bool) -> Arrangement:
        """How an operand (or the output) of ``shape``, accessed by ``access``, lies in DRAM."""
        order = self.weights if constant else self.features
        if order is None:
            return plain(shape)
        names = [_name(work, access, i, constant) for i in range(len(shape))]
        if any(n and names.count(n) > 1 for n in names):  # a product of two activations: its order is its own
            return plain(shape)
        listed = [(names.index(name), block) for name, block in map(_split, order) if name in names]
        first = [(i, 1) for i in range(len(shape)) if i not in {axis for axis, _ in listed}]
        blocks = {axis: block for axis, block in listed if block > 1}
        return Arrangement(shape, tuple(_Part(a, b, blocks.get(a, 0) if b == 1 else 0) for a, b in (*first, *listed)))


@dataclass(frozen=True, slots=True)
class _Part:
    """One axis in DRAM: blocks of ``block`` indices of a tensor's axis; or the indices ``within`` a block (0: all)."""

    axis: int
    block: int
    within: int


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A tensor of ``whole`` shape as its axes come in DRAM."""

    whole: tuple[int, ...]
    parts: tuple[_Part, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents in DRAM, the last block of an axis filled up."""
        return tuple(
            smallest(p.within, self.whole[p.axis]) if p.within else int(ceil_div(self.whole[p.axis], p.block))
            for p in self.parts
        )

    def extents(self, box: Sequence[Count]) -> tuple[Count, ...]:
        """Extents in DRAM of a box of these extents that starts with a block."""
        return tuple(
            smallest(p.within, box[p.axis]) if p.within else ceil_div(box[p.axis], p.block) for p in self.parts
        )

    def box(self, box: Box) -> Box:
        """The smallest box in DRAM that holds ``box``."""
        lo, hi = [], []
        for p in self.parts:
            a, b = box.lo[p.axis], box.hi[p.axis]
            if p.within:
                one = a // p.within == (b - 1) // p.within
                lo.append(a % p.within if one else 0)
                hi.append((b - 1) % p.within + 1 if one else smallest(p.within, self.whole[p.axis]))
            else:
                lo.append(a // p.block)
                hi.append(int(ceil_div(b, p.block)))
        return Box(tuple(lo), tuple(largest(a, b) for a, b in zip(lo, hi, strict=True)))


def plain(shape: tuple[int, ...]) -> Arrangement:
    """Row by row in the order of the axes."""
    return Arrangement(shape, tuple(_Part(i, 1, 0) for i in range(len(shape))))


def _split(entry: str) -> tuple[str, int]:
    """The axis and the block size of an entry; 0 for a block size that is none."""
    name, slash, size = entry.partition("/")
    return name, (int(size) if size.isdecimal() and int(size) > 1 else 0) if slash else 1


def _name(work: Work, access: Access, axis: int, constant: bool) -> str:
    """What an axis of an operand is called in a layout; empty for one that no loop walks along."""
    dims = [d for name, _ in access.axes[axis].terms for d in work.dims if d.name == name]
    walked = next((d for d in dims if not d.reduce), dims[0] if dims else None)
    if walked is None:
        return ""
    channel = walked.loop in (Loop.IN_CHANNEL, Loop.OUT_CHANNEL)
    return Loop.CHANNEL.value if channel and not constant else walked.loop.value

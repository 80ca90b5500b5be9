"""A region: one anchor operator and the operators fused behind it, executed tile by tile in one iteration space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from npusim.graph.graph import Graph, Node
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Work


@dataclass(frozen=True)
class RegionInput:
    """A value the region reads from memory, seen from the region's iteration space.

    ``uses`` lists (member position, operand position). ``final``: needed only by the last tile of a reduction.
    """

    value: str
    type: TensorType
    access: Access
    uses: tuple[tuple[int, int], ...]
    constant: bool


@dataclass(frozen=True)
class Region:
    """``members[0]`` is the anchor, whose iteration space is the region's; the others follow in dependency order.

    Every member's output has the shape of the region's output; only the last member's output leaves the region.
    """

    name: str
    members: tuple[Node, ...]
    inputs: tuple[RegionInput, ...]

    @property
    def anchor(self) -> Node:
        """The member that defines the iteration space."""
        return self.members[0]

    @property
    def work(self) -> Work:
        """The anchor's work."""
        return self.anchor.bound.work

    @property
    def output(self) -> str:
        """The value the region makes."""
        return self.members[-1].output

    @property
    def output_type(self) -> TensorType:
        """Its type."""
        return self.members[-1].bound.output

    @property
    def tail(self) -> tuple[Node, ...]:
        """The members behind the anchor."""
        return self.members[1:]

    @cached_property
    def own_dims(self) -> tuple[tuple[int, ...], ...]:
        """For each member, the output axis that each of its dimensions walks along (reduced dimensions: -1)."""
        table = []
        for m in self.members:
            axis_of = {t[0]: i for i, a in enumerate(m.bound.work.write.axes) for t in a.terms}
            table.append(tuple(axis_of.get(d.name, -1) for d in m.bound.work.dims))
        return tuple(table)

    def member_box(self, member: int, out: Box) -> Box:
        """The box of the member's own iteration space that makes ``out``; its reduction is whole."""
        dims = self.members[member].bound.work.dims
        axes = self.own_dims[member]
        return Box(
            tuple(out.lo[a] if a >= 0 else 0 for a in axes),
            tuple(out.hi[a] if a >= 0 else d.extent for a, d in zip(axes, dims, strict=True)),
        )


def make_region(graph: Graph, members: Sequence[Node]) -> Region:
    """Build a region from an anchor and its tail, in dependency order."""
    inside = {m.output for m in members}
    anchor = members[0]
    inputs: dict[tuple[str, tuple[Axis, ...]], RegionInput] = {}
    for position, m in enumerate(members):
        rename = {} if position == 0 else _to_anchor(anchor.bound.work, m.bound.work)
        for access in m.bound.work.reads:
            value = m.inputs[access.operand]
            if value in inside:
                continue
            axes = access.axes if position == 0 else tuple(_rename(a, rename) for a in access.axes)
            final = access.final or position > 0
            old = inputs.get((value, axes))
            inputs[value, axes] = RegionInput(
                value,
                graph.types[value],
                Access(-1, axes, final and (old is None or old.access.final)),
                (*(old.uses if old else ()), (position, access.operand)),
                value in graph.constants,
            )
    return Region(anchor.name, tuple(members), tuple(inputs.values()))


def _to_anchor(anchor: Work, member: Work) -> dict[str, str | None]:
    """The anchor's dimension for each dimension of a member; None where the anchor's output axis is constant."""
    table: dict[str, str | None] = {}
    for own, theirs in zip(member.write.axes, anchor.write.axes, strict=True):
        for name, _ in own.terms:
            table[name] = theirs.terms[0][0] if theirs.terms else None
    return table


def _rename(axis: Axis, table: dict[str, str | None]) -> Axis:
    terms = tuple((new, c) for name, c in axis.terms if (new := table[name]) is not None)
    return Axis(terms, axis.offset, axis.divisor, axis.extra, axis.whole)

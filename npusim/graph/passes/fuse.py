"""Group nodes into regions: an anchor with the element-wise work behind it, so that wide accumulators stay on chip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from npusim.graph.graph import Graph, Node
from npusim.graph.region import Region, make_region
from npusim.ir.box import Box
from npusim.ir.work import UnitKind, along


@dataclass(frozen=True)
class Fuse:
    """``tail_operators``: what may follow a MAC or popcount anchor (the chip's output pipeline).

    Regions grow backwards from their output: a producer joins if all its readers are inside, each reads it index by
    index, and it is no graph output. At most one member reduces; it becomes the anchor. Where a second reducing
    producer, or an operator the pipeline lacks, stands in the way, the chain behind that producer is cut where its
    values are narrowest, so that 32- and 48-bit tensors do not reach memory if a narrower one will do.
    ``enabled`` False makes every node a region of its own.
    """

    tail_operators: frozenset[str]
    enabled: bool = True

    def __call__(self, graph: Graph, nodes: Sequence[Node]) -> tuple[Region, ...]:
        """The regions of ``nodes`` (those of the graph that do work), in dependency order."""
        if not self.enabled:
            return tuple(make_region(graph, [n]) for n in nodes)
        order = {n.output: i for i, n in enumerate(nodes)}
        producer = {n.output: n for n in nodes}
        taken: set[str] = set()
        regions = []
        for root in reversed(nodes):
            if root.output in taken:
                continue
            members = self._grow(graph, root, producer, order, taken)
            taken.update(members)
            regions.append(make_region(graph, _anchor_first(sorted(members.values(), key=lambda n: order[n.output]))))
        return tuple(reversed(regions))

    def _grow(
        self, graph: Graph, root: Node, producer: Mapping[str, Node], order: Mapping[str, int], taken: set[str]
    ) -> dict[str, Node]:
        members = {root.output: root}
        if _reduces(root):
            return members
        reducing: set[str] = set()
        work = [root]
        while work:
            for value in work.pop().inputs:
                p = producer.get(value)
                if p is None or value in members or value in taken or not self._joinable(graph, value, members):
                    continue
                if _reduces(p):
                    reducing.add(value)
                else:
                    members[value] = p
                    work.append(p)
        for value in sorted(reducing, key=lambda v: order[v]):
            reducing.remove(value)
            anchor = producer[value]
            if reducing or not self._may_follow(anchor, members.values()):
                self._give_away(graph, anchor, members, reducing, root)
            else:
                members[value] = anchor
        return members

    def _joinable(self, graph: Graph, value: str, members: Mapping[str, Node]) -> bool:
        readers = graph.consumers[value]
        return (
            value not in graph.outputs
            and all(r.output in members for r in readers)
            and all(_reads_index_by_index(graph, r, value) for r in readers)
        )

    def _may_follow(self, anchor: Node, members: Iterable[Node]) -> bool:
        on_vector = anchor.bound.work.unit is UnitKind.VECTOR
        return on_vector or all(m.op.name in self.tail_operators for m in members)

    def _give_away(self, graph: Graph, anchor: Node, members: dict[str, Node], reducing: set[str], root: Node) -> None:
        """Take out of ``members`` the chain that ``anchor``'s own region can hold, up to its narrowest value.

        The chain ends before an operator that also reads what stays: a member, or one of the ``reducing`` left.
        """
        chain: list[Node] = [anchor]
        while True:
            readers = graph.consumers[chain[-1].output]
            if len(readers) != 1 or readers[0] is root or not self._may_follow(anchor, readers):
                break
            if any(v in members or v in reducing for v in readers[0].inputs if v != chain[-1].output):
                break
            chain.append(readers[0])
        bits = [n.bound.output.dtype.bits for n in chain]
        narrowest = max(i for i, b in enumerate(bits) if b == min(bits))
        for n in chain[1 : narrowest + 1]:
            del members[n.output]


def _reduces(n: Node) -> bool:
    return n.bound.work.unit is not UnitKind.VECTOR or any(d.reduce for d in n.bound.work.dims)


def _reads_index_by_index(graph: Graph, reader: Node, value: str) -> bool:
    work = reader.bound.work
    if graph.types[value].shape != reader.bound.output.shape or _reduces(reader):
        return False
    for access in work.reads:
        if reader.inputs[access.operand] != value:
            continue
        if access.footprint(work.index, work.space) != Box.whole(reader.bound.output.shape):
            return False  # a resize looks past the end even of an axis of size 1
        for axis, out, n in zip(access.axes, work.write.axes, reader.bound.output.shape, strict=True):
            if n > 1 and (len(out.terms) != 1 or axis != along(out.terms[0][0])):
                return False
    return True


def _anchor_first(members: list[Node]) -> list[Node]:
    anchor = next((m for m in members if _reduces(m)), members[0])
    return [anchor, *(m for m in members if m is not anchor)]

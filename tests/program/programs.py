"""Sound tile programs, from the mapper and by hand, and ways to change single commands of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import prod
from typing import Any

from npusim.graph.region import make_region
from npusim.ir.box import Box
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8
from npusim.program import Command, Compute, Load, Queue, Ref, Slot, Store, TileProgram
from tests.graph.networks import Network
from tests.properties.chains import convolution_chain, small_chip

LOADS, STORES, VECTOR = Queue("dma", 0), Queue("dma", 1), Queue("vector", 0)


# -- sound programs ------------------------------------------------------------------------------------------------


def tiles(**tile: int) -> LayerOptions:
    return LayerOptions(tile=tile, buffers=2)


@cache
def stored() -> TileProgram:
    """Two convolutions whose feature map passes through DRAM; the first splits its reduction."""
    layers = {
        "conv0": tiles(oy=6, ox=12, oc=16, ky=3, kx=3, ic=8),
        "conv1": tiles(oy=6, ox=6, oc=16, ky=3, kx=3, ic=16),
    }
    options = MappingOptions(residency=False, layers=layers)
    return map_graph(convolution_chain(0), small_chip(32 << 10), options).program


@cache
def resident() -> TileProgram:
    """The same with a feature map that stays in SRAM and is stored too."""
    graph = dataclasses.replace(convolution_chain(0), outputs=("y0", "y1"))
    layers = {
        "conv0": dataclasses.replace(tiles(oy=6, ox=12, oc=16, ky=3, kx=3, ic=8), resident=True),
        "conv1": tiles(oy=6, ox=6, oc=16, ky=3, kx=3, ic=16),
    }
    return map_graph(graph, small_chip(32 << 10), MappingOptions(layers=layers)).program


def reshaped(in_sram: bool) -> TileProgram:
    net = Network()
    narrow = net.rescale("narrow", net.conv("conv", net.input("x", 1, 8, 6, 4)))
    flat = net.apply("flat", "reshape", narrow, new_shape=(8, 24))
    graph = net.finish(net.table("out", flat))
    layers = {
        "conv": dataclasses.replace(tiles(oy=4, ox=6, oc=4, ky=1, kx=1, ic=4), resident=in_sram),
        "out": tiles(d0=4, d1=24),
    }
    return map_graph(graph, small_chip(), MappingOptions(residency=in_sram, layers=layers)).program


@cache
def viewed() -> TileProgram:
    """A convolution (MAC array), a reshape that is a view of its resident output, a table (vector unit)."""
    return reshaped(in_sram=True)


@cache
def aliased() -> TileProgram:
    """The same through DRAM, where both values share a buffer."""
    return reshaped(in_sram=False)


@cache
def raw() -> TileProgram:
    """A convolution that leaves its int32 accumulators, in two steps a tile."""
    net = Network()
    graph = net.finish(net.conv("conv", net.input("x", 1, 4, 4, 16)))
    layers = {"conv": tiles(oy=2, ox=4, oc=4, ky=1, kx=1, ic=8)}
    return map_graph(graph, small_chip(), MappingOptions(layers=layers)).program


def by_hand(shape: tuple[int, ...], slots: Sequence[Slot], commands: Sequence[Command]) -> TileProgram:
    """A program for one layer: x of ``shape`` clamped to y."""
    net = Network()
    graph = net.finish(net.clamp("y", net.input("x", *shape)))
    home = {"x": "x", "y": "y"}
    end = max(s.offset + s.nbytes for s in slots)
    return TileProgram(graph, (make_region(graph, graph.nodes),), home, end, tuple(slots), tuple(commands))


def slot(index: int, offset: int, value: str, *shape: int, whole: bool = False) -> Slot:
    return Slot(index, offset, prod(shape), value, I8, shape, shape, whole, index)


def ref(index: int, lo: int, hi: int) -> Ref:
    return Ref(index, Box((lo,), (hi,)))


def halves() -> TileProgram:
    """Two tiles, each with slots of its own."""
    lower, upper = Box((0,), (4,)), Box((4,), (8,))
    return by_hand(
        (8,),
        [slot(0, 0, "x", 4), slot(1, 4, "x", 4), slot(2, 8, "y", 4), slot(3, 12, "y", 4)],
        [
            Load(0, LOADS, 0, (), (ref(0, 0, 4),)),
            Load(1, LOADS, 0, (), (ref(1, 4, 8),)),
            Compute(2, VECTOR, 0, (0,), lower, (ref(0, 0, 4),), None, ref(2, 0, 4), True, True),
            Store(3, STORES, 0, (2,), ref(2, 0, 4)),
            Compute(4, VECTOR, 0, (1,), upper, (ref(1, 4, 8),), None, ref(3, 4, 8), True, True),
            Store(5, STORES, 0, (4,), ref(3, 4, 8)),
        ],
    )


def reloaded(deps: tuple[int, ...] = (1,), lower: tuple[int, int] = (0, 4), queue: Queue = STORES) -> TileProgram:
    """The second tile reads its half of a slot for all of x, which lies over the slot of the first tile.

    ``deps`` and ``queue`` are those of the second load into it; the first one brings ``lower``.
    """
    return by_hand(
        (8,),
        [slot(0, 0, "x", 4), slot(1, 0, "x", 8, whole=True), slot(2, 8, "y", 4), slot(3, 12, "y", 4)],
        [
            Load(0, LOADS, 0, (), (ref(0, 0, 4),)),
            Compute(1, VECTOR, 0, (0,), Box((0,), (4,)), (ref(0, 0, 4),), None, ref(2, 0, 4), True, True),
            Load(2, LOADS, 0, (1,), (ref(1, *lower),)),
            Load(3, queue, 0, deps, (ref(1, 4, 8),)),
            Compute(4, VECTOR, 0, (2, 3), Box((4,), (8,)), (ref(1, 4, 8),), None, ref(3, 4, 8), True, True),
            Store(5, STORES, 0, (1,), ref(2, 0, 4)),
            Store(6, STORES, 0, (4,), ref(3, 4, 8)),
        ],
    )


def boxed(boxes: Sequence[Box]) -> TileProgram:
    """x[3, 3] in tiles of these boxes."""
    slots: list[Slot] = []
    commands: list[Command] = []
    for i, box in enumerate(boxes):
        slots += [slot(2 * i, 18 * i, "x", *box.shape), slot(2 * i + 1, 18 * i + 9, "y", *box.shape)]
        x, y = Ref(2 * i, box), Ref(2 * i + 1, box)
        commands += [
            Load(3 * i, LOADS, 0, (), (x,)),
            Compute(3 * i + 1, VECTOR, 0, (3 * i,), box, (x,), None, y, True, True),
            Store(3 * i + 2, STORES, 0, (3 * i + 1,), y),
        ]
    return by_hand((3, 3), slots, commands)


PROGRAMS: tuple[Callable[[], TileProgram], ...] = (stored, resident, viewed, aliased, raw, halves, reloaded)


# -- how they are broken -------------------------------------------------------------------------------------------


def put(program: TileProgram, *commands: Command) -> TileProgram:
    """The program with these commands in the place of those of their ids."""
    changed = {c.id: c for c in commands}
    return dataclasses.replace(program, commands=tuple(changed.get(c.id, c) for c in program))


def arranged(program: TileProgram, commands: Iterable[Command]) -> TileProgram:
    """The program of these of its commands in this order, numbered anew; dependencies on later or lost ones go."""
    number: dict[int, int] = {}
    made: list[Command] = []
    for i, c in enumerate(commands):
        made.append(c._replace(id=i, deps=tuple(sorted(number[d] for d in c.deps if d in number))))
        number.setdefault(c.id, i)
    return dataclasses.replace(program, commands=tuple(made))


def without(program: TileProgram, *commands: Command) -> TileProgram:
    return arranged(program, [c for c in program if c not in commands])


def changed_slot(program: TileProgram, index: int, **changes: Any) -> TileProgram:
    slots = tuple(dataclasses.replace(s, **changes) if s.index == index else s for s in program.slots)
    return dataclasses.replace(program, slots=slots)


def loads(program: TileProgram, layer: int = 0) -> list[Load]:
    return [c for c in program if isinstance(c, Load) and c.layer == layer]


def stores(program: TileProgram, layer: int = 0) -> list[Store]:
    return [c for c in program if isinstance(c, Store) and c.layer == layer]


def computes(program: TileProgram, layer: int = 0) -> list[Compute]:
    return [c for c in program if isinstance(c, Compute) and c.layer == layer]


def shifted(box: Box, axis: int, by: int = 1) -> Box:
    lo, hi = list(box.lo), list(box.hi)
    lo[axis], hi[axis] = lo[axis] + by, hi[axis] + by
    return Box(tuple(lo), tuple(hi))


def operand(c: Compute, which: int, new: Ref | None) -> Compute:
    return c._replace(operands=(*c.operands[:which], new, *c.operands[which + 1 :]))


def some_ref(c: Compute, which: int = 0) -> Ref:
    found = c.operands[which]
    assert found is not None
    return found

"""Accesses against the indices that every single point of a box touches."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ir.box import Box
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along

NAMES = ("a", "b", "c")
INDEX = {name: i for i, name in enumerate(NAMES)}


def touched(axis: Axis, point: dict[str, int]) -> set[int]:
    """Indices of one tensor axis that one point of the space touches."""
    if axis.whole >= 0:
        return set(range(axis.whole))
    first = (axis.offset + sum(c * point[name] for name, c in axis.terms)) // axis.divisor
    return set(range(first, first + axis.extra + 1))


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    used = draw(st.permutations(NAMES))[: draw(st.integers(0, 3))]
    terms = tuple((name, draw(st.integers(-3, 3))) for name in used)
    whole = draw(st.one_of(st.just(-1), st.just(-1), st.integers(1, 5)))
    return Axis(terms, draw(st.integers(-9, 9)), draw(st.integers(1, 4)), draw(st.integers(0, 2)), whole)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    lo = tuple(draw(st.integers(0, 4)) for _ in NAMES)
    return Box(lo, tuple(a + draw(st.integers(1, 4)) for a in lo))


@settings(deadline=None, max_examples=300)
@given(st.lists(axes(), max_size=3).map(tuple), boxes())
def test_the_footprint_is_the_smallest_box_of_all_indices_touched(axes: tuple[Axis, ...], box: Box) -> None:
    points = [
        dict(zip(NAMES, p, strict=True)) for p in product(*(range(a, b) for a, b in zip(box.lo, box.hi, strict=True)))
    ]
    footprint = Access(0, axes).footprint(INDEX, box)
    seen = [set().union(*(touched(axis, p) for p in points)) for axis in axes]
    assert footprint == Box(tuple(min(s) for s in seen), tuple(max(s) + 1 for s in seen))


def test_footprints_by_hand() -> None:
    """Rows 2..3 of a window of 3 taps a stride of 2 apart, dilated by 2, padded by 1; the kernel read backwards."""
    window = Axis((("a", 2), ("b", 2)), offset=-1)
    backwards = along("b", -1, 2)
    box = Box((2, 0, 0), (4, 3, 1))
    assert Access(0, (window, backwards)).footprint(INDEX, box) == Box((3, 0), (10, 3))
    assert Access(0, (Axis((("a", 1),), divisor=3),)).footprint(INDEX, Box((5, 0, 0), (7, 1, 1))) == Box((1,), (3,))
    assert Access(0, (Axis((("a", -1),), divisor=3),)).footprint(INDEX, Box((1, 0, 0), (4, 1, 1))) == Box((-1,), (0,))
    assert Access(0, (Axis(extra=1), Axis(whole=256))).footprint(INDEX, box) == Box((0, 0), (2, 256))
    assert Access(0, ()).footprint(INDEX, box) == Box((), ())


def test_an_axis_along_a_dimension() -> None:
    assert along("a") == Axis((("a", 1),))
    assert along("a", -2, 7) == Axis((("a", -2),), offset=7)


def test_the_space_of_a_work() -> None:
    dims = (Dim("h", 3, Loop.ROW), Dim("w", 5, Loop.OUT_CHANNEL), Dim("c", 7, Loop.IN_CHANNEL, reduce=True, every=2))
    work = Work(UnitKind.MAC, dims, (Access(0, (along("h"), along("c"))),), Access(-1, (along("h"), along("w"))))
    assert work.index == {"h": 0, "w": 1, "c": 2}
    assert work.space == Box((0, 0, 0), (3, 5, 7))
    assert work.points == 105
    assert work == Work(UnitKind.MAC, dims, work.reads, work.write)
    assert work.write.footprint(work.index, work.space) == Box((0, 0), (3, 5))

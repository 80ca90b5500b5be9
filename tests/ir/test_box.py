"""Boxes against the sets of indices that they stand for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.ir.box import Box

coordinates = st.integers(-4, 6)


def indices(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(a, b) for a, b in zip(box.lo, box.hi, strict=True))))


def box_of(rank: int) -> st.SearchStrategy[Box]:
    corner = st.tuples(*[coordinates] * rank)
    return st.builds(Box, corner, corner)


pairs = st.integers(0, 3).flatmap(lambda rank: st.tuples(box_of(rank), box_of(rank)))
ranked = st.integers(0, 3).flatmap(lambda rank: st.tuples(box_of(rank), st.tuples(*[st.integers(0, 5)] * rank)))


@given(pairs)
def test_shape_and_size_count_the_indices(boxes: tuple[Box, Box]) -> None:
    box, _ = boxes
    inside = indices(box)
    assert box.size == len(inside)
    assert len(box.shape) == len(box.lo)
    if inside:
        assert box.shape == tuple(len(set(axis)) for axis in zip(*inside, strict=True))


@given(pairs)
def test_two_boxes_intersect_where_an_index_is_in_both(boxes: tuple[Box, Box]) -> None:
    a, b = boxes
    assert a.intersects(b) == b.intersects(a) == bool(indices(a) & indices(b))


@given(pairs)
def test_a_box_contains_the_indices_of_another(boxes: tuple[Box, Box]) -> None:
    a, b = boxes
    if b.size:
        assert a.contains(b) == (indices(b) <= indices(a))
    assert a.contains(a)


def test_an_empty_box_outside_the_bounds_is_not_contained() -> None:
    assert Box((0,), (4,)).contains(Box((4,), (4,)))
    assert not Box((0,), (4,)).contains(Box((9,), (9,)))


@given(ranked)
def test_clipping_keeps_the_indices_in_the_tensor(case: tuple[Box, tuple[int, ...]]) -> None:
    box, shape = case
    clipped = box.clip(shape)
    assert indices(clipped) == indices(box) & indices(Box.whole(shape))
    assert Box.whole(shape).contains(clipped)
    assert clipped.clip(shape) == clipped


@given(ranked)
def test_slices_pick_the_indices_out_of_an_array(case: tuple[Box, tuple[int, ...]]) -> None:
    box, shape = case
    marked = np.zeros(shape, np.bool_)
    clipped = box.clip(shape)
    marked[clipped.slices] = True
    assert {tuple(int(i) for i in at) for at in np.argwhere(marked)} == indices(clipped)


@given(ranked)
def test_counting_from_another_origin(case: tuple[Box, tuple[int, ...]]) -> None:
    box, origin = case
    moved = {tuple(i - o for i, o in zip(index, origin, strict=True)) for index in indices(box)}
    assert indices(box.relative_to(origin)) == moved


def test_a_box_of_rank_0_holds_one_index() -> None:
    scalar = Box.whole(())
    assert (scalar.shape, scalar.size, scalar.slices, scalar.clip(())) == ((), 1, (), scalar)
    assert scalar.intersects(scalar) and scalar.contains(scalar)
    assert str(scalar) == "[]"


def test_text_and_whole() -> None:
    assert str(Box((0, -2), (3, 5))) == "[0:3, -2:5]"
    assert Box.whole((2, 3)) == Box((0, 0), (2, 3))


def test_boxes_of_two_ranks_do_not_mix() -> None:
    for method in (Box.intersects, Box.contains):
        with pytest.raises(ValueError, match="zip"):
            method(Box.whole((2,)), Box.whole((2, 3)))
    with pytest.raises(ValueError, match="zip"):
        Box.whole((2,)).clip((2, 3))

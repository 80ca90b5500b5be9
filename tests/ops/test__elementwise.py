"""Tests of the parts that element-wise operators share."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import UnpredictableError
from npusim.ir.box import Box
from npusim.numerics.types import I32
from npusim.ops._elementwise import Place, pieces


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 24, 59, 60, 1000])
@pytest.mark.parametrize("box", [Box((), ()), Box((3,), (10,)), Box((0, 5), (4, 12)), Box((1, 0, 2), (4, 4, 7))])
def test_pieces_cover_a_box_once_in_index_order(box: Box, limit: int) -> None:
    order = np.full(box.shape, -1)
    count = 0
    for piece in pieces(box, limit):
        assert box.contains(piece) and 1 <= piece.size <= limit
        at = piece.relative_to(box.lo).slices
        assert (order[at] == -1).all()
        order[at] = np.arange(count, count + piece.size).reshape(piece.shape)
        count += piece.size
    assert order.ravel().tolist() == list(range(box.size))


def test_a_place_names_the_first_broken_element_and_its_value() -> None:
    place = Place("layer 'x': op", (10, 20))
    place.require(np.zeros((2, 2), bool), "never", np.zeros((2, 2)))
    broken = np.array([[False, False], [True, True]])
    message = r"^layer 'x': op: must be small, got 8 at output index \[11, 20\]; TOSA leaves the result unpredictable$"
    with pytest.raises(UnpredictableError, match=message):
        place.require(broken, "must be small", np.array([[7], [8]]))


def test_a_place_checks_ranges() -> None:
    place = Place("op", (5,))
    assert place.require_range(np.array([2**31 - 1, -(2**31)]), I32, "it").dtype == np.int32
    message = r"^op: it must fit i32 \(-2147483648\.\.2147483647\), got -2147483649 at output index \[6\]"
    with pytest.raises(UnpredictableError, match=message):
        place.require_range(np.array([0, -(2**31) - 1]), I32, "it")

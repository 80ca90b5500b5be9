"""The modes of an unrolled array by name; its cycles are in units/test_mac_array.py."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.hardware.arrays.unrolled import LoopName, Unrolled
from npusim.hardware.base import chosen
from npusim.ir.work import Dim
from tests.hardware.tasks import convolution_task, extents

Mode = dict[LoopName, int]

DENSE: Mode = {"out_channel": 8, "in_channel": 8}
IM2COL: Mode = {"reduction": 8, "out_channel": 8}
TASK = convolution_task((1, 4, 4), 16, (3, 3), 3)


def array(*modes: Mode) -> Unrolled:
    return Unrolled(kind="unrolled", unrollings=modes, stationary="weights")


def pairs(*counts: object) -> list[tuple[Dim, object]]:
    return list(zip(TASK.work.dims, counts or extents(TASK), strict=True))


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        (DENSE, "out_channel 8 x in_channel 8"),
        ({"in_channel": 8, "out_channel": 8}, "out_channel 8 x in_channel 8"),
        ({"kernel_column": 4, "row": 1, "channel": 2}, "row 1 x channel 2 x kernel_column 4"),
        (IM2COL, "im2col (out_channel 8 x reduction 8)"),
        ({"position": 4}, "position 4"),
        ({}, "nothing"),
    ],
)
def test_a_name_lists_loops_in_one_order(mode: Mode, name: str) -> None:
    assert array(mode).names == (name,)


def test_a_choice_leaves_only_its_modes() -> None:
    both = array(DENSE, IM2COL)
    dense, im2col = both.names
    for choice in (dense, 0):
        assert both.steps(pairs(), choice) == array(DENSE).steps(pairs())
        assert both.fastest(pairs(), choice) == dense
    for choice in (im2col, 1, "im2col"):
        assert both.steps(pairs(), choice) == array(IM2COL).steps(pairs())
        assert both.fastest(pairs(), choice) == im2col
    assert array(DENSE).steps(pairs())[0] == 16 * 2 * 9  # positions, output channels by 8, taps
    assert both.steps(pairs())[0] == array(IM2COL).steps(pairs())[0] == 16 * 2 * 4  # 27 taps by 8
    assert both.fastest(pairs()) == im2col


def test_of_equals_the_first_is_the_fastest() -> None:
    wide = pairs(1, 4, 4, 16, 3, 3, 8)
    assert array(DENSE, IM2COL).fastest(wide) == "out_channel 8 x in_channel 8"
    assert array(IM2COL, DENSE).fastest(wide) == "im2col (out_channel 8 x reduction 8)"


def test_a_choice_holds_for_every_candidate() -> None:
    many = pairs(*(np.array([n, 1]) for n in extents(TASK)))
    assert array(DENSE, IM2COL).steps(many, 0)[0].tolist() == [16 * 2 * 9, 1]
    assert array(DENSE, IM2COL).steps(many)[0].tolist() == [16 * 2 * 4, 1]


def test_what_a_choice_means() -> None:
    names = array(DENSE, IM2COL, {"reduction": 64}).names
    assert chosen(names, None) == (0, 1, 2)
    assert chosen(names, "im2col") == (1, 2)
    assert chosen(names, names[2]) == chosen(names, 2) == (2,)
    assert chosen(names, 3) == chosen(names, "im2") == chosen(names, "") == ()

"""The block-stationary array: cycles counted on paper and instruction by instruction, of ints and of arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.hardware import Task
from npusim.hardware.arrays.block_stationary import BlockStationary
from npusim.hardware.base import Count
from tests.hardware.tasks import convolution_task, extents, product_task


def array(**changes: int) -> BlockStationary:
    values = {"rows": 16, "columns": 16, "block_positions": 16, "min_block_cycles": 4, "instruction_cycles": 1}
    return BlockStationary(kind="block_stationary", **{**values, **changes})


def cycles(a: BlockStationary, task: Task, box: Sequence[Count] | None = None) -> Count:
    return a.cycles(list(zip(task.work.dims, box or extents(task), strict=True)))


def instructions(a: BlockStationary, lines: int, length: int) -> int:
    """One fold, instruction by instruction: blocks of each line in turn, the last stretched by the next weights."""
    blocks = [min(a.block_positions, length - at) for _ in range(lines) for at in range(0, length, a.block_positions)]
    streamed = [max(b, a.min_block_cycles) for b in blocks]
    streamed[-1] = max(streamed[-1], a.rows)
    return max(sum(streamed), len(blocks) * a.instruction_cycles)


@pytest.mark.parametrize(
    ("rows", "columns", "per_fold"),
    [
        ((3, 6), {}, 6 + 6 + 16),  # three lines of 6, the last of which waits for the next weights
        ((4, 4), {}, 3 * 4 + 16),
        ((14, 2), {}, 13 * 4 + 16),  # lines of 2 take 4
        ((1, 40), {}, 16 + 16 + 16),  # blocks of 16, 16 and 8, the last stretched
        ((2, 28), {}, 16 + 12 + 16 + 16),
        ((4, 4), {"instruction_cycles": 8}, 4 * 8),
        ((3, 6), {"instruction_cycles": 8}, 28),
        ((1, 1), {"rows": 3}, 4),  # fewer rows of weights than a block takes anyway
    ],
)
def test_a_fold_counted_on_paper(rows: tuple[int, int], columns: dict[str, int], per_fold: int) -> None:
    a = array(**columns)
    assert cycles(a, convolution_task((1, *rows), 1, (1, 1), 1)) == per_fold == instructions(a, *rows)


def test_folds_are_taps_and_blocks_of_channels() -> None:
    one = cycles(array(), convolution_task((1, 2, 16), 1, (1, 1), 1))
    assert cycles(array(), convolution_task((1, 2, 16), 33, (3, 2), 17)) == 3 * 6 * 2 * one


def test_the_rows_of_a_matrix_are_one_line() -> None:
    assert cycles(array(), product_task(128, 48, 32)) == 128 * 3 * 2
    assert cycles(array(), product_task(1, 16, 16)) == 16


@given(
    st.integers(1, 6), st.integers(1, 40), st.integers(1, 9), st.integers(1, 7), st.integers(1, 5), st.integers(1, 12)
)
def test_a_fold_is_what_its_instructions_take(
    lines: int, length: int, rows: int, block: int, least: int, apart: int
) -> None:
    a = array(rows=rows, block_positions=block, min_block_cycles=least, instruction_cycles=apart)
    assert cycles(a, convolution_task((1, lines, length), 1, (1, 1), 1)) == instructions(a, lines, length)


def test_arrays_of_candidates_give_what_ints_give() -> None:
    task = convolution_task((2, 30, 30), 40, (3, 3), 50)
    boxes = [(1, 3, 7, 16, 3, 3, 50), (2, 30, 30, 40, 1, 3, 20), (1, 1, 1, 1, 1, 1, 1)]
    columns = [np.asarray(c) for c in zip(*boxes, strict=True)]
    a = array(instruction_cycles=8)
    assert cycles(a, task, columns).tolist() == [cycles(a, task, box) for box in boxes]


def test_the_ifmap_is_read_once_a_block_of_output_channels() -> None:
    task = convolution_task((1, 4, 4), 40, (3, 3), 8)
    assert array().passes(task, list(zip(task.work.dims, extents(task), strict=True))) == (3, 1, 1)
    assert array().macs == 256


def test_its_name_says_what_lies_on_rows_and_columns() -> None:
    assert array(rows=4, columns=8).names == ("in_channel on 4 rows, out_channel on 8 columns",)

"""A systolic grid whose tiles follow each other without a gap: what a tile occupies, its reload, its drain."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.errors import ConfigError
from npusim.frontends.chip import load_chip
from npusim.hardware import UnitSpec
from npusim.hardware.units.mac_array import MacArray
from tests.hardware.tasks import extents, product_task


def grid(*overrides: str) -> MacArray:
    """4 rows x 3 columns, weights stationary, 4 cycles to reload them, 2 of pipeline."""
    array = ["rows=4", "columns=3", "stationary=weights", "overlapped_folds=true", "overlapped_commands=true",
             "reload_cycles=4"]  # fmt: skip
    keys = [f"units.mac_array.array.{value}" for value in [*array, *overrides]]
    unit = load_chip("server", [*keys, "units.mac_array.pipeline_cycles=2"]).units[0]
    assert isinstance(unit, MacArray)
    return unit


def costs(unit: UnitSpec, m: int, k: int, n: int) -> tuple[int, int, int]:
    """(occupied, reload, drain) cycles of [m, k] times [k, n]."""
    task = product_task(m, k, n)
    of = extents(task)
    return tuple(int(f(task, of)) for f in (unit.cycles, unit.reload_cycles, unit.drain_cycles))  # type: ignore[return-value]


def test_a_tile_of_one_fold_occupies_the_grid_for_its_stream() -> None:
    """Rows and columns of a tile are skewed by 4 - 1 and 3 - 1 cycles, which the next tile does not wait for."""
    assert costs(grid(), 10, 4, 3) == (10, 4, 3 + 2 + 2)
    assert costs(grid(), 10, 2, 1) == (10, 4, 1 + 0 + 2)


def test_folds_follow_each_other_after_the_longer_of_stream_and_reload() -> None:
    assert costs(grid(), 10, 8, 6) == (4 * 10, 4, 7)
    assert costs(grid(), 3, 8, 6) == (3 * 4 + 3, 4, 7)


def test_stream_reload_and_drain_add_up_to_what_a_tile_takes_alone() -> None:
    """Without overlap of tiles: the reload of every fold is waited for, and the skew once."""
    alone = grid("overlapped_commands=false")
    assert costs(alone, 10, 4, 3) == (4 + 10 + 3 + 2 + 2, 0, 0)
    assert sum(costs(grid(), 10, 4, 3)) == costs(alone, 10, 4, 3)[0]
    assert not alone.overlapped and grid().overlapped


def test_counts_of_many_candidates_at_once() -> None:
    task, unit = product_task(10, 8, 6), grid()
    sizes = [(10, 6, 8), (3, 6, 8), (7, 1, 5), (1, 4, 4)]
    columns = [np.asarray(c, np.int64) for c in zip(*sizes, strict=True)]
    for count in (unit.cycles, unit.drain_cycles):
        np.testing.assert_array_equal(count(task, columns), [count(task, size) for size in sizes])


def test_other_units_do_not_overlap() -> None:
    for unit in load_chip("edge").units:
        assert not unit.overlapped
        task = product_task(10, 4, 3)
        assert unit.reload_cycles(task, extents(task)) == unit.drain_cycles(task, extents(task)) == 0


def test_tiles_follow_each_other_only_where_folds_do() -> None:
    with pytest.raises(ConfigError, match="tiles only follow each other where folds do; set overlapped_folds"):
        grid("overlapped_folds=false")

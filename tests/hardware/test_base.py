"""The contract of a unit, and counts that are integers or arrays of integers alike."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.hardware.base import UnitSpec, largest, product, smallest
from npusim.hardware.units.popcount import PopcountUnit
from tests.hardware.tasks import product_task

counts = st.integers(0, 1 << 30)


def test_a_unit_states_all_of_the_contract() -> None:
    assert UnitSpec.__abstractmethods__ == {"refuses", "cycles", "passes", "peak_per_cycle"}
    with pytest.raises(TypeError, match="abstract"):
        UnitSpec()  # type: ignore[abstract]


def test_a_unit_is_called_as_given_or_by_what_it_serves() -> None:
    unit = PopcountUnit(kind="popcount", instances=1, lanes=1, word_bits=1, pipeline_cycles=0)
    assert (unit.label, dataclasses.replace(unit, name="binary").label) == ("popcount", "binary")


def test_a_task_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        product_task(1, 2, 3).operator = "conv2d"  # type: ignore[misc]


def test_product_of_integers_and_of_arrays() -> None:
    assert product([]) == 1
    assert product(iter([3, 5, 7])) == 105
    assert product([1 << 40, 1 << 40]) == 1 << 80
    assert product([2, np.array([3, 4]), np.array([5, 6])]).tolist() == [30, 48]


@given(st.lists(st.tuples(counts, counts), min_size=1, max_size=5))
def test_larger_and_smaller_of_integers_and_of_arrays(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs).T
    assert [largest(x, y) for x, y in pairs] == largest(a, b).tolist() == [max(p) for p in pairs]
    assert [smallest(x, y) for x, y in pairs] == smallest(a, b).tolist() == [min(p) for p in pairs]
    one = pairs[0][0]
    assert largest(a, one).tolist() == largest(one, a).tolist() == [max(int(x), one) for x in a]
    assert smallest(a, one).tolist() == smallest(one, a).tolist() == [min(int(x), one) for x in a]


def test_integers_stay_integers() -> None:
    assert type(largest(1, 2)) is type(smallest(1, 2)) is type(product([1, 2])) is int

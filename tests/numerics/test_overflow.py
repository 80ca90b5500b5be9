"""Overflow policies: what is counted, and the one message of a refusal."""

from __future__ import annotations

import pytest

from npusim.errors import UnpredictableError
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import I32, I48


def test_a_refusal_names_place_number_index_and_range() -> None:
    overflow = Overflow(where="layer 'conv1': conv2d")
    message = (
        "layer 'conv1': conv2d: partial sum 2147483648 at output index [0, 3, 1, 7] is outside i32 "
        "(-2147483648..2147483647); TOSA leaves it unpredictable; to study hardware that goes on, let the MAC array's "
        "accumulators.i32 be wrap or saturate"
    )
    with pytest.raises(UnpredictableError) as error:
        overflow.record(2, "partial sum", (0, 3, 1, 7), 1 << 31, I32)
    assert error.value.problems == (message,)
    assert error.value.exit_code == 3
    assert overflow.events == 2


@pytest.mark.parametrize("policy", ["wrap", "saturate"])
def test_other_policies_count(policy: Policy) -> None:
    overflow = Overflow(policy, "here")
    overflow.record(2, "partial sum", (0,), 1 << 31, I32)
    overflow.record(0, "partial sum", (0,), 0, I32)
    overflow.record(5, "sum with bias", (0,), -(1 << 60), I48)
    assert (overflow.policy, overflow.events) == (policy, 7)


def test_nothing_is_refused_where_nothing_overflows() -> None:
    overflow = Overflow()
    overflow.record(0, "partial sum", (0,), 0, I32)
    assert (overflow.policy, overflow.events) == ("refuse", 0)


def test_each_accumulation_counts_for_itself() -> None:
    first, second = Overflow("wrap"), Overflow("wrap")
    first.record(3, "pooling sum", (1,), 1 << 40, I32)
    assert (first.events, second.events) == (3, 0)

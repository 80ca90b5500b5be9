"""Pareto fronts against their definition."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from npusim.explore.pareto import pareto
from npusim.explore.sweep import Number, Point


def points(*values: tuple[Number, ...]) -> list[Point]:
    return [Point({"k": str(i)}, objectives=dict(zip("abc", v, strict=False))) for i, v in enumerate(values)]


def test_a_front_on_paper() -> None:
    """
    b  4 |  0     3
       3 |     1
       2 |        4  5
       1 |           2
          --1--2--3--4-- a
    """
    found = pareto(points((1, 4), (2, 3), (4, 1), (3, 4), (3, 2), (4, 2)), ("a", "b"))
    assert found == (0, 1, 2, 4)


def test_equal_points_are_on_it_together_and_one_objective_leaves_the_best() -> None:
    assert pareto(points((2, 2), (1, 3), (2, 2), (3, 3)), ("a", "b")) == (0, 1, 2)
    assert pareto(points((2, 2), (1, 3), (1, 2)), ("a",)) == (1, 2)
    assert pareto([], ("a",)) == ()


def test_points_with_errors_are_on_none() -> None:
    some = [*points((5, 5)), Point({"k": "9"}, errors=("does not fit",), exit_code=4)]
    assert pareto(some, ("a", "b")) == (0,)


def test_exact_ratios_are_compared_exactly() -> None:
    third = Fraction(1, 3)
    assert pareto(points((third, 1), (third + Fraction(1, 10**30), 1)), ("a", "b")) == (0,)


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), max_size=12), st.sampled_from([("a",), ("a", "b"), tuple("cab")]))
def test_the_front_is_what_nothing_beats(values: list[tuple[int, int, int]], objectives: tuple[str, ...]) -> None:
    of = [tuple(dict(zip("abc", v, strict=True))[o] for o in objectives) for v in values]
    unbeaten = [
        i for i, v in enumerate(of) if not any(all(x <= y for x, y in zip(w, v, strict=True)) and w != v for w in of)
    ]
    assert list(pareto(points(*values), objectives)) == unbeaten

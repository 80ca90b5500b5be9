"""Looking into types."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Gt, Lt, MaxLen, MultipleOf

from npusim.config import Bytes, Discriminator, Field, Positive, Ratio, record
from npusim.config.schema import Spot, below, branches, kinds, limits, locate, noun, phrase, tagged


@record
class Mac:
    kind: Literal["mac", "array"]
    rows: Positive


@record
class Vector:
    kind: Annotated[Literal["vector"], Field(description="the kind")] = "vector"
    lanes: Positive


Unit = Annotated[Mac | Vector, Discriminator("kind")]


@record
class Chip:
    units: tuple[Unit, ...]
    table: dict[Literal["a"], Positive]
    plain: Mac | tuple[int, ...] | None = None


@record
class Early:
    late: Late


@record
class Late:
    lanes: Positive


def test_branches_of_unions() -> None:
    assert branches(int) == (int,)
    assert branches(int | None) == (int,)
    assert branches(Unit | None) == (Mac, Vector)
    assert branches(Literal["auto"] | Positive | None) == (Literal["auto"], Positive)


def test_kinds_and_tags() -> None:
    assert kinds(Mac) == ("mac", "array") and kinds(Vector) == ("vector",)
    assert kinds(Chip) == () and kinds(int) == ()
    assert tagged(Unit) and tagged(Unit | None) and tagged(Annotated[Mac | Vector, Field(discriminator="kind")])
    assert not tagged(Mac | Vector) and not tagged(int | None) and not tagged(Mac)


def test_types_of_items() -> None:
    assert below(Chip, "plain") == Mac | tuple[int, ...] | None
    assert below(Chip, "nothing") is None
    assert below(tuple[int, str], 1) is str and below(tuple[int, str], 2) is None
    assert below(tuple[int, ...], 7) is int and below(dict[str, bool], "x") is bool
    assert below(int, 0) is None
    assert below(Early, "late") is Late


def test_locations_lose_their_union_labels() -> None:
    assert locate(Chip, ("units", 0, "array", "rows")) == Spot(("units", 0, "rows"), Positive, Mac)
    assert locate(Chip, ("units", 0)) == Spot(("units", 0), Unit, tuple[Unit, ...])
    assert locate(Chip, ("table", "b", "[key]")) == Spot(
        ("table", "b"), Literal["a"], dict[Literal["a"], Positive], is_key=True
    )
    whole = (("plain",), Mac | tuple[int, ...] | None)
    assert locate(Chip, ("plain", "Mac", "rows")) == Spot(("plain", "rows"), Positive, Mac, union=whole)
    assert locate(Chip, ("plain", "tuple[int, ...]", 3)) == Spot(("plain", 3), int, tuple[int, ...], union=whole)


def test_words_for_types() -> None:
    assert (
        noun(Bytes) == "size"
        and noun(int | None) == "whole number"
        and noun(dict[str, Ratio]) == "mapping (positive ratio)"
    )
    assert limits(Annotated[int, Gt(2), Lt(9), MultipleOf(3)]) == "more than 2, less than 9, a multiple of 3"
    assert limits(Annotated[str, MaxLen(3), Field(pattern="^a")]) == "at most 3 long, matching ^a"
    assert limits(tuple[Positive, ...]) == "each at least 1" and limits(str) == ""
    assert phrase(Positive | None) == "a whole number (at least 1)"
    assert phrase(tuple[Bytes, ...]) == "a list, each item a size such as '64 KiB'"
    assert phrase(Mac) == "a mapping with the keys kind, rows"
    assert phrase(Literal["x"] | bool) == "'x' or true or false"

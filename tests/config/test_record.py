"""Records: frozen, slotted, keyword-only and strict."""

from __future__ import annotations

import dataclasses
from typing import Literal

import pytest
from pydantic import ValidationError

from npusim.config import Positive, load_text, record
from npusim.errors import ConfigError


@record
class Buffer:
    """A buffer."""

    depth: Positive
    policy: Literal["lru", "fifo"] = "lru"
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.sizes) > self.depth:
            raise ValueError(f"has {len(self.sizes)} sizes for a depth of {self.depth}; give at most {self.depth}")


@record
class Pair:
    first: Buffer
    second: Buffer = Buffer(depth=2)
    third: Later | None = None


@record
class Later:
    depth: Positive


def test_a_record_is_a_frozen_hashable_dataclass_with_slots() -> None:
    buffer = Buffer(depth=2, sizes=(1, 2))
    assert buffer == Buffer(depth=2, sizes=(1, 2)) and hash(buffer) == hash(Buffer(depth=2, sizes=(1, 2)))
    assert not hasattr(buffer, "__dict__")
    assert dataclasses.replace(buffer, depth=3).depth == 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        buffer.depth = 3  # type: ignore[misc]
    with pytest.raises(ValidationError, match="depth"):
        Buffer(2)  # type: ignore[call-arg]


@pytest.mark.parametrize("bad", [True, 2.0, "2", None, 0, 2**63])
def test_construction_does_not_convert(bad: object) -> None:
    with pytest.raises(ValidationError, match="depth"):
        Buffer(depth=bad)  # type: ignore[arg-type]


def test_construction_refuses_unknown_fields_and_lists_for_tuples() -> None:
    with pytest.raises(ValidationError, match="dept"):
        Buffer(depth=1, dept=2)  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="tuple"):
        Buffer(depth=1, sizes=[1])  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="Buffer"):
        Pair(first={"depth": 1})  # type: ignore[arg-type]


def test_rules_between_fields_are_reported_at_the_record_in_their_own_words() -> None:
    with pytest.raises(ValidationError, match="has 2 sizes for a depth of 1"):
        Buffer(depth=1, sizes=(1, 2))
    with pytest.raises(ConfigError) as caught:
        load_text("first:\n  depth: 1\n  sizes: [1, 2]\n", Pair, "pair", "p.yaml")
    assert str(caught.value) == "p.yaml:1:1: first: has 2 sizes for a depth of 1; give at most 1"


def test_defaults_are_validated() -> None:
    @record
    class Wrong:
        depth: Positive = 0

    with pytest.raises(ValidationError, match="depth"):
        Wrong()


def test_a_record_may_name_a_record_defined_after_it() -> None:
    assert load_text("{first: {depth: 1}, third: {depth: 3}}", Pair, "pair").third == Later(depth=3)
    with pytest.raises(ConfigError, match=r"third.dept: unknown key 'dept' \(the keys here are depth\)"):
        load_text("{first: {depth: 1}, third: {depth: 1, dept: 3}}", Pair, "pair")

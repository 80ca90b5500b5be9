"""Validation: one clear message for every kind of error."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from typing import Annotated, Literal

import pytest
from annotated_types import Gt, Lt
from hypothesis import given
from hypothesis import strategies as st

from npusim.config import Bytes, Discriminator, Field, Positive, Ratio, load_text, record
from npusim.errors import ConfigError


@record
class Mac:
    kind: Literal["mac_array"] = "mac_array"
    rows: Positive
    rates: Mapping[Literal["8x8", "16x8"], Positive] = Field(default_factory=dict)


@record
class Vector:
    kind: Literal["vector"] = "vector"
    lanes: Positive
    costs: dict[int, int] = Field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.lanes < 1000, "more lanes than a vector unit has"


Unit = Annotated[Mac | Vector, Discriminator("kind")]


@record
class File:
    name: str


@record
class Chip:
    units: tuple[Unit, ...] = ()
    main: Unit | None = None
    other: Annotated[Mac | Vector, Field(discriminator="kind")] | None = None
    policy: Literal["lru", "fifo"] = "lru"
    level: Literal[1, 2] = 1
    checked: bool = False
    name: str = ""
    code: Annotated[str, Field(pattern="^[a-z]+$", min_length=2, max_length=4)] = "ab"
    scale: float = 1.0
    count: int = 1
    nothing: None = None
    between: Annotated[int, Gt(1), Lt(5)] = 2
    tile: tuple[int, int] = (1, 2)
    sizes: Annotated[tuple[Bytes, ...], Field(min_length=1, max_length=3)] = (1,)
    buffers: Literal["auto"] | Positive = "auto"
    amount: Literal["all"] | Bytes = "all"
    share: Ratio | bool = False
    source: File | str | None = None
    either: tuple[int, ...] | Literal["none"] = "none"
    mixed: Literal[1] | float = 1
    nested: dict[str, tuple[Literal[0, 1], ...]] = Field(default_factory=dict)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_text(text, Chip, "chip", "c.yaml")
    return list(caught.value.problems)


MESSAGES = [
    # keys
    ("plicy: lru", "1:1: plicy: unknown key 'plicy' (the keys here are units, main, other, policy, level, "),
    ("main: {kind: vector}", "1:1: main.lanes: is required but missing; give a whole number (at least 1)"),
    ("{main: {kind: mac_array, rows: 1, rosw: 2}}",
     "1:35: main.rosw: unknown key 'rosw' (the keys here are kind, rows, rates); "
     "did you mean 'rows'?"),
    ("main: {kind: mac_array, rows: 1, rates: {8x9: 1}}",
     "1:42: main.rates.8x9: the key must be one of '8x8', '16x8'; did you mean '8x8'?"),
    ("main: {kind: vector, lanes: 1, costs: {a: 1}}", "1:40: main.costs.a: the key must be a whole number"),
    # records chosen by kind
    ("units: [{kind: vectr}]",
     "1:16: units.0.kind: unknown kind 'vectr' (the kinds are mac_array, vector); did you mean 'vector'?"),
    ("units: [{kind: [1]}]", "1:10: units.0.kind: unknown kind a list (the kinds are mac_array, vector)"),
    ("main: {kind: 5}", "1:14: main.kind: unknown kind 5 (the kinds are mac_array, vector)"),
    ("other:\n  lanes: 3", "1:1: other: needs a 'kind' that is one of mac_array, vector"),
    ("units: [5]", "1:9: units.0: must be a mapping (kind: mac_array | vector); got 5"),
    ("units:\n-\n", "2:2: units.0: has no value; write a mapping (kind: mac_array | vector)"),
    ("units: {kind: vector}",
     "1:1: units: must be a list, each item a mapping (kind: mac_array | vector); got a mapping"),
    ("other: {kind: vector, lanes: 2000}", "1:1: other: more lanes than a vector unit has"),
    # booleans
    ("checked: no", "1:10: checked: must be true or false; got 'no', which is a string in YAML 1.2: write false"),
    ("checked: On", "1:10: checked: must be true or false; got 'On', which is a string in YAML 1.2: write true"),
    ("checked: 'true'",
     "1:10: checked: must be true or false; got 'true', which is a string in YAML 1.2: write true"),
    ("checked: 1", "1:10: checked: must be true or false; got 1"),
    ("checked:", "1:9: checked: has no value; write true or false"),
    ("checked: null", "1:10: checked: must be true or false; got null"),
    # whole numbers
    ("count: 1_000", "1:8: count: must be a whole number; got '1_000', which is a string in YAML 1.2: write 1000"),
    ("count: 1:30:05",
     "1:8: count: must be a whole number; got '1:30:05', which is a string in YAML 1.2: write 5405 if base 60"),
    ("count: 0b101", "1:8: count: must be a whole number; got '0b101', which is a string in YAML 1.2: write 5"),
    ("count: '16'", "1:8: count: must be a whole number; got '16', which is a string in YAML 1.2: write 16"),
    ("count: 1e3", "1:8: count: must be a whole number; got 1e3; write 1000"),
    ("count: 1.5", "1:8: count: must be a whole number; got 1.5"),
    ("count: .inf", "1:8: count: must be a whole number; got .inf"),
    ("count: true", "1:8: count: must be a whole number; got true"),
    ("count: sixteen", "1:8: count: must be a whole number; got 'sixteen'"),
    ("count: [1]", "1:1: count: must be a whole number; got a list"),
    ("between: 1", "1:10: between: must be more than 1; got 1"),
    ("between: 5", "1:10: between: must be less than 5; got 5"),
    # numbers
    ("scale: one", "1:8: scale: must be a number; got 'one'"),
    ("scale: true", "1:8: scale: must be a number; got true"),
    ("scale: .nan", "1:8: scale: must be a number; got .nan"),
    ("scale: -.inf", "1:8: scale: must be a number; got -.inf"),
    ("scale: 1e999", "1:8: scale: must be a number; got 1e999"),
    # text
    ("name: 1.10", "1:7: name: must be text; got 1.10; write '1.10', in quotes"),
    ("name: 0x10", "1:7: name: must be text; got 0x10; write '0x10', in quotes"),
    ("name: true", "1:7: name: must be text; got true; write 'true', in quotes"),
    ("name: {a: 1}", "1:1: name: must be text; got a mapping"),
    ("name: ", "1:6: name: has no value; write text"),
    ("code: A1", "1:7: code: must be text that matches ^[a-z]+$; got 'A1'"),
    ("code: a", "1:7: code: must have at least 2 characters; got 1"),
    ("code: abcde", "1:7: code: must have at most 4 characters; got 5"),
    # choices
    ("policy: lrru", "1:9: policy: must be one of 'lru', 'fifo'; got 'lrru'; did you mean 'lru'?"),
    ("policy: 3", "1:9: policy: must be one of 'lru', 'fifo'; got 3"),
    ("level: 3", "1:8: level: must be one of 1, 2; got 3"),
    ("level: true", "1:8: level: must be one of 1, 2; got true"),
    ("level: 2.0", "1:8: level: must be one of 1, 2; got 2.0"),
    ("level: 99999999999999999999", "1:8: level: must be one of 1, 2; got 99999999999999999999"),
    ("nested: {a: [1, true, 0]}", "1:17: nested.a.1: must be one of 0, 1; got true"),
    ("nothing: 1", "1:10: nothing: must be null; got 1"),
    # lists
    ("tile: [1]", "1:1: tile.1: is required but missing; give a whole number"),
    ("tile: [1, 2, 3]", "1:1: tile: must have at most 2 items; got 3"),
    ("tile: 5", "1:7: tile: must be a list, each item a whole number; got 5"),
    ("sizes: []", "1:1: sizes: must have at least 1 items; got 0"),
    ("sizes: [1, 1, 1, 1]", "1:1: sizes: must have at most 3 items; got 4"),
    ("sizes: [1, x]", "1:12: sizes.1: must be a size such as '64 KiB'; got 'x'"),
    ("nested: [1]", "1:1: nested: must be a mapping"),
    # unions without a kind
    ("buffers: autoo",
     "1:10: buffers: must be 'auto' or a whole number (at least 1); got 'autoo'; did you mean 'auto'?"),
    ("buffers: 0", "1:10: buffers: must be 'auto' or a whole number (at least 1); got 0"),
    ("amount: 3 KB", "1:9: amount: '3 KB' has the unknown unit 'KB'"),
    ("share: -1/2", "1:8: share: must be a positive ratio such as 2 or '3/4' or true or false; got '-1/2'"),
    ("source: 3", "1:9: source: must be a mapping with the keys name or text; got 3; write '3', in quotes"),
    ("source: {nam: x, name: y}",
     "1:10: source.nam: unknown key 'nam' (the keys here are name); did you mean 'name'?"),
    ("source: {name: 3}", "1:16: source.name: must be text; got 3; write '3', in quotes"),
    ("either: [1, x]", "1:13: either.1: must be a whole number; got 'x'"),
    ("either: 5", "1:9: either: must be a list, each item a whole number or 'none'; got 5"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MESSAGES)
def test_messages(text: str, message: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(f"c.yaml:{message}")


def test_accepted_values_keep_their_types() -> None:
    chip = load_text("scale: 3\nmixed: 1.0\nlevel: 2\nbuffers: 4\nsource: null\neither: [1]\ncount: 0o14", Chip, "chip")
    assert (chip.scale, chip.mixed, chip.level, chip.buffers, chip.source, chip.either, chip.count) == (
        3.0, 1.0, 2, 4, None, (1,), 12,
    )  # fmt: skip
    assert type(chip.scale) is float


def test_all_problems_of_a_text_in_its_order() -> None:
    text = """\
units:
  - {kind: vectr, lanes: 1}
  - {kind: mac_array, rows: 0, rates: {8x9: 1}}
  - {kind: vector, lane: 1}
checked: yes
colour: red
main: {kind: vector}
"""
    assert [problem.split(":")[1] for problem in problems(text)] == ["2", "3", "3", "4", "4", "5", "6", "7"]


def test_pydantic_never_speaks_for_itself() -> None:
    """The union of all messages above holds none of pydantic's own wording."""
    wording = re.compile("Input should|valid|Field required|Unable to|keyword argument|https?:")
    for text, _ in MESSAGES:
        assert not wording.search("\n".join(problems(text)))


def test_errors_of_types_that_have_no_message_of_their_own() -> None:
    @record
    class Release:
        day: datetime.date

    with pytest.raises(ConfigError, match="c.yaml:1:6: day: must be a valid date .*; got 'soon'"):
        load_text("day: soon", Release, "release", "c.yaml")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["no", "1 KB", "3/0", "auto", "1:30", "1_0", ".inf", "1e3"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "rows", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
fields = ["units", "main", "level", "share", "source", "either", "nested", "tile", "code", "scale", "amount", "mixed"]


def flow(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@given(st.dictionaries(st.sampled_from(fields), values, max_size=3))
def test_any_values_load_or_raise_a_config_error(data: dict[str, object]) -> None:
    try:
        chip = load_text(flow(data), Chip, "chip", "c.yaml")
    except ConfigError as error:
        assert all(problem.startswith("c.yaml:1:") and problem.isprintable() for problem in error.problems)
    else:
        assert math.isfinite(chip.scale)

"""Overrides by dotted key."""

from __future__ import annotations

import pytest

from npusim.config import override, parse
from npusim.errors import ConfigError

TEXT = """\
clock: 1 GHz
empty:
srams: [{size: 1, banks: 2}]
units:
  - {kind: mac_array, rows: 4}
  - {kind: vector, name: left, lanes: 8}
  - {kind: vector, name: right, lanes: 8}
layers: {conv.1: {tile: 3}, conv: {tile: 4}}
none: []
"""


def after(key: str, text: str) -> object:
    return override(parse(TEXT, "c.yaml"), key, text).data


def expected(**changes: object) -> object:
    data = parse(TEXT).data
    assert isinstance(data, dict)
    return data | changes


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("0x10", 16), ("2 GHz", "2 GHz"), ("'5'", "5"), ("null", None), ("[1, {a: b}]", [1, {"a": "b"}])],
)
def test_values_are_yaml(text: str, value: object) -> None:
    assert after("clock", text) == expected(clock=value)


def test_new_keys_are_added_with_the_mappings_around_them() -> None:
    assert after("new", "1") == expected(new=1)
    assert after("a.b.c", "1") == expected(a={"b": {"c": 1}})
    assert after("empty.x", "1") == expected(empty={"x": 1})
    assert override(parse(""), "a", "1").data == {"a": 1}


def test_list_items_by_index_kind_and_name() -> None:
    assert after("srams.0.banks", "4") == expected(srams=[{"size": 1, "banks": 4}])
    units = [
        {"kind": "mac_array", "rows": 4},
        {"kind": "vector", "name": "left", "lanes": 8},
        {"kind": "vector", "name": "right", "lanes": 8},
    ]
    assert after("units.mac_array.rows", "5") == expected(units=[{"kind": "mac_array", "rows": 5}, *units[1:]])
    assert after("units.right.lanes", "5") == expected(units=[*units[:2], {**units[2], "lanes": 5}])
    assert after("units.0", "7") == expected(units=[7, *units[1:]])


def test_keys_with_dots_are_found_first() -> None:
    assert after("layers.conv.1.tile", "9") == expected(layers={"conv.1": {"tile": 9}, "conv": {"tile": 4}})
    assert after("layers.conv.tile", "9") == expected(layers={"conv.1": {"tile": 3}, "conv": {"tile": 9}})


def test_the_document_itself_is_unchanged() -> None:
    document = parse(TEXT)
    override(document, "srams.0.banks", "4")
    assert document == parse(TEXT)


def test_an_anchored_value_changes_in_one_place_only() -> None:
    assert override(parse("a: &x {n: 1}\nb: *x"), "b.n", "2").data == {"a": {"n": 1}, "b": {"n": 2}}


def test_problems_are_located_by_the_option() -> None:
    document = override(override(parse(TEXT, "c.yaml"), "srams.0.banks", "4"), "a.b", "[1, 2]")
    assert document.problem(("srams", 0, "banks"), "bad") == "--set srams.0.banks=4: srams.0.banks: bad"
    assert document.problem(("a", "b", 1), "bad") == "--set a.b=[1, 2]: a.b.1: bad"
    assert document.problem(("a", "c"), "bad") == "--set a.b=[1, 2]: a.c: bad"
    assert document.problem(("srams", 0, "size"), "bad") == "c.yaml:3:16: srams.0.size: bad"


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("srams.1.banks", "4", "--set srams.1.banks=4: srams has the items 0 to 0; there is no item 1"),
        ("none.0", "4", "--set none.0=4: none is an empty list; there is no item 0"),
        ("units.vectr.lanes", "4", "--set units.vectr.lanes=4: units has no item called 'vectr'; its items are called "
         "mac_array, vector, left, right"),
        ("units.vector.lanes", "4",
         "--set units.vector.lanes=4: units has 2 items called 'vector'; write 1 or 2 instead"),
        ("srams.l1.banks", "4", "--set srams.l1.banks=4: srams has no item called 'l1'; name an item by its index"),
        ("clock.unit", "4", "--set clock.unit=4: clock is '1 GHz', which has no 'unit' to set"),
        ("clock", "", "--set clock=: has no value; write null or '' if that is meant, and quote a value with '#'"),
        ("clock", "#5", "--set clock=#5: has no value; write null or ''"),
        ("clock", "[1", r"--set clock=[1: not valid YAML: a '[' without its ']'"),
        ("clock", "010", "--set clock=010: 010 has a leading zero; write 10 (decimal), 0o10 (octal"),
        ("clock", '"\\q\n"', "'--set clock=\"\\\\q\\n\"': not valid YAML"),
        ("a..b", "1", "--set a..b=1: the key must be names joined by dots, at most 64, such as srams.0.banks"),
        ("", "1", "--set =1: the key must be names joined by dots"),
        (".".join("a" * 65), "1", "the key must be names joined by dots, at most 64"),
    ],
)  # fmt: skip
def test_refusals(key: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        after(key, text)
    (problem,) = caught.value.problems
    assert message in problem


def test_the_root_may_be_a_list_or_a_scalar() -> None:
    assert override(parse("[{a: 1}]"), "0.a", "2").data == [{"a": 2}]
    with pytest.raises(ConfigError, match="the document has no item called 'x'"):
        override(parse("[1]"), "x", "2")
    with pytest.raises(ConfigError, match="the document is 5, which has no 'x' to set"):
        override(parse("5"), "x", "2")

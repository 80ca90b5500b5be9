"""Documents: plain data, positions and the form of messages."""

from __future__ import annotations

from npusim.config import Document, parse
from npusim.config.document import Fault, Mark, dotted, shorten

TEXT = """\
clock: 5
units:
  - kind: dma
    channels: &two [1, 2]
  - {kind: vector, lanes: *two, dma: 3}
"""


def document() -> Document:
    return parse(TEXT, "chip.yaml")


def test_data_is_plain_python() -> None:
    assert document().data == {
        "clock": 5,
        "units": [{"kind": "dma", "channels": [1, 2]}, {"kind": "vector", "lanes": [1, 2], "dma": 3}],
    }


def test_a_scalar_is_found_by_itself_and_a_collection_by_its_key() -> None:
    assert document().position(("clock",)) == (1, 8)
    assert document().position(("units",)) == (2, 1)
    assert document().position(("units", 0)) == (3, 5)
    assert document().position(("units", 1)) == (5, 5)
    assert document().position(()) == (1, 1)


def test_an_alias_is_found_where_its_value_is_written() -> None:
    assert document().position(("units", 1, "lanes", 1)) == (4, 24)


def test_a_location_that_does_not_exist_gives_the_nearest_node_around_it() -> None:
    assert document().position(("units", 0, "rows", "dma")) == (3, 5)
    assert document().position(("units", 7)) == (2, 1)
    assert document().position(("clock", "x")) == (1, 8)
    assert document().position(("units", "0")) == (2, 1)


def test_union_tags_in_a_location_are_passed_over() -> None:
    assert document().position(("units", 0, "dma", "channels", 0)) == (4, 21)
    assert document().problem(("units", 0, "dma", "rows"), "is missing") == "chip.yaml:3:5: units.0.rows: is missing"
    # "dma" is a key of the second unit, so it is no tag there.
    assert document().position(("units", 1, "dma")) == (5, 38)


def test_problems_name_file_line_column_and_path() -> None:
    assert document().problem(("units", 1, "kind"), "bad") == "chip.yaml:5:12: units.1.kind: bad"
    assert document().problem((), "bad") == "chip.yaml:1:1: bad"
    assert parse("a: 1").problem(("a",), "bad") == "<text>:1:4: a: bad"


def test_problems_come_in_the_order_of_the_text_then_of_options_and_once_each() -> None:
    faults = [
        Fault(Mark(1, 1, "--set a=1"), ("a",), "x"),
        Fault(Mark(10, 2), (0, "b"), "x"),
        Fault(Mark(9, 5), ("c",), "x"),
        Fault(Mark(10, 2), (0, "b"), "x"),
    ]
    assert document().render_all(faults) == ["chip.yaml:9:5: c: x", "chip.yaml:10:2: 0.b: x", "--set a=1: a: x"]


def test_keys_that_would_break_a_message_are_quoted() -> None:
    assert dotted(("a", 0, "é.b")) == "a.0.é.b"
    assert dotted(("a", "b\nc", "")) == r"a.'b\nc'.''"


def test_long_strings_are_cut() -> None:
    assert shorten("x" * 60) == repr("x" * 60)
    assert shorten("x" * 61) == repr("x" * 57 + "...")
    assert shorten("a\nb") == r"'a\nb'"

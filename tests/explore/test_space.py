"""Design spaces: texts into values, combinations in order, every refusal."""

from __future__ import annotations

import re

import pytest

from npusim.errors import InputError
from npusim.explore.space import overrides_of, space_of


def test_commas_in_brackets_braces_and_quotes_belong_to_a_value() -> None:
    assert space_of(["a=[1, 2],{x: 1, y: [2, 3]},'a, b',\"c]\",5"]) == {
        "a": ("[1, 2]", "{x: 1, y: [2, 3]}", "'a, b'", '"c]"', "5")
    }


def test_values_may_hold_an_equals_sign_and_spaces() -> None:
    assert space_of([" sram.size_bytes = 64 KiB , 1 MiB", "name=a=b"]) == {
        "sram.size_bytes": ("64 KiB", "1 MiB"), "name": ("a=b",),
    }  # fmt: skip
    assert space_of([]) == {}


@pytest.mark.parametrize(
    ("varied", "message"),
    [
        ("sram.banks", "--vary sram.banks: must be key=value,value,..., such as sram.size_bytes=64 KiB,128 KiB"),
        ("=3", "--vary =3: must be key=value,value,..."),
        ("a=1,,2", "--vary a=1,,2: has an empty value; put a value before and after every comma"),
        ("a=", "--vary a=: has an empty value"),
        ("a=1,2,1", "--vary a=1,2,1: has the value 1 more than once; leave the others out"),
    ],
)
def test_what_is_no_space(varied: str, message: str) -> None:
    with pytest.raises(InputError, match="^" + re.escape(message)):
        space_of([varied])


def test_all_faults_come_at_once() -> None:
    with pytest.raises(InputError) as error:
        space_of(["a=1", "b", "a=2,3"])
    assert error.value.problems[0].startswith("--vary b: must be")
    assert error.value.problems[1] == "--vary a=2,3: a is varied twice; put all its values into one --vary"


def test_the_last_key_changes_fastest() -> None:
    space = {"a": ("1", "2"), "b": ("x", "y", "z")}
    assert [tuple(o.values()) for o in overrides_of(space)] == [(a, b) for a in "12" for b in "xyz"]
    assert all(list(o) == ["a", "b"] for o in overrides_of(space))
    assert list(overrides_of({})) == [{}]

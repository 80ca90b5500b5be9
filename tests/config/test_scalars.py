"""The core schema of YAML 1.2, and the forms of YAML 1.1 that are strings or refused."""

from __future__ import annotations

import math

import pytest

from npusim.config.scalars import resolve


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_null(text: str) -> None:
    assert resolve(text) is None


@pytest.mark.parametrize(("text", "value"), [("true", True), ("True", True), ("TRUE", True), ("false", False)])
def test_booleans(text: str, value: bool) -> None:
    assert resolve(text) is value


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("12", 12), ("-7", -7), ("+7", 7), ("0o14", 12), ("0x10", 16), ("0xfF", 255)]
)
def test_integers(text: str, value: int) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is int


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("-2E-1", -0.2),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
    ],
)
def test_floats(text: str, value: float) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is float


def test_not_a_number() -> None:
    value = resolve(".nan")
    assert isinstance(value, float) and math.isnan(value)


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "on",
        "Yes",
        "y",
        "12:30",
        "1_000",
        "0b11",
        "-0x10",
        "2024-01-01",
        "tRUE",
        "nil",
        "0o8",
        "1e",
        "=",
        "١٢",
        "inf",
    ],
)
def test_everything_else_is_a_string(text: str) -> None:
    assert resolve(text) == text


def test_a_leading_zero_is_refused_with_both_readings() -> None:
    with pytest.raises(ValueError, match=r"012 has a leading zero; write 12 \(decimal\), 0o12 \(octal.*or '012'"):
        resolve("012")
    with pytest.raises(ValueError, match=r"089 has a leading zero; write 89 \(decimal\), '089' \(a string\)"):
        resolve("089")
    with pytest.raises(ValueError, match=r"-012 has a leading zero; write -12 \(decimal\), '-012'"):
        resolve("-012")


@pytest.mark.parametrize("text", ["9" * 101, "0x" + "f" * 5000, "1." + "0" * 5000])
def test_endless_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a number of [0-9]+ characters; at most 100 are read"):
        resolve(text)


def test_a_hundred_digits_are_read() -> None:
    assert resolve("9" * 100) == 10**100 - 1

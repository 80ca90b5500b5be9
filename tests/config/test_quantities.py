"""Counts, sizes, frequencies and ratios, from YAML and from Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import pytest
from annotated_types import Ge, Le, MultipleOf
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from npusim.config import Bytes, Hertz, NonNegative, Positive, Ratio, load_text, record
from npusim.config.quantities import _FREQUENCY, _SIZE, INT64_MAX, RatioFormat
from npusim.errors import ConfigError


@record
class Values:
    size: Bytes = 1
    clock: Hertz = 1
    ratio: Ratio = Fraction(1)
    share: Annotated[Ratio, Le(1)] = Fraction(1)
    line: Annotated[Bytes, MultipleOf(16), Le(1 << 20)] = 16
    count: Positive = 1
    offset: NonNegative = 0


def values(text: str) -> Values:
    return load_text(text, Values, "values", "v.yaml")


def problem(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        values(text)
    (only,) = caught.value.problems
    return only


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 65536),
        ("0x100", 256),
        ("7 B", 7),
        ("128 KiB", 131072),
        ("128KiB", 131072),
        ("'2 MiB'", 2 << 20),
        ("1.5 GiB", 3 << 29),
        ("0.5 KiB", 512),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert values(f"size: {text}").size == size


@pytest.mark.parametrize(
    ("text", "clock"),
    [("5", 5), ("3 Hz", 3), ("32.768 kHz", 32768), ("200 MHz", 200_000_000), ("1.2 GHz", 1_200_000_000)],
)
def test_frequencies(text: str, clock: int) -> None:
    assert values(f"clock: {text}").clock == clock


@pytest.mark.parametrize(("text", "ratio"), [("2", Fraction(2)), ("3/4", Fraction(3, 4)), ("6 / 4", Fraction(3, 2))])
def test_ratios(text: str, ratio: Fraction) -> None:
    assert values(f"ratio: {text}").ratio == ratio


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size: 256 KB", "'256 KB' has the unknown unit 'KB'; the units are B, KiB, MiB, GiB; did you mean '256 KiB'?"),
        ("size: 1 mib", "'1 mib' has the unknown unit 'mib'; the units are B, KiB, MiB, GiB; did you mean '1 MiB'?"),
        ("size: 1 parsec", "'1 parsec' has the unknown unit 'parsec'; the units are B, KiB, MiB, GiB"),
        ("size: 0.3 KiB", "'0.3 KiB' is not a whole number of B"),
        ("size: 0 KiB", "must be at least 1; got '0 KiB'"),
        ("size: -1 KiB", "must be a size such as '64 KiB'; got '-1 KiB'"),
        ("size: 1e3", "must be a size such as '64 KiB'; got 1e3; write 1000"),
        ("size: true", "must be a size such as '64 KiB'; got true"),
        ("size: 99999999999 GiB", f"must be at most {INT64_MAX}; got '99999999999 GiB'"),
        ("clock: 1 Ghz", "'1 Ghz' has the unknown unit 'Ghz'; the units are Hz, kHz, MHz, GHz; did you mean '1 GHz'?"),
        ("clock: 12:30", "must be a frequency such as '1 GHz'; got '12:30', which is a string in YAML 1.2: write 750 "
         "if base 60 was meant, as in YAML 1.1"),
        ("line: 24", "must be a multiple of 16; got 24"),
        ("line: 2 MiB", "must be at most 1048576; got '2 MiB'"),
        ("ratio: 0.75", "must be a positive ratio such as 2 or '3/4'; got 0.75; write 3/4"),
        ("ratio: true", "must be a positive ratio such as 2 or '3/4'; got true"),
        ("ratio: -1/2", "must be a positive ratio such as 2 or '3/4'; got '-1/2'"),
        ("ratio: '3'", "must be a positive ratio such as 2 or '3/4'; got '3', which is a string in YAML 1.2: write 3"),
        ("ratio: 3/0", "'3/0' divides by zero"),
        ("ratio: 0", "must be more than 0; got 0"),
        ("ratio: 0/5", "must be more than 0; got 0"),
        ("ratio: 9999999999999999999/2", f"numerator and denominator must be at most {INT64_MAX}"),
        ("share: 3/2", "must be at most 1; got '3/2'"),
        ("count: 0", "must be at least 1; got 0"),
        ("count: 9223372036854775808", f"must be at most {INT64_MAX}; got 9223372036854775808"),
        ("count: " + "9" * 100, f"must be at most {INT64_MAX}; got {'9' * 100}"),
        ("count: true", "must be a whole number (at least 1); got true"),
        ("offset: -1", "must be at least 0; got -1"),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    name = text.split(":")[0]
    assert problem(text) == f"v.yaml:1:{len(name) + 3}: {name}: {message}"


def test_python_values() -> None:
    made = Values(size=4, clock=5, ratio=Fraction(3, 4), share=Fraction(1, 3), count=INT64_MAX)
    assert (made.size, made.clock, made.ratio, made.share) == (4, 5, Fraction(3, 4), Fraction(1, 3))
    assert type(Values(ratio=2).ratio) is Fraction  # type: ignore[arg-type]
    for field in ("size", "clock", "ratio", "count", "offset"):
        with pytest.raises(ValidationError, match=field):
            Values(**{field: True})  # type: ignore[arg-type]


def test_bounds_hold_outside_of_records() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        TypeAdapter(Positive).validate_python(0)
    with pytest.raises(ValidationError, match="valid integer"):
        TypeAdapter(Annotated[NonNegative, Ge(2)]).validate_python("3")


@given(st.integers(1, INT64_MAX))
def test_written_quantities_read_back(value: int) -> None:
    assert _SIZE.read(_SIZE.write(value)) == value
    assert _FREQUENCY.read(_FREQUENCY.write(value)) == value


@given(st.integers(1, INT64_MAX), st.integers(1, INT64_MAX))
def test_written_ratios_read_back(numerator: int, denominator: int) -> None:
    ratio = Fraction(numerator, denominator)
    assert RatioFormat().read(RatioFormat().write(ratio)) == ratio


def test_quantities_are_written_with_the_largest_whole_unit() -> None:
    assert [_SIZE.write(value) for value in (1, 1024, 1536, 3 << 20, 1 << 40)] == [
        "1 B",
        "1 KiB",
        "1536 B",
        "3 MiB",
        "1024 GiB",
    ]
    assert _FREQUENCY.write(1_200_000_000) == "1200 MHz"
    assert RatioFormat().write(Fraction(6, 4)) == "3/2" and RatioFormat().write(Fraction(4, 2)) == 2

"""Records written as YAML load back to equal records."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from npusim.config import Bytes, Discriminator, Hertz, Positive, Ratio, dump, load_text, parse, record
from npusim.config.dump import dump_inline
from npusim.config.quantities import INT64_MAX


@record
class Mac:
    kind: Literal["mac"] = "mac"
    rates: dict[str, Positive]


@record
class Vector:
    kind: Literal["vector"] = "vector"
    lanes: Positive | Literal["auto"] = "auto"
    size: Literal["all"] | Bytes = "all"


@record
class Chip:
    name: str
    clock: Hertz
    share: Ratio
    scale: float
    checked: bool
    names: tuple[str, ...]
    units: tuple[Annotated[Mac | Vector, Discriminator("kind")], ...]
    spare: Vector | None = None
    limit: Bytes | Literal["none"] = "none"
    speed: Ratio | Literal["full"] = "full"
    tile: tuple[int, int] = (1, 2)


# Everything but surrogates, which are no characters.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "no",
        "null",
        "012",
        "0o14",
        "0x1F",
        "12:30",
        "1_000",
        "1e5",
        "1.",
        "~",
        "<<",
        "2024-01-01",
        "=",
        "- a",
        "a: b",
        "#x",
    ]
    + [
        "x" * 200,
        " a",
        "a ",
        "a b",
        "\x85\u2028\u2029\ufeff",
        "\x00\t\n\r",
        "😀",
        "é 测",
        "128 KiB",
        "3/4",
        "8x8",
        "...",
    ]
)
counts = st.integers(1, INT64_MAX)
macs = st.builds(Mac, rates=st.dictionaries(texts.filter(bool), counts, max_size=3))
vectors = st.builds(Vector, lanes=counts | st.just("auto"), size=counts | st.just("all"))
chips = st.builds(
    Chip,
    name=texts,
    clock=counts,
    share=st.builds(Fraction, counts, counts),
    scale=st.floats(allow_nan=False, allow_infinity=False),
    checked=st.booleans(),
    names=st.lists(texts, max_size=3).map(tuple),
    units=st.lists(macs | vectors, max_size=3).map(tuple),
    spare=st.none() | vectors,
    limit=counts | st.just("none"),
    speed=st.builds(Fraction, counts, counts) | st.just("full"),
    tile=st.tuples(st.integers(), st.integers()).filter(lambda pair: max(map(abs, pair)) < 10**90),
)


@given(chips)
def test_a_dumped_record_loads_back_equal(chip: Chip) -> None:
    assert load_text(dump(chip), Chip, "chip") == chip


@given(st.lists(texts, max_size=4))
def test_strings_read_the_same_in_yaml_1_1(values: list[str]) -> None:
    @record
    class Names:
        names: tuple[str, ...]

    assert yaml.safe_load(dump(Names(names=tuple(values)))) == {"names": values}


def test_the_text_is_for_people() -> None:
    chip = Chip(
        name="é 测",
        clock=1_200_000_000,
        share=Fraction(3, 4),
        scale=0.5,
        checked=False,
        names=("no", "8x8", "a b", "012"),
        units=(Mac(rates={"8x8": 2}), Vector(size=65536)),
    )
    assert dump(chip) == (
        'name: "é 测"\n'
        "clock: 1200 MHz\n"
        "share: 3/4\n"
        "scale: 0.5\n"
        "checked: false\n"
        "names:\n- 'no'\n- 8x8\n- a b\n- \"012\"\n"
        "units:\n"
        "- kind: mac\n"
        "  rates: {8x8: 2}\n"
        "- {kind: vector, lanes: auto, size: 64 KiB}\n"
        "spare: null\n"
        "limit: none\n"
        "speed: full\n"
        "tile: [1, 2]\n"
    )


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (65536, Bytes, "64 KiB"),
        (Fraction(2), Ratio, "2"),
        ((), tuple[int, ...], "[]"),
        ("", str, '""'),
        (None, None, "null"),
    ],
)
def test_single_values(value: object, kind: object, text: str) -> None:
    assert dump_inline(value, kind) == text
    assert parse(text).data == (value if kind not in (Bytes, Ratio, tuple[int, ...]) else parse(text).data)

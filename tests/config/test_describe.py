"""The reference table of a record."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from npusim.config import (
    Bytes,
    Discriminator,
    Doc,
    Field,
    Hertz,
    Positive,
    Ratio,
    Row,
    describe,
    override,
    parse,
    record,
)


@record
class Sram:
    """One on-chip memory.

    More about it.
    """

    size: Annotated[Bytes, Doc("capacity")]
    banks: Annotated[Positive, Field(description="independent banks", le=64)] = 1


@record
class MacArray:
    """Multiplies and accumulates."""

    kind: Literal["mac_array"] = "mac_array"
    rates: dict[Literal["8x8", "8x4"], Positive]


@record
class Lanes:
    kind: Literal["vector", "popcount"]
    lanes: Positive = Field(default=8, description="elements a cycle")


@record
class Chip:
    clock: Hertz
    srams: Annotated[tuple[Sram, ...], Field(min_length=1)]
    units: tuple[Annotated[MacArray | Lanes, Discriminator("kind")], ...]
    extra: Sram | None = None
    share: Ratio = Fraction(3, 4)
    buffers: Literal["auto"] | Positive = "auto"
    tile: tuple[int, int] = (1, 2)
    memory: Sram = Sram(size=65536)
    costs: dict[str, Sram] = Field(default_factory=dict)
    next: Chip | None = None
    checked: bool = False


def test_every_value_is_a_row() -> None:
    assert describe(Chip) == [
        Row("clock", "frequency", "at least 1, in Hz, kHz, MHz, GHz", "required", ""),
        Row("srams", "list (mapping)", "at least 1 long", "required", ""),
        Row("srams.N.size", "size", "at least 1, in B, KiB, MiB, GiB", "required", "capacity"),
        Row("srams.N.banks", "whole number", "at least 1, at most 64", "1", "independent banks"),
        Row("units", "list (mapping)", "each kind: mac_array | vector | popcount", "required", ""),
        Row("units.mac_array", "mapping", "kind: mac_array", "", "Multiplies and accumulates."),
        Row("units.mac_array.rates", "mapping (whole number)", "keys 8x8 | 8x4, each at least 1", "required", ""),
        Row("units.vector", "mapping", "kind: vector | popcount", "", ""),
        Row("units.vector.lanes", "whole number", "at least 1", "8", "elements a cycle"),
        Row("extra", "mapping", "", "null", ""),
        Row("extra.size", "size", "at least 1, in B, KiB, MiB, GiB", "required", "capacity"),
        Row("extra.banks", "whole number", "at least 1, at most 64", "1", "independent banks"),
        Row("share", "positive ratio", "", "3/4", ""),
        Row("buffers", "choice or whole number", "auto; at least 1", "auto", ""),
        Row("tile", "list (whole number)", "2 items", "[1, 2]", ""),
        Row("memory", "mapping", "", "{size: 64 KiB, banks: 1}", "One on-chip memory."),
        Row("memory.size", "size", "at least 1, in B, KiB, MiB, GiB", "required", "capacity"),
        Row("memory.banks", "whole number", "at least 1, at most 64", "1", "independent banks"),
        Row("costs", "mapping (mapping)", "", "{}", ""),
        Row("costs.NAME.size", "size", "at least 1, in B, KiB, MiB, GiB", "required", "capacity"),
        Row("costs.NAME.banks", "whole number", "at least 1, at most 64", "1", "independent banks"),
        Row("next", "mapping", "", "null", ""),
        Row("checked", "true or false", "", "false", ""),
    ]


def test_paths_are_those_of_overrides() -> None:
    document = parse("units: [{kind: mac_array, rates: {}}, {kind: vector}]")
    assert any(row.path == "units.vector.lanes" for row in describe(Chip))
    assert override(document, "units.vector.lanes", "16").data == {
        "units": [{"kind": "mac_array", "rates": {}}, {"kind": "vector", "lanes": 16}]
    }

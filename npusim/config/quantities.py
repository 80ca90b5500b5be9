"""Scalar types of configuration fields: counts, sizes, frequencies and exact ratios.

All whole numbers fit into a signed 64-bit integer.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import GetCoreSchemaHandler, Strict
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

INT64_MAX = 2**63 - 1

_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]+)")
_FRACTION = re.compile(r"([0-9]{1,19})\s*/\s*([0-9]{1,19})")


@dataclass(frozen=True, slots=True)
class Quantity:
    """Marks an integer type that may be written with a unit; ``units`` are names and worths, smallest first."""

    noun: str
    example: str
    units: tuple[tuple[str, int], ...]

    @property
    def unit_names(self) -> str:
        """The units, separated by commas."""
        return ", ".join(name for name, _ in self.units)

    def read(self, value: object) -> object:
        """A number with a unit as an integer; anything else unchanged, for the integer type to judge.

        Raises ValueError for an unknown unit, and for a value that is not a whole number of the smallest unit.
        """
        match = _NUMBER_AND_UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            return value
        number, unit = match.groups()
        worths = dict(self.units)
        if unit not in worths:
            names = {name.lower(): name for name in worths}
            close = difflib.get_close_matches(unit.lower(), names, n=1, cutoff=0.5)
            remedy = f"; did you mean '{number} {names[close[0]]}'?" if close else ""
            raise ValueError(f"{value!r} has the unknown unit {unit!r}; the units are {self.unit_names}{remedy}")
        amount = Fraction(number) * worths[unit]
        if amount.denominator != 1:
            raise ValueError(f"{value!r} is not a whole number of {self.units[0][0]}")
        return amount.numerator

    def write(self, value: object) -> object:
        """The number with the largest unit that leaves it whole; inverse of ``read``."""
        if not isinstance(value, int):
            return value
        name, worth = next((name, worth) for name, worth in reversed(self.units) if value % worth == 0)
        return f"{value // worth} {name}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            self.read, handler(source), serialization=_written(self.write)
        )


@dataclass(frozen=True, slots=True)
class RatioFormat:
    """Marks an exact positive fraction, written as an integer or as ``a/b``."""

    noun: str = "positive ratio"
    example: str = "2 or '3/4'"

    def read(self, value: object) -> Fraction:
        """Raises a validation error for what is no ratio, is not above 0, or has a term beyond 64 bits."""
        if isinstance(value, str) and (match := _FRACTION.fullmatch(value.strip())):
            numerator, denominator = map(int, match.groups())
            if denominator == 0:
                raise ValueError(f"{value!r} divides by zero")
            ratio = Fraction(numerator, denominator)
        elif isinstance(value, Fraction | int) and not isinstance(value, bool):
            ratio = Fraction(value)
        else:
            raise PydanticCustomError("ratio_type", "Input should be an integer or a string 'a/b'")
        if ratio <= 0:
            raise ValueError(f"must be more than 0; got {ratio}")
        if max(ratio.numerator, ratio.denominator) > INT64_MAX:
            raise ValueError(f"numerator and denominator must be at most {INT64_MAX}")
        return ratio

    def write(self, value: object) -> object:
        """An integer or ``a/b``; inverse of ``read``."""
        if not isinstance(value, Fraction):
            return value
        return value.numerator if value.denominator == 1 else str(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read, serialization=_written(self.write))


def _written(write: Callable[[object], object]) -> core_schema.SerSchema:
    return core_schema.plain_serializer_function_ser_schema(write, when_used="json")


_SIZE = Quantity("size", "'64 KiB'", (("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)))
_FREQUENCY = Quantity("frequency", "'1 GHz'", (("Hz", 1), ("kHz", 10**3), ("MHz", 10**6), ("GHz", 10**9)))

NonNegative = Annotated[int, Strict(), Ge(0), Le(INT64_MAX)]
"""A whole number, at least 0."""
Positive = Annotated[int, Strict(), Ge(1), Le(INT64_MAX)]
"""A whole number, at least 1."""
Bytes = Annotated[int, Strict(), Ge(1), Le(INT64_MAX), _SIZE]
"""A number of bytes, at least 1: ``65536`` or ``64 KiB``."""
Hertz = Annotated[int, Strict(), Ge(1), Le(INT64_MAX), _FREQUENCY]
"""A frequency in hertz, at least 1: ``1000000000`` or ``1 GHz``."""
Ratio = Annotated[Fraction, RatioFormat()]
"""An exact ratio above 0: ``2`` or ``3/4``."""

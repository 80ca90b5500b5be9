"""YAML text into frozen, validated dataclasses, with all faults at once and each at its place."""

from pydantic import Discriminator, Field
from typing_extensions import Doc

from npusim.config.describe import Row, describe
from npusim.config.document import Document, Loc
from npusim.config.dump import dump
from npusim.config.load import load, load_text, read_text
from npusim.config.override import override
from npusim.config.quantities import Bytes, Hertz, NonNegative, Positive, Ratio
from npusim.config.reader import parse
from npusim.config.record import record

__all__ = [
    "Bytes",
    "Discriminator",
    "Doc",
    "Document",
    "Field",
    "Hertz",
    "Loc",
    "NonNegative",
    "Positive",
    "Ratio",
    "Row",
    "describe",
    "dump",
    "load",
    "load_text",
    "override",
    "parse",
    "read_text",
    "record",
]

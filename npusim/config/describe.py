"""Lists every value that a record takes, for reference pages generated from the types."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from npusim.config.dump import dump_inline
from npusim.config.schema import Type, attributes, branches, kinds, limits, noun, shape


@dataclass(frozen=True, slots=True)
class Row:
    """One value of a record.

    ``path`` is as ``override`` takes it, with N for an index and NAME for a free key; ``type`` is in words; ``values``
    are the units, bounds or choices, if any; ``default`` is YAML, or ``required``; ``doc`` is the documentation.
    """

    path: str
    type: str
    values: str
    default: str
    doc: str


def describe(cls: type[Any]) -> list[Row]:
    """The fields of the record ``cls`` and of the records in it, depth first in the order of their declaration.

    A record chosen by its ``kind`` is a row ``units.mac_array`` of its own, followed by its other fields. A record that
    contains itself is listed down to where it repeats.
    """
    return list(_fields(cls, "", (cls,)))


def _fields(record: Type, prefix: str, within: tuple[Type, ...]) -> Iterator[Row]:
    for name, field in attributes(record).items():
        default = "required" if field.required else dump_inline(field.default, field.kind)
        doc = field.doc or _summary(field.kind)
        yield Row(f"{prefix}{name}", noun(field.kind), limits(field.kind), default, doc)
        yield from _inside(field.kind, f"{prefix}{name}", within)


def _inside(kind: Type, path: str, within: tuple[Type, ...]) -> Iterator[Row]:
    """The rows below a field of this type."""
    members = branches(kind)
    for member in members:
        inside = shape(member)
        if inside.form in ("list", "items"):
            item = inside.arguments[0]
            yield from _inside(item, path if len(branches(item)) > 1 else f"{path}.N", within)
        elif inside.form == "mapping":
            yield from _inside(inside.arguments[1], f"{path}.NAME", within)
        elif inside.form == "record" and inside.inner not in within:
            names = kinds(inside.inner) if len(members) > 1 else ()
            rows = _fields(inside.inner, ".".join((path, *names[:1], "")), (*within, inside.inner))
            if names:
                yield Row(f"{path}.{names[0]}", "mapping", f"kind: {' | '.join(names)}", "", _summary(inside.inner))
            yield from (row for row in rows if not (names and row.path == f"{path}.{names[0]}.kind"))


def _summary(kind: Type) -> str:
    """The first line of a record's docstring."""
    doc = inspect.getdoc(kind) if shape(kind).form == "record" else None
    return doc.splitlines()[0] if doc else ""

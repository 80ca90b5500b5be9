"""Looks into the types of records: their fields, the type at a location, and what a type accepts in words."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic import Discriminator
from pydantic.dataclasses import rebuild_dataclass
from pydantic.fields import FieldInfo
from typing_extensions import Doc

from npusim.config.document import Loc
from npusim.config.quantities import INT64_MAX, Quantity, RatioFormat

Type = Any
"""A type expression: a class, ``Annotated``, ``Literal``, a union, ``tuple[...]`` or a mapping."""

Form = Literal["record", "union", "choice", "list", "items", "mapping", "scalar"]

_FORMS: dict[Any, Form] = {
    Union: "union",
    types.UnionType: "union",
    Literal: "choice",
    list: "list",
    Sequence: "list",
    dict: "mapping",
    Mapping: "mapping",
}
_NOUNS: dict[Type, str] = {bool: "true or false", int: "whole number", float: "number", str: "text", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Shape:
    """A type taken apart: ``inner`` is the type without ``Annotated``, ``notes`` are the annotations.

    ``arguments`` are what stands in its brackets: the members of a "union", the values of a "choice", the item type of
    a "list", the type of each of the "items" of a fixed number, key and value type of a "mapping".
    """

    form: Form
    inner: Type
    arguments: tuple[Type, ...]
    notes: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A field of a record; ``default`` is meaningless where it is ``required``."""

    kind: Type
    required: bool
    default: object
    doc: str


@cache
def shape(kind: Type) -> Shape:
    """Takes a type apart."""
    notes = list[Any]()
    origin: Any = get_origin(kind)
    if origin is Annotated:
        kind, *outer = get_args(kind)
        origin = get_origin(kind)
        for note in outer:
            notes += [note, *note.metadata] if isinstance(note, FieldInfo) else [note]
    arguments = get_args(kind)
    form = _FORMS.get(origin, "scalar")
    if origin is tuple:
        form = "list" if arguments[-1] is Ellipsis else "items"
        arguments = arguments[:1] if form == "list" else arguments
    elif isinstance(kind, type) and is_dataclass(kind) and hasattr(kind, "__pydantic_fields__"):
        form = "record"
    return Shape(form, kind, arguments, tuple(notes))


@cache
def attributes(record: Type) -> dict[str, Attribute]:
    """The fields of a record by name; empty for any other type."""
    if getattr(record, "__pydantic_complete__", True) is False:  # it names a class that was defined after it
        rebuild_dataclass(record)
    return {name: _attribute(info) for name, info in getattr(record, "__pydantic_fields__", {}).items()}


@cache
def branches(kind: Type) -> tuple[Type, ...]:
    """The members of a union without None, nested unions flattened; of any other type, the type itself."""
    outer = shape(kind)
    if outer.form != "union":
        return (kind,)
    return tuple(branch for member in outer.arguments if member is not type(None) for branch in branches(member))


@cache
def kinds(record: Type) -> tuple[str, ...]:
    """The values of ``kind:`` that select this record; empty for records and other types without one."""
    field = attributes(shape(record).inner).get("kind")
    return shape(field.kind).arguments if field and shape(field.kind).form == "choice" else ()


@cache
def tagged(kind: Type) -> bool:
    """Whether ``kind`` is a union whose members are told apart by ``kind:``."""
    outer = shape(kind)
    if any(isinstance(note, Discriminator) or getattr(note, "discriminator", None) for note in outer.notes):
        return True
    members = [member for member in outer.arguments if member is not type(None)]
    return outer.form == "union" and len(members) == 1 and tagged(members[0])


def below(kind: Type, step: str | int) -> Type:
    """The type of the item at ``step`` of a record, list or mapping type; None where there is no such item."""
    outer = shape(kind)
    if outer.form == "record":
        field = attributes(outer.inner).get(str(step))
        return field.kind if field else None
    if outer.form == "items":
        return outer.arguments[step] if isinstance(step, int) and step < len(outer.arguments) else None
    return outer.arguments[-1] if outer.form in ("list", "mapping") else None


@dataclass(frozen=True, slots=True)
class Spot:
    """What a pydantic error location means.

    ``loc`` leads through the data alone, without the labels of union members. ``kind`` is the type there and ``around``
    the type of the record, list or mapping that holds it (both None where unknown). ``is_key`` tells that a key is
    meant and not its value. ``union`` is the location and type of the outermost untagged union on the way, if any.
    """

    loc: Loc
    kind: Type
    around: Type = None
    is_key: bool = False
    union: tuple[Loc, Type] | None = None


def locate(kind: Type, error_loc: Loc) -> Spot:
    """Follows a pydantic error location, which names union members by their tags or type names, through a type."""
    path, around, union = list[str | int](), None, None
    is_key = error_loc[-1:] == ("[key]",)
    for step in error_loc[: len(error_loc) - is_key]:
        members = branches(kind)
        if len(members) > 1:
            union = union or (None if tagged(kind) else (tuple(path), kind))
            named = (m for m in members if step in kinds(m) or step == getattr(shape(m).inner, "__name__", None))
            kind = next(named, next((m for m in members if shape(m).form != "record"), None))
        else:
            around = members[0]
            kind = below(around, step)
            path.append(step)
    return Spot(tuple(path), shape(around).arguments[0] if is_key else kind, around, is_key, union)


def noun(kind: Type) -> str:
    """What a type accepts in a few words, such as ``whole number``, ``size`` or ``list (text)``."""
    if len(members := branches(kind)) > 1:
        return "mapping" if tagged(kind) else " or ".join(map(noun, members))
    inside = shape(members[0])
    for note in inside.notes:
        if isinstance(note, Quantity | RatioFormat):
            return note.noun
    if inside.form in ("list", "items"):
        return f"list ({noun(inside.arguments[0])})"
    if inside.form == "mapping":
        return f"mapping ({noun(inside.arguments[1])})"
    if inside.form == "record":
        return "mapping"
    return "choice" if inside.form == "choice" else _NOUNS.get(inside.inner, "value")


def limits(kind: Type) -> str:
    """The values a type accepts, in words: bounds, units or choices; empty where there is nothing to say."""
    if tagged(kind):
        return f"kind: {' | '.join(name for member in branches(kind) for name in kinds(member))}"
    if len(members := branches(kind)) > 1:
        return "; ".join(filter(None, map(limits, members)))
    inside = shape(members[0])
    if inside.form == "choice":
        return " | ".join(map(str, inside.arguments))
    parts = list(filter(None, map(_limit, inside.notes)))
    if inside.form == "items":
        parts.insert(0, f"{len(inside.arguments)} items")
    if inside.form == "mapping" and limits(inside.arguments[0]):
        parts.append(f"keys {limits(inside.arguments[0])}")
    if inside.form in ("list", "items", "mapping") and limits(inside.arguments[-1]):
        parts.append(f"each {limits(inside.arguments[-1])}")
    return ", ".join(parts)


def _limit(note: object) -> str:
    match note:
        case Quantity():
            return f"in {note.unit_names}"
        case Ge(ge=bound):
            return f"at least {bound}"
        case Gt(gt=bound):
            return f"more than {bound}"
        case Le(le=bound):
            return f"at most {bound}" if bound != INT64_MAX else ""
        case Lt(lt=bound):
            return f"less than {bound}"
        case MultipleOf(multiple_of=factor):
            return f"a multiple of {factor}"
        case MinLen(min_length=length):
            return f"at least {length} long"
        case MaxLen(max_length=length):
            return f"at most {length} long"
        case object(pattern=str(pattern)):
            return f"matching {pattern}"
    return ""


def phrase(kind: Type) -> str:
    """What a value of the type must be, to stand behind "must be"."""
    members = branches(kind)
    if len(members) > 1 and not tagged(kind):
        return " or ".join(map(phrase, members))
    inside, name = shape(members[0]), noun(kind)
    if inside.form == "choice":
        return ("one of " if len(inside.arguments) > 1 else "") + ", ".join(map(repr, inside.arguments))
    if inside.form in ("list", "items"):
        return f"a list, each item {phrase(inside.arguments[0])}"
    if inside.form == "record" and not tagged(kind):
        return f"a mapping with the keys {', '.join(attributes(inside.inner))}"
    for note in inside.notes:
        if isinstance(note, Quantity | RatioFormat):
            return f"a {name} such as {note.example}"
    article = "" if name in ("text", "null", "true or false") else "a "
    return f"{article}{name}" + (f" ({limits(kind)})" if limits(kind) else "")


def _attribute(info: FieldInfo) -> Attribute:
    notes = [*info.metadata, *([Discriminator("kind")] if info.discriminator else [])]
    kind: Any = info.annotation
    for note in notes:
        kind = Annotated[kind, note]
    doc = info.description or next((note.documentation for note in notes if isinstance(note, Doc)), "")
    required = info.is_required()
    return Attribute(kind, required, None if required else info.get_default(call_default_factory=True), doc)

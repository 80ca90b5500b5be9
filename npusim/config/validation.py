"""Checks a document against a type with pydantic, and says what is wrong in terms of the YAML text."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from npusim.config.document import Document, Fault, Loc, Node, shorten
from npusim.config.schema import Spot, Type, attributes, below, branches, kinds, locate, phrase, shape

T = TypeVar("T")

_YES, _NO = ("yes", "y", "on", "true"), ("no", "n", "off", "false")


def validate(document: Document, cls: type[T]) -> tuple[T | None, list[Fault]]:
    """The document as a ``cls``, or None and everything that is wrong with it.

    pydantic gets JSON text, the only input on which its strict mode takes mappings for records and lists for tuples.
    """
    data = document.data
    value, errors = None, list[_Error]()
    try:
        value = TypeAdapter(cls).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        errors = [_Error(document, locate(cls, item["loc"]), item) for item in error.errors(include_url=False)]
    faults = [*_faults(errors), *(_Error(document, spot, {}).mismatch() for spot in _inexact(cls, data, ()))]
    return (None if faults else value), faults


@dataclass(frozen=True, slots=True)
class _Error:
    """An error of pydantic, with the place in the document and in the type that it is about."""

    document: Document
    spot: Spot
    detail: Mapping[str, Any]

    @property
    def node(self) -> Node:
        return self.document.nearest(self.spot.loc)[0]

    @property
    def shown(self) -> str:
        return shorten(str(self.spot.loc[-1])) if self.spot.is_key else self.node.shown

    def says(self, message: str, *, at_key: bool = False) -> Fault:
        node = self.node
        mark = node.key if node.key and (at_key or self.spot.is_key) else node.place
        return Fault(mark, self.spot.loc, message)

    def mismatch(self) -> Fault:
        """The value or key is not what its type accepts."""
        expected = phrase(self.spot.kind)
        if self.spot.is_key:
            return self.says(f"the key must be {expected}{_did_you_mean(self.spot.loc[-1], _choices(self.spot.kind))}")
        if self.node.value is None and not self.node.text:
            return self.says(f"has no value; write {expected}")
        return self.says(f"must be {expected}; got {self.shown}{_hint(self.spot.kind, self.node)}")

    def translate(self) -> Fault:
        return _TRANSLATIONS.get(self.detail["type"], _as_pydantic_says)(self)


def _faults(errors: Iterable[_Error]) -> Iterator[Fault]:
    """One fault per error, but a single one where no member of an untagged union fits."""
    unions: dict[Loc, list[_Error]] = {}
    for error in errors:
        if error.spot.union is None:
            yield error.translate()
            continue
        loc, kind = error.spot.union
        whole = _Error(error.document, Spot(loc, kind), {})
        telling = unions.setdefault(loc, [whole])
        # An error inside a member, or one in words of its own, tells more than that no member fits.
        if len(error.spot.loc) > len(loc) or error.detail["type"] in _IN_ITS_OWN_WORDS:
            telling.append(error)
    for whole, *telling in unions.values():
        yield from (error.translate() for error in telling) if telling else (whole.mismatch(),)


def _missing(error: _Error) -> Fault:
    return error.says(f"is required but missing; give {phrase(error.spot.kind)}")


def _unknown_key(error: _Error) -> Fault:
    name, known = error.spot.loc[-1], attributes(shape(error.spot.around).inner)
    message = f"unknown key {shorten(str(name))} (the keys here are {', '.join(known)}){_did_you_mean(name, known)}"
    return error.says(message, at_key=True)


def _unknown_kind(error: _Error) -> Fault:
    known = [name for member in branches(error.spot.kind) for name in kinds(member)]
    node = error.node.child("kind") or error.node
    message = f"unknown kind {node.shown} (the kinds are {', '.join(known)}){_did_you_mean(node.value, known)}"
    return Fault(node.place, (*error.spot.loc, "kind"), message)


def _no_kind(error: _Error) -> Fault:
    known = [name for member in branches(error.spot.kind) for name in kinds(member)]
    return error.says(f"needs a 'kind' that is one of {', '.join(known)}")


def _broken_rule(error: _Error) -> Fault:
    """A ValueError or AssertionError of a type's own rule."""
    return error.says(str(error.detail["ctx"]["error"]) or "breaks a rule")


def _bound(words: str, name: str) -> Callable[[_Error], Fault]:
    return lambda error: error.says(f"must be {words} {error.detail['ctx'][name]}; got {error.shown}")


def _length(words: str, name: str, unit: str) -> Callable[[_Error], Fault]:
    def translate(error: _Error) -> Fault:
        value = error.node.value
        length = len(value) if isinstance(value, str | tuple | Mapping) else 0
        return error.says(f"must have {words} {error.detail['ctx'][name]} {unit}; got {length}")

    return translate


def _as_pydantic_says(error: _Error) -> Fault:
    return error.says(f"{str(error.detail['msg']).replace('Input should', 'must')}; got {error.shown}")


_IN_ITS_OWN_WORDS = ("value_error", "assertion_error")
_MISMATCHES = (
    *(
        "int_type",
        "int_parsing",
        "int_parsing_size",
        "int_from_float",
        "float_type",
        "float_parsing",
        "finite_number",
        "bool_type",
    ),
    *("bool_parsing", "string_type", "literal_error", "none_required", "ratio_type"),
    *("dataclass_type", "dict_type", "mapping_type", "tuple_type", "list_type"),
)
_TRANSLATIONS: Mapping[str, Callable[[_Error], Fault]] = {
    **dict.fromkeys(_MISMATCHES, _Error.mismatch),
    **dict.fromkeys(_IN_ITS_OWN_WORDS, _broken_rule),
    "missing": _missing,
    "unexpected_keyword_argument": _unknown_key,
    "union_tag_invalid": _unknown_kind,
    "union_tag_not_found": _no_kind,
    "greater_than_equal": _bound("at least", "ge"),
    "greater_than": _bound("more than", "gt"),
    "less_than_equal": _bound("at most", "le"),
    "less_than": _bound("less than", "lt"),
    "multiple_of": _bound("a multiple of", "multiple_of"),
    "string_pattern_mismatch": _bound("text that matches", "pattern"),
    "too_short": _length("at least", "min_length", "items"),
    "too_long": _length("at most", "max_length", "items"),
    "string_too_short": _length("at least", "min_length", "characters"),
    "string_too_long": _length("at most", "max_length", "characters"),
}


def _did_you_mean(name: object, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1) if isinstance(name, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


def _choices(kind: Type) -> list[str]:
    """The strings among the literals that a type accepts."""
    literals = (shape(branch).arguments for branch in branches(kind) if shape(branch).form == "choice")
    return [choice for choices in literals for choice in choices if isinstance(choice, str)]


def _hint(kind: Type, node: Node) -> str:
    """How to write what the user probably meant: mostly habits from YAML 1.1, and quotes too many or too few."""
    accepted = {shape(branch).inner for branch in branches(kind)}
    value = node.value
    if isinstance(value, str):
        if bool in accepted and value.lower() in _YES + _NO:
            return f", which is a string in YAML 1.2: write {'true' if value.lower() in _YES else 'false'}"
        if accepted & {int, float, Fraction} and (number := _number_in(value)):
            return f", which is a string in YAML 1.2: write {number}"
        return _did_you_mean(value, _choices(kind))
    if isinstance(value, float) and math.isfinite(value):
        if int in accepted and value.is_integer() and abs(value) < 2**53:
            return f"; write {int(value)}"
        if Fraction in accepted and 1e-9 < value < 1e9:
            return f"; write {Fraction(node.text)}"
    if isinstance(value, bool | int | float) and (str in accepted or node.text in _choices(kind)):
        return f"; write '{node.text}', in quotes"
    return ""


def _number_in(text: str) -> str | None:
    """The number that YAML 1.1, or a reader who overlooks the quotes, takes a string for."""
    digits = text.replace("_", "")
    if re.fullmatch(r"[-+]?[1-9][0-9]{0,18}|0", digits):
        return digits
    if re.fullmatch(r"[1-9][0-9]{0,8}(:[0-5]?[0-9])+", text):
        total = 0
        for part in text.split(":"):
            total = 60 * total + int(part)
        return f"{total} if base 60 was meant, as in YAML 1.1"
    if re.fullmatch(r"0b[01]{1,64}", digits):
        return str(int(digits, 2))
    return None


def _inexact(kind: Type, data: Any, loc: Loc) -> Iterator[Spot]:
    """Where a boolean or float stands for a literal integer, as pydantic allows: ``true`` is not 1, nor is ``1.0``."""
    members = branches(kind)
    if isinstance(data, dict | list):
        items: Iterable[tuple[str | int, Any]] = data.items() if isinstance(data, dict) else enumerate(data)
        if isinstance(data, dict) and len(members) > 1:
            members = tuple(m for m in members if not kinds(m) or data.get("kind") in kinds(m))
        for step, item in items:
            item_kinds = [item_kind for m in members if (item_kind := below(m, step)) is not None]
            if len(item_kinds) == 1:
                yield from _inexact(item_kinds[0], item, (*loc, step))
    elif isinstance(data, bool | float):
        choices = [choice for m in members if shape(m).form == "choice" for choice in shape(m).arguments]
        equal = [choice for choice in choices if choice == data]
        if equal and type(data) not in (*map(type, equal), *members):
            yield Spot(loc, kind)

"""A YAML text as a tree of plain values that remembers where each of them was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Loc = tuple[str | int, ...]
Scalar = bool | int | float | str | None


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place: line and column, both from 1, in a file or, if ``option`` is set, in the value of that option."""

    line: int = 1
    column: int = 1
    option: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place; ``text`` is an unquoted scalar as written, ``key`` the place of the key before it."""

    value: Scalar | tuple[Node, ...] | Mapping[str, Node]
    mark: Mark
    text: str = ""
    key: Mark | None = None

    @property
    def shown(self) -> str:
        """The value in a few words, for messages."""
        if isinstance(self.value, Mapping | tuple):
            return "a mapping" if isinstance(self.value, Mapping) else "a list"
        if isinstance(self.value, str):
            return shorten(self.value)
        return self.text or "nothing"

    @property
    def place(self) -> Mark:
        """Where a reader looks for the value: a collection is found by the key in front of it, a scalar by itself."""
        return self.key if self.key and isinstance(self.value, Mapping | tuple) else self.mark

    def child(self, step: str | int) -> Node | None:
        """The item under a key of a mapping or an index of a list, if there is one."""
        if isinstance(self.value, Mapping):
            return self.value.get(step) if isinstance(step, str) else None
        if isinstance(self.value, tuple) and isinstance(step, int) and 0 <= step < len(self.value):
            return self.value[step]
        return None


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing wrong with a document; ``loc`` leads to the value, and is empty for faults of the whole text."""

    mark: Mark
    loc: Loc
    message: str

    def __str__(self) -> str:
        return f"{dotted(self.loc)}: {self.message}" if self.loc else self.message


@dataclass(frozen=True, slots=True)
class Document:
    """The tree of one YAML text; ``path`` names its file in messages."""

    root: Node
    path: str | None = None

    @property
    def data(self) -> object:
        """The tree as dicts with string keys, lists and scalars; values behind one anchor are one object."""
        return _plain(self.root, {})

    def nearest(self, loc: Loc) -> tuple[Node, Loc]:
        """The deepest node on the way to ``loc``, and ``loc`` without the union tags that pydantic mixes in.

        A tag is a step that repeats the ``kind`` of the mapping it stands at and is no key of it.
        """
        node, path, found = self.root, list[str | int](), True
        for step in loc:
            below = node.child(step) if found else None
            kind = node.child("kind") if found and below is None else None
            if kind is not None and kind.value == step:
                continue
            path.append(step)
            found = below is not None
            node = below or node
        return node, tuple(path)

    def position(self, loc: Loc) -> tuple[int, int]:
        """Line and column, both from 1, of the value at ``loc`` or else of the nearest one around it."""
        mark = self.nearest(loc)[0].place
        return mark.line, mark.column

    def problem(self, loc: Loc, message: str) -> str:
        """``message`` about the value at ``loc``, as ``path:line:column: dotted.path: message``.

        A value that came from an option is located by that option (``--set a.b=1``) instead.
        """
        node, path = self.nearest(loc)
        return self.render(Fault(node.place, path, message))

    def render(self, fault: Fault) -> str:
        """The fault as one line of text that starts with its place."""
        mark = fault.mark
        place = mark.option or f"{self.path or '<text>'}:{mark.line}:{mark.column}"
        return f"{place}: {fault}"

    def render_all(self, faults: Iterable[Fault]) -> list[str]:
        """The faults, each once, in the order of their places: the file's first, then those of options."""
        ordered = sorted(faults, key=lambda fault: (fault.mark.option, fault.mark))
        return list(dict.fromkeys(map(self.render, ordered)))


def dotted(loc: Loc) -> str:
    """``('srams', 0, 'banks')`` as ``srams.0.banks``; keys that would break the line are quoted."""
    return ".".join(str(step) if str(step).isprintable() and step != "" else repr(step) for step in loc)


def shorten(text: str) -> str:
    """A string in quotes, on one line, and cut where it is too long to read."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _plain(node: Node, done: dict[int, object]) -> object:
    if id(node.value) in done:
        return done[id(node.value)]
    if isinstance(node.value, Mapping):
        result: object = {key: _plain(item, done) for key, item in node.value.items()}
    elif isinstance(node.value, tuple):
        result = [_plain(item, done) for item in node.value]
    else:
        return node.value
    done[id(node.value)] = result
    return result

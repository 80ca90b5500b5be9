"""Replaces single values of a document by dotted key: the command line's ``--set key=value``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from npusim.config.document import Document, Node, dotted, shorten
from npusim.config.reader import DEPTH_LIMIT, read
from npusim.errors import ConfigError


def override(document: Document, key: str, text: str) -> Document:
    """The document with the value at ``key`` replaced by, or added as, the YAML value ``text``.

    ``key`` is a path of mapping keys and list items joined by dots. A list item is named by its index from 0, or by the
    value of its ``kind`` or ``name`` key: ``units.mac_array.rows``. A mapping key may itself contain dots. Mappings
    missing on the way are added; whether they belong there is for validation, whose messages name the option.
    Raises ConfigError for a malformed value, a list item that does not exist or is not the only one of its name, and
    for a path through a scalar.
    """
    option = f"--set {key}={text}"
    option = option if option.isprintable() else repr(option)
    value, faults = read(text, document.path, option)
    if faults:
        raise ConfigError(document.render_all(faults))
    steps = key.split(".")
    if not all(steps) or len(steps) > DEPTH_LIMIT:
        raise ConfigError(
            [f"{option}: the key must be names joined by dots, at most {DEPTH_LIMIT}, such as srams.0.banks"]
        )
    if value.root.value is None and not value.root.text:
        raise ConfigError([f"{option}: has no value; write null or '' if that is meant, and quote a value with '#'"])
    return replace(document, root=_replaced(document.root, (), steps, value.root, option))


def _replaced(node: Node, done: tuple[str | int, ...], steps: list[str], value: Node, option: str) -> Node:
    if not steps:
        return replace(value, key=node.key and value.mark)
    if isinstance(node.value, tuple):
        index = _index(node.value, done, steps[0], option)
        item = _replaced(node.value[index], (*done, index), steps[1:], value, option)
        return replace(node, value=(*node.value[:index], item, *node.value[index + 1 :]))
    if isinstance(node.value, Mapping) or node.value is None:
        entries = node.value or {}
        # A key may contain dots, such as the name of a layer: prefer the longest that exists.
        lengths = (n for n in range(len(steps), 0, -1) if ".".join(steps[:n]) in entries)
        length = next(lengths, 1)
        name = ".".join(steps[:length])
        old = entries.get(name) or Node(None, value.mark, key=value.mark)
        new = _replaced(old, (*done, name), steps[length:], value, option)
        return replace(node, value={**entries, name: new})
    raise ConfigError([f"{option}: {dotted(done) or 'the document'} is {node.shown}, which has no {steps[0]!r} to set"])


def _index(items: tuple[Node, ...], done: tuple[str | int, ...], step: str, option: str) -> int:
    """The index of the list item that ``step`` names."""
    where = dotted(done) or "the document"
    if step.isdecimal() and len(step) < 10:
        if int(step) < len(items):
            return int(step)
        there = f"has the items 0 to {len(items) - 1}" if items else "is an empty list"
        raise ConfigError([f"{option}: {where} {there}; there is no item {step}"])
    labels = [[label.value for field in ("kind", "name") if (label := item.child(field))] for item in items]
    matches = [index for index, values in enumerate(labels) if step in values]
    if len(matches) == 1:
        return matches[0]
    if matches:
        numbers = " or ".join(map(str, matches))
        raise ConfigError(
            [f"{option}: {where} has {len(matches)} items called {shorten(step)}; write {numbers} instead"]
        )
    names = ", ".join(dict.fromkeys(str(value) for values in labels for value in values))
    hint = f"its items are called {names}" if names else "name an item by its index"
    raise ConfigError([f"{option}: {where} has no item called {shorten(step)}; {hint}"])

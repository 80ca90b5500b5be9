"""Reads YAML 1.2 text into a document with positions, collecting every fault.

PyYAML supplies the grammar, as a stream of events; its YAML 1.1 rules for scalars, tags and merge keys are not used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import yaml  # type: ignore[import-untyped]

from npusim.config.document import Document, Fault, Loc, Mark, Node, shorten
from npusim.config.scalars import resolve
from npusim.errors import ConfigError

DEPTH_LIMIT = 64
SIZE_LIMIT = 1 << 21
"""The most characters of scalars plus nodes that a text may hold once its aliases are written out."""

_LINE_BREAK = re.compile(r"\r\n|\r|\n")
# YAML 1.2 counts U+0085, U+2028 and U+2029 as ordinary characters, but PyYAML breaks the line there: refuse them.
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SYNTAX = (
    ("mapping values are not allowed", "a ':' where no key can stand; check the indentation, or quote text with a ':'"),
    ("could not find expected ':'", "a key without a ':' after it"),
    ("expected <block end>", "this line does not continue the lines above; check its indentation"),
    ("expected ',' or '}'", "a '{' without its '}', or a ',' missing between entries"),
    ("expected ',' or ']'", "a '[' without its ']', or a ',' missing between items"),
    ("found unexpected end of stream", "a quote that is never closed"),
    ("cannot start any token", "text that starts with this character needs quotes"),
)


def parse(text: str, path: str | None = None) -> Document:
    """The document that ``text`` holds; an empty text gives null. Raises ConfigError with all faults of the text."""
    document, faults = read(text, path)
    if faults:
        raise ConfigError(document.render_all(faults))
    return document


def read(text: str, path: str | None = None, option: str = "") -> tuple[Document, list[Fault]]:
    """The document that ``text`` holds, as far as it can be read, and what is wrong with it.

    The text is that of the file ``path``, or the value of the command-line option ``option``.
    """
    builder = _Builder(option)
    try:
        builder.build(text.removeprefix("\ufeff"))
    except _Unreadable as stop:
        builder.faults.append(stop.fault)
        builder.root = None
    return Document(builder.root or Node(None, Mark(option=option)), path), builder.faults


class _Unreadable(Exception):
    """The rest of the text cannot be made sense of."""

    def __init__(self, mark: Mark, message: str) -> None:
        super().__init__(message)
        self.fault = Fault(mark, (), message)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A finished node, with its size (see SIZE_LIMIT) and the levels of collections in it."""

    node: Node
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been reached; ``key`` is the mapping key that waits for its value."""

    mark: Mark
    anchor: str | None
    loc: Loc
    items: list[Node] | dict[str, Node]
    size: int = 1
    height: int = 1
    key: tuple[str, Mark] | None = None

    @property
    def wants_key(self) -> bool:
        return isinstance(self.items, dict) and self.key is None

    @property
    def next_loc(self) -> Loc:
        if isinstance(self.items, list):
            return (*self.loc, len(self.items))
        return (*self.loc, self.key[0]) if self.key else self.loc

    def close(self) -> _Measured:
        items = tuple(self.items) if isinstance(self.items, list) else self.items
        return _Measured(Node(items, self.mark), self.size, self.height)


@dataclass(slots=True)
class _Builder:
    """Turns the events of one text into nodes, without recursion, so that no nesting can exhaust the stack."""

    option: str
    root: Node | None = None
    faults: list[Fault] = field(default_factory=list)
    open: list[_Open] = field(default_factory=list)
    anchors: dict[str, _Measured | None] = field(default_factory=dict)  # None while the value is being read
    started: bool = False

    def build(self, text: str) -> None:
        if found := _FORBIDDEN.search(text):
            lines = _LINE_BREAK.split(text[: found.start()])
            mark = Mark(len(lines), len(lines[-1]) + 1, self.option)
            hint = "is this a binary file?" if found[0] < " " else "write it as an escape in double quotes"
            raise _Unreadable(mark, f"character U+{ord(found[0]):04X} is not allowed in YAML text; {hint}")
        events = yaml.SafeLoader(text)
        try:
            while events.check_event():
                self._take(events.get_event())
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(text, error) from error
        except (ValueError, OverflowError) as error:  # how PyYAML fails on "\UFFFFFFFF" and on endless version numbers
            message = "not valid YAML: a number in an escape or a directive is too large"
            raise _Unreadable(self._mark(events.get_mark()), message) from error

    def _take(self, event: Any) -> None:
        mark = self._mark(event.start_mark)
        if getattr(event, "tag", None) is not None:
            tag = shorten(event.tag.replace("tag:yaml.org,2002:", "!!"))
            self._fault(mark, f"the tag {tag} is not accepted; remove it, and put what is a string in quotes")
        match event:
            case yaml.DocumentStartEvent():
                self._start_document(event, mark)
            case yaml.AliasEvent():
                self._add(self._aliased(event.anchor, mark))
            case yaml.ScalarEvent():
                self._finish(_Measured(self._scalar(event, mark), 1 + len(event.value)), event.anchor)
            case yaml.CollectionStartEvent():
                self._check_depth(1, mark)
                if event.anchor:
                    self.anchors[event.anchor] = None
                items: list[Node] | dict[str, Node] = {} if isinstance(event, yaml.MappingStartEvent) else []
                self.open.append(_Open(mark, event.anchor, self._loc, items))
            case yaml.CollectionEndEvent():
                done = self.open.pop()
                self._finish(done.close(), done.anchor)

    def _start_document(self, event: Any, mark: Mark) -> None:
        if self.started:
            raise _Unreadable(mark, "a second document starts here; keep one in a file and remove this '---'")
        self.started = True
        if event.version and event.version != (1, 2):
            version = ".".join(map(str, event.version))
            self._fault(mark, f"the text declares YAML {version}, but is read as YAML 1.2; remove the %YAML line")

    def _check_depth(self, levels: int, mark: Mark) -> None:
        if len(self.open) + levels > DEPTH_LIMIT:
            raise _Unreadable(mark, f"lists and mappings are nested deeper than {DEPTH_LIMIT} levels")

    def _scalar(self, event: Any, mark: Mark) -> Node:
        text: str = event.value
        plain = event.style is None
        if _SURROGATE.search(text):
            self._fault(mark, r"half of a surrogate pair is no character; write \U and the eight digits of the whole")
            text = _SURROGATE.sub("?", text)
        if self.open and self.open[-1].wants_key:
            return Node(self._key(text, plain, mark), mark)
        if not plain:
            return Node(text, mark)
        try:
            return Node(resolve(text), mark, text)
        except ValueError as error:
            self._fault(mark, str(error))
            return Node(None, mark, text)

    def _key(self, text: str, plain: bool, mark: Mark) -> str:
        """Any scalar is a key by its text, so that ``no:`` and ``8:`` are names; "" stands for one that was refused."""
        if plain and text == "<<":
            self._fault(mark, "merge keys ('<<') are not part of YAML 1.2; write the keys out")
            return ""
        if not text:
            self._fault(mark, "a key is empty; write its name before the ':'")
        return text

    def _aliased(self, name: str, mark: Mark) -> _Measured:
        anchored = self.anchors.get(name)
        if anchored is not None:
            self._check_depth(anchored.height, mark)
            is_key = bool(self.open) and self.open[-1].wants_key
            return replace(anchored, node=replace(anchored.node, mark=mark)) if is_key else anchored
        if name in self.anchors:
            self._fault(mark, f"the alias *{name} stands inside the value it refers to, which would never end")
        else:
            self._fault(mark, f"the alias *{name} has no anchor &{name} before it")
        return _Measured(Node(None, mark))

    def _finish(self, done: _Measured, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = done
        self._add(done)

    def _add(self, done: _Measured) -> None:
        """Puts a finished node where it belongs: it is the root, an item, a key, or the value of the waiting key."""
        node = done.node
        if not self.open:
            self.root = node
            return
        around = self.open[-1]
        around.size += done.size
        around.height = max(around.height, done.height + 1)
        if around.size > SIZE_LIMIT:
            message = f"the text is larger than {SIZE_LIMIT} characters once its aliases are written out"
            raise _Unreadable(node.mark, message)
        if isinstance(around.items, list):
            around.items.append(node)
        elif around.key is None:
            name = node.value if isinstance(node.value, str) else ""
            if not isinstance(node.value, str):
                self._fault(node.mark, f"a key must be text, not {node.shown}")
            around.key = name, node.mark
        else:
            name, mark = around.key
            around.key = None
            first = around.items.get(name)
            if first is not None and first.key is not None:
                message = f"the key is given twice, first on line {first.key.line}; remove one"
                self.faults.append(Fault(mark, (*around.loc, name), message))
            elif name:
                around.items[name] = replace(node, key=mark)

    @property
    def _loc(self) -> Loc:
        return self.open[-1].next_loc if self.open else ()

    def _fault(self, mark: Mark, message: str) -> None:
        self.faults.append(Fault(mark, self._loc, message))

    def _mark(self, mark: Any) -> Mark:
        return Mark(mark.line + 1, mark.column + 1, self.option)

    def _syntax_error(self, text: str, error: Any) -> _Unreadable:
        """PyYAML's complaint in terms of what the user may have done."""
        mark = error.problem_mark
        line = _LINE_BREAK.split(text)[mark.line]
        indentation = line[: len(line) - len(line.lstrip())]
        if "'\\t'" in error.problem or "\t" in indentation:
            column = line.find("\t", 0 if "\t" in indentation else mark.column)
            message = "a tab, where YAML is laid out with spaces only; replace it with spaces"
            return _Unreadable(Mark(mark.line + 1, column + 1, self.option), message)
        message = next((hint for start, hint in _SYNTAX if start in error.problem), "")
        message = message or " ".join(filter(None, (error.context, error.problem)))
        if error.context_mark and error.context_mark.line != mark.line:
            message += f" (what is being read began on line {error.context_mark.line + 1})"
        return _Unreadable(self._mark(mark), f"not valid YAML: {message}")

"""Loads a YAML file, with overrides from the command line, into a record; all faults come in one error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from npusim.config.document import Document, Fault
from npusim.config.override import override
from npusim.config.reader import read
from npusim.config.validation import validate
from npusim.errors import ConfigError

T = TypeVar("T")


def load(source: Path | Document, cls: type[T], what: str, overrides: Iterable[tuple[str, str]] = ()) -> T:
    """The file or document ``source`` as a ``cls``, after ``overrides`` (key and value, see ``override``) in order.

    ``what`` names the thing in messages, such as "chip". Files are UTF-8, with or without a byte order mark, whatever
    the locale; line ends may be LF or CRLF. Raises ConfigError with every problem found.
    """
    if isinstance(source, Document):
        return _finish(source, [], cls, what, overrides)
    return load_text(read_text(source, what), cls, what, str(source), overrides)


def load_text(
    text: str, cls: type[T], what: str, path: str | None = None, overrides: Iterable[tuple[str, str]] = ()
) -> T:
    """Like ``load``, for a text that may come from the file ``path``."""
    document, faults = read(text, path)
    return _finish(document, faults, cls, what, overrides)


def read_text(path: Path, what: str) -> str:
    """The text of a UTF-8 file that should hold a ``what``; raises ConfigError if it cannot be had."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        close = difflib.get_close_matches(path.name, _siblings(path), n=1)
        hint = f"did you mean {str(path.with_name(close[0]))!r}?" if close else "check the path"
        raise ConfigError([f"{path}: there is no such {what} file; {hint}"]) from None
    except IsADirectoryError:
        raise ConfigError([f"{path}: is a directory; name the {what} file in it"]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        column = len(error.object[error.object.rfind(b"\n", 0, error.start) + 1 : error.start].decode()) + 1
        problem = f"byte 0x{error.object[error.start]:02X} is not UTF-8; save the {what} as UTF-8 text"
        raise ConfigError([f"{path}:{line}:{column}: {problem}"]) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte, or a name that the file system cannot encode
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError([f"{path}: the {what} file cannot be read: {reason}"]) from error


def _siblings(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return []


def _finish(
    document: Document, faults: list[Fault], cls: type[T], what: str, overrides: Iterable[tuple[str, str]]
) -> T:
    if document.root.value is None:
        reason = f"no {what}: the text is empty or holds only comments"
        raise ConfigError(document.render_all(faults or [Fault(document.root.mark, (), reason)]))
    problems = list[str]()
    for key, text in overrides:
        try:
            document = override(document, key, text)
        except ConfigError as error:
            problems += error.problems
    value, invalid = validate(document, cls)
    broken = {fault.mark for fault in faults}
    faults = [*faults, *(fault for fault in invalid if fault.mark not in broken)]
    problems = document.render_all(faults) + problems
    if problems or value is None:
        raise ConfigError(problems)
    return value

"""Runs the code blocks of a Markdown page in their order, and brings the output that they show up to date.

* ``python``: executed; the blocks of a page share one namespace.
* ``yaml`` whose first line is a comment that starts with a file name (``# mine.yaml``): written to that file.
* ``console``: of the lines that start with ``$``, ``npusim`` runs in this process and must exit with 0, or with what
  ``$ echo $?`` behind it shows; other commands are not run. Lines between are output: each must come, in this order,
  with the same words; ``...`` stands for any lines or, within a line, for any words.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npusim.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FOLDERS = ("workloads", "configs")
"""What blocks may name by a path relative to the repository."""
WIDTH = 100
"""Columns of the terminal that the shown output comes from."""

_FENCE = re.compile(r"^```(\w*)$")
_FILE = re.compile(r"# ([\w-]+\.yaml)\b")
_VARYING = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?|─+")
"""Numbers, and the rules of tables, which are as wide as the numbers."""


@dataclass(frozen=True)
class Block:
    """A fenced block: ``start`` is the index in the page of its first line behind the fence."""

    language: str
    start: int
    lines: tuple[str, ...]


@dataclass
class Page:
    """A page under way: its lines, the namespace of its Python blocks, the last command's exit code and output."""

    name: str
    lines: list[str]
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    code: int = 0
    output: list[str] = field(default_factory=list)
    checked: bool = True
    """Whether the last exit code has been compared with what it should be."""


def refreshed(text: str, name: str, folder: Path) -> str:
    """The page ``text`` with its shown output as it is now, after running its blocks in the empty ``folder``.

    ``name`` is what messages call the page. Raises AssertionError, with page and line, for an exit code that is not the
    stated one and for output that does not come; what a Python block raises passes through.
    """
    for item in FOLDERS:
        (folder / item).symlink_to(ROOT / item, target_is_directory=True)
    page = Page(name, text.split("\n"))
    with contextlib.chdir(folder), _environment("COLUMNS", str(WIDTH)):
        for block in list(blocks(page.lines)):
            _run(page, block)
    return "\n".join(page.lines)


def blocks(lines: Sequence[str]) -> Iterator[Block]:
    """The fenced blocks of a page."""
    opened: tuple[str, int] | None = None
    for i, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened = fence[1], i + 1
        else:
            yield Block(opened[0], opened[1], tuple(lines[opened[1] : i]))
            opened = None
    assert opened is None, "a fenced block is not closed"


def _run(page: Page, block: Block) -> None:
    if block.language == "python":
        source = "\n" * block.start + "\n".join(block.lines)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, page.name, "exec"), page.namespace)
    elif block.language == "yaml" and (file := _FILE.match(block.lines[0])):
        Path(file[1]).write_text("\n".join(block.lines) + "\n", encoding="utf-8")
    elif block.language == "console":
        _console(page, block)


def _console(page: Page, block: Block) -> None:
    known, command = False, ""
    for i, line in enumerate(block.lines, block.start):
        if command or line.startswith("$ "):
            command += line.removeprefix("$ ")
            if command.endswith("\\"):
                command = command[:-1]
                continue
            words = shlex.split(command, comments=True)
            known = words[0] == "npusim" or command == "echo $?"
            if words[0] == "npusim":
                _expect_success(page)
                page.code, page.output = _npusim(words[1:])
                page.checked = False
            elif known:
                page.output, page.checked = [str(page.code)], True
            command = ""
        elif known and line.strip() not in ("", "..."):
            page.lines[i] = _same_words(page, line, f"{page.name}:{i + 1}")
    _expect_success(page)


def _expect_success(page: Page) -> None:
    assert page.checked or page.code == 0, f"{page.name}: npusim exits with {page.code}: {page.output}"
    page.checked = True


def _same_words(page: Page, shown: str, where: str) -> str:
    """The next line of the output that differs from ``shown`` in spaces and numbers at most, or ``shown`` with ..."""
    pattern = ".*".join(re.escape(_words(part)) for part in shown.split("..."))
    for i, line in enumerate(page.output):
        if re.fullmatch(pattern, _words(line)):
            page.output = page.output[i + 1 :]
            return shown if "..." in shown else line.rstrip()
    raise AssertionError(f"{where}: no such line comes: {shown!r}; what comes is {page.output}")


def _words(line: str) -> str:
    return " ".join(_VARYING.sub("0", line).split())


def _npusim(arguments: list[str]) -> tuple[int, list[str]]:
    """Exit code and lines of output of the command line."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main(arguments)
        except SystemExit as stop:
            return int(stop.code or 0), output.getvalue().splitlines()
    raise AssertionError("the command line did not exit")


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    old = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if old is None:
            del os.environ[name]
        else:
            os.environ[name] = old

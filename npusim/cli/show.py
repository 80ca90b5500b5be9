"""``npusim show``: every value of a chip, with its meaning and, where the file states it, its source."""

from __future__ import annotations

import re

from rich.console import Console
from rich.table import Table
from rich.text import Text

from npusim.config import Loc, describe, parse
from npusim.frontends.chip import chip_text, load_chip
from npusim.hardware import Chip
from npusim.session import as_data


def show_command(chip: str, overrides: list[str]) -> None:
    """Print the chip's values, one a row; a column of sources if its file has comments beside values."""
    made = load_chip(chip, overrides)
    meanings = {row.path: row.doc for row in describe(Chip)}
    comments = _comments(chip_text(chip))
    rows = list(_flatten(as_data(made), (), ()))
    table = Table(title=f"chip {made.name}", title_justify="left", box=None, padding=(0, 1), header_style="bold")
    table.add_column("key", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("meaning", overflow="fold", style="dim")
    if comments:
        table.add_column("stated in the file", overflow="fold")
    said = ""
    for loc, path, value in rows:
        meaning = _meaning(path, meanings)
        cells = [".".join(map(str, loc)), value, "" if meaning == said else meaning]  # once for a group of rows
        said = meaning
        table.add_row(*map(Text, cells), *([Text(comments.get(loc, ""))] if comments else []))
    Console(highlight=False).print(table)


def _flatten(data: object, loc: Loc, path: tuple[str, ...]) -> list[tuple[Loc, tuple[str, ...], str]]:
    """(place in the file, place in the schema, value) of every leaf; a kind stands for its item in the schema."""
    if isinstance(data, dict):
        inner = (*path, str(data["kind"])) if "kind" in data else path
        return [row for k, v in data.items() for row in _flatten(v, (*loc, str(k)), (*inner, str(k)))]
    if isinstance(data, list) and any(isinstance(v, dict | list) for v in data):
        return [row for i, v in enumerate(data) for row in _flatten(v, (*loc, i), _item(v, path))]
    text = ", ".join(map(str, data)) if isinstance(data, list) else "-" if data is None else str(data)
    return [(loc, path, text)]


def _item(value: object, path: tuple[str, ...]) -> tuple[str, ...]:
    """Where an item of a list stands in the schema: an item with a kind under that kind, any other under ``N``."""
    return path if not isinstance(value, dict) or "kind" in value else (*path, "N")


def _meaning(path: tuple[str, ...], meanings: dict[str, str]) -> str:
    """The description of the field, or of the mapping that holds this key, without the marks around code."""
    found = next((m for end in (len(path), len(path) - 1) if (m := meanings.get(".".join(path[:end])))), "")
    return found.replace("``", "")


def _comments(text: str) -> dict[Loc, str]:
    """The comment behind each value, by its place."""
    document, lines = parse(text), text.splitlines()
    behind = {i + 1: m[1].strip() for i, line in enumerate(lines) if (m := re.search(r"\S\s+#(.*)$", line))}
    found: dict[Loc, str] = {}
    for loc, _, _ in _flatten(document.data, (), ()):
        line, _column = document.position(loc)
        if line in behind:
            found[loc] = behind[line]
    return found

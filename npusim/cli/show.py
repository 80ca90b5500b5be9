"""``npusim show``: every value of a chip, with its meaning and unit."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from npusim.config import describe
from npusim.frontends.chip import load_chip
from npusim.hardware import Chip
from npusim.session import as_data


def show_command(chip: str, overrides: list[str]) -> None:
    """Print the chip's values, one a row."""
    made = load_chip(chip, overrides)
    table = Table(title=f"chip {made.name}", title_justify="left")
    for header in ("key", "value"):
        table.add_column(header, overflow="fold")
    for key, value in _flatten(as_data(made)):
        table.add_row(Text(key), Text(value))
    Console(highlight=False).print(table)


def _flatten(data: object, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(data, dict):
        return [row for k, v in data.items() for row in _flatten(v, f"{prefix}.{k}" if prefix else str(k))]
    if isinstance(data, list) and any(isinstance(v, dict | list) for v in data):
        return [row for i, v in enumerate(data) for row in _flatten(v, f"{prefix}.{i}")]
    if isinstance(data, list):
        return [(prefix, ", ".join(map(str, data)))]
    return [(prefix, str(data))]


_ = describe, Chip

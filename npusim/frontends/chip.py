"""Loads a chip by the name of one that npusim ships with, or from a YAML file."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from npusim.config import load, read_text
from npusim.errors import InputError
from npusim.frontends.overrides import key_values
from npusim.hardware import Chip

DEFAULT_CHIP = "edge"
FOLDERS = ("presets", "published")
SUFFIXES = (".yaml", ".yml")


def load_chip(chip: str | Path, overrides: Sequence[str] = ()) -> Chip:
    """The chip called ``chip``, or that of the YAML file at ``chip``, after ``overrides`` (``key=value``) in order.

    A text is a path if it has a directory or ends in ``.yaml`` or ``.yml``, else the name of a shipped chip. Raises
    InputError for a name that there is not, ConfigError with every problem of the file and of the overrides.
    """
    pairs = key_values(overrides)
    if is_path(chip):
        return load(Path(chip), Chip, "chip", pairs)
    with as_file(shipped_chip(str(chip))) as path:
        return load(path, Chip, "chip", pairs)


def chip_text(chip: str | Path) -> str:
    """The text of the file that :func:`load_chip` reads for ``chip``."""
    if is_path(chip):
        return read_text(Path(chip), "chip")
    with as_file(shipped_chip(str(chip))) as path:
        return read_text(path, "chip")


def shipped_chip(name: str) -> Traversable:
    """The YAML file of a chip that npusim ships with; InputError that lists them if there is none of that name."""
    shipped = shipped_chips()
    if name not in shipped:
        close = difflib.get_close_matches(name, shipped, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "; give one of them, or the path of a .yaml file"
        raise InputError(f"npusim ships with the chips {', '.join(shipped)}, and with none called {name!r}{hint}")
    return shipped[name]


def is_path(chip: str | Path) -> bool:
    """Whether ``chip`` is the path of a file, rather than the name of a shipped chip."""
    return isinstance(chip, Path) or chip.endswith(SUFFIXES) or any(s in chip for s in (os.sep, os.altsep) if s)


def shipped_chips() -> Mapping[str, Traversable]:
    """The chips that npusim ships with: name to YAML file, sorted by name.

    They stand in the package where it is installed, and beside it in the repository.
    """
    package = files("npusim")
    configs = package / "configs"
    if not configs.is_dir():
        configs = Path(str(package)).parent / "configs"
    folders = [folder for name in FOLDERS if (folder := configs / name).is_dir()]
    found = {f.name.rpartition(".")[0]: f for folder in folders for f in folder.iterdir() if f.name.endswith(SUFFIXES)}
    return dict(sorted(found.items()))

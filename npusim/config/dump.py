"""Writes records as YAML text that loads back to equal records."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml  # type: ignore[import-untyped]
from pydantic import TypeAdapter

from npusim.config.scalars import resolve

_WORDS = re.compile(r"\w(?:[\w./+-]| (?=\w))*", re.ASCII)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Block style down to the innermost collections; quotes around every string that is not plainly one."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    """Leaves words without quotes, if YAML 1.2 takes them for a string; PyYAML quotes those that YAML 1.1 does not."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if _is_plain(text) else '"')


def _is_plain(text: str) -> bool:
    try:
        return _WORDS.fullmatch(text) is not None and isinstance(resolve(text), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _represent_text)


def dump(value: object) -> str:
    """The record ``value`` as YAML text, with every field written out, defaults too, and units on quantities."""
    return _dump(TypeAdapter[Any](type(value)).dump_python(value, mode="json"), flow=None)


def dump_inline(value: object, kind: Any) -> str:
    """A value of the type ``kind`` as YAML on a single line."""
    return _dump(TypeAdapter[Any](kind).dump_python(value, mode="json"), flow=True).removesuffix("...\n").strip()


def _dump(data: object, flow: bool | None) -> str:
    text: str = yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf, default_flow_style=flow
    )
    return text

"""Design spaces: keys of the chip or the mapping, each with the values that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from npusim.errors import InputError

Space = Mapping[str, Sequence[str]]
"""The values of each key, as texts; keys and values are those of ``--set key=value``."""

_OPEN, _CLOSE = "[{", "]}"


def space_of(varied: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The space that texts ``key=value,value,...`` span. Commas in brackets, braces and quotes belong to a value.

    InputError for a text without ``=``, an empty or repeated value, or a key that comes twice; all of them at once.

    >>> space_of(["sram.banks=4, 8", "units.0.array.unrollings=[{row: 2}],[{row: 4, column: 2}]"])
    {'sram.banks': ('4', '8'), 'units.0.array.unrollings': ('[{row: 2}]', '[{row: 4, column: 2}]')}
    """
    found: dict[str, tuple[str, ...]] = {}
    problems = []
    for text in varied:
        key, equals, listed = text.partition("=")
        key, values = key.strip(), _values(listed)
        twice = sorted({v for v in values if values.count(v) > 1})
        if not equals or not key:
            problems.append(f"--vary {text}: must be key=value,value,..., such as sram.size_bytes=64 KiB,128 KiB")
        elif not all(values):
            problems.append(f"--vary {text}: has an empty value; put a value before and after every comma")
        elif twice:
            problems.append(f"--vary {text}: has the value {', '.join(twice)} more than once; leave the others out")
        elif key in found:
            problems.append(f"--vary {text}: {key} is varied twice; put all its values into one --vary")
        else:
            found[key] = values
    if problems:
        raise InputError(problems)
    return found


def overrides_of(space: Space) -> Iterator[dict[str, str]]:
    """Every combination of values, by key; the values of the last key change fastest.

    >>> list(overrides_of({"a": ("1", "2"), "b": ("x", "y")}))[:3]
    [{'a': '1', 'b': 'x'}, {'a': '1', 'b': 'y'}, {'a': '2', 'b': 'x'}]
    """
    for values in product(*space.values()):
        yield dict(zip(space, values, strict=True))


def _values(listed: str) -> tuple[str, ...]:
    values, depth, quote = [""], 0, ""
    for c in listed:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        else:
            depth += (c in _OPEN) - (c in _CLOSE)
        if c == "," and not depth and not quote:
            values.append("")
        else:
            values[-1] += c
    return tuple(v.strip() for v in values)

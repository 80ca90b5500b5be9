"""The list of all operators, which is the listing of this folder."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from npusim.errors import InvalidGraphError
from npusim.ops._base import Op


@cache
def op_names() -> tuple[str, ...]:
    """Names of all operators, sorted: the modules of this folder without a leading underscore."""
    folder = import_module("npusim.ops").__path__
    return tuple(sorted(m.name for m in iter_modules(folder) if not m.name.startswith("_")))


@cache
def op_class(name: str) -> type[Op]:
    """The class of the operator called ``name`` (lower case); InvalidGraphError with a suggestion if there is none."""
    if name not in op_names():
        raise InvalidGraphError(f"operator {name!r} is not known{suggestion(str(name).lower(), op_names())}")
    module = import_module(f"npusim.ops.{name}")
    (cls,) = (
        c
        for _, c in inspect.getmembers(module, inspect.isclass)
        if issubclass(c, Op) and c.__module__ == module.__name__
    )
    return cls


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown ``word``: the closest known one, or all of them.

    >>> suggestion("pading", ["padding", "pad_const"]), suggestion("x", ["padding", "pad_const"]), suggestion("x", [])
    ("; did you mean 'padding'?", '; known: padding, pad_const', '; there are none')
    """
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(known)}" if known else "; there are none"

"""Collects what is wrong with a YAML file, each fault at its place, so that one run shows them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from npusim.config import Document, Loc
from npusim.config.document import Fault
from npusim.errors import ConfigError, InputError


class Faults:
    """The faults found so far in one document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[Fault] = []

    def add(self, loc: Loc, *messages: str) -> None:
        """Note something wrong with the value at ``loc``."""
        node, path = self.document.nearest(loc)
        self.found += [Fault(node.place, path, message) for message in messages]

    @contextmanager
    def at(self, loc: Loc) -> Iterator[None]:
        """Note the problems of an InputError from within at ``loc``, and go on."""
        try:
            yield
        except InputError as error:
            self.add(loc, *error.problems)

    def raise_any(self) -> None:
        """Raise ConfigError with all faults in the order of the text, if there are any."""
        if self.found:
            raise ConfigError(self.document.render_all(self.found))

"""The command line: the only room that prints or exits."""

from npusim.cli.main import main

__all__ = ["main"]

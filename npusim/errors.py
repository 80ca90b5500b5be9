"""Every deliberate exception of npusim, split into the user's faults (one message, no traceback) and ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class NpusimError(Exception):
    """Root of every deliberate error; ``exit_code`` is what the command line returns for it."""

    exit_code: ClassVar[int] = 1


class UserError(NpusimError):
    """The user's input is at fault. ``problems`` holds every fault found, one message each.

    The command line prints the messages without a traceback.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        if not self.problems:
            raise ValueError("a UserError needs at least one problem")
        super().__init__("\n".join(self.problems))


class InputError(UserError):
    """Bad input: a file, a configuration or a graph that breaks a rule (exit code 2)."""


class ConfigError(InputError):
    """A YAML file or an override is wrong."""


class FileFormatError(InputError):
    """A model or data file cannot be read."""


class InvalidGraphError(InputError):
    """An operator or a graph breaks a type, shape or attribute rule (an ERROR_IF of TOSA)."""


class UnpredictableError(UserError):
    """Legal graph, but these numbers break a REQUIRE: TOSA leaves the result unpredictable, npusim refuses it."""

    exit_code: ClassVar[int] = 3


class DoesNotFitError(UserError):
    """The workload does not fit the chip: too little memory, or no unit for the work."""

    exit_code: ClassVar[int] = 4


class MismatchError(UserError):
    """The outputs differ from the expected ones."""

    exit_code: ClassVar[int] = 5


class InternalError(NpusimError):
    """npusim itself is at fault; the command line prints the traceback and says so."""


class ProgramError(InternalError):
    """A tile program breaks an invariant: a fault of the mapper, never of the input."""


class DeadlockError(InternalError):
    """Commands of a tile program never became ready."""


class ReadinessError(InternalError):
    """A command read SRAM bytes that no finished command had written."""

"""Errors: whose fault, which exit code, and all problems in one."""

from __future__ import annotations

import inspect

import pytest

from npusim import errors
from npusim.errors import (
    ConfigError,
    DeadlockError,
    DoesNotFitError,
    FileFormatError,
    InputError,
    InternalError,
    InvalidGraphError,
    MismatchError,
    NpusimError,
    ProgramError,
    ReadinessError,
    UnpredictableError,
    UserError,
)

EXIT_CODES: dict[type[NpusimError], int] = {
    NpusimError: 1,
    UserError: 2,
    InputError: 2,
    ConfigError: 2,
    FileFormatError: 2,
    InvalidGraphError: 2,
    UnpredictableError: 3,
    DoesNotFitError: 4,
    MismatchError: 5,
    InternalError: 1,
    ProgramError: 1,
    DeadlockError: 1,
    ReadinessError: 1,
}


def test_every_error_has_its_exit_code() -> None:
    classes = {c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, NpusimError)}
    assert {c: c.exit_code for c in classes} == EXIT_CODES


@pytest.mark.parametrize("cls", EXIT_CODES, ids=lambda c: c.__name__)
def test_a_fault_is_the_users_or_ours(cls: type[NpusimError]) -> None:
    assert issubclass(cls, NpusimError)
    if cls is not NpusimError:
        assert issubclass(cls, UserError) != issubclass(cls, InternalError)
        assert issubclass(cls, InternalError) == (cls.exit_code == 1)
    assert issubclass(cls, InputError) == (cls.exit_code == 2 and cls is not UserError)


@pytest.mark.parametrize("cls", [c for c in EXIT_CODES if issubclass(c, UserError)], ids=lambda c: c.__name__)
def test_a_users_error_holds_every_problem(cls: type[UserError]) -> None:
    assert cls("one problem").problems == ("one problem",)
    error = cls(["chip.yaml:1:1: first", "chip.yaml:2:1: second"])
    assert error.problems == ("chip.yaml:1:1: first", "chip.yaml:2:1: second")
    assert str(error) == "chip.yaml:1:1: first\nchip.yaml:2:1: second"
    with pytest.raises(ValueError, match="a UserError needs at least one problem"):
        cls([])


def test_an_error_of_ours_is_one_message() -> None:
    with pytest.raises(InternalError, match="command 7 is not ordered"):
        raise ProgramError("command 7 is not ordered")

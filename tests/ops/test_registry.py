"""The operators are the modules of their folder, and each module holds one."""

from __future__ import annotations

from pathlib import Path

import pytest

import npusim.ops
from npusim.errors import InvalidGraphError
from npusim.ops import op_class, op_names, suggestion


def test_names_are_the_files_without_underscore() -> None:
    (folder,) = npusim.ops.__path__
    assert op_names() == tuple(sorted(p.stem for p in Path(folder).glob("[a-z]*.py")))


@pytest.mark.parametrize("name", op_names())
def test_every_module_holds_the_operator_of_its_name(name: str) -> None:
    cls = op_class(name)
    assert cls.name == name
    assert cls.operands
    assert cls.__doc__
    assert set(cls.attribute_operands) <= set(cls.operands)
    for row in cls.rows:
        assert len(row.operands) == len(cls.operands)


def test_unknown_operator_with_suggestion() -> None:
    with pytest.raises(InvalidGraphError, match=r"operator 'transpos' is not known; did you mean 'transpose'\?"):
        op_class("transpos")
    with pytest.raises(InvalidGraphError, match="operator 'PAD' is not known; did you mean 'pad'"):
        op_class("PAD")


def test_suggestion_lists_all_when_nothing_is_close() -> None:
    assert suggestion("zz", ["one", "two"]) == "; known: one, two"
    assert suggestion("zz", []) == "; there are none"

"""One operator without a chip: built from its name and plain attributes, bound to checked arrays, evaluated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count, product
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from npusim.errors import InvalidGraphError
from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import BOOL, DTYPES, F32, I8, I16, I32, I48, U8, U16, Array, DType, first_outside
from npusim.ops._base import Bound, Op, evaluate_bound
from npusim.ops._registry import op_class, suggestion

DIALECTS = ("tosa", "seed")
"""``tosa``: TOSA 1.0. ``seed``: the draft of January 2021."""

NUMPY_TYPES = {t.storage: t for t in (BOOL, I8, I16, I32, I48, U8, U16, F32)}
"""The element type that a numpy array has unless another is stated."""


def evaluate(
    op: str,
    operands: Sequence[ArrayLike],
    *,
    types: Sequence[str] | None = None,
    overflow: Policy = "refuse",
    dialect: str | None = None,
    **attributes: Any,
) -> Array:
    """What the operator ``op`` makes of ``operands``: its whole meaning, exact, without a chip.

    ``types`` names the element type of every operand (``"i4"``); without it numpy's dtypes tell: bool, int8, int16,
    int32, uint8, uint16, float32, and int64 for i48. ``attributes`` are those of the operator; lists serve as tuples.
    An operand that the operator also takes as an attribute (the table of ``table``, multiplier and shift of
    ``rescale``) may be given as one and is then left out of ``operands``. ``overflow`` says what an accumulator does
    with a sum that does not fit. ``dialect`` is ``"tosa"`` (1.0, the default) or ``"seed"``.

    Returns a new array in the storage type of the output's element type. Raises InvalidGraphError for an unknown
    operator, for attributes that are unknown, missing or of a wrong type (all at once), for operands whose values are
    outside their type and for every broken rule; UnpredictableError for values whose result TOSA does not define.

    >>> evaluate("concat", [np.int8([[1, 2]]), np.int8([[3]])], axis=1)
    array([[1, 2, 3]], dtype=int8)
    """
    if overflow not in get_args(Policy):
        raise InvalidGraphError(
            f"overflow policy {overflow!r} is not known{suggestion(str(overflow), get_args(Policy))}"
        )
    bound, arrays = bind_arrays(op, operands, attributes, types=types, dialect=dialect)
    out = np.asarray(evaluate_bound(bound, arrays, Overflow(overflow, op)))
    fresh = out.flags.owndata and not any(out is x for x in arrays)
    return out if fresh else out.copy()


def bind_arrays(
    op: str,
    operands: Sequence[ArrayLike],
    attributes: Mapping[str, Any],
    *,
    types: Sequence[str] | None = None,
    dialect: str | None = None,
) -> tuple[Bound, tuple[Array, ...]]:
    """The operator bound to the types of ``operands``, and all its operands in storage types.

    Arguments and errors are those of :func:`evaluate`.
    """
    cls = op_class(op)
    attributes = cls.take_apart(attributes)
    stated = {k: v for k, v in attributes.items() if k in cls.attribute_operands}
    made = make_op(op, {k: v for k, v in attributes.items() if k not in stated}, dialect)
    if types is not None and len(types) != len(operands):
        made.fail(f"types must name one type per operand, got {len(types)} for {len(operands)}")

    names = (made.operand_name(i) for i in count())
    given = dict(zip((n for n in names if n not in stated), operands, strict=False))
    type_names = [None] * len(operands) if types is None else types
    known = {n: _element_type(f"{op}: {n}", given[n], t) for n, t in zip(given, type_names, strict=True)}
    values = given | stated
    order = [*(n for n in cls.operands if n in values), *(n for n in given if n not in cls.operands)]
    dtypes = complete_types(made, order, known)
    arrays = tuple(as_operand(f"{op}: {n}", values[n], t) for n, t in zip(order, dtypes, strict=True))
    return made.bind([TensorType(x.shape, t) for x, t in zip(arrays, dtypes, strict=True)]), arrays


def make_op(name: str, attributes: Mapping[str, Any], dialect: str | None = None) -> Op:
    """The operator called ``name`` with these attributes in plain form, as YAML and keyword arguments give them.

    Lists of integers become tuples; an integer is not a bool, nor the reverse. ``dialect`` (None: ``"tosa"``) reaches
    the operators whose rules differ between the dialects. Raises InvalidGraphError that lists every attribute that is
    unknown, missing or of a wrong type. Rules about their values are checked when the operator is bound to types.
    """
    cls = op_class(name)
    hints = _hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    knows_dialect = fields.pop("dialect", None) is not None
    problems = []
    if dialect not in (None, *DIALECTS):
        problems.append(f"{name}: dialect {dialect!r} is not known{suggestion(str(dialect), DIALECTS)}")
    values: dict[str, Any] = {}
    for key, value in attributes.items():
        if key not in fields:
            hint = suggestion(str(key), [*fields, *cls.attribute_operands])
            problems.append(f"{name}: attribute {key!r} is not known{hint}")
            continue
        try:
            values[key] = _conform(value, hints[key])
        except _WrongTypeError:
            problems.append(f"{name}: attribute {key} must be {_describe(hints[key])}, got {value!r}")
    for f in fields.values():
        if f.default is dataclasses.MISSING and f.name not in attributes:
            problems.append(f"{name}: attribute {f.name} is missing; state it ({_describe(hints[f.name])})")
    if problems:
        raise InvalidGraphError(problems)
    return cls(**values, **({"dialect": dialect} if knows_dialect and dialect else {}))


@cache
def _hints(cls: type[Op]) -> Mapping[str, Any]:
    return get_type_hints(cls)


def as_operand(where: str, value: ArrayLike, dtype: DType) -> Array:
    """``value`` as an array in the storage type of ``dtype``, every element checked against its range.

    Integers of any width serve for an integer type, so long as they fit; floats and bools never do. A bool takes only
    bools, f32 only float32 arrays (or plain numbers). InvalidGraphError opens with ``where`` and names the first
    offending index and its value.
    """
    try:
        x = np.asarray(value)
    except ValueError:
        raise InvalidGraphError(f"{where} is ragged; its rows must have equal lengths") from None
    plain = not isinstance(value, np.ndarray | np.generic)
    kind = x.dtype.kind if x.size or not plain else dtype.storage.kind
    if kind == "O" and all(type(v) is int for v in x.flat):
        kind = "i"
    if dtype.is_integer:
        legal = kind in "iu"
    elif dtype is BOOL:
        legal = kind == "b"
    else:
        legal = x.dtype.newbyteorder("=") == dtype.storage or (plain and kind in "iuf")
    if not legal:
        raise InvalidGraphError(f"{where} holds {x.dtype} values, but its type is {dtype}; convert them explicitly")
    at = first_outside(x, dtype)
    if at is not None:
        limits = f"{dtype.minimum}..{dtype.maximum}"
        raise InvalidGraphError(f"{where} at index {list(at)} is {int(x[at])}, outside {dtype} ({limits})")
    return np.asarray(x, dtype.storage, order="C")


def _element_type(where: str, value: ArrayLike, stated: str | None) -> DType:
    """The element type of an operand, by its stated name or else by numpy's dtype."""
    if stated is not None:
        if stated not in DTYPES:
            raise InvalidGraphError(f"{where} has unknown type {stated!r}{suggestion(str(stated), DTYPES)}")
        return DTYPES[stated]
    if not isinstance(value, np.ndarray | np.generic):
        raise InvalidGraphError(f"{where} has no element type; state types=[...] or pass a numpy array")
    if value.dtype.newbyteorder("=") not in NUMPY_TYPES:
        held = ", ".join(map(str, NUMPY_TYPES))
        raise InvalidGraphError(f"{where} has dtype {value.dtype}; convert it to one of {held}, or state types=[...]")
    return NUMPY_TYPES[value.dtype.newbyteorder("=")]


def complete_types(op: Op, names: Sequence[str], known: Mapping[str, DType]) -> tuple[DType, ...]:
    """The operand types with those of attribute operands filled in, so that the type table has the combination.

    Their declared types where it has none (or operands are missing): binding then says what is wrong.
    """
    declared = tuple(known.get(n) or op.attribute_operands[n] for n in names)
    if len(known) == len(names) or len(names) != len(op.operands):
        return declared
    options = [
        [t] if n in known else [t, *(r.operands[i] for r in op.rows)]
        for i, (n, t) in enumerate(zip(names, declared, strict=True))
    ]
    return next((c for c in product(*options) if op.select_row(c) is not None), declared)


class _WrongTypeError(Exception):
    """An attribute's value does not have the type of its field."""


def _conform(value: Any, hint: Any) -> Any:
    """``value`` as a field of type ``hint`` holds it."""
    if hint is bool and isinstance(value, bool | np.bool_):
        return bool(value)
    if hint is int and isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    if hint in (str, type(None)) and isinstance(value, hint):
        return value
    if get_origin(hint) is tuple and isinstance(value, list | tuple | np.ndarray):
        return tuple(_conform(v, get_args(hint)[0]) for v in value)
    if get_origin(hint) is UnionType:
        for option in get_args(hint):
            try:
                return _conform(value, option)
            except _WrongTypeError:
                continue
    raise _WrongTypeError


def _describe(hint: Any) -> str:
    """The type of a field in words."""
    if get_origin(hint) is tuple:
        return "a list of integers"
    if get_origin(hint) is UnionType:
        return " or ".join(map(_describe, get_args(hint)))
    return {bool: "true or false", int: "an integer", str: "a text", type(None): "left out"}[hint]

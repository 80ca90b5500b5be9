"""The operator contract: one operator is one file with one frozen dataclass that says all about it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Work
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array, DType


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One legal combination of element types; ``accumulator`` is what partial results are held in."""

    operands: tuple[DType, ...]
    output: DType
    accumulator: DType

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.operands))}) -> {self.output}"


@dataclass(frozen=True)
class Bound:
    """An operator bound to the types of its operands: everything that follows from them, computed once."""

    op: Op
    operands: tuple[TensorType, ...]
    output: TensorType
    accumulator: DType
    work: Work


class Op(ABC):
    """What one operator means, said once. Subclasses are frozen dataclasses; their fields are the attributes.

    ``operands`` names the operands in order (``variadic``: the last name stands for one or more). ``rows`` is the
    type table. ``rules`` maps the name of each rule to its sentence; :meth:`refuse` quotes it. ``attribute_operands``
    gives, for operands that the API and YAML may also state as attributes (a table, multipliers), their element type.
    """

    name: ClassVar[str]
    operands: ClassVar[tuple[str, ...]]
    variadic: ClassVar[bool] = False
    rows: ClassVar[tuple[TypeRow, ...]]
    rules: ClassVar[Mapping[str, str]] = {}
    attribute_operands: ClassVar[Mapping[str, DType]] = {}

    # -- what a subclass states -------------------------------------------------------------------------------

    @abstractmethod
    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        """The output shape; refuses attributes and shapes that break a rule."""

    @abstractmethod
    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        """Iteration space and accesses."""

    @abstractmethod
    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        """Fold one box of the iteration space into ``acc`` (None: nothing folded yet): the functional meaning.

        ``operands[i]`` is the footprint of operand i for ``box``, in the operand's storage type, with
        :meth:`pad_value` outside the operand. Returns an array of the box's output shape in the accumulator's
        storage type. Boxes arrive so that the reduction is complete before :meth:`finish`. An operand whose access
        is ``final`` may be an empty placeholder here.
        """

    def finish(self, bound: Bound, acc: Array, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        """Turn a complete accumulator into the output (bias, scaling); by default it is the output."""
        return acc

    def pad_value(self, bound: Bound, operand: int) -> int:
        """Value read outside the operand at this position."""
        return 0

    def select_row(self, dtypes: tuple[DType, ...]) -> TypeRow | None:
        """The type row for these operand types; None if there is none. Overridden where an attribute decides."""
        return next((r for r in self.rows if r.operands == dtypes), None)

    # -- what every operator gets -----------------------------------------------------------------------------

    def bind(self, operands: Sequence[TensorType]) -> Bound:
        """Check operand count, types, sizes and every rule; return all that follows from the types.

        Raises InvalidGraphError with operator, rule, value and remedy.
        """
        operands = tuple(operands)
        wanted = len(self.operands)
        if len(operands) != wanted and not (self.variadic and len(operands) >= wanted):
            more = " or more" if self.variadic else ""
            self.fail(f"takes {wanted}{more} operands ({', '.join(self.operands)}), got {len(operands)}")
        for i, t in enumerate(operands):
            if any(n < 1 for n in t.shape):
                self.fail(f"{self.operand_name(i)} has shape {list(t.shape)}; every dimension must be at least 1")
        row = self.select_row(tuple(t.dtype for t in operands))
        if row is None:
            got = ", ".join(f"{self.operand_name(i)} {t.dtype}" for i, t in enumerate(operands))
            legal = "; ".join(map(str, self.rows))
            self.fail(f"no type rule for {got}; legal: {legal}")
        output = TensorType(self.shape(operands), row.output)
        return Bound(self, operands, output, row.accumulator, self.work(operands, output))

    def operand_name(self, i: int) -> str:
        """Name of operand ``i``, also for the tail of a variadic operator."""
        return self.operands[i] if i < len(self.operands) else f"{self.operands[-1]}[{i - len(self.operands) + 1}]"

    def refuse(self, rule: str, got: str) -> NoReturn:
        """Raise InvalidGraphError for the named rule; ``got`` says the attribute or operand and its value."""
        raise InvalidGraphError(f"{self.name}: {self.rules[rule]} (rule {rule}), got {got}")

    def fail(self, message: str) -> NoReturn:
        """Raise InvalidGraphError for a fault that is common to all operators."""
        raise InvalidGraphError(f"{self.name}: {message}")

    def attributes(self) -> dict[str, Any]:
        """The attributes by name, in the order of their declaration."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


def read_padded(x: Array, have: tuple[int, ...], want: Box, value: int) -> Array:
    """``want`` out of ``x``, whose first element has index ``have`` in its tensor; ``value`` outside.

    A view where nothing is padded.
    """
    inside = want.relative_to(have).clip(x.shape)
    part = x[inside.slices]
    shape = want.shape
    if part.shape == shape:
        return part
    out = np.full(shape, value, x.dtype)
    if part.size:
        at = tuple(slice(a + h - w, b + h - w) for a, b, h, w in zip(inside.lo, inside.hi, have, want.lo, strict=True))
        out[at] = part
    return out


def evaluate_bound(bound: Bound, arrays: Sequence[Array], overflow: Overflow) -> Array:
    """The whole operator at once: one step over the whole space, then finish. Arrays are in storage types."""
    work = bound.work
    space = work.space
    full: list[Array] = [np.empty(0)] * len(bound.operands)
    for access in work.reads:
        i = access.operand
        want = access.footprint(work.index, space)
        full[i] = read_padded(arrays[i], (0,) * arrays[i].ndim, want, bound.op.pad_value(bound, i))
    acc = bound.op.step(bound, None, full, space, overflow)
    return bound.op.finish(bound, acc, full, space, overflow)

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

    ``operands`` names the operands in order (``variadic``: the last name stands for one or more; ``optional``: how many
    of the last ones may be left out). ``rows`` is the type table, for all operands. ``rules`` maps the name of each
    rule to its sentence; :meth:`refuse` quotes it. ``attribute_operands`` gives, for operands that the API and YAML may
    also state as attributes (a table, multipliers), their element type.
    """

    name: ClassVar[str]
    operands: ClassVar[tuple[str, ...]]
    variadic: ClassVar[bool] = False
    optional: ClassVar[int] = 0
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
        :meth:`outside_value` outside the operand. Returns an array of the box's output shape in the accumulator's
        storage type. Boxes arrive so that the reduction is complete before :meth:`finish`. An operand whose access
        is ``final`` may be an empty placeholder here.
        """

    def finish(self, bound: Bound, acc: Array, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        """Turn a complete accumulator into the output (bias, scaling); by default it is the output."""
        return acc

    def outside_value(self, bound: Bound, operand: int) -> int:
        """Value read outside the operand at this position."""
        return 0

    def select_row(self, dtypes: tuple[DType, ...]) -> TypeRow | None:
        """The type row for these operand types; None if there is none. Overridden where an attribute decides."""
        return next((r for r in self.rows if r.operands == dtypes), None)

    @classmethod
    def take_apart(cls, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """``attributes`` as users write them, in terms of the fields and operands of the class."""
        return attributes

    # -- what every operator gets -----------------------------------------------------------------------------

    def bind(self, operands: Sequence[TensorType]) -> Bound:
        """Check operand count, types, sizes and every rule; return all that follows from the types.

        Raises InvalidGraphError with operator, rule, value and remedy.
        """
        operands = tuple(operands)
        most = len(self.operands)
        least = most - self.optional
        if len(operands) < least or (len(operands) > most and not self.variadic):
            wanted = f"{least} to {most}" if self.optional else f"{most} or more" if self.variadic else most
            self.fail(f"takes {wanted} operands ({', '.join(self.operands)}), got {len(operands)}")
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


PADDED_BYTES = 1 << 27
"""Most bytes of operands that are copied at a time to pad them; a larger box is evaluated in halves."""


def evaluate_bound(bound: Bound, arrays: Sequence[Array], overflow: Overflow) -> Array:
    """The whole operator at once: its whole space folded, then finished. Arrays are in storage types."""
    origins = [(0,) * x.ndim for x in arrays]
    return evaluate_box(bound, None, arrays, origins, bound.work.space, overflow)


def evaluate_box(
    bound: Bound,
    acc: Array | None,
    arrays: Sequence[Array],
    origins: Sequence[tuple[int, ...]],
    box: Box,
    overflow: Overflow,
    last: bool = True,
) -> Array:
    """Fold ``box`` into ``acc``; with ``last`` it completes the reduction, and the result is finished.

    ``arrays[i]`` holds the elements of operand i from index ``origins[i]`` on, all that ``box`` touches; an operand
    whose access is ``final`` may be anything unless ``last``. The outputs of a box that would need more than
    PADDED_BYTES of padded copies (a kernel of 8192 rows and columns, nearly all of it on padding) are made in halves,
    or, if it has but one output, its reduction is, in its order; so the partial sums of an output never change.
    """
    op, work = bound.op, bound.work
    wants = [(a.operand, a.footprint(work.index, box)) for a in work.reads if last or not a.final]
    if _padded_bytes(bound, wants) > PADDED_BYTES and (cut := _cut(bound, box)) is not None:
        halves = _halves(box, cut)
        if work.dims[cut].reduce:
            acc = evaluate_box(bound, acc, arrays, origins, halves[0], overflow, last=False)
            return evaluate_box(bound, acc, arrays, origins, halves[1], overflow, last)
        start = work.write.footprint(work.index, box).lo
        outs = [work.write.footprint(work.index, half).relative_to(start).slices for half in halves]
        before = [None if acc is None else acc[at] for at in outs]
        parts = [
            evaluate_box(bound, b, arrays, origins, half, overflow, last)
            for b, half in zip(before, halves, strict=True)
        ]
        return np.concatenate(parts, next(i for i, (a, b) in enumerate(zip(*outs, strict=True)) if a != b))
    operands: list[Array] = [np.empty(0)] * len(bound.operands)
    for i, want in wants:
        operands[i] = read_padded(arrays[i], origins[i], want, op.outside_value(bound, i))
    acc = op.step(bound, acc, operands, box, overflow)
    return op.finish(bound, acc, operands, box, overflow) if last else acc


def _padded_bytes(bound: Bound, wants: Sequence[tuple[int, Box]]) -> int:
    """Bytes of the footprints that stick out of their operands, so that reading them makes a copy."""
    total = 0
    for i, want in wants:
        tensor = bound.operands[i]
        if any(a < 0 or b > n for a, b, n in zip(*want, tensor.shape, strict=True)):
            total += want.size * tensor.dtype.storage.itemsize
    return total


def _cut(bound: Bound, box: Box) -> int | None:
    """The dimension along which to halve ``box``: the parallel one that saves the most padding, else the outermost
    reduced one, else None."""
    work = bound.work
    long = [i for i, d in enumerate(work.dims) if d.splittable and box.hi[i] - box.lo[i] > 1]
    parallel = [i for i in long if not work.dims[i].reduce]

    def cost(i: int) -> int:
        half = _halves(box, i)[0]
        return _padded_bytes(bound, [(a.operand, a.footprint(work.index, half)) for a in work.reads])

    return min(parallel, key=cost) if parallel else next(iter(long), None)


def _halves(box: Box, i: int) -> tuple[Box, Box]:
    """``box`` cut in two along dimension ``i``, which is at least 2 long."""
    middle = (box.lo[i] + box.hi[i] + 1) // 2
    upper = (*box.hi[:i], middle, *box.hi[i + 1 :])
    lower = (*box.lo[:i], middle, *box.lo[i + 1 :])
    return Box(box.lo, upper), Box(lower, box.hi)

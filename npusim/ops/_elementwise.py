"""Shared parts of the element-wise operators: broadcasting, one dimension per axis, chunks, and checks of values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, NoReturn

import numpy as np

from npusim.errors import UnpredictableError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array, DType, first_outside
from npusim.ops._base import Bound, Op, TypeRow

AXIS_NAMES = tuple(f"d{i}" for i in range(64))
"""Names of the dimensions of an operator whose space is its output (numpy holds at most 64 axes)."""

CHUNK = 1 << 16
"""Elements computed at a time: int64 temporaries of this size stay in a second-level cache."""


def output_dims(shape: tuple[int, ...]) -> tuple[Dim, ...]:
    """One parallel dimension per output axis, all of them channels to a hardware unit."""
    return tuple(Dim(AXIS_NAMES[i], n, Loop.CHANNEL) for i, n in enumerate(shape))


def output_access(rank: int) -> Access:
    """The write of an operator whose space is its output."""
    return Access(-1, tuple(along(AXIS_NAMES[i]) for i in range(rank)))


def aligned_access(operand: int, shape: tuple[int, ...]) -> Access:
    """The read of an operand that broadcasts: along the output's axes, always index 0 where its size is 1."""
    return Access(operand, tuple(Axis() if n == 1 else along(AXIS_NAMES[k]) for k, n in enumerate(shape)))


def same_type_rows(arity: int, *dtypes: DType, output: DType | None = None) -> tuple[TypeRow, ...]:
    """A type row per ``dtypes``: ``arity`` operands of that type, and an output of it or always of ``output``."""
    return tuple(TypeRow((t,) * arity, output or t, output or t) for t in dtypes)


def pieces(box: Box, limit: int) -> Iterator[Box]:
    """Boxes of at most ``limit`` (>= 1) points that cover ``box`` in index order, fast axes kept whole.

    >>> [str(p) for p in pieces(Box((0, 4), (3, 6)), 4)]
    ['[0:2, 4:6]', '[2:3, 4:6]']
    """
    k, run = len(box.lo), 1
    while k and run * (box.hi[k - 1] - box.lo[k - 1]) <= limit:
        k -= 1
        run *= box.hi[k] - box.lo[k]
    if not k:
        yield box
        return
    k -= 1
    for outer in product(*(range(a, b) for a, b in zip(box.lo[:k], box.hi[:k], strict=True))):
        for a in range(box.lo[k], box.hi[k], limit // run):
            b = min(a + limit // run, box.hi[k])
            yield Box((*outer, a, *box.lo[k + 1 :]), (*(i + 1 for i in outer), b, *box.hi[k + 1 :]))


@dataclass(frozen=True, slots=True)
class Place:
    """Where values sit, for messages: the operator (and its layer), and the output index of the first of them."""

    where: str
    origin: tuple[int, ...]

    def refuse(self, index: tuple[int, ...], rule: str, got: str) -> NoReturn:
        """Raise UnpredictableError: ``got``, at ``index`` counted from the origin, breaks ``rule``."""
        at = [o + i for o, i in zip(self.origin, index, strict=False)]
        raise UnpredictableError(
            f"{self.where}: {rule}, got {got} at output index {at}; TOSA leaves the result unpredictable"
        )

    def require(self, broken: Array, rule: str, value: Array) -> None:
        """Refuse the first element at which ``broken`` is true, naming its ``value`` (of a broadcasting shape)."""
        if broken.any():
            index = tuple(int(i) for i in np.unravel_index(int(np.argmax(broken)), broken.shape))
            self.refuse(index, rule, str(np.broadcast_to(value, broken.shape)[index]))

    def require_range(self, x: Array, dtype: DType, what: str) -> Array:
        """``x`` in the storage type of ``dtype``; refused if an element does not fit ``dtype``."""
        index = first_outside(x, dtype)
        if index is not None:
            self.refuse(index, f"{what} must fit {dtype} ({dtype.minimum}..{dtype.maximum})", str(x[index]))
        return x.astype(dtype.storage, copy=False)


class Elementwise(Op):
    """An operator whose output element depends on the elements at the same index, with broadcasting of size-1 axes."""

    rules: ClassVar[Mapping[str, str]] = {
        "same_rank": "operands must have the same rank",
        "broadcastable": "operand sizes must be equal or 1 along every axis",
    }

    @abstractmethod
    def compute(self, bound: Bound, operands: Sequence[Array], place: Place) -> Array:
        """The output for operand tiles that broadcast against each other, in the output's storage type.

        A value that breaks a REQUIRE of TOSA is refused through ``place``. Tiles have at least one axis.
        """

    def shape(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        return self.broadcast(operands)

    def broadcast(self, operands: Sequence[TensorType]) -> tuple[int, ...]:
        """The common shape, by TOSA's rule: equal rank, sizes equal or 1."""
        shapes = [t.shape for t in operands]
        got = ", ".join(f"{self.operand_name(i)} {list(s)}" for i, s in enumerate(shapes))
        if len({len(s) for s in shapes}) > 1:
            self.refuse("same_rank", got)
        out = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
        if any(n not in (1, m) for s in shapes for n, m in zip(s, out, strict=True)):
            self.refuse("broadcastable", got)
        return out

    def work(self, operands: Sequence[TensorType], output: TensorType) -> Work:
        reads = tuple(aligned_access(i, t.shape) for i, t in enumerate(operands))
        return Work(UnitKind.VECTOR, output_dims(output.shape), reads, output_access(len(output.shape)))

    def step(self, bound: Bound, acc: Array | None, operands: Sequence[Array], box: Box, overflow: Overflow) -> Array:
        where = overflow.where or self.name
        if not box.lo:
            return self.compute(bound, [np.atleast_1d(x) for x in operands], Place(where, box.lo)).reshape(())
        if box.size <= CHUNK:
            return self.compute(bound, operands, Place(where, box.lo))
        reads, index = bound.work.reads, bound.work.index
        origins = [r.footprint(index, box).lo for r in reads]
        out = np.empty(box.shape, bound.output.dtype.storage)
        for piece in pieces(box, CHUNK):
            parts = [
                x[r.footprint(index, piece).relative_to(origin).slices]
                for x, r, origin in zip(operands, reads, origins, strict=True)
            ]
            out[piece.relative_to(box.lo).slices] = self.compute(bound, parts, Place(where, piece.lo))
        return out

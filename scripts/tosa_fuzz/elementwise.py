"""Random element-wise operators and reductions, each a function that appends one operator of TOSA to a graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from npusim.frontends.tosa import encode_constant
from npusim.frontends.tosa.native import ELEMENT_TYPES

from .writer import MOST_ELEMENTS, GraphWriter, Shape

ALL = ("INT8", "INT16", "INT32")
ANY = ("BOOL", *ALL)
RANKS = (0, 5)

CASTS = {
    "BOOL": ("INT8", "INT16", "INT32"),
    "INT8": ("BOOL", "INT16", "INT32"),
    "INT16": ("BOOL", "INT8", "INT32"),
    "INT32": ("BOOL", "INT8", "INT16"),
}
BITS = {"INT8": 8, "INT16": 16, "INT32": 32}


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of an element-wise operator's output."""
    return tuple(max(m, n) for m, n in zip(a, b, strict=True))


def partner(g: GraphWriter, dtype: str, shape: Shape, low: int | None = None, high: int | None = None) -> str:
    """A value of a shape that broadcasts with ``shape``: an earlier one, or a fresh one with elements in a range."""

    def fits(other: Shape) -> bool:
        pairs = list(zip(shape, other, strict=True))
        return all(m == n or 1 in (m, n) for m, n in pairs) and prod(map(max, pairs)) <= MOST_ELEMENTS

    old = [v for v in g.values if g.dtype(v) == dtype and len(g.shape(v)) == len(shape) and fits(g.shape(v))]
    if old and g.choices.chance(1, 2) and low is None:
        return g.choices.sample(old[::-1])
    wanted = [g.choices.sample((n, n, 1)) for n in shape]
    for axis, n in enumerate(shape):
        if n == 1 and g.choices.chance(1, 4):
            room = MOST_ELEMENTS // max(1, prod(map(max, zip(shape, wanted, strict=True))))
            wanted[axis] = g.choices.integer(1, max(1, min(5, room)))
    return g.fresh(tuple(wanted), dtype, low, high)


def binary(g: GraphWriter, name: str, dtypes: tuple[str, ...], output: str = "", **attributes: object) -> None:
    """An operator on two values of one type."""
    a = g.operand(dtypes, RANKS)
    dtype = g.dtype(a)
    pair = [a, partner(g, dtype, g.shape(a))]
    if g.choices.chance(1, 2):
        pair.reverse()
    g.emit(name, pair, broadcast(*map(g.shape, pair)), output or dtype, attributes)


def shift(g: GraphWriter, name: str) -> None:
    """A shift, most often by legal amounts."""
    a = g.operand(ALL, RANKS)
    dtype = g.dtype(a)
    low, high = (-1, BITS[dtype]) if g.choices.chance(1, 8) else (0, BITS[dtype] - 1)
    b = partner(g, dtype, g.shape(a), low, high)
    attributes = {"round": g.choices.chance(1, 2)} if name == "ARITHMETIC_RIGHT_SHIFT" else {}
    g.emit(name, (a, b), broadcast(g.shape(a), g.shape(b)), dtype, attributes)


def mul(g: GraphWriter) -> None:
    """MUL, of 32-bit values also with a shift.

    Not of 63 bits: there the model's own 64-bit sum overflows for the square of -2**31.
    """
    a = g.operand(ALL, RANKS)
    dtype = g.dtype(a)
    b = partner(g, dtype, g.shape(a))
    amount = g.choices.sample((0, 31, 62, g.choices.integer(1, 62))) if dtype == "INT32" else 0
    g.emit("MUL", (a, b, g.number(amount, "INT8")), broadcast(g.shape(a), g.shape(b)), "INT32")


def intdiv(g: GraphWriter) -> None:
    """INTDIV, seldom by zero: that ends the reference model."""
    a = g.operand(("INT32",), RANKS)
    low, high = g.choices.sample(((1, 2**31 - 1), (-(2**31), -1), (-(2**31), -1), (-3, 3)))
    b = partner(g, "INT32", g.shape(a), low, high)
    g.emit("INTDIV", (a, b), broadcast(g.shape(a), g.shape(b)), "INT32")


def select(g: GraphWriter) -> None:
    """SELECT."""
    a = g.operand(ANY, RANKS)
    b = partner(g, g.dtype(a), g.shape(a))
    shape = broadcast(g.shape(a), g.shape(b))
    which = partner(g, "BOOL", shape)
    g.emit("SELECT", (which, a, b), broadcast(g.shape(which), shape), g.dtype(a))


def unary(g: GraphWriter, name: str, dtypes: tuple[str, ...]) -> None:
    """An operator on one value that keeps its type."""
    a = g.operand(dtypes, RANKS)
    g.emit(name, (a,), g.shape(a), g.dtype(a))


def negate(g: GraphWriter) -> None:
    """NEGATE."""
    a = g.operand(ALL, RANKS)
    dtype = g.dtype(a)
    points = [g.number(g.zero_point(dtype), dtype) for _ in range(2)]
    g.emit("NEGATE", (a, *points), g.shape(a), dtype)


def clamp(g: GraphWriter) -> None:
    """CLAMP."""
    a = g.operand(("INT8", "INT16"), RANKS)
    dtype = ELEMENT_TYPES[g.dtype(a)]
    low = g.choices.sample((0, dtype.minimum, g.choices.integer(dtype.minimum, dtype.maximum)))
    high = g.choices.sample((dtype.maximum, low, g.choices.integer(low, dtype.maximum)))
    limits = {"min_val": encode_constant([low], g.dtype(a)), "max_val": encode_constant([high], g.dtype(a))}
    g.emit("CLAMP", (a,), g.shape(a), g.dtype(a), limits)


def cast(g: GraphWriter) -> None:
    """CAST."""
    a = g.operand(ANY, RANKS)
    g.emit("CAST", (a,), g.shape(a), g.choices.sample(CASTS[g.dtype(a)]))


def table(g: GraphWriter) -> None:
    """TABLE; a table of 16-bit values has steep slopes now and then."""
    a = g.operand(("INT8", "INT16"), RANKS)
    dtype = g.dtype(a)
    wide = dtype == "INT16"
    low, high = (-16384, 16383) if wide and not g.choices.chance(1, 4) else (None, None)
    entries = g.constant(g.elements((513 if wide else 256,), dtype, low, high), dtype)
    g.emit("TABLE", (a, entries), g.shape(a), "INT32" if wide else "INT8")


def reduction(g: GraphWriter, name: str, dtypes: tuple[str, ...]) -> None:
    """A reduction along an axis."""
    a = g.operand(dtypes, (1, 5))
    axis = g.choices.integer(0, len(g.shape(a)) - 1)
    shape = tuple(1 if i == axis else n for i, n in enumerate(g.shape(a)))
    g.emit(name, (a,), shape, g.dtype(a), {"axis": axis})


def argmax(g: GraphWriter) -> None:
    """ARGMAX."""
    a = g.operand(("INT8", "INT16"), (1, 5))
    axis = g.choices.integer(0, len(g.shape(a)) - 1)
    g.emit("ARGMAX", (a,), (*g.shape(a)[:axis], *g.shape(a)[axis + 1 :]), "INT32", {"axis": axis})


OPERATORS: dict[str, Callable[[GraphWriter], None]] = {
    **{n: partial(binary, name=n, dtypes=("INT32",)) for n in ("ADD", "SUB", "MAXIMUM", "MINIMUM")},
    **{n: partial(binary, name=n, dtypes=ALL) for n in ("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR")},
    **{n: partial(binary, name=n, dtypes=("BOOL",)) for n in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")},
    **{n: partial(binary, name=n, dtypes=("INT32",), output="BOOL") for n in ("EQUAL", "GREATER", "GREATER_EQUAL")},
    **{n: partial(shift, name=n) for n in ("ARITHMETIC_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT")},
    "MUL": mul,
    "INTDIV": intdiv,
    "SELECT": select,
    "ABS": partial(unary, name="ABS", dtypes=("INT32",)),
    "CLZ": partial(unary, name="CLZ", dtypes=("INT32",)),
    "BITWISE_NOT": partial(unary, name="BITWISE_NOT", dtypes=ALL),
    "LOGICAL_NOT": partial(unary, name="LOGICAL_NOT", dtypes=("BOOL",)),
    "IDENTITY": partial(unary, name="IDENTITY", dtypes=ANY),
    "NEGATE": negate,
    "CLAMP": clamp,
    "CAST": cast,
    "TABLE": table,
    **{n: partial(reduction, name=n, dtypes=("BOOL",)) for n in ("REDUCE_ALL", "REDUCE_ANY")},
    **{n: partial(reduction, name=n, dtypes=ALL) for n in ("REDUCE_MAX", "REDUCE_MIN")},
    "REDUCE_SUM": partial(reduction, name="REDUCE_SUM", dtypes=("INT32",)),
    "ARGMAX": argmax,
}
"""By TOSA's name."""

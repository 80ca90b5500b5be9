"""The popcount product compiled by numba (the optional extra ``fast``): a register tile of 4 rows by 32 outputs.

Import only where numba is installed. Its plain twin is in :mod:`npusim.numerics.popcount`; the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from npusim.numerics.types import ceil_div

ROWS = 4
"""Rows of a tile: each word of b that is loaded meets this many words of a."""

LANES = 8
"""Outputs of a vector: 512 bits. Hosts with narrower vectors split it."""

WIDE = 32
"""Outputs of a tile; what is left over is done in tiles of LANES."""

BLOCK = 1 << 14
"""Words of a that meet all of b before the next ones come: they stay in a second-level cache."""

_WORD, _INDEX = ir.IntType(64), ir.IntType(32)
_VECTOR, _COUNTS = ir.VectorType(_WORD, LANES), ir.VectorType(_INDEX, LANES)


def _tile(combine: str, outputs: int) -> Any:
    """The inner loop as an intrinsic: counts of ROWS rows by ``outputs`` outputs, held in registers over all words.

    Arguments: address of a's first row; address of b's panel, laid out [word][output]; number of words in both;
    address of the first count; counts from one row to the next. numba knows neither numpy's bitwise_count nor vectors,
    so the loop is written in LLVM's own terms.
    """
    vectors = outputs // LANES

    @intrinsic
    def tile(_: Any, a: Any, b: Any, words: Any, counts: Any, pitch: Any) -> tuple[Any, Any]:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            a, b, words, counts, pitch = arguments
            before, loop = builder.block, builder.append_basic_block("words")
            ones = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_VECTOR, [_VECTOR]), f"llvm.ctpop.v{LANES}i64"
            )

            def vector(base: Any, index: Any, kind: Any) -> Any:
                return builder.bitcast(builder.gep(base, [index]), kind.as_pointer())

            builder.branch(loop)
            builder.position_at_end(loop)
            word = builder.phi(_WORD)
            word.add_incoming(_WORD(0), before)
            sums = [[builder.phi(_VECTOR) for _ in range(vectors)] for _ in range(ROWS)]
            column = builder.mul(word, _WORD(outputs))
            there = [
                builder.load(vector(b, builder.add(column, _WORD(v * LANES)), _VECTOR), align=8) for v in range(vectors)
            ]
            totals = []
            for r, row in enumerate(sums):
                here = builder.load(builder.gep(a, [builder.add(word, builder.mul(words, _WORD(r)))]))
                first = builder.insert_element(_VECTOR(ir.Undefined), here, _INDEX(0))
                spread = builder.shuffle_vector(first, _VECTOR(ir.Undefined), _COUNTS([_INDEX(0)] * LANES))
                for v, total in enumerate(row):
                    mixed = (builder.xor if combine == "xor" else builder.and_)(spread, there[v])
                    grown = builder.add(total, builder.call(ones, [mixed]))
                    total.add_incoming(_VECTOR(None), before)
                    total.add_incoming(grown, loop)
                    totals.append(grown)
            following = builder.add(word, _WORD(1))
            word.add_incoming(following, loop)
            done = builder.append_basic_block("counted")
            builder.cbranch(builder.icmp_unsigned("<", following, words), loop, done)
            builder.position_at_end(done)
            for i, total in enumerate(totals):
                r, v = divmod(i, vectors)
                at = builder.add(builder.mul(pitch, _WORD(r)), _WORD(v * LANES))
                builder.store(builder.trunc(total, _COUNTS), vector(counts, at, _COUNTS), align=4)
            return context.get_dummy_value()

        pointer, result = types.CPointer(types.uint64), types.CPointer(types.int32)
        return types.void(pointer, pointer, types.intp, result, types.intp), generate

    return tile


@intrinsic
def _address(_: Any, array: Any, index: Any) -> tuple[Any, Any]:
    """Address of an element of a flat array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        flat = context.make_array(kind)(context, builder, arguments[0])
        return cgutils.get_item_pointer(context, builder, kind, flat, [arguments[1]])

    return types.CPointer(array.dtype)(array, types.intp), generate


_xor_wide, _xor_narrow = _tile("xor", WIDE), _tile("xor", LANES)
_and_wide, _and_narrow = _tile("and", WIDE), _tile("and", LANES)


def _kernel(a: Any, b: Any, words: int, out: Any, conjunction: bool) -> None:
    """Counts into out [M, N] of a, M rows of words, and b, the panels of :func:`_panels` one after the other."""
    rows, columns = out.shape
    counts = out.reshape(-1)
    block = max(ROWS, BLOCK // words // ROWS * ROWS)
    for first in range(0, rows, block):
        left = 0
        while left < columns:
            outputs = WIDE if columns - left >= WIDE else LANES
            for top in range(first, min(first + block, rows), ROWS):
                x, y, z = _address(a, top * words), _address(b, left * words), _address(counts, top * columns + left)
                if outputs == WIDE:
                    if conjunction:
                        _and_wide(x, y, words, z, columns)
                    else:
                        _xor_wide(x, y, words, z, columns)
                elif conjunction:
                    _and_narrow(x, y, words, z, columns)
                else:
                    _xor_narrow(x, y, words, z, columns)
            left += outputs


def _compiled(kernel: Callable[..., None]) -> Any:
    """``kernel`` compiled on its first call; kept on disk between processes where there is a place for it."""
    try:
        return njit(nogil=True, cache=True)(kernel)
    except RuntimeError:  # no folder that can be written to
        return njit(nogil=True)(kernel)


_count = _compiled(_kernel)


def count(a: NDArray[np.uint64], b: NDArray[np.uint64], combine: str) -> NDArray[np.int32]:
    """Number of ones in ``a[m] combine b[n]``, for rows of words a [M, W] and b [N, W]; ``combine`` xor or and."""
    (rows, words), columns = a.shape, len(b)
    if not rows * columns * words:
        return np.zeros((rows, columns), np.int32)
    left = np.ascontiguousarray(a)
    if rows % ROWS:
        left = np.zeros((int(ceil_div(rows, ROWS)) * ROWS, words), np.uint64)
        left[:rows] = a
    right = _panels(b)
    out = np.empty((len(left), len(right) // words), np.int32)
    _count(left.reshape(-1), right, words, out, combine == "and")
    return out[:rows, :columns]


def _panels(b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The rows of ``b`` [N, W] as panels [word][WIDE rows], the rest as panels [word][LANES rows], all in one array.

    A panel is read from end to end, whatever N is: rows a power of two apart would evict each other from the cache.
    """
    columns, words = b.shape
    rows = np.zeros((int(ceil_div(columns, LANES)) * LANES, words), np.uint64)
    rows[:columns] = b
    wide = len(rows) // WIDE * WIDE
    cut = ((rows[:wide], WIDE), (rows[wide:], LANES))
    return np.concatenate([x.reshape(-1, n, words).transpose(0, 2, 1).reshape(-1) for x, n in cut])

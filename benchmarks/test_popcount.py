"""Speed of the popcount product, against the host's own peak measured in the same run.

An operation is a multiply or an add of one bit: a pair of 64-bit words counts 128. The peak is that of xor, population
count and add on vector registers, without memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npusim.numerics.popcount import numba_available, popcount_matmul

WORD_OPERATIONS = 128
SHARE_OF_PEAK = 0.8 * 3.95 / 4.3  # four fifths of what a tuned kernel reaches: 3.95 of 4.3 T operations a second
SHAPES = [(1024, 256, 36), (512, 512, 144), (4096, 512, 72), (4096, 64, 9)]  # rows, outputs, words

needs_numba = pytest.mark.skipif(not numba_available(), reason="numba is not installed (extra 'fast')")


def best_seconds(action: Callable[[], object], repeats: int) -> float:
    """Processor time of the shortest of ``repeats`` runs: what the host can do undisturbed."""
    found = []
    for _ in range(repeats):
        start = time.thread_time()
        action()
        found.append(time.thread_time() - start)
    return min(found)


def peak_kernel() -> tuple[Callable[[int], object], int]:
    """A loop of xor, population count and add on registers, and the words it takes per round."""
    from llvmlite import ir
    from numba import njit, types
    from numba.core import cgutils
    from numba.extending import intrinsic

    lanes, chains = 8, 12
    word = ir.IntType(64)
    vector = ir.VectorType(word, lanes)

    @intrinsic
    def count(_: Any, rounds: Any) -> tuple[Any, Any]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            ones = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector]), f"llvm.ctpop.v{lanes}i64"
            )
            before, loop = builder.block, builder.append_basic_block("loop")
            done = builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(word)
            k.add_incoming(word(0), before)
            sums = []
            for c in range(chains):
                sums.append(builder.phi(vector))
                sums[c].add_incoming(vector(None), before)
            first = builder.insert_element(vector(ir.Undefined), k, ir.IntType(32)(0))
            spread = builder.shuffle_vector(first, first, ir.VectorType(ir.IntType(32), lanes)([0] * lanes))
            grown = []
            for c, total in enumerate(sums):
                mixed = builder.xor(
                    spread, vector([word((c + 1) * 0x0123456789ABCDEF % 2**64 + n) for n in range(lanes)])
                )
                grown.append(builder.add(total, builder.call(ones, [mixed])))
                total.add_incoming(grown[c], loop)
            after = builder.add(k, word(1))
            k.add_incoming(after, loop)
            builder.cbranch(builder.icmp_unsigned("<", after, arguments[0]), loop, done)
            builder.position_at_end(done)
            total = grown[0]
            for other in grown[1:]:
                total = builder.add(total, other)
            result = word(0)
            for n in range(lanes):
                result = builder.add(result, builder.extract_element(total, ir.IntType(32)(n)))
            return result

        return types.uint64(types.intp), generate

    @njit
    def run(rounds: int) -> Any:
        return count(rounds)

    return run, lanes * chains


def words(rng: np.random.Generator, *shape: int) -> Any:
    return rng.integers(0, 2**64, shape, np.uint64)


@needs_numba
def test_share_of_the_peak() -> None:
    rng = np.random.default_rng(0)
    run, per_round = peak_kernel()
    assert run(3) > 0
    rounds = 200_000
    shares = []
    for rows, outputs, length in SHAPES:
        a, b = words(rng, rows, length), words(rng, outputs, length)
        got = popcount_matmul(a, b, "xor", "numba")
        assert got[:8].tolist() == np.bitwise_count(a[:8, None] ^ b).sum(-1).tolist()
        # in turns, so that a busy host slows both
        pairs = [
            (best_seconds(lambda: run(rounds), 3), best_seconds(lambda: popcount_matmul(a, b, "xor", "numba"), 3))  # noqa: B023
            for _ in range(8)
        ]
        peak = rounds * per_round * WORD_OPERATIONS / min(p for p, _ in pairs) / 1e12
        rate = rows * outputs * length * WORD_OPERATIONS / min(g for _, g in pairs) / 1e12
        shares.append(rate / peak)
        what = f"popcount {rows} x {outputs} x {length} words"
        print(f"\n{what}: {rate:.2f} of {peak:.2f} T operations/s, {rate / peak:.0%}")
    assert max(shares) >= SHARE_OF_PEAK


def test_rate_of_numpy() -> None:
    rng = np.random.default_rng(0)
    for rows, outputs, length in SHAPES[:2]:
        a, b = words(rng, rows, length), words(rng, outputs, length)
        seconds = best_seconds(lambda: popcount_matmul(a, b, "xor", "numpy"), 3)  # noqa: B023
        rate = rows * outputs * length * WORD_OPERATIONS / seconds / 1e12
        print(f"\npopcount {rows} x {outputs} x {length} words, numpy: {rate:.3f} T operations/s")
        assert rate > 0

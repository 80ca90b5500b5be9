"""Caches in front of the DRAM: lines against plain loops, misses against a list per set, and cycles of a program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.hardware.memory import Cache
from npusim.ir.box import Box
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.mapper import map_graph
from npusim.program import Load, Store
from npusim.timing.caches import lines_of, miss_cycles, misses
from npusim.timing.costs import DmaCost, command_costs
from tests.plain import matmul, plain_chip


def cache(sets: int = 4, ways: int = 2, line: int = 8, miss: int = 5) -> Cache:
    return Cache(size_bytes=sets * ways * line, ways=ways, line_bytes=line, miss_cycles=miss)


def plain_misses(lines: list[int], sets: int, ways: int) -> list[bool]:
    held: list[list[int]] = [[] for _ in range(sets)]
    out = []
    for line in lines:
        row = held[line % sets]
        out.append(line not in row)
        if line in row:
            row.remove(line)
        row.insert(0, line)
        del row[ways:]
    return out


@given(st.lists(st.integers(0, 40), max_size=200), st.integers(1, 7), st.integers(1, 5))
def test_the_least_recent_line_of_a_set_leaves(lines: list[int], sets: int, ways: int) -> None:
    got = misses(np.asarray(lines, np.int64), cache(sets, ways))
    assert got.tolist() == plain_misses(lines, sets, ways)


@given(st.data())
def test_lines_are_those_of_every_run(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    lo = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    hi = tuple(data.draw(st.integers(a + 1, n)) for a, n in zip(lo, shape, strict=True))
    bits, base, line = (
        data.draw(st.sampled_from([4, 8, 32])),
        data.draw(st.integers(0, 9)),
        data.draw(st.sampled_from([4, 16])),
    )
    numbers = np.arange(int(np.prod(shape))).reshape(shape)[Box(lo, hi).slices].reshape(-1)
    touched = {(base + (int(n) * bits + b) // 8) // line for n in numbers for b in (0, bits - 1)}
    got = lines_of(shape, Box(lo, hi), bits, base, line)
    assert set(got.tolist()) == touched
    assert got.tolist() == sorted(got.tolist())


def test_a_run_touches_each_of_its_lines_once_and_every_run_its_own() -> None:
    assert lines_of((4, 6, 8), Box((1, 2, 0), (3, 4, 8)), 8, 0, 64).tolist() == [1, 1]
    assert lines_of((4, 6, 8), Box((1, 0, 0), (3, 6, 8)), 8, 0, 64).tolist() == [0, 1, 2]
    assert lines_of((), Box((), ()), 8, 70, 64).tolist() == [1]


def test_misses_cost_in_every_cache_that_lacks_the_line_and_writes_twice() -> None:
    near, far = cache(sets=1, ways=1, miss=5), cache(sets=1, ways=4, miss=100)
    touched = [[np.asarray([0, 1])], [np.asarray([0])], [np.asarray([0]), np.asarray([2])]]
    assert miss_cycles(touched, [False, False, True], (near,), warm=False) == [10, 5, 10]
    assert miss_cycles(touched, [False, False, True], (near, far), warm=False) == [210, 5, 210]
    assert miss_cycles(touched, [False, False, True], (near, far), warm=True) == [10, 5, 10]
    assert miss_cycles([], [], (near,), warm=True) == []


def test_transfers_of_a_program_take_what_their_misses_add() -> None:
    """8 rows of 16 bytes times a matrix of 16 x 16, by rows of 4: the matrix is there when it comes the second time."""
    caches = "dram.caches=[{size_bytes: 1 KiB, ways: 4, line_bytes: 16, miss_cycles: 7}]"
    mapping = LayerOptions(tile={"h": 4, "w": 16, "c": 16}, order=("h", "w"), buffers=1, reload=True)
    options = MappingOptions(layers={"mm": mapping})
    program = map_graph(matmul(8, 16, 16), plain_chip(), options).program

    def bus(warm: bool, *overrides: str) -> list[int]:
        costs = command_costs(program, plain_chip("energy=null", *overrides), warm)
        return [cost.bus_cycles for cost in costs if isinstance(cost, DmaCost)]

    plain, cold, warm = bus(False), bus(False, caches), bus(True, caches)
    added = [b - a for a, b in zip(plain, cold, strict=True)]
    by_value: dict[str, list[int]] = {}
    moves = [c for c in program if isinstance(c, Load | Store)]
    for c, cycles in zip(moves, added, strict=True):
        ref = c.parts[0] if isinstance(c, Load) else c.ref
        by_value.setdefault(program.slots[ref.slot].value, []).append(cycles)
    assert by_value == {"a": [4 * 7, 4 * 7], "b": [16 * 7, 0], "y": [2 * 16 * 7] * 2}  # a write costs twice
    assert warm == plain  # the caches hold all 56 lines from before


def test_sizes_that_make_no_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="size_bytes: 100 bytes are no whole number of sets of 2 ways of 8 bytes"):
        Cache(size_bytes=100, ways=2, line_bytes=8, miss_cycles=1)
    with pytest.raises(Exception, match="caches: lines of several sizes; give all caches the same line_bytes"):
        plain_chip(
            "energy=null",
            "dram.caches=[{size_bytes: 64, ways: 1, line_bytes: 16, miss_cycles: 1}, "
            "{size_bytes: 64, ways: 1, line_bytes: 32, miss_cycles: 1}]",
        )

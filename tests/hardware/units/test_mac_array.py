"""The MAC array: cycles and operand reads against simulated grids, enumerated loops and counts by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations, product
from math import prod
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.config import load_text
from npusim.errors import ConfigError
from npusim.hardware import Task
from npusim.hardware.units.mac_array import LoopName, MacArray, Stationary, Systolic, Unrolled
from npusim.ir.work import Dim, Loop
from npusim.numerics.types import I4, I8, I16, I32, I48
from tests.hardware.tasks import convolution_task, depthwise_task, extents, product_task, useful_points
from tests.hardware.units.systolic_grid import Trace, simulate

RATES: dict[str, Any] = {"i8xi8": 1, "i8xi4": 2, "i16xi8": "1/2", "i16xi16": "1/4"}
STATIONARY: tuple[Stationary, ...] = get_args(Stationary)
SIZES = range(1, 9)


def mac_array(array: Systolic | Unrolled, pipeline_cycles: int = 0, rates: dict[str, Any] = RATES) -> MacArray:
    return MacArray(
        kind="mac_array",
        instances=1,
        array=array,
        macs_per_cycle=rates,
        accumulators={"i32": "refuse"},
        accumulator_bytes=0,
        pipeline_cycles=pipeline_cycles,
    )


def systolic(
    stationary: Stationary, rows: int, columns: int, overlapped: bool = False, reload_cycles: int = 0
) -> MacArray:
    return mac_array(
        Systolic(
            kind="systolic",
            rows=rows,
            columns=columns,
            stationary=stationary,
            overlapped_folds=overlapped,
            reload_cycles=reload_cycles,
        )
    )


def unrolled(*modes: dict[LoopName, int], stationary: Stationary = "weights") -> MacArray:
    return mac_array(Unrolled(kind="unrolled", unrollings=modes, stationary=stationary))


def cycles(unit: MacArray, task: Task) -> int:
    return int(unit.cycles(task, extents(task)))


def passes(unit: MacArray, task: Task) -> tuple[int, ...]:
    return tuple(int(p) for p in unit.passes(task, extents(task)))


def utilization(unit: MacArray, task: Task) -> float:
    numerator, denominator = unit.peak_per_cycle(task)
    return useful_points(task) * denominator / (numerator * cycles(unit, task))


# -- systolic grids ---------------------------------------------------------------------------------------------------


def matrix(rows: int, columns: int) -> list[list[int]]:
    return [[(5 * i + 7 * j) % 11 - 5 for j in range(columns)] for i in range(rows)]


@lru_cache(maxsize=1 << 11)
def traced(
    stationary: str, m: int, k: int, n: int, grid: tuple[int, int], overlapped: bool, reload_cycles: int = 0
) -> Trace:
    """What happens to [m, k] times [k, n] on the grid, which really makes the product."""
    a, b = matrix(m, k), matrix(k, n)
    trace = simulate(stationary, a, b, grid, overlapped, reload_cycles)
    assert trace.product == (np.array(a) @ np.array(b)).tolist()
    return trace


def check_grid(m: int, k: int, n: int, grid: tuple[int, int], overlapped: bool, reload_cycles: int = 0) -> None:
    """Cycles and operand reads of all three kinds of grid are those of the simulation."""
    # With the ifmap in its elements a grid makes the transposed product: b' [n, k] times a' [k, m], and a' stays.
    output, weights, ifmap = (
        traced(s, *sizes, grid, overlapped, reload_cycles)
        for s, sizes in (("output", (m, k, n)), ("weights", (m, k, n)), ("weights", (n, k, m)))
    )
    seen: dict[Stationary, tuple[int, int, int]] = {
        "output": (output.last_multiplication, output.from_left, output.from_top),
        "weights": (weights.last_multiplication, weights.from_left, weights.held),
        "ifmap": (ifmap.last_multiplication, ifmap.held, ifmap.from_left),
    }
    task = product_task(m, k, n)
    for stationary, trace in seen.items():
        unit = systolic(stationary, *grid, overlapped, reload_cycles)
        ifmap_passes, weight_passes = passes(unit, task)
        got = cycles(unit, task), ifmap_passes * m * k, weight_passes * k * n
        assert got == trace, (stationary, m, k, n, grid, overlapped)


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("grid", list(product(range(1, 5), repeat=2)), ids=lambda g: f"{g[0]}x{g[1]}")
def test_every_small_product_on_every_small_grid(grid: tuple[int, int], overlapped: bool) -> None:
    for m, k, n in product(SIZES, repeat=3):
        check_grid(m, k, n, grid, overlapped)


@pytest.mark.parametrize("reload_cycles", [1, 3])
@pytest.mark.parametrize("overlapped", [False, True])
def test_every_fold_waits_for_its_stationary_operand(overlapped: bool, reload_cycles: int) -> None:
    for m, k, n in product(range(1, 6), repeat=3):
        check_grid(m, k, n, (2, 3), overlapped, reload_cycles)


def test_four_by_four_by_four_takes_ten_cycles() -> None:
    """By hand: element 3,3 gets its first pair after 6 steps, in cycle 7, and its fourth in cycle 10."""
    for stationary in STATIONARY:
        assert cycles(systolic(stationary, 4, 4), product_task(4, 4, 4)) == 10


def test_two_by_two_by_two_takes_four_cycles() -> None:
    """By hand: element 1,1 multiplies in cycles 3 and 4."""
    for stationary in STATIONARY:
        assert cycles(systolic(stationary, 2, 2), product_task(2, 2, 2)) == 4


@pytest.mark.parametrize("overlapped", [False, True])
def test_a_full_tile_takes_the_reduction_and_the_skew_of_the_whole_grid(overlapped: bool) -> None:
    for rows, columns, k in product((1, 2, 16, 128), (1, 3, 128), (1, 64, 1000)):
        unit = systolic("output", rows, columns, overlapped)
        assert cycles(unit, product_task(rows, k, columns)) == k + rows + columns - 2


def test_unused_rows_and_columns_cost_nothing() -> None:
    unit = systolic("output", 128, 64)
    assert cycles(unit, product_task(1, 50, 1)) == 50
    assert cycles(unit, product_task(3, 50, 2)) == 50 + 3 + 2 - 2
    assert cycles(unit, product_task(129, 50, 64)) == (50 + 128 + 64 - 2) + (50 + 1 + 64 - 2)


def test_an_earlier_fold_may_end_last() -> None:
    """K = 1, nine rows on eight: the second fold's one element is done while the first still fills the grid."""
    task = product_task(9, 1, 8)
    assert traced("output", 9, 1, 8, (8, 8), overlapped=True).last_multiplication == 15
    assert cycles(systolic("output", 8, 8, overlapped=True), task) == 1 + 8 + 8 - 2


def test_a_vector_is_no_matrix() -> None:
    """With weights in the grid one position takes fewer cycles than 256, and uses the grid less."""
    for overlapped in (False, True):
        unit = systolic("weights", 128, 128, overlapped)
        vector, batch = product_task(1, 128, 128), product_task(256, 128, 128)
        assert cycles(unit, vector) < cycles(unit, batch)
        assert utilization(unit, vector) < utilization(unit, batch) <= 1
    unit = systolic("weights", 128, 128)
    assert (cycles(unit, vector), cycles(unit, batch)) == (255, 510)
    assert utilization(unit, batch) == 256 * 128 * 128 / (510 * 128 * 128)


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (5, 5)])
@pytest.mark.parametrize("stationary", STATIONARY)
def test_depthwise_uses_one_column(stationary: Stationary, kernel: tuple[int, int], overlapped: bool) -> None:
    """A channel has one output channel: at most one column of weights or outputs works.

    An ifmap of one channel fills the columns, but serves one weight vector: a grid that takes at least as many cycles
    as it has columns to replace it is no better.
    """
    rows, columns = 4, 8
    reload_cycles = columns - 1 if stationary == "ifmap" else 0
    unit = systolic(stationary, rows, columns, overlapped, reload_cycles)
    task = depthwise_task((1, 16, 16), 32, kernel)
    assert 0 < utilization(unit, task) <= 1 / columns


def test_channels_follow_each_other_on_the_grid() -> None:
    """Two channels of 3 positions and 2 taps on 2 x 2, weights stationary: folds of 3 + 2 + 1 - 2 cycles."""
    task = depthwise_task((1, 1, 3), 2, (1, 2))
    assert cycles(systolic("weights", 2, 2), task) == 2 * 4
    assert cycles(systolic("weights", 2, 2, overlapped=True), task) == 2 * 3 + 1


# -- unrolled loops ---------------------------------------------------------------------------------------------------


def enumerated_steps(dims: Sequence[Dim], mode: dict[LoopName, int], only: frozenset[Loop] = frozenset(Loop)) -> int:
    """Distinct steps over all points: along each loop, or joint loops counted through, the index // factor."""
    positions = (Loop.BATCH, Loop.DEPTH, Loop.ROW, Loop.COLUMN)
    factors: dict[str, int] = dict(mode)  # type: ignore[arg-type]
    chosen = [d for d in dims if d.loop in only]
    seen = set()
    for point in product(*(range(-(-d.extent // d.every)) for d in chosen)):
        joint = {"position": 0, "reduction": 0}
        step = []
        for d, i in zip(chosen, point, strict=True):
            if d.loop.value in mode:
                step.append(i // factors[d.loop.value])
            elif d.loop in positions and "position" in mode:
                joint["position"] = joint["position"] * d.extent + i
            elif d.reduce and "reduction" in mode:
                joint["reduction"] = joint["reduction"] * -(-d.extent // d.every) + i
            else:
                step.append(i)
        seen.add((*step, *(i // factors.get(name, 1) for name, i in joint.items())))
    return len(seen)


def modes() -> st.SearchStrategy[dict[LoopName, int]]:
    names: tuple[LoopName, ...] = get_args(LoopName)
    return st.dictionaries(st.sampled_from(names), st.integers(1, 9), max_size=4)


sizes = st.integers(1, 4)
tasks = st.one_of(
    st.builds(product_task, sizes, sizes, sizes),
    st.builds(depthwise_task, st.tuples(sizes, sizes, sizes), sizes, st.tuples(sizes, sizes)),
    st.builds(
        convolution_task,
        st.tuples(st.just(1), sizes, sizes),
        sizes,
        st.tuples(sizes, sizes),
        sizes,
        every=st.integers(1, 2),
    ),
)


@settings(deadline=None, max_examples=100)
@given(tasks, st.lists(modes(), min_size=1, max_size=3), st.sampled_from(STATIONARY))
def test_the_best_mode_is_taken_and_takes_the_steps_of_its_loops(
    task: Task, some: list[dict[LoopName, int]], stationary: Stationary
) -> None:
    unit = unrolled(*some, stationary=stationary)
    dims = task.work.dims
    steps = [enumerated_steps(dims, mode) for mode in some]
    assert cycles(unit, task) == min(steps)
    taken = some[steps.index(min(steps))]
    out, positions = frozenset({Loop.OUT_CHANNEL}), frozenset({Loop.BATCH, Loop.DEPTH, Loop.ROW, Loop.COLUMN})
    ifmap = 1 if stationary == "ifmap" else enumerated_steps(dims, taken, out)
    weights = 1 if stationary == "weights" else enumerated_steps(dims, taken, positions)
    assert passes(unit, task) == (ifmap, weights, *[1] * (len(task.work.reads) - 2))


def test_joint_loops_are_unrolled_as_one() -> None:
    """3 x 3 x 3 taps and channels: three rows of 9 lanes one by one, or 27 in a row."""
    task = convolution_task((1, 2, 5), 4, (3, 3), 3)
    assert cycles(unrolled({"out_channel": 4, "in_channel": 9}), task) == 10 * 9
    assert cycles(unrolled({"out_channel": 4, "reduction": 9}), task) == 10 * 3
    assert cycles(unrolled({"out_channel": 4, "reduction": 9, "kernel_row": 3}), task) == 10
    assert cycles(unrolled({"out_channel": 4, "reduction": 27, "position": 4}), task) == 3


def test_the_order_of_modes_does_not_matter() -> None:
    dense: dict[LoopName, int] = {"out_channel": 32, "in_channel": 32}
    depthwise: dict[LoopName, int] = {"channel": 32, "kernel_row": 3, "kernel_column": 3}
    im2col: dict[LoopName, int] = {"out_channel": 16, "reduction": 32}
    for task in (convolution_task((1, 8, 8), 64, (3, 3), 64), depthwise_task((1, 8, 8), 64, (3, 3))):
        for stationary in STATIONARY:
            units = [unrolled(*some, stationary=stationary) for some in permutations([dense, depthwise, im2col])]
            assert len({(cycles(u, task), passes(u, task)) for u in units}) == 1
    assert passes(unrolled(depthwise, dense), convolution_task((1, 8, 8), 64, (3, 3), 64)) == (2, 1, 1)


def test_of_equally_fast_modes_the_first_is_taken() -> None:
    channels: dict[LoopName, int] = {"out_channel": 4}
    positions: dict[LoopName, int] = {"position": 4}
    task = product_task(4, 3, 4)
    assert cycles(unrolled(channels), task) == cycles(unrolled(positions), task) == 12
    assert passes(unrolled(channels, positions, stationary="output"), task) == (1, 4)
    assert passes(unrolled(positions, channels, stationary="output"), task) == (4, 1)


def test_seven_on_eight_uses_49_of_64() -> None:
    task = product_task(7, 7, 7)
    unit = unrolled({"out_channel": 8, "in_channel": 8})
    assert (useful_points(task), cycles(unit, task)) == (343, 7)
    assert utilization(unit, task) == 0.765625
    for stationary in STATIONARY:
        assert 0 < utilization(systolic(stationary, 8, 8), task) <= 0.765625


def test_points_without_work_are_skipped() -> None:
    """Of the 4 x 4 taps of a transposed convolution of stride 2, 2 x 2 reach an output."""
    task = convolution_task((1, 6, 6), 8, (4, 4), 8, every=2)
    assert cycles(unrolled({"out_channel": 8, "in_channel": 8}), task) == 36 * 4
    assert cycles(systolic("output", 36, 8), task) == 4 * 8 + 36 + 8 - 2


# -- both kinds -------------------------------------------------------------------------------------------------------

arrays = st.one_of(
    st.builds(
        Systolic,
        kind=st.just("systolic"),
        rows=st.integers(1, 9),
        columns=st.integers(1, 9),
        stationary=st.sampled_from(STATIONARY),
        overlapped_folds=st.booleans(),
        reload_cycles=st.integers(0, 9),
    ),
    st.builds(
        Unrolled,
        kind=st.just("unrolled"),
        unrollings=st.lists(modes(), min_size=1, max_size=3).map(tuple),
        stationary=st.sampled_from(STATIONARY),
    ),
)
units = st.builds(mac_array, arrays, st.integers(0, 5), st.sampled_from([{"i8xi8": r} for r in (1, 2, "1/2", "3/4")]))


@settings(deadline=None, max_examples=200)
@given(units, tasks, st.data())
def test_arrays_of_candidates_cost_what_each_costs(unit: MacArray, task: Task, data: st.DataObject) -> None:
    """Some extents are arrays with one entry a candidate, the others plain integers."""
    count = data.draw(st.integers(1, 5))
    columns: list[Any] = []
    for _ in task.work.dims:
        column = data.draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))
        columns.append(np.array(column) if data.draw(st.booleans()) else column[0])
    columns[0] = np.broadcast_to(columns[0], count)
    got = np.broadcast_to(unit.cycles(task, columns), count).tolist()
    read = [np.broadcast_to(p, count).tolist() for p in unit.passes(task, columns)]
    for c in range(count):
        one = [int(np.broadcast_to(e, count)[c]) for e in columns]
        assert got[c] == unit.cycles(task, one)
        assert tuple(r[c] for r in read) == unit.passes(task, one)


@settings(deadline=None, max_examples=200)
@given(units, tasks)
def test_no_array_does_more_than_it_has_multipliers_for(unit: MacArray, task: Task) -> None:
    assert 0 < utilization(unit, task) <= 1


@pytest.mark.parametrize(
    ("operands", "accumulator", "expected", "peak"),
    [
        ((I8, I8), I32, 7, (64, 1)),
        ((I8, I4), I32, 4, (128, 1)),
        ((I16, I8), I32, 14, (32, 1)),
        ((I16, I16), I32, 28, (16, 1)),
    ],
)
def test_rates_by_element_types(operands: Any, accumulator: Any, expected: int, peak: tuple[int, int]) -> None:
    """7 steps at 1, 2, 1/2 and 1/4 multiply-accumulates a cycle, rounded up; then the pipeline."""
    array = Unrolled(kind="unrolled", unrollings=({"out_channel": 8, "in_channel": 8},), stationary="weights")
    task = product_task(7, 8, 8, operands, accumulator)
    assert cycles(mac_array(array), task) == expected
    assert cycles(mac_array(array, pipeline_cycles=5), task) == expected + 5
    assert mac_array(array).peak_per_cycle(task) == peak


def test_a_fractional_peak() -> None:
    array = Systolic(kind="systolic", rows=3, columns=3, stationary="output", overlapped_folds=False, reload_cycles=0)
    assert mac_array(array, rates={"i8xi8": "1/2"}).peak_per_cycle(product_task(1, 1, 1)) == (9, 2)


def test_multipliers() -> None:
    assert systolic("output", 3, 5).array.macs == 15
    assert unrolled({"channel": 7}, {"row": 2, "column": 3, "out_channel": 4}).array.macs == prod((2, 3, 4))
    assert unrolled({}).array.macs == 1


def test_what_an_array_refuses() -> None:
    unit = systolic("output", 2, 2)
    assert unit.refuses(product_task(1, 1, 1)) is None
    assert unit.refuses(product_task(1, 1, 1, (I8, I16))) == (
        "the mac_array has no rate for i8xi16 (it has i8xi8, i8xi4, i16xi8, i16xi16); add it to macs_per_cycle"
    )
    assert unit.refuses(product_task(1, 1, 1, (I16, I8), I48)) == (
        "the mac_array has no i48 accumulator (it has i32); add it to accumulators"
    )


GOOD = """
kind: mac_array
instances: 1
array: {kind: unrolled, unrollings: [{out_channel: 8, position: 4}], stationary: output}
macs_per_cycle: {i8xi4: 3/2}
accumulators: {i48: saturate}
accumulator_bytes: 4096
pipeline_cycles: 0
"""


def test_an_array_from_yaml() -> None:
    unit = load_text(GOOD, MacArray, "unit")
    assert isinstance(unit.array, Unrolled)
    assert (unit.array.macs, unit.accumulators, unit.accumulator_bytes) == (32, {"i48": "saturate"}, 4096)
    assert unit.peak_per_cycle(product_task(1, 1, 1, (I8, I4))) == (48, 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("out_channel: 8", "out_chanel: 8", "out_chanel"),
        ("position: 4", "position: 0", "position"),
        ("[{out_channel: 8, position: 4}]", "[]", "unrollings"),
        ("stationary: output", "stationary: outputs", "stationary.*outputs"),
        ("kind: unrolled", "kind: dataflow", "kind.*dataflow"),
        ("i48: saturate", "i40: saturate", "i40"),
        ("i48: saturate", "i48: clamp", "i48.*clamp"),
        ("i8xi4: 3/2", "i8xi4: 1.5", "i8xi4"),
        ("accumulator_bytes: 4096\n", "", "accumulator_bytes"),
        ("instances: 1\n", "", "instances"),
    ],
)
def test_what_yaml_may_not_say(old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(ConfigError, match=message):
        load_text(GOOD.replace(old, new), MacArray, "unit")


@pytest.mark.parametrize("load", [1, 3, 8])
def test_weights_stay_as_long_as_the_next_ones_take_to_load(load: int) -> None:
    """Enumerated: each set of weights, in its turn, for as many steps as it has positions, or as loading takes."""
    mode: dict[LoopName, int] = {"out_channel": 8, "in_channel": 8}
    array = Unrolled(kind="unrolled", unrollings=(mode,), stationary="weights", weight_load_cycles=load)
    shapes = [((1, 1, 1), 10, (1, 1), 64), ((1, 2, 3), 8, (3, 3), 12), ((2, 4, 4), 3, (1, 2), 5)]
    for positions, out, kernel, channels in shapes:
        task = convolution_task(positions, out, kernel, channels)
        sets = [1 for _ in product(range(-(-out // 8)), range(kernel[0]), range(kernel[1]), range(-(-channels // 8)))]
        assert mac_array(array).cycles(task, extents(task)) == sum(max(load, prod(positions)) for _ in sets)
        boxes = [np.array([e, 1]) for e in extents(task)]
        alike = mac_array(array).cycles(task, boxes).tolist()
        assert alike == [mac_array(array).cycles(task, [int(b[i]) for b in boxes]) for i in (0, 1)]


def test_the_fastest_mode_is_found_with_its_weight_loads() -> None:
    """One position: 64 sets of one channel that take 8 cycles each, or 8 sets of eight that take 8 each."""
    modes: tuple[dict[LoopName, int], ...] = ({"out_channel": 64}, {"out_channel": 8, "in_channel": 8})
    array = Unrolled(kind="unrolled", unrollings=modes, stationary="weights", weight_load_cycles=8)
    task = convolution_task((1, 1, 1), 8, (1, 1), 64)
    assert mac_array(array).cycles(task, extents(task)) == 8 * 8


@pytest.mark.parametrize("stationary", STATIONARY)
@pytest.mark.parametrize("grid", [(1, 1), (2, 3), (3, 2), (4, 4)])
def test_hops_of_a_grid_are_those_of_every_value_counted_by_itself(
    stationary: Stationary, grid: tuple[int, int]
) -> None:
    """Each of the m * k * n products needs its operand from the element before, unless it sits at the edge."""
    rows, columns = grid
    systolic = Systolic(
        kind="systolic", rows=rows, columns=columns, stationary=stationary, overlapped_folds=True, reload_cycles=0
    )
    for m, k, n in product((1, 2, 3, 5, 8), repeat=3):
        ifmap = weights = sums = 0
        for i, j, o in product(range(m), range(k), range(n)):
            if stationary == "weights":
                ifmap += o % columns > 0
                sums += j % rows > 0
                weights += (j % rows) * (i == 0)
            elif stationary == "ifmap":
                weights += i % columns > 0
                sums += j % rows > 0
                ifmap += (j % rows) * (o == 0)
            else:
                ifmap += o % columns > 0
                weights += i % rows > 0
                sums += (i % rows) * (j == 0)
        task = product_task(m, k, n, (I16, I8), I48)
        counts = mac_array(systolic).actions(task, extents(task))
        assert counts == {"mac.i16xi8": m * k * n, "hop_byte": 2 * ifmap + weights + 6 * sums}, (m, k, n)


def test_hops_of_channels_add_up_and_half_bytes_are_rounded_up() -> None:
    systolic = Systolic(kind="systolic", rows=2, columns=2, stationary="output", overlapped_folds=True, reload_cycles=0)
    array = mac_array(systolic)
    one, many = (depthwise_task((1, 2, 3), c, (2, 2)) for c in (1, 5))
    assert array.actions(many, extents(many)) == {a: 5 * n for a, n in array.actions(one, extents(one)).items()}
    narrow = product_task(2, 1, 1, (I4, I4))
    assert array.actions(narrow, extents(narrow))["hop_byte"] == 5  # a weight of 4 bits down, a sum of 32 back


def test_an_unrolled_array_multiplies_on_padding_and_not_between_strides() -> None:
    array = mac_array(Unrolled(kind="unrolled", unrollings=({"row": 2},), stationary="weights"))
    task = convolution_task((1, 5, 5), 7, (4, 4), 3, every=2)
    assert array.actions(task, extents(task)) == {"mac.i8xi8": useful_points(task)} == {"mac.i8xi8": 25 * 7 * 4 * 3}
    boxes = [np.array([e, 1]) for e in extents(task)]
    assert array.actions(task, boxes)["mac.i8xi8"].tolist() == [useful_points(task), 1]


# -- what an array does at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stationary", "name"),
    [
        ("weights", "im2col (reduction on 4 rows, out_channel on 6 columns)"),
        ("ifmap", "im2col (reduction on 4 rows, position on 6 columns)"),
        ("output", "im2col (position on 4 rows, out_channel on 6 columns)"),
    ],
)
def test_a_systolic_array_names_what_lies_on_rows_and_columns(stationary: Stationary, name: str) -> None:
    unit, task = systolic(stationary, 4, 6), product_task(2, 3, 4)
    assert unit.unrollings == (name,)
    assert unit.unrolling(task, extents(task)) == name


def test_an_unrolled_array_names_the_mode_that_it_takes_for_a_box_or_that_is_demanded() -> None:
    unit, task = unrolled({"row": 8}, {"out_channel": 8}), product_task(8, 3, 4)
    assert unit.unrollings == ("row 8", "out_channel 8")
    assert [unit.unrolling(task, box) for box in ((8, 4, 3), (1, 4, 3))] == ["row 8", "out_channel 8"]
    demanded = replace(task, unrolling="out_channel 8")
    assert unit.unrolling(demanded, (8, 4, 3)) == "out_channel 8"
    assert (cycles(unit, task), cycles(unit, demanded)) == (4 * 3, 8 * 3)
    assert (passes(unit, task), passes(unit, demanded)) == ((4, 1), (1, 1))

"""Tests of FULLY_CONNECTED; rules and arithmetic that it shares with CONV2D are tested there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.work import Loop
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import DTYPES, Array, DType
from npusim.ops.fully_connected import FullyConnected
from tests.ops.convolution import WEIGHTED_TYPES, bind, evaluate, small_bias, sum_of, tensors, zero_point
from tests.ops.tiling import check_tiled, indices, random_array, random_tiles

I8_TYPES = ("i8", "i8", "i32")


def oracle(op: FullyConnected, x: Array, w: Array, bias: Array, dtype: DType) -> Array:
    out = np.zeros((x.shape[0], w.shape[0]), dtype.storage)
    for n, oc in indices(out.shape):
        terms = [
            (a - op.input_zp if dtype.is_integer else a, b) for a, b in zip(x[n].tolist(), w[oc].tolist(), strict=True)
        ]
        total = sum_of([(a, b - op.weight_zp) for a, b in terms], 0, dtype)
        b = bias[oc % len(bias)]
        out[n, oc] = total + int(b) if dtype.is_integer else np.float32(total + b)
    return out


@pytest.mark.parametrize("types", WEIGHTED_TYPES)
@pytest.mark.parametrize("seed", range(15))
def test_every_tiling_gives_the_definition(types: tuple[str, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, ic, oc = (int(v) for v in rng.integers(1, 12, 3))
    op = FullyConnected(zero_point(rng, DTYPES[types[0]]), zero_point(rng, DTYPES[types[1]]))
    kinds = tensors([(n, ic), (oc, ic), (oc,) if seed % 3 else (1,)], types)
    arrays = [random_array(rng, kinds[0]), random_array(rng, kinds[1]), small_bias(rng, kinds[2])]
    bound = op.bind(kinds)
    got = check_tiled(op, arrays, kinds, random_tiles(rng, bound.work))
    np.testing.assert_array_equal(got, oracle(op, *arrays, bound.accumulator))


def test_an_example() -> None:
    op = FullyConnected(input_zp=1, weight_zp=-1)
    got = evaluate(op, [[[2, 3], [1, 0]], [[0, 1], [9, -1], [4, 4]], [10, 20, 30]], I8_TYPES)
    assert got.tolist() == [[15, 30, 45], [8, 20, 25]]


@pytest.mark.parametrize(
    ("op", "shapes", "types", "message"),
    [
        (FullyConnected(), [(1, 2, 3), (4, 3), (4,)], I8_TYPES, r"got input of shape \[1, 2, 3\] for \[N, IC\]"),
        (FullyConnected(), [(2, 3), (4, 1, 1, 3), (4,)], I8_TYPES, r"got weight of shape .* for \[OC, IC\]"),
        (
            FullyConnected(),
            [(2, 3), (3, 4), (3,)],
            I8_TYPES,
            r"rule channels_match\), got weight \[3, 4\] for input \[2, 3\]",
        ),
        (FullyConnected(), [(2, 3), (4, 3), (3,)], I8_TYPES, r"rule bias_shape\), got bias \[3\] for 4"),
        (
            FullyConnected(input_zp=1),
            [(2, 3), (4, 3), (4,)],
            ("i16", "i8", "i48"),
            r"rule zero_point\), got input_zp 1 for i16",
        ),
        (
            FullyConnected(weight_zp=128),
            [(2, 3), (4, 3), (4,)],
            I8_TYPES,
            r"rule zero_point_range\), got weight_zp 128",
        ),
    ],
)
def test_rules(op: FullyConnected, shapes: Any, types: Any, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"fully_connected: .*{message}"):
        bind(op, shapes, types)


def test_overflow_names_the_output() -> None:
    x = np.array([[0, 0], [1, 0]])
    w = np.array([[1, 1], [5, 5]])
    with pytest.raises(UnpredictableError, match=r"sum with bias 2147483650 at output index \[1, 1\]"):
        evaluate(FullyConnected(), [x, w, [0, (1 << 31) - 3]], I8_TYPES)
    counter = Overflow("wrap")
    got = evaluate(FullyConnected(), [x, w, [0, (1 << 31) - 3]], I8_TYPES, counter=counter)
    assert got.tolist() == [[0, (1 << 31) - 3], [1, -(1 << 31) + 2]] and counter.events == 1


def test_work() -> None:
    work = FullyConnected().bind(tensors([(2, 3), (4, 3), (4,)], I8_TYPES)).work
    assert [(d.name, d.extent, d.loop) for d in work.dims] == [
        ("n", 2, Loop.BATCH),
        ("oc", 4, Loop.OUT_CHANNEL),
        ("ic", 3, Loop.IN_CHANNEL),
    ]
    assert work.points == 24 and work.macs

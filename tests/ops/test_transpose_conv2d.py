"""Tests of TRANSPOSE_CONV2D; rules that it shares with CONV2D are tested there."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.numerics.overflow import Overflow, Policy
from npusim.numerics.types import DTYPES, I32, Array, DType
from npusim.ops import evaluate_bound
from npusim.ops.transpose_conv2d import TransposeConv2d
from tests.ops.convolution import I14, WEIGHTED_TYPES, Accumulator, bind, evaluate, small_bias, tensors, zero_point
from tests.ops.tiling import check_tiled, fold_tiles, random_array, random_tiles

PLAIN = TransposeConv2d(out_pad=(0, 0, 0, 0), stride=(1, 1))
SEED = TransposeConv2d(out_pad=(0, 0), stride=(1, 1), out_shape=(1, 4, 4, 3), dialect="seed")
I8_TYPES = ("i8", "i8", "i32")
SHAPES = ((1, 2, 2, 2), (3, 3, 3, 2), (3,))


def oracle(
    op: TransposeConv2d, x: Array, w: Array, bias: Array, shape: tuple[int, ...], dtype: DType, acc: Accumulator
) -> Array:
    """The scatter loops of both texts: every input element adds to all that it reaches; float32 rounds every time."""
    exact = dtype.is_integer
    (n_, ih, iw, ic_), (oc_, kh, kw, _) = x.shape, w.shape
    per_channel = [bias[oc % len(bias)] for oc in range(oc_)]
    start = per_channel if op.dialect == "seed" else [np.float32(0)] * oc_
    out: Any = np.empty(shape, object if exact else np.float32)
    for index in np.ndindex(*shape):
        out[index] = int(start[index[3]]) if exact else start[index[3]]
    sign = 1 if op.dialect == "tosa" else -1
    top, left = (sign * p for p in op.out_pad[:: len(op.out_pad) // 2])
    for n, iy, ix, oc, ic, ky, kx in product(*map(range, (n_, ih, iw, oc_, ic_, kh, kw))):
        oy, ox = iy * op.stride[0] + top + ky, ix * op.stride[1] + left + kx
        if 0 <= oy < shape[1] and 0 <= ox < shape[2]:
            a, b = x[n, iy, ix, ic], w[oc, ky, kx, ic]
            if exact:
                term = (int(a) - op.input_zp) * (int(b) - op.weight_zp)
                out[n, oy, ox, oc] = acc.add(out[n, oy, ox, oc], term)
            else:
                out[n, oy, ox, oc] += np.float32(a * b)
    if op.dialect == "tosa":
        for index in np.ndindex(*shape):
            b = per_channel[index[3]]
            out[index] = acc.add(out[index], int(b)) if exact else np.float32(out[index] + b)
    return out.astype(dtype.storage)


def random_case(
    rng: np.random.Generator, types: tuple[str, ...], dialect: str
) -> tuple[TransposeConv2d, list[tuple[int, ...]]]:
    n, ic, oc = (int(v) for v in rng.integers(1, 4, 3))
    size, k, s = (tuple(map(int, rng.integers(1, 5, 2))) for _ in range(3))
    zps = zero_point(rng, DTYPES[types[0]]), zero_point(rng, DTYPES[types[1]])
    if dialect == "tosa":
        pads = [int(rng.integers(1 - k[i // 2], 4)) for i in range(4)]
        for i in (0, 1):
            pads[2 * i] += max(0, 1 - ((size[i] - 1) * s[i] + pads[2 * i] + pads[2 * i + 1] + k[i]))
        op = TransposeConv2d(tuple(pads), s, *zps)
    else:
        pads = [int(v) for v in rng.integers(-2, 4, 2)]
        shape = (n, *map(int, rng.integers(1, 9, 2)), oc)
        op = TransposeConv2d(tuple(pads), s, *zps, out_shape=shape, dialect="seed")
    return op, [(n, *size, ic), (oc, *k, ic), (oc,) if rng.random() < 0.7 else (1,)]


@pytest.mark.parametrize("dialect", ["tosa", "seed"])
@pytest.mark.parametrize("types", WEIGHTED_TYPES)
@pytest.mark.parametrize("seed", range(15))
def test_every_tiling_gives_the_definition(types: tuple[str, ...], seed: int, dialect: str) -> None:
    rng = np.random.default_rng(seed)
    op, shapes = random_case(rng, types, dialect)
    kinds = tensors(shapes, types)
    arrays = [random_array(rng, kinds[0]), random_array(rng, kinds[1]), small_bias(rng, kinds[2])]
    bound = op.bind(kinds)
    got = check_tiled(op, arrays, kinds, random_tiles(rng, bound.work))
    acc = Accumulator(bound.accumulator, "saturate")
    np.testing.assert_array_equal(got, oracle(op, *arrays, bound.output.shape, bound.accumulator, acc))
    assert acc.events == 0


@pytest.mark.parametrize("policy", ["wrap", "saturate"])
@pytest.mark.parametrize("dialect", ["tosa", "seed"])
@pytest.mark.parametrize("seed", range(10))
def test_partial_sums_follow_the_text(policy: Policy, seed: int, dialect: str) -> None:
    """In a narrow accumulator the order shows: input rows, columns, channels ascending, the bias first or last."""
    rng = np.random.default_rng(100 + seed)
    op, shapes = random_case(rng, I8_TYPES, dialect)
    kinds = tensors(shapes, I8_TYPES)
    arrays = [random_array(rng, kinds[0]), random_array(rng, kinds[1]) // 8, rng.integers(-8000, 8000, shapes[2])]
    bound = replace(op.bind(kinds), accumulator=I14)
    acc, whole, tiled = Accumulator(I14, policy), Overflow(policy), Overflow(policy)
    expected = oracle(op, *arrays, bound.output.shape, I14, acc)
    np.testing.assert_array_equal(evaluate_bound(bound, arrays, whole), expected)
    narrow = replace(bound, output=replace(bound.output, dtype=I14))
    np.testing.assert_array_equal(fold_tiles(narrow, arrays, {"oy": 2, "ox": 1, "oc": 1, "ky": 1}, tiled), expected)
    assert whole.events == tiled.events == acc.events


def test_the_dialects_say_the_same_thing_in_two_ways() -> None:
    rng = np.random.default_rng(4)
    kinds = tensors([(1, 3, 4, 2), (3, 3, 2, 2), (3,)], I8_TYPES)
    arrays = [random_array(rng, k) for k in kinds[:2]] + [small_bias(rng, kinds[2])]
    tosa = TransposeConv2d((-1, 2, -1, 0), (2, 3))
    shape = tosa.bind(kinds).output.shape
    seed = TransposeConv2d((1, 1), (2, 3), out_shape=shape, dialect="seed")
    assert shape == (1, 8, 10, 3)
    np.testing.assert_array_equal(evaluate(tosa, arrays, I8_TYPES), evaluate(seed, arrays, I8_TYPES))


def test_outputs_that_nothing_reaches_hold_the_bias() -> None:
    op = TransposeConv2d((0, 1, 0, 0), (3, 2))
    got = evaluate(
        op,
        [
            [
                [[[2], [3]]],
            ],
            np.ones((1, 1, 1, 1)),
            [7],
        ],
        I8_TYPES,
    )
    assert got.reshape(2, 3).tolist() == [[9, 7, 10], [7, 7, 7]]


def test_the_seed_starts_from_the_bias_and_tosa_adds_it_last() -> None:
    """A bias at the limit: the seed refuses the first product beside it, TOSA 1.0 the bias after both."""
    x, w, bias = np.array([50, 60]).reshape(1, 1, 1, 2), np.ones((1, 1, 1, 2)), [I32.maximum]
    tosa = TransposeConv2d((0, 0, 0, 0), (1, 1))
    seed = TransposeConv2d((0, 0), (1, 1), out_shape=(1, 1, 1, 1), dialect="seed")
    text = r"transpose_conv2d: {} {} at output index \[0, 0, 0, 0\] is outside i32"
    with pytest.raises(UnpredictableError, match=text.format("sum with bias", I32.maximum + 110)):
        evaluate(tosa, [x, w, bias], I8_TYPES)
    with pytest.raises(UnpredictableError, match=text.format("partial sum", I32.maximum + 50)):
        evaluate(seed, [x, w, bias], I8_TYPES)
    reads = [op.bind(tensors([(1, 1, 1, 2), (1, 1, 1, 2), (1,)], I8_TYPES)).work.reads for op in (tosa, seed)]
    assert [r[2].final for r in reads] == [True, False]


def test_overflow_names_the_absolute_output() -> None:
    x, bias = np.zeros((1, 2, 2, 1)), [0, I32.maximum]
    x[0, 1, 1] = 1
    w = np.zeros((2, 2, 2, 1))
    w[1, 1, 0] = 1
    seed = TransposeConv2d((0, 0), (2, 2), out_shape=(1, 4, 4, 2), dialect="seed")
    arrays = [np.asarray(x, np.int8), np.asarray(w, np.int8), np.array(bias, np.int32)]
    bound = seed.bind(tensors([(1, 2, 2, 1), (2, 2, 2, 1), (2,)], I8_TYPES))
    for tiles in ({}, {"oy": 3, "ox": 1, "oc": 1}, {"oy": 2, "ox": 2, "ky": 1, "kx": 1}):
        with pytest.raises(UnpredictableError, match=r"partial sum 2147483648 at output index \[0, 3, 2, 1\]"):
            fold_tiles(bound, arrays, tiles, Overflow())


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (replace(PLAIN, out_pad=(0, 0)), r"rule attribute_length\), got stride \[1, 1\], out_pad \[0, 0\]"),
        (replace(PLAIN, stride=(1,)), r"rule attribute_length\), got stride \[1\]"),
        (replace(SEED, out_pad=(0, 0, 0, 0)), r"rule attribute_length"),
        (replace(PLAIN, stride=(0, 1)), r"rule stride_positive\), got stride \[0, 1\]"),
        (
            replace(PLAIN, out_pad=(0, -3, 0, 0)),
            r"rule out_pad_above_kernel\), got out_pad \[0, -3, 0, 0\] for kernel \[3, 3\]",
        ),
        (
            replace(PLAIN, out_pad=(0, 0, -2, -2)),
            r"rule output_size\), got out_pad \[0, 0, -2, -2\] .* input \[1, 2, 2, 2\]",
        ),
        (replace(PLAIN, out_shape=(1, 4, 5, 3)), r"rule out_shape\), got out_shape \[1, 4, 5, 3\] for \[1, 4, 4, 3\]"),
        (replace(SEED, out_shape=None), r"rule out_shape\), got out_shape none for input"),
        (replace(SEED, out_shape=(1, 4, 4)), r"rule out_shape\), got out_shape \[1, 4, 4\]"),
        (replace(SEED, out_shape=(2, 4, 4, 3)), r"rule out_shape\), got out_shape \[2, 4, 4, 3\]"),
        (replace(SEED, out_shape=(1, 4, 4, 2)), r"rule out_shape"),
        (replace(SEED, out_shape=(1, 0, 4, 3)), r"rule output_size\), got out_shape \[1, 0, 4, 3\]"),
        (replace(PLAIN, dialect="x"), r"rule dialect\), got dialect 'x'"),
        (replace(PLAIN, input_zp=-200), r"rule zero_point_range\), got input_zp -200"),
    ],
)
def test_rules(op: TransposeConv2d, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"transpose_conv2d: .*{message}"):
        bind(op, SHAPES, I8_TYPES)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 2, 2), *SHAPES[1:]), r"rule rank\), got input of shape \[2, 2, 2\]"),
        ((SHAPES[0], (3, 3, 3, 1), SHAPES[2]), r"rule channels_match\), got weight \[3, 3, 3, 1\]"),
        ((*SHAPES[:2], (2,)), r"rule bias_shape\), got bias \[2\] for 3"),
    ],
)
def test_shape_rules(shapes: Any, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        bind(PLAIN, shapes, I8_TYPES)


def test_a_zero_point_is_for_int8_only() -> None:
    with pytest.raises(InvalidGraphError, match=r"rule zero_point\), got input_zp 1 for i16"):
        bind(replace(PLAIN, input_zp=1), SHAPES, ("i16", "i8", "i48"))


def test_work_counts_one_tap_in_every_stride() -> None:
    op = TransposeConv2d((0, 0, 0, 0), (2, 3), out_shape=(1, 5, 6, 3))
    work = op.bind(tensors(SHAPES, I8_TYPES)).work
    assert [(d.name, d.extent, d.every) for d in work.dims if d.reduce] == [("ky", 3, 2), ("kx", 3, 3), ("ic", 2, 1)]
    assert work.macs


def test_a_kernel_of_thousands_is_feasible() -> None:
    op = TransposeConv2d((0, 0, -8191, -8191), (1, 8192))
    kinds = tensors([(1, 2, 4, 2), (2, 1, 8192, 2), (2,)], I8_TYPES)
    arrays = [np.ones(k.shape, k.dtype.storage) for k in kinds]
    begin = time.perf_counter()
    got = evaluate(op, arrays, I8_TYPES)
    assert got.shape == (1, 2, 16386, 2)
    assert (got == 3).all()
    assert time.perf_counter() - begin < 10

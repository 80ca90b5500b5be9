"""Tests of the binary convolution: every shape and padding against plain loops, tilings, outputs, thresholds, rules."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.tensor import TensorType
from npusim.ir.work import Loop, UnitKind
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import DTYPES, U1
from npusim.ops import evaluate, evaluate_bound
from npusim.ops.binary_conv2d import BinaryConv2d
from tests.ops.popcount import AUTO_PADS, bits, bound_to, convolution, kinds, levels, pads, pair, random_stage, run
from tests.ops.tiling import check_tiled, random_tiles

PLAIN = BinaryConv2d(stride=(1, 1), dilation=(1, 1), pads_begin=(0, 0), pads_end=(0, 0), pad_value="minus_one")
SHAPES: list[Any] = [(1, 2, 4, 4), (3, 2, 3, 3)]


def random_op(rng: np.random.Generator) -> BinaryConv2d:
    return BinaryConv2d(
        stride=pair(rng, 1, 1, 2, 3),
        dilation=pair(rng, 1, 1, 2, 3),
        pads_begin=pair(rng, 0, 1, 2, 5),
        pads_end=pair(rng, 0, 1, 2, 4),
        pad_value=str(rng.choice(["minus_one", "zero", "plus_one"])),
        auto_pad=str(rng.choice(AUTO_PADS)),
        groups=int(rng.choice([1, 1, 2, 3])),
        layout=str(rng.choice(["nchw", "nhwc"])),
    )


def random_case(rng: np.random.Generator, depth: int) -> tuple[BinaryConv2d, list[Any]]:
    """Attributes and [input, weight] that are legal, with ``depth`` channels in a group."""
    while True:
        op = random_op(rng)
        n, filters = int(rng.integers(1, 3)), int(rng.integers(1, 4)) * op.groups
        size, kernel = pair(rng, 1, 2, 4, 5, 7), pair(rng, 1, 2, 3, 4)
        before = pads(op, size, kernel)
        if all(size[i] + sum(before[i]) >= (kernel[i] - 1) * op.dilation[i] + 1 for i in (0, 1)):
            x, w = bits(rng, (n, depth * op.groups, *size)), bits(rng, (filters, depth, *kernel))
            if op.layout == "nhwc":
                x, w = x.transpose(0, 2, 3, 1).copy(), w.transpose(0, 2, 3, 1).copy()
            return op, [x, w]


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(80))
def test_every_tiling_gives_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    op, arrays = random_case(rng, int(rng.choice([1, 2, 3, 7, 8, 9, 17])))
    types = kinds(arrays, "u1", "u1")
    got = check_tiled(op, arrays, types, random_tiles(rng, op.bind(types).work))
    np.testing.assert_array_equal(got, convolution(*arrays, op))


@pytest.mark.parametrize(
    "channels", [1, 2, 3, 5, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 299, 300]
)
def test_any_number_of_channels(channels: int) -> None:
    rng = np.random.default_rng(channels)
    for pad_value in ("minus_one", "zero", "plus_one"):
        op = replace(PLAIN, pads_begin=(1, 0), pads_end=(0, 1), pad_value=pad_value)
        arrays = [bits(rng, (1, channels, 3, 2)), bits(rng, (2, channels, 2, 2))]
        np.testing.assert_array_equal(run(op, arrays, "u1", "u1"), convolution(*arrays, op))


@pytest.mark.parametrize("seed", range(30))
def test_the_correction_identity(seed: int) -> None:
    """Y_pi = Y_-1 + (pi + 1) * (sum of the weights of the padded taps)."""
    rng = np.random.default_rng(seed)
    op, (x, w) = random_case(rng, int(rng.integers(1, 20)))
    low, middle, high = (
        run(replace(op, pad_value=p), [x, w], "u1", "u1").astype(np.int64) for p in ("minus_one", "zero", "plus_one")
    )
    numbers = replace(op, pad_value="plus_one")
    padded = convolution(np.zeros_like(x), w, numbers, input_number=lambda _: 0)
    np.testing.assert_array_equal(middle - low, padded)
    np.testing.assert_array_equal(high - low, 2 * padded)


def test_pads_of_a_kernel_and_more_on_every_side() -> None:
    rng = np.random.default_rng(1)
    for pad_value in ("minus_one", "zero", "plus_one"):
        op = replace(PLAIN, pads_begin=(5, 9), pads_end=(4, 7), dilation=(2, 1), pad_value=pad_value)
        arrays = [bits(rng, (1, 3, 2, 1)), bits(rng, (2, 3, 3, 3))]
        np.testing.assert_array_equal(run(op, arrays, "u1", "u1"), convolution(*arrays, op))


def test_the_example_of_the_seed_has_its_shape_and_sums() -> None:
    rng = np.random.default_rng(0)
    op = replace(PLAIN, pads_begin=(2, 2), pads_end=(2, 2), pad_value="zero")
    x = rng.integers(0, 2, (1, 3, 224, 224)).astype(np.uint8)
    w = rng.integers(0, 2, (64, 3, 5, 5)).astype(np.uint8)
    got = run(op, [x, w], "u1", "u1")
    assert got.shape == (1, 64, 224, 224)
    padded = np.pad(2 * x.astype(np.int64) - 1, ((0, 0), (0, 0), (2, 2), (2, 2)))
    for o, p, q in ((0, 0, 0), (63, 223, 223), (7, 1, 222), (31, 100, 3)):
        window = padded[0, :, p : p + 5, q : q + 5]
        assert got[0, o, p, q] == int((window * (2 * w[o].astype(np.int64) - 1)).sum())


def test_batches_and_rows_that_are_made_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    op, arrays = random_case(rng, 9)
    expected = run(op, arrays, "u1", "u1")
    for name in ("IMAGES", "ROWS", "OUTPUTS"):
        monkeypatch.setattr(f"npusim.ops._popcount_convolution.{name}", 1)
    np.testing.assert_array_equal(run(op, arrays, "u1", "u1"), expected)


def test_temporaries_stay_small() -> None:
    x, w = np.zeros((1, 64, 224, 224), np.uint8), np.zeros((8, 64, 3, 3), np.uint8)
    op = replace(PLAIN, pads_begin=(1, 1), pads_end=(1, 1), pad_value="zero")
    bound, stored = bound_to(op, [x, w], "u1", "u1")
    tracemalloc.start()
    evaluate_bound(bound, stored, Overflow())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 48 << 20


# -- input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "u8", "u16", "f16", "f32"])
def test_wider_inputs_hold_0_and_1(kind: str) -> None:
    rng = np.random.default_rng(0)
    op = replace(PLAIN, pads_begin=(1, 1), pads_end=(1, 1), pad_value="plus_one")
    x, w = bits(rng, (1, 3, 4, 4)), bits(rng, (2, 3, 3, 3))
    np.testing.assert_array_equal(run(op, [x, w], kind, "u1"), convolution(x, w, op))
    with pytest.raises(
        UnpredictableError,
        match=r"binary_conv2d: elements .*\(rule binary_value\), got input 2.* at index \[0, 1, 2, 3\]",
    ):
        x[0, 1, 2, 3] = 2
        run(op, [x, w], kind, "u1")


def test_a_bad_value_is_named_by_its_place_in_the_whole_input() -> None:
    x = np.ones((2, 2, 4, 4), np.int8)
    x[1, 1, 3, 0] = -1
    bound, stored = bound_to(replace(PLAIN, pads_begin=(1, 1)), [x, (3, 2, 2, 2)], "i8", "u1")
    with pytest.raises(UnpredictableError, match=r"layer 'l1': elements .* -1 at index \[1, 1, 3, 0\]"):
        evaluate_bound(bound, stored, Overflow("refuse", "layer 'l1'"))


@pytest.mark.parametrize("pad_value", ["minus_one", "zero", "plus_one"])
@pytest.mark.parametrize(
    ("kind", "binarize"), [("u8", "gt0"), *product(["i8", "i16", "i32", "f32"], ["gt0", "ge0", "lt0"])]
)
def test_binarized_inputs(kind: str, binarize: str, pad_value: str) -> None:
    rng = np.random.default_rng(5)
    op = replace(PLAIN, pads_begin=(1, 0), pads_end=(1, 2), pad_value=pad_value, binarize=binarize)
    x, w = rng.integers(0 if kind == "u8" else -3, 4, (1, 2, 4, 4)), bits(rng, (2, 2, 2, 2))
    made = {"gt0": x > 0, "ge0": x >= 0, "lt0": x < 0}[binarize].astype(np.uint8)
    arrays = [x.astype(DTYPES[kind].storage), w]
    types = kinds(arrays, kind, "u1")
    got = check_tiled(op, arrays, types, random_tiles(rng, op.bind(types).work))
    np.testing.assert_array_equal(got, convolution(made, w, op))


# -- output -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "most"), [("i8", 127), ("i16", 32767), ("f16", 2048)])
def test_declared_output_types_hold_every_sum(kind: str, most: int) -> None:
    op = replace(PLAIN, out_type=kind)
    for x in (0, 1):
        got = run(op, [np.full((1, most, 1, 1), x), np.ones((1, most, 1, 1))], "u1", "u1")
        assert (str(got.dtype), got.item()) == (
            {"i8": "int8", "i16": "int16", "f16": "float16"}[kind],
            (2 * x - 1) * most,
        )
    message = rf"rule sum_range\), got sums of {most + 1} products in -{most + 1}..{most + 1} for out_type {kind}"
    with pytest.raises(InvalidGraphError, match=message):
        bound_to(op, [(1, most + 1, 1, 1), (1, most + 1, 1, 1)], "u1", "u1")


def test_float_outputs_hold_24_bits() -> None:
    assert run(replace(PLAIN, out_type="f32"), [np.ones((1, 3, 1, 1)), np.ones((1, 3, 1, 1))], "u1", "u1").item() == 3.0
    with pytest.raises(InvalidGraphError, match="sums of 16777217 products .* for out_type f32"):
        bound_to(replace(PLAIN, out_type="f32"), [(1, 1, 1, 2**24 + 1), (1, 1, 1, 2**24 + 1)], "u1", "u1")


@pytest.mark.parametrize(("overflow", "expected"), [("wrap", (-126, 126, -6)), ("saturate", (127, -128, 127))])
def test_chosen_overflow_of_the_finished_sum(overflow: str, expected: tuple[int, ...]) -> None:
    op = replace(PLAIN, out_type="i8", overflow=overflow)
    for count, x, wanted in ((130, 1, expected[0]), (130, 0, expected[1]), (250, 1, expected[2])):
        arrays = [np.full((1, count, 1, 1), x, np.uint8), np.ones((1, count, 1, 1), np.uint8)]
        bound, stored = bound_to(op, arrays, "u1", "u1")
        events = Overflow("refuse")
        assert evaluate_bound(bound, stored, events).item() == wanted
        assert events.events == 1
        assert check_tiled(op, arrays, list(bound.operands), {"ic": 7}).item() == wanted


# -- thresholds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_thresholds_in_every_tiling(seed: int) -> None:
    rng = np.random.default_rng(seed)
    op, arrays = random_case(rng, int(rng.integers(1, 12)))
    out, steps = [("u1", 1), ("u1", 1), ("u2", 3), ("u3", 7), ("u4", 15), ("u8", 255), ("i2", 2), ("i3", 4), ("i8", 9)][
        int(rng.integers(9))
    ]
    offset = 0 if out.startswith("u") else -int(rng.integers(1, 3))
    op = replace(op, out_type=out, offset=offset, compare=str(rng.choice(["gt", "ge"])))
    stage = random_stage(rng, arrays[1].shape[0], arrays[1][0].size, steps)[: int(rng.integers(1, 3))]
    types = kinds([*arrays, *stage], *("u1", "u1", "i32", "u1")[: 2 + len(stage)])
    got = check_tiled(op, [*arrays, *stage], types, random_tiles(rng, op.bind(types).work))
    axis = 1 if op.layout == "nchw" else 3
    expected = levels(convolution(*arrays, op), axis, stage[0], stage[1] if len(stage) > 1 else None, op)
    np.testing.assert_array_equal(got, expected)
    assert str(op.bind(types).output.dtype) == out


def test_a_threshold_is_strict_or_not_and_may_be_inverted() -> None:
    x, w = np.ones((1, 3, 1, 1), np.uint8), np.ones((4, 3, 1, 1), np.uint8)  # every sum is 3
    stage = [np.int32([2, 3, 4, 3]), np.uint8([0, 0, 0, 1])]
    kinds_ = ("u1", "u1", "i32", "u1")
    assert run(PLAIN, [x, w, *stage], *kinds_).ravel().tolist() == [1, 0, 0, 1]
    assert run(replace(PLAIN, compare="ge"), [x, w, *stage], *kinds_).ravel().tolist() == [1, 1, 0, 0]


def test_channels_that_are_constant() -> None:
    """gamma = 0: a threshold no sum passes, and one that all sums pass."""
    op = replace(PLAIN, compare="ge")
    got = run(op, [(1, 1, 1, 1), (2, 1, 1, 1), np.int32([2**31 - 1, -(2**31)])], "u1", "u1", "i32")
    assert got.ravel().tolist() == [0, 1]


def test_with_pad_zero_the_sum_is_compared_and_not_the_count() -> None:
    x, w = np.ones((1, 1, 3, 3), np.uint8), np.ones((1, 1, 3, 3), np.uint8)
    op = replace(PLAIN, pads_begin=(1, 1), pads_end=(1, 1), pad_value="zero")
    assert run(op, [x, w], "u1", "u1").ravel().tolist() == [4, 6, 4, 6, 9, 6, 4, 6, 4]
    assert run(op, [x, w, np.int32([5])], "u1", "u1", "i32").ravel().tolist() == [0, 1, 0, 1, 1, 1, 0, 1, 0]


def test_thresholds_as_an_attribute_in_one_piece_or_apart() -> None:
    x, w = np.ones((1, 1, 1, 1), np.uint8), np.ones((3, 1, 1, 1), np.uint8)
    common: dict[str, Any] = {"stride": [1, 1], "dilation": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    common |= {"pad_value": "zero", "types": ["u1", "u1"]}
    grouped = {"values": [1, 1, 0], "compare": "ge", "invert": [0, 1, 0]}
    whole = evaluate("binary_conv2d", [x, w], thresholds=grouped, **common)
    apart = evaluate("binary_conv2d", [x, w], thresholds=[1, 1, 0], compare="ge", invert=[0, 1, 0], **common)
    assert whole.ravel().tolist() == apart.ravel().tolist() == [1, 0, 1]
    same = evaluate("binary_conv2d", [x, w], thresholds={"values": [0, 1, 2], "invert": True}, **common)
    assert same.ravel().tolist() == [0, 1, 1]
    steps = evaluate("binary_conv2d", [x, w], thresholds=[[-2, 0, 1]], out_type="u2", **common)
    assert steps.ravel().tolist() == [2, 2, 2]


def test_packed_feature_maps_chain() -> None:
    """Two layers with thresholds and a pool of bits between, all of them bits."""
    rng = np.random.default_rng(9)
    x, w1, w2 = bits(rng, (1, 8, 8, 3)), bits(rng, (5, 3, 3, 3)), bits(rng, (4, 3, 3, 5))
    t1, t2 = rng.integers(-5, 6, 5).astype(np.int32), rng.integers(-9, 9, 4).astype(np.int32)
    op = replace(PLAIN, layout="nhwc", auto_pad="same_upper", pad_value="zero")
    y = run(op, [x, w1, t1], "u1", "u1", "i32")
    expected = levels(convolution(x, w1, op), 3, t1, None, op)
    np.testing.assert_array_equal(y, expected)
    z = run(op, [y, w2, t2], "u1", "u1", "i32")
    np.testing.assert_array_equal(z, levels(convolution(expected, w2, op), 3, t2, None, op))


# -- work -------------------------------------------------------------------------------------------------------------


def test_work() -> None:
    bound, _ = bound_to(PLAIN, SHAPES, "u1", "u1")
    assert bound.work.unit is UnitKind.POPCOUNT
    assert bound.work.macs
    assert bound.work.points == 3 * 2 * 2 * 18
    assert not any(d.loop is Loop.BIT_PLANE for d in bound.work.dims)


@pytest.mark.parametrize(("op", "shape"), [(PLAIN, (1, 3, 2, 2)), (replace(PLAIN, layout="nhwc"), (1, 2, 2, 3))])
def test_shapes_of_both_layouts(op: BinaryConv2d, shape: tuple[int, ...]) -> None:
    operands: list[Any] = SHAPES if op.layout == "nchw" else [(1, 4, 4, 2), (3, 3, 3, 2)]
    assert bound_to(op, operands, "u1", "u1")[0].output.shape == shape


@pytest.mark.parametrize(
    ("auto_pad", "begin", "end"),
    [
        ("same_upper", (0, 1), (1, 1)),
        ("SAME_LOWER", (1, 1), (0, 1)),
        ("valid", (0, 0), (0, 0)),
        ("Explicit", (9, 9), (9, 9)),
    ],
)
def test_auto_pad(auto_pad: str, begin: tuple[int, int], end: tuple[int, int]) -> None:
    """Size 4 and stride 2 with a kernel of 3 needs one row of padding, size 5 and stride 2 two columns."""
    rng = np.random.default_rng(2)
    arrays = [bits(rng, (1, 1, 4, 5)), bits(rng, (1, 1, 3, 3))]
    given = replace(PLAIN, stride=(2, 2), pads_begin=(9, 9), pads_end=(9, 9), auto_pad=auto_pad)
    spelled = replace(given, pads_begin=begin, pads_end=end, auto_pad="explicit")
    np.testing.assert_array_equal(run(given, arrays, "u1", "u1"), run(spelled, arrays, "u1", "u1"))


def test_pads_are_ignored_unless_explicit() -> None:
    op = replace(PLAIN, auto_pad="valid", pads_begin=(-1, 0), pads_end=())
    assert bound_to(op, SHAPES, "u1", "u1")[0].output.shape == (1, 3, 2, 2)


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_the_footprint_of_a_group_is_little_more_than_its_channels(groups: int) -> None:
    op = replace(PLAIN, groups=groups)
    bound, _ = bound_to(op, [(1, 12, 3, 3), (6, 12 // groups, 3, 3)], "u1", "u1")
    work = bound.work
    depth, per_group = 12 // groups, 6 // groups
    tile = work.space._replace(hi=tuple(per_group if d.name == "oc" else d.extent for d in work.dims))
    channels = work.reads[0].footprint(work.index, tile)
    assert channels.lo[1] <= 0 and depth <= channels.hi[1] < 2 * depth + (per_group == 1)


# -- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stride": (0, 1)}, r"every stride must be at least 1 \(rule stride_positive\), got stride \[0, 1\]"),
        ({"dilation": (1, 0)}, r"rule dilation_positive\), got dilation \[1, 0\]"),
        ({"pads_begin": (-1, 0)}, r"rule pad_not_negative\), got pads_begin \[-1, 0\]"),
        ({"pads_end": (0, -2)}, r"rule pad_not_negative\), got pads_end \[0, -2\]"),
        ({"pads_end": (0,)}, r"rule attribute_length\), got pads_end \[0\] for 2 entries"),
        ({"pads_begin": (0, 0, 0)}, r"rule attribute_length\), got pads_begin \[0, 0, 0\] for 2"),
        ({"stride": (1,)}, r"rule attribute_length\), got stride \[1\]"),
        ({"dilation": ()}, r"rule attribute_length\), got dilation \[\]"),
        ({"dilation": (2, 1)}, r"rule kernel_fits\), got input \[4, 4\], kernel \[3, 3\], .*dilation \[2, 1\]"),
        ({"auto_pad": "same"}, r"rule auto_pad\), got auto_pad 'same'"),
        ({"pad_value": "-1"}, r"must be one of minus_one, zero, plus_one \(rule pad_value\), got pad_value '-1'"),
        ({"mode": "xor"}, r"rule mode\), got mode 'xor'"),
        ({"layout": "hwcn"}, r"rule layout\), got layout 'hwcn'"),
        ({"groups": 0}, r"rule groups\), got groups 0 for 2 input and 3 output channels"),
        ({"groups": 2}, r"rule groups\), got groups 2 for 2 input and 3 output channels"),
        ({"binarize": "sign"}, r"rule binarize\), got binarize 'sign'"),
        ({"binarize": "gt0"}, r"rule binarize_bits\), got binarize 'gt0'"),
        ({"out_type": "i48"}, r"rule out_type\), got out_type 'i48'"),
        ({"out_type": "u1"}, r"rule out_type\), got out_type 'u1'"),
        ({"overflow": "clamp"}, r"rule overflow\), got overflow 'clamp' for i32"),
        ({"out_type": "f16", "overflow": "wrap"}, r"rule overflow\), got overflow 'wrap' for f16"),
        ({"compare": "ge"}, r"rule stage_without_thresholds\), got compare 'ge', offset 0"),
        ({"offset": 1}, r"rule stage_without_thresholds\), got compare 'gt', offset 1"),
    ],
)
def test_attribute_rules(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"binary_conv2d: .*{message}"):
        bound_to(replace(PLAIN, **change), SHAPES, "u1", "u1")


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2, 4, 4), (3, 2, 3, 3)], r"rule rank\), got input of shape \[2, 4, 4\] for \[N, C, H, W\]"),
        ([(1, 2, 4, 4), (3, 2, 9)], r"rule rank\), got weight of shape \[3, 2, 9\] for \[O, C/groups, KH, KW\]"),
        ([(1, 2, 4, 4), (3, 3, 3, 3)], r"rule channels_match\), got weight \[3, 3, 3, 3\] for input .*, groups 1"),
        ([(1, 2, 0, 4), (3, 2, 3, 3)], r"input has shape \[1, 2, 0, 4\]; every dimension must be at least 1"),
        ([(1, 2, 4, 4), (3, 2, 3, 0)], r"weight has shape \[3, 2, 3, 0\]"),
        ([(1, 2, 4, 4)], r"takes 2 to 4 operands \(input, weight, thresholds, invert\), got 1"),
    ],
)
def test_shape_rules(shapes: list[Any], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"binary_conv2d.*{message}"):
        bound_to(PLAIN, shapes, *["u1"] * len(shapes))


def test_a_channels_last_layout_is_named_in_messages() -> None:
    with pytest.raises(InvalidGraphError, match=r"got weight of shape \[3, 2, 3\] for \[O, KH, KW, C/groups\]"):
        bound_to(replace(PLAIN, layout="nhwc"), [(1, 4, 4, 2), (3, 2, 3)], "u1", "u1")


@pytest.mark.parametrize(
    ("change", "operands", "types", "message"),
    [
        ({}, [(4,)], ["i32"], r"rule threshold_shape\), got thresholds \[4\] for 3 channels"),
        ({}, [()], ["i32"], r"rule threshold_shape\), got thresholds \[\]"),
        ({}, [(3, 1, 1)], ["i32"], r"rule threshold_shape\), got thresholds \[3, 1, 1\]"),
        ({}, [(3,), (2,)], ["i32", "u1"], r"rule threshold_shape\), got invert \[2\] for 3 channels"),
        ({}, [(3,)], ["i16"], r"rule threshold_types\), got thresholds i16"),
        ({}, [(3,), (3,)], ["i32", "u8"], r"rule threshold_types\), got invert u8"),
        ({"compare": "lt"}, [(3,)], ["i32"], r"rule compare\), got compare 'lt'"),
        ({"out_type": "i32"}, [(3,)], ["i32"], r"one of u1, u2.* \(rule level_type\), got out_type 'i32'"),
        ({"out_type": "u2"}, [(3, 4)], ["i32"], r"rule level_range\), got offset 0 with 4 steps for u2"),
        ({}, [(3, 2)], ["i32"], r"rule level_range\), got offset 0 with 2 steps for u1"),
        ({"offset": -1}, [(3,)], ["i32"], r"rule level_range\), got offset -1 with 1 steps for u1"),
        ({"out_type": "i2", "offset": 1}, [(3,)], ["i32"], r"rule level_range\), got offset 1 with 1 steps for i2"),
        ({"overflow": "wrap"}, [(3,)], ["i32"], r"rule overflow\), got overflow 'wrap' with thresholds"),
    ],
)
def test_threshold_rules(change: dict[str, Any], operands: list[Any], types: list[str], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"binary_conv2d: .*{message}"):
        bound_to(replace(PLAIN, **change), [*SHAPES, *operands], "u1", "u1", *types)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (("i4", "u1"), r"rule operand_types\), got input i4 for u1, i8, i16, i32, u8, u16, f16, f32"),
        (("u1", "i8"), r"rule operand_types\), got weight i8 for u1"),
    ],
)
def test_type_rules(types: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        bound_to(PLAIN, SHAPES, *types)


@pytest.mark.parametrize("binarize", ["ge0", "lt0"])
def test_unsigned_inputs_are_made_bits_by_gt0_only(binarize: str) -> None:
    with pytest.raises(InvalidGraphError, match=rf"rule binarize_signed\), got binarize '{binarize}' for u8"):
        bound_to(replace(PLAIN, binarize=binarize), SHAPES, "u8", "u1")


def test_sums_beyond_the_accumulator() -> None:
    tensor = TensorType((1, 1, 1 << 16, 1 << 15), U1)
    with pytest.raises(InvalidGraphError, match=r"rule accumulator_range\), got sums of 2147483648 products"):
        PLAIN.bind([tensor, tensor])


def test_a_pad_value_that_is_a_number_is_refused_by_name() -> None:
    attributes: dict[str, Any] = {"stride": [1, 1], "dilation": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    with pytest.raises(InvalidGraphError, match=r"binary_conv2d: attribute pad_value must be a text, got 0\.5"):
        evaluate("binary_conv2d", [np.ones((1, 1, 1, 1), np.uint8)] * 2, types=["u1"] * 2, pad_value=0.5, **attributes)

"""Tests of RESCALE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import DTYPES, I8, I16, I32, I48, U8, Array, DType
from npusim.ops import evaluate_bound
from npusim.ops.rescale import Rescale
from tests.ops.elementwise import run, wrap
from tests.ops.tiling import check_tiled, indices, random_array, random_tiles

PLAIN = Rescale(
    scale32=True,
    rounding="single",
    per_channel=False,
    input_unsigned=False,
    output_unsigned=False,
    out_type="i32",
)
WIDE = replace(PLAIN, scale32=False)
DOUBLE = replace(PLAIN, rounding="double")


def scale(v: int, m: int, s: int, double: bool) -> int:
    """Both apply_scale functions of TOSA 1.0 on exact integers; only the one of 32 bits rounds twice."""
    r = 1 << (s - 1)
    if double and s > 31:
        r += 1 << 30 if v >= 0 else -(1 << 30)
    return (v * m + r) >> s


def oracle(op: Rescale, x: DType, v: int, m: int, s: int) -> int:
    """The output for one input as it is stored."""
    y = DTYPES[op.out_type]
    v = v % (1 << x.bits) if op.input_unsigned else v
    t = scale(v - op.input_zp, m, s, op.rounding == "double") + op.output_zp
    if not op.output_unsigned:
        return min(max(t, y.minimum), y.maximum)
    t = min(max(t, 0), (1 << y.bits) - 1)
    return wrap(t, y.bits) if y in (I8, I16) else t


def rescale(op: Rescale, x: Any, multiplier: Any, shift: Any, dtype: DType = I32) -> list[Any]:
    m, s = ([v] if isinstance(v, int) else v for v in (multiplier, shift))
    return run(op, x, m, s, types=[dtype, I32 if op.scale32 else I16, I8]).tolist()


# -- types and rules ------------------------------------------------------------------------------------------------


def legal(x: str, m: str, s: str, y: str, scale32: bool) -> bool:
    unsigned = [t for t in (x, y) if t[0] == "u"]
    return (
        x in ("i8", "i16", "i32", "i48", "u8", "u16")
        and y in ("i8", "i16", "i32", "u8", "u16")
        and s == "i8"
        and m == ("i32" if scale32 else "i16")
        and not (x == "i48" and scale32)
        and len(unsigned) < 2
        and not (unsigned and {x, y} & {"i32", "i48"})
    )


@pytest.mark.parametrize("scale32", [True, False])
@pytest.mark.parametrize("y", DTYPES)
def test_types(scale32: bool, y: str) -> None:
    for x in DTYPES:
        op = replace(PLAIN, scale32=scale32, out_type=y, input_unsigned=x[0] == "u", output_unsigned=y[0] == "u")
        for m, s in [(m, "i8") for m in DTYPES] + [("i32", "i16"), ("i16", "i32")]:
            types = [TensorType((2, 3), DTYPES[x]), TensorType((1,), DTYPES[m]), TensorType((1,), DTYPES[s])]
            if legal(x, m, s, y, scale32):
                assert op.bind(types).output == TensorType((2, 3), DTYPES[y])
            else:
                with pytest.raises(InvalidGraphError, match="^rescale: "):
                    op.bind(types)


def test_rule_multiplier_type() -> None:
    for op, wrong, flag in ((PLAIN, I16, "true"), (WIDE, I32, "false")):
        message = rf"^rescale: .* \(rule multiplier_type\), got multiplier {wrong} with scale32 {flag}$"
        with pytest.raises(InvalidGraphError, match=message):
            op.bind([TensorType((2,), I32), TensorType((1,), wrong), TensorType((1,), I8)])


def test_a_shift_of_a_wrong_type() -> None:
    with pytest.raises(
        InvalidGraphError, match="^rescale: no type rule for input i32, multiplier i32, shift i32; legal"
    ):
        PLAIN.bind([TensorType((2,), I32), TensorType((1,), I32), TensorType((1,), I32)])


@pytest.mark.parametrize(
    "changes, x, rule, got",
    [
        ({}, DTYPES["f32"], "input_type", "input f32"),
        ({}, DTYPES["bool"], "input_type", "input bool"),
        ({"out_type": "i48"}, I32, "out_type", "out_type 'i48'"),
        ({"out_type": "int8"}, I32, "out_type", "out_type 'int8'"),
        ({"rounding": "up"}, I32, "rounding", "rounding 'up'"),
        ({}, I48, "scale32_input", "input i48 with scale32 true"),
        ({"scale32": False, "rounding": "double"}, I32, "double_scale32", "rounding double with scale32 false"),
        ({}, U8, "unsigned_flag", "input_unsigned false for input u8"),
        ({"out_type": "u16"}, I8, "unsigned_flag", "output_unsigned false for output u16"),
        (
            {"input_unsigned": True, "output_unsigned": True, "out_type": "i8"},
            I8,
            "one_unsigned",
            "input_unsigned true",
        ),
        (
            {"input_unsigned": True, "output_unsigned": True, "out_type": "u8"},
            U8,
            "one_unsigned",
            "input_unsigned true",
        ),
        ({"input_unsigned": True}, U8, "unsigned_width", "input_unsigned true for input u8 and output i32"),
        ({"input_unsigned": True}, I16, "unsigned_width", "input_unsigned true for input i16 and output i32"),
        ({"input_unsigned": True, "out_type": "i8"}, I32, "unsigned_width", "input_unsigned true for input i32"),
        ({"output_unsigned": True, "out_type": "i8"}, I32, "unsigned_width", "output_unsigned true for input i32"),
        ({"output_unsigned": True, "out_type": "u8", "scale32": False}, I48, "unsigned_width", "output_unsigned true"),
        ({"output_unsigned": True}, I8, "unsigned_width", "output_unsigned true for input i8 and output i32"),
        ({"input_zp": 1}, I16, "zero_point_type", "input_zp 1 for input i16"),
        ({"input_zp": -1}, I32, "zero_point_type", "input_zp -1 for input i32"),
        ({"output_zp": 1}, I8, "zero_point_type", "output_zp 1 for output i32"),
        ({"output_zp": 1, "out_type": "i16"}, I8, "zero_point_type", "output_zp 1 for output i16"),
        ({"input_zp": 128}, I8, "zero_point_range", "input_zp 128 for input i8"),
        ({"output_zp": -129, "out_type": "i8"}, I32, "zero_point_range", "output_zp -129 for output i8"),
        (
            {"input_zp": -1, "input_unsigned": True, "out_type": "i8"},
            I8,
            "zero_point_range",
            "input_zp -1 for input u8",
        ),
        (
            {"input_zp": 256, "input_unsigned": True, "out_type": "i8"},
            U8,
            "zero_point_range",
            "input_zp 256 for input u8",
        ),
        (
            {"input_zp": 1, "input_unsigned": True, "out_type": "i8"},
            I16,
            "zero_point_range",
            "input_zp 1 for input u16",
        ),
        (
            {"output_zp": 32767, "output_unsigned": True, "out_type": "u16"},
            I16,
            "zero_point_range",
            "output_zp 32767 for output u16",
        ),
    ],
)
def test_rules_about_types_and_modes(changes: dict[str, Any], x: DType, rule: str, got: str) -> None:
    op = replace(PLAIN, **changes)
    types = [TensorType((2,), x), TensorType((1,), I32 if op.scale32 else I16), TensorType((1,), I8)]
    with pytest.raises(InvalidGraphError, match=rf"^rescale: .* \(rule {rule}\), got {got}"):
        op.bind(types)


@pytest.mark.parametrize(
    "per_channel, shape, m, s, rule, got",
    [
        (True, (), 1, 1, "per_channel_rank", r"input \[\]"),
        (True, (2, 3), 1, 3, "scale_size", r"multiplier \[1\] where \[3\] is needed"),
        (True, (2, 3), 3, 2, "scale_size", r"shift \[2\] where \[3\] is needed"),
        (False, (2, 3), 3, 1, "scale_size", r"multiplier \[3\] where \[1\] is needed"),
        (False, (2, 3), 1, 3, "scale_size", r"shift \[3\] where \[1\] is needed"),
    ],
)
def test_rules_about_shapes(per_channel: bool, shape: tuple[int, ...], m: int, s: int, rule: str, got: str) -> None:
    types = [TensorType(shape, I32), TensorType((m,), I32), TensorType((s,), I8)]
    with pytest.raises(InvalidGraphError, match=rf"^rescale: .* \(rule {rule}\), got {got}$"):
        replace(PLAIN, per_channel=per_channel).bind(types)


# -- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("s", range(2, 63))
def test_scale32_at_the_limits_and_next_to_halves(s: int, double: bool) -> None:
    low, high = max(-(1 << (s - 1)), -(2**31)), min((1 << (s - 1)) - 1, 2**31 - 1)
    for m in (0, 1, 2, 3, 1 << 30, (1 << 30) + 1, 1527099593, 2**31 - 1):
        half = [(k << s) // (2 * m) + d for k in (-3, -1, 1, 3, 12345) for d in (-1, 0, 1)] if m else []
        v = [v for v in (low, low + 1, -2, -1, 0, 1, 2, high - 1, high, *half) if low <= v <= high]
        op = DOUBLE if double else PLAIN
        assert rescale(op, v, m, s) == [scale(x, m, s, double) for x in v]


@pytest.mark.parametrize("s", range(2, 63))
def test_scale16_at_the_limits_and_next_to_halves(s: int) -> None:
    for m in (0, 1, 3, 1 << 14, (1 << 14) + 1, 2**15 - 1):
        edge = [((k << s) + d) // m for k in (-(2**31), 2**31 - 1) for d in (0, 1 << (s - 1))] if m else []
        half = [(k << s) // (2 * m) + d for k in (-3, -1, 1, 3, 999) for d in (-1, 0, 1)] if m else []
        v = [-(2**47), 1 - 2**47, -1, 0, 1, 2**47 - 1, *half, *(e + d for e in edge for d in (-1, 0, 1))]
        v = [x for x in v if -(2**47) <= x < 2**47 and -(2**31) <= scale(x, m, s, False) < 2**31]
        assert rescale(WIDE, v, m, s, I48) == [scale(x, m, s, False) for x in v]


def test_inexact_rounding_is_computed_as_single() -> None:
    v = list(range(-40, 40))
    expected = rescale(PLAIN, v, 1 << 30, 33)
    assert rescale(replace(PLAIN, rounding="inexact"), v, 1 << 30, 33) == expected
    assert rescale(DOUBLE, v, 1 << 30, 33) != expected


@pytest.mark.parametrize("input_zp, output_zp", [(0, 0), (-128, 127), (127, -128), (5, -3)])
@pytest.mark.parametrize("op", [PLAIN, DOUBLE, WIDE], ids=["single", "double", "wide"])
def test_every_int8_to_int8(op: Rescale, input_zp: int, output_zp: int) -> None:
    op = replace(op, out_type="i8", input_zp=input_zp, output_zp=output_zp)
    x = list(range(-128, 128))
    for m, s in ((1 << 14, 14), (12345, 12), (32767, 20), (1, 40)):
        m32 = m << 16 if op.scale32 else m
        s32 = s + 16 if op.scale32 else s
        assert rescale(op, x, m32, s32, I8) == [oracle(op, I8, v, m32, s32) for v in x]


def test_every_int16() -> None:
    x = np.arange(-32768, 32768).reshape(256, 256)
    for y in ("i8", "i16", "i32"):
        op = replace(DOUBLE, out_type=y)
        assert sum(rescale(op, x, 1987654321, 33, I16), []) == [
            oracle(op, I16, v, 1987654321, 33) for v in x.ravel().tolist()
        ]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "x, y, input_zp, output_zp",
    [("u8", "i8", 128, 0), ("u8", "i16", 255, 0), ("u8", "i8", 0, -128), ("i8", "u8", -5, 130), ("i16", "u8", 0, 255)]
    + [("u16", "i16", 32768, 0), ("u16", "i8", 0, 7), ("i16", "u16", 0, 32768), ("i8", "u16", -128, 0)],
)
def test_unsigned_edges(x: str, y: str, input_zp: int, output_zp: int, native: bool) -> None:
    """Tensors of an unsigned type, and signed ones whose bits are unsigned, as TOSA files have them."""
    read, written = DTYPES[x], DTYPES[y]
    stored_x, stored_y = (t if native else DTYPES["i" + t.name[1:]] for t in (read, written))
    op = Rescale(True, "double", False, x[0] == "u", y[0] == "u", stored_y.name, input_zp, output_zp)
    values = list(range(read.minimum, read.maximum + 1, 1 << (read.bits - 8))) + [read.maximum]
    stored = [v if native else wrap(v, read.bits) for v in values]
    for m, s in ((1 << 30, 30), (1 << 30, 34), (1999999999, 26)):
        exact = [scale(v - input_zp, m, s, True) + output_zp for v in values]
        clipped = [min(max(t, written.minimum), written.maximum) for t in exact]
        out = run(op, stored, [m], [s], types=[stored_x, I32, I8])
        assert out.dtype == stored_y.storage
        assert out.tolist() == [v if native else wrap(v, written.bits) for v in clipped]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(
    "op, x",
    [(op, x) for op in (PLAIN, DOUBLE, WIDE) for x in (I8, I16, I32, I48) if x is not I48 or op is WIDE],
)
def test_oracle_and_tilings(op: Rescale, x: DType, per_channel: bool) -> None:
    rng = np.random.default_rng(17)
    for trial, y in enumerate(("i8", "i16", "i32") * 4):
        rank = trial % 5 + per_channel
        kind = TensorType(tuple(int(n) for n in rng.integers(1, 6, rank)), x)
        size = kind.shape[-1] if per_channel else 1
        zero_points = {"input_zp": int(rng.integers(-128, 128)) * (x is I8)}
        zero_points["output_zp"] = int(rng.integers(-128, 128)) * (y == "i8")
        made = replace(op, per_channel=per_channel, out_type=y, **zero_points)
        multiplier = random_multiplier(rng, made, size)
        shift = rng.integers(32, 63, size).astype(np.int8)
        types = [kind, TensorType((size,), I32 if op.scale32 else I16), TensorType((size,), I8)]
        arrays = [random_array(rng, kind), multiplier, shift]
        out = check_tiled(made, arrays, types, random_tiles(rng, made.bind(types).work))
        for i in indices(kind.shape):
            c = i[-1] if per_channel else 0
            assert out[i] == oracle(made, x, int(arrays[0][i]), int(multiplier[c]), int(shift[c]))


def random_multiplier(rng: np.random.Generator, op: Rescale, size: int) -> Array:
    bits, storage = (31, np.int32) if op.scale32 else (15, np.int16)
    return (rng.integers(0, 1 << bits, size) >> rng.integers(0, 4, size)).astype(storage)


def test_large_tensors_are_computed_in_pieces() -> None:
    op = replace(DOUBLE, per_channel=True, out_type="i8", output_zp=-3)
    kind = TensorType((3, 50, 700), I32)
    rng = np.random.default_rng(19)
    x = rng.integers(-(2**20), 2**20, kind.shape).astype(np.int32)
    m, s = random_multiplier(rng, op, 700), rng.integers(40, 45, 700).astype(np.int8)
    bound = op.bind([kind, TensorType((700,), I32), TensorType((700,), I8)])
    out = evaluate_bound(bound, [x, m, s], Overflow())
    for i in [(0, 0, 0), (2, 49, 699), *zip(*(rng.integers(0, n, 500).tolist() for n in kind.shape), strict=True)]:
        assert out[i] == oracle(op, I32, int(x[i]), int(m[i[-1]]), int(s[i[-1]]))


# -- unpredictable numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [PLAIN, DOUBLE, WIDE], ids=["single", "double", "wide"])
@pytest.mark.parametrize("shift", [1, 63, 0, -1, 127, -128])
def test_a_shift_outside_2_to_62_is_unpredictable(op: Rescale, shift: int) -> None:
    with pytest.raises(UnpredictableError, match=rf"^rescale: .*shift must lie in 2\.\.62, got {shift} at output"):
        rescale(op, [4], 1 << 14, shift)


@pytest.mark.parametrize("op", [PLAIN, WIDE], ids=["32", "16"])
def test_a_negative_multiplier_is_unpredictable(op: Rescale) -> None:
    with pytest.raises(UnpredictableError, match=r"^rescale: a multiplier must lie in 0\.\.\d+, got -1 at output"):
        rescale(op, [4], -1, 20)


@pytest.mark.parametrize("s", range(2, 32))
def test_with_scale32_a_value_outside_the_range_of_the_shift_is_unpredictable(s: int) -> None:
    limit = 1 << (s - 1)
    for v in (limit, -limit - 1):
        with pytest.raises(UnpredictableError, match=rf"^rescale: a scaled value .*, got {v} at output index \[1, 0\]"):
            rescale(PLAIN, [[0], [v]], 1 << 30, s)


def test_the_zero_point_counts_for_the_range_of_the_shift() -> None:
    op = replace(PLAIN, input_zp=-128, out_type="i8")
    assert rescale(op, [-1], 1 << 30, 8, I8) == [127]
    with pytest.raises(UnpredictableError, match=r"^rescale: a scaled value .*, got 128 at output index \[0\]"):
        rescale(op, [0], 1 << 30, 8, I8)


@pytest.mark.parametrize("v, result", [(2**31 << 10, 2**31), (-(2**31) - 1 << 10, -(2**31) - 1)])
def test_without_scale32_a_result_outside_int32_is_unpredictable(v: int, result: int) -> None:
    with pytest.raises(UnpredictableError, match=rf"^rescale: .*result must fit int32, got {result} at .* \[1\]"):
        rescale(replace(WIDE, out_type="i8"), [0, v], 1 << 14, 24, I48)


def test_without_scale32_a_sum_with_the_zero_point_outside_int32_is_unpredictable() -> None:
    largest = (2**31 - 1) << 10
    assert rescale(replace(WIDE, out_type="i8", output_zp=-1), [largest], 1 << 14, 24, I48) == [127]
    message = r"^rescale: the sum with output_zp must fit i32 .*, got 2147483648 at output index \[1\]"
    with pytest.raises(UnpredictableError, match=message):
        rescale(replace(WIDE, out_type="i8", output_zp=1), [0, largest], 1 << 14, 24, I48)


def test_messages_name_the_layer_and_the_index_in_the_whole_output() -> None:
    op = replace(PLAIN, per_channel=True)
    bound = op.bind([TensorType((4, 6), I32), TensorType((6,), I32), TensorType((6,), I8)])
    operands = [np.ones((2, 3), np.int32), np.ones(3, np.int32), np.array([40, 40, 1], np.int8)]
    with pytest.raises(UnpredictableError, match=r"^layer 'x': rescale: .* got 1 at output index \[2, 5\]; TOSA"):
        op.step(bound, None, operands, Box((2, 3), (4, 6)), Overflow("refuse", "layer 'x': rescale"))

"""Constants: the bytes of each type, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from npusim.errors import FileFormatError, InputError
from npusim.frontends.tosa import TosaTensor, decode_constant, encode_constant


def decoded(dtype: str, shape: tuple[int, ...], hexadecimal: str) -> np.ndarray[Any, Any]:
    return decode_constant(TosaTensor("c", shape, dtype, bytes.fromhex(hexadecimal)))


@pytest.mark.parametrize(
    ("dtype", "values", "storage", "hexadecimal"),
    [
        ("BOOL", [True, False], "bool", "0100"),
        ("INT4", [-8, 7, -1], "int8", "780f"),
        ("INT8", [-128, 127], "int8", "807f"),
        ("INT16", [-32768, 258], "int16", "00800201"),
        ("INT32", [-(2**31), 16909060], "int32", "0000008004030201"),
        ("INT48", [-(2**47), -1, 2**47 - 1], "int64", "000000000080ffffffffffffffffffffff7f"),
        ("INT64", [-(2**63)], "int64", "0000000000000080"),
        ("SHAPE", [-1, 2**40], "int64", "ffffffffffffffff0000000000010000"),
        ("FP16", [1.0, -2.0], "float16", "003c00c0"),
        ("FP32", [1.0, -2.0], "float32", "0000803f000000c0"),
    ],
)
def test_bytes_of_each_type(dtype: str, values: list[Any], storage: str, hexadecimal: str) -> None:
    array = decoded(dtype, (1, len(values)), hexadecimal)
    assert array.tolist() == [values]
    assert array.dtype == storage
    assert not array.flags.writeable
    assert encode_constant(np.array([values]), dtype).hex() == hexadecimal


def test_int4_packing_of_the_case_file(shared: Path) -> None:
    case = yaml.safe_load((shared / "cases" / "B18-int4-packing.yaml").read_text(encoding="utf-8"))
    for tensor, expected in zip(case["input"]["tensors"], case["expected"]["bytes_hex"], strict=True):
        values = tensor["values"]
        assert encode_constant(values, "INT4").hex() == expected
        assert decoded("INT4", (len(values),), expected).tolist() == values
        assert case["wrong"]["borrow"] != values


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_int4_gives_back_every_count_of_every_pair_of_neighbours(count: int) -> None:
    pairs = np.array([[a, b] for a in range(-8, 8) for b in range(-8, 8)]).reshape(-1)[: 512 - count]
    assert np.array_equal(decoded("INT4", pairs.shape, encode_constant(pairs, "INT4").hex()), pairs)


def test_a_scalar() -> None:
    scalar = decoded("INT32", (), "05000000")
    assert (scalar.shape, int(scalar)) == ((), 5)


def test_int8_is_a_view_and_unaligned_numbers_are_aligned() -> None:
    file = bytes(range(17))
    small = decode_constant(TosaTensor("c", (4,), "INT8", memoryview(file)[1:5]))
    wide = decode_constant(TosaTensor("c", (2,), "INT64", memoryview(file)[1:17]))
    assert np.shares_memory(small, np.frombuffer(file, np.uint8))
    assert wide.flags.aligned
    assert wide.tolist() == [0x0807060504030201, 0x100F0E0D0C0B0A09]


def test_surplus_bytes_are_padding_when_they_are_zero() -> None:
    assert decoded("INT8", (1,), "0500000000000000").tolist() == [5]
    assert decoded("INT4", (1,), "0500").tolist() == [5]
    with pytest.raises(FileFormatError, match=r"'c' of type INT8 and shape \[1\] wants 1 bytes, 8 are given"):
        decoded("INT8", (1,), "0500000000000001")


@pytest.mark.parametrize(
    ("dtype", "shape", "hexadecimal", "message"),
    [
        ("INT8", (2, 3), "0102", r"'c' of type INT8 and shape \[2, 3\] wants 6 bytes, 2 are given; .*export it again"),
        ("INT4", (5,), "2ae3", r"'c' of type INT4 and shape \[5\] wants 3 bytes, 2 are given"),
        ("INT48", (2,), "00" * 11, r"'c' of type INT48 and shape \[2\] wants 12 bytes, 11 are given"),
        ("INT32", (2**31 - 1,) * 3, "00", rf"wants {4 * (2**31 - 1) ** 3} bytes, 1 are given"),
        ("INT8", (-1, -2), "0102", r"'c' has the shape \[-1, -2\]; give it dimensions of 1 or more"),
        ("INT8", (0, *(2**31 - 1,) * 3), "", r"'c' has the shape \[0, .*\]; give it dimensions of 1 or more"),
        ("BF16", (1,), "0000", r"'c' has elements of the unsupported type BF16; use one of BOOL, "),
    ],
)
def test_refused_bytes(dtype: str, shape: tuple[int, ...], hexadecimal: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        decoded(dtype, shape, hexadecimal)


def test_missing_bytes() -> None:
    with pytest.raises(FileFormatError, match=r"'c' of type INT8 and shape \[1\] wants 1 bytes, 0 are given"):
        decode_constant(TosaTensor("c", (1,), "INT8"))


@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        ([8], "INT4", r"a constant of type INT4 holds -8\.\.7, the array has 8\.\.8; use a wider type"),
        ([-129, 3], "INT8", r"a constant of type INT8 holds -128\.\.127, the array has -129\.\.3"),
        ([2**47], "INT48", r"a constant of type INT48 holds -140737488355328\.\.140737488355327"),
        ([1.5], "INT8", r"a constant of type INT8 cannot hold an array of float64; convert the array first"),
        ([1], "FP32", r"a constant of type FP32 cannot hold an array of int64"),
        ([1], "BOOL", r"a constant of type BOOL cannot hold an array of int64"),
        ([1], "BF16", r"constants of type BF16 are not supported; use one of BOOL, "),
    ],
)
def test_refused_arrays(values: list[Any], dtype: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_constant(values, dtype)

"""Arrays of a workload: types, random numbers, files, constants; every way they can be wrong."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.errors import FileFormatError, InputError
from npusim.frontends.workload.data import constant_array, load_array, load_labels, random_array, tensor_type
from npusim.frontends.workload.schema import ConstantSpec
from npusim.ir.tensor import TensorType
from npusim.numerics.types import DTYPES, F32, I4, I8, I16, I32, I48, U1, DType


def saved(path: Path, array: Any, **options: Any) -> Path:
    np.save(path, array, **options)
    return path


# -- types -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (2, 0, 3), (1, 1024, 7, 3)])
def test_a_type_reads_back_from_its_text(dtype: DType, shape: tuple[int, ...]) -> None:
    tensor = TensorType(shape, dtype)
    assert tensor_type(str(tensor)) == tensor


@pytest.mark.parametrize("text", ["", "3x", "xi8", "3xx4xi8", "-1xi8", "3,4xi8", "3 x i8", "1x2", "3xi8\n", "٣xi8"])
def test_a_malformed_type_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="must be sizes and an element type joined by x, such as 1x32x32x3xi8"):
        tensor_type(text)


def test_an_unknown_element_type_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"type '2xi64' has the unknown element type 'i64'; did you mean 'i\w+'\?"):
        tensor_type("2xi64")


# -- random arrays ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.storage.kind != "f"], ids=str)
def test_random_values_fill_the_range_of_the_type_and_no_more(dtype: DType) -> None:
    x = random_array(TensorType((64, 257), dtype), 0, "x")
    assert x.shape == (64, 257) and x.dtype == dtype.storage
    low, high = int(x.min()), int(x.max())
    span = (dtype.maximum - dtype.minimum) // 256
    assert dtype.minimum <= low <= dtype.minimum + span and dtype.maximum - span <= high <= dtype.maximum


def test_random_values_depend_on_seed_and_name_alone() -> None:
    t = TensorType((1000,), I16)
    assert np.array_equal(random_array(t, 1, "a"), random_array(t, 1, "a"))
    others = [random_array(t, 2, "a"), random_array(t, 1, "b"), random_array(t, 11, "a"), random_array(t, 1, "1:a")]
    assert all(np.mean(random_array(t, 1, "a") == other) < 0.05 for other in others)


def test_random_bounds_are_included() -> None:
    assert set(random_array(TensorType((100,), I8), 0, "x", -1, 1).tolist()) == {-1, 0, 1}
    assert random_array(TensorType((), I32), 0, "x", 5, 5) == np.int32(5)


@pytest.mark.parametrize("bounds", [(3, 2), (-129, 0), (0, 128)])
def test_random_bounds_outside_the_type_are_refused(bounds: tuple[int, int]) -> None:
    with pytest.raises(
        InputError, match=r"range of 'x' \(4xi8\) must be \[smallest, largest\] within -128..127, got \["
    ):
        random_array(TensorType((4,), I8), 0, "x", *bounds)


def test_random_floats_are_refused() -> None:
    with pytest.raises(InputError, match=r"'x' \(4xf32\) cannot be drawn: f32 has no range; give a file"):
        random_array(TensorType((4,), F32), 0, "x")


def test_arrays_beyond_the_largest_tensor_are_refused_before_they_are_made() -> None:
    huge = TensorType((1 << 20, 1 << 20), I8)
    with pytest.raises(
        InputError, match=r"'x' \(1048576x1048576xi8\) would have 1099511627776 bytes; .* at most 2147483647"
    ):
        random_array(huge, 0, "x")
    with pytest.raises(InputError, match="'w' .* would have 1099511627776 bytes"):
        constant_array(ConstantSpec(type=str(huge), fill=0), huge, "w", 0, Path())


# -- files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "array"),
    [
        (I8, np.int8([[-128, 127]])),
        (I4, np.int8([[-7, 7]])),
        (I48, np.int64([[-(2**47), 2**47 - 1]])),
        (U1, np.uint8([[0, 1]])),
        (U1, np.array([[False, True]])),
        (DTYPES["bool"], np.array([[False, True]])),
        (I32, np.array([[1, -2]], ">i4")),
        (F32, np.float32([[0.5, -1]])),
        (I16, np.asfortranarray(np.int16([[3, 4]]))),
    ],
    ids=str,
)
def test_files_hold_elements_in_their_storage_type(tmp_path: Path, dtype: DType, array: Any) -> None:
    x = load_array(saved(tmp_path / "x.npy", array), TensorType((1, 2), dtype), "input 'x'")
    assert x.dtype == dtype.storage and x.flags.c_contiguous and x.flags.writeable
    np.testing.assert_array_equal(x, array)


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (np.zeros((1, 3), np.int8), r"int8 \[1, 3\]"),
        (np.zeros(2, np.int8), r"int8 \[2\]"),
        (np.zeros((1, 2), np.uint8), r"uint8 \[1, 2\]"),
        (np.zeros((1, 2), np.int64), r"int64 \[1, 2\]"),
        (np.zeros((1, 2)), r"float64 \[1, 2\]"),
        (np.zeros((1, 2), bool), r"bool \[1, 2\]"),
        (np.array([[None, "a"]], object), r"object \[1, 2\]"),
    ],
    ids=str,
)
def test_other_element_types_and_shapes_are_refused(tmp_path: Path, array: Any, got: str) -> None:
    path = saved(tmp_path / "x.npy", array, allow_pickle=True)
    wanted = (
        r"x.npy: input 'x' must be int8 \[1, 2\] \(1x2xi8\), the file has " + got + "; save it with that shape, as int8"
    )
    with pytest.raises(FileFormatError, match=wanted):
        load_array(path, TensorType((1, 2), I8), "input 'x'")


@pytest.mark.parametrize(("dtype", "value", "limits"), [(I4, -8, "-7..7"), (U1, 2, "0..1"), (I48, 2**47, "2")])
def test_values_outside_the_type_are_refused(tmp_path: Path, dtype: DType, value: int, limits: str) -> None:
    path = saved(tmp_path / "x.npy", np.array([0, value], dtype.storage))
    with pytest.raises(
        FileFormatError, match=rf"x.npy: input 'x' has {value} at \[1\]; values of {dtype} are .*{limits}"
    ):
        load_array(path, TensorType((2,), dtype), "input 'x'")


def test_a_huge_shape_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|i1", "fortran_order": False, "shape": (1 << 50,)})
    with pytest.raises(FileFormatError, match=r"the file has int8 \[1125899906842624\]"):
        load_array(path, TensorType((2,), I8), "input 'x'")
    with pytest.raises(FileFormatError, match=r"the file has int8 \[1125899906842624\]"):
        load_labels(path, TensorType((2, 10), I8))


def test_arrays_in_archives_are_found_by_key(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    np.savez(path, **{"conv1.weight": np.int8([1, 2]), "bias": np.int32([3])})
    np.testing.assert_array_equal(load_array(path, TensorType((2,), I8), "w", "conv1.weight"), [1, 2])
    with pytest.raises(
        FileFormatError, match=r"w.npz: has no array 'conv1.weigth' for w; did you mean 'conv1.weight'\?"
    ):
        load_array(path, TensorType((2,), I8), "w", "conv1.weigth")
    with pytest.raises(
        FileFormatError, match=r"w.npz: holds several arrays \(.npz\); give w as a .npy file, or say which by key"
    ):
        load_array(path, TensorType((2,), I8), "w")
    with pytest.raises(FileFormatError, match=r"x.npy: is no .npz file; remove the key 'k' of w"):
        load_array(saved(tmp_path / "x.npy", np.int8([1, 2])), TensorType((2,), I8), "w", "k")


def test_a_missing_file_is_named_with_a_close_one(tmp_path: Path) -> None:
    saved(tmp_path / "image.npy", np.int8(1))
    with pytest.raises(
        FileFormatError, match=r"imge.npy: there is no such file for input 'x'; did you mean 'image.npy'\?"
    ):
        load_array(tmp_path / "imge.npy", TensorType((), I8), "input 'x'")
    with pytest.raises(FileFormatError, match="there is no such file for input 'x'; check the path"):
        load_array(tmp_path / "none" / "x.npy", TensorType((), I8), "input 'x'")
    with pytest.raises(FileFormatError, match="there is no such file"):
        load_array(tmp_path, TensorType((), I8), "a folder")


@pytest.mark.filterwarnings("ignore::UserWarning")  # numpy's, for headers that Python 2 might have written
@pytest.mark.parametrize("key", [None, "w"])
def test_damaged_files_are_refused_whatever_their_bytes(tmp_path: Path, key: str | None) -> None:
    array, tensor, path = np.arange(12, dtype=np.int8).reshape(3, 4), TensorType((3, 4), I8), tmp_path / "x"
    buffer, dice, refused = io.BytesIO(), random.Random(0), 0
    np.savez_compressed(buffer, w=array) if key else np.save(buffer, array)
    for _ in range(200):
        data = bytearray(buffer.getvalue())
        for _ in range(dice.randint(1, 3)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data[: dice.choice([len(data), dice.randrange(len(data))])])
        try:
            assert load_array(path, tensor, "input 'x'", key).shape == (3, 4)
        except FileFormatError as error:
            refused += 1
            assert str(error).startswith(f"{path}: ")
    assert refused > 100


# -- labels ----------------------------------------------------------------------------------------------------


def test_labels_are_one_class_per_entry(tmp_path: Path) -> None:
    outputs = TensorType((3, 1, 1, 10), I8)
    assert load_labels(saved(tmp_path / "y.npy", np.int8([0, 9, 3])), outputs).tolist() == [0, 9, 3]
    for wrong, got in (
        (np.int8([0, 1]), r"int8 \[2\]"),
        (np.zeros(3), r"float64 \[3\]"),
        (np.int8([[1], [2], [3]]), r"\[3, 1\]"),
    ):
        with pytest.raises(
            FileFormatError, match=r"labels must be integers \[3\], one for each entry .*; the file has .*" + got
        ):
            load_labels(saved(tmp_path / "y.npy", wrong), outputs)
    for values in ([0, 1, 10], [-1, 0, 0]):
        with pytest.raises(FileFormatError, match=r"labels must be classes of the output, 0..9; got "):
            load_labels(saved(tmp_path / "y.npy", np.int64(values)), outputs)


# -- constants -------------------------------------------------------------------------------------------------


def constant(type: str, folder: Path = Path(), **source: Any) -> Any:
    return constant_array(ConstantSpec(type=type, **source), tensor_type(type), "w", 7, folder)


def test_every_source_of_a_constant(tmp_path: Path) -> None:
    saved(tmp_path / "w.npy", np.int16([[5, 6]]))
    np.savez(tmp_path / "w.npz", k=np.int8([[1, 2]]))
    t = TensorType((2, 3), I8)
    for got, want, dtype in [
        (constant("2x3xi8", random=True), random_array(t, 7, "w"), np.int8),
        (constant("2x3xi8", random=(-2, 2)), random_array(t, 7, "w", -2, 2), np.int8),
        (constant("2x2xi32", values=(1, 2, 3, -4)), [[1, 2], [3, -4]], np.int32),
        (constant("2x2xi32", values=([1, 2], [3, -4])), [[1, 2], [3, -4]], np.int32),
        (constant("i8", values=(3,)), 3, np.int8),
        (constant("2xbool", values=(True, False)), [True, False], np.bool_),
        (constant("2xf32", values=(0.5, 1)), [0.5, 1], np.float32),
        (constant("0xi8", values=()), np.empty(0), np.int8),
        (constant("2x2xi48", fill=2**40), np.full((2, 2), 2**40), np.int64),
        (constant("2xbool", fill=False), [False, False], np.bool_),
        (constant("2x2xi8", arange=(5, -3)), [[5, 2], [-1, -4]], np.int8),
        (constant("1xi8", arange=(5, 2**80)), [5], np.int8),
        (constant("1x2xi16", tmp_path, file="w.npy"), [[5, 6]], np.int16),
        (constant("1x2xi8", tmp_path, file="w.npz", key="k"), [[1, 2]], np.int8),
    ]:
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want, strict=False)
        assert got.shape == np.shape(want)


@pytest.mark.parametrize(
    ("type", "source", "message"),
    [
        ("2xi8", {"fill": 128}, r"fill of constant 'w' at index \[\] is 128, outside i8 \(-128..127\)"),
        ("2xi8", {"fill": True}, "fill of constant 'w' holds bool values, but its type is i8"),
        ("2xi8", {"fill": 0.5}, "fill of constant 'w' holds float64 values, but its type is i8"),
        (
            "2xi8",
            {"values": (1, 2, 3)},
            r"'w' \(2xi8\) needs 2 values, flat or nested as \[2\]; got an array of shape \[3\]",
        ),
        ("2xi8", {"values": (1, "a")}, "constant 'w' holds .* values, but its type is i8"),
        ("2x2xi8", {"values": ([1, 2], [3])}, "constant 'w' is ragged"),
        ("2xi4", {"values": (0, -8)}, r"constant 'w' at index \[1\] is -8, outside i4 \(-7..7\)"),
        ("3xi8", {"arange": (100, 20)}, "arange, first and last value, of constant 'w' .* is 140, outside i8"),
        ("3xi8", {"random": (0, 200)}, r"range of 'w' \(3xi8\) must be .*, got \[0, 200\]"),
        ("3xi8", {"file": "absent.npy"}, "absent.npy: there is no such file for constant 'w'"),
    ],
)
def test_constants_that_do_not_fit_their_type_are_refused(type: str, source: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        constant(type, **source)

"""The arrays of a workload: random ones, those of ``.npy`` and ``.npz`` files, and constants spelled out."""

from __future__ import annotations

import difflib
import hashlib
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy

from npusim.errors import FileFormatError, InputError
from npusim.frontends.workload.schema import ConstantSpec
from npusim.graph.level import MAX_TENSOR_BYTES
from npusim.ir.tensor import TensorType
from npusim.numerics.types import DTYPES, U1, Array, first_outside
from npusim.ops import as_operand, suggestion

_SIZES: Final = re.compile(r"(?:([0-9]{1,12}(?:x[0-9]{1,12})*)x)?([A-WYZa-wyz][A-Za-z0-9]*)")
_HEADERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_UNREADABLE: Final = (OSError, ValueError, EOFError, RuntimeError, TokenError, zipfile.BadZipFile, zlib.error)
"""What numpy and zipfile raise for files that are damaged, encrypted, or of a kind that they do not know."""


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The end of a message about an unknown ``word``: the closest known one, if its similarity reaches ``cutoff``."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""


def tensor_type(text: str) -> TensorType:
    """The type that ``text`` names, the inverse of ``str``. Raises InputError. Sizes of 0 are left to other rules.

    >>> tensor_type("1x8x8x3xi8").shape, tensor_type("i32").shape, str(tensor_type("2x3xu1"))
    ((1, 8, 8, 3), (), '2x3xu1')
    """
    match = _SIZES.fullmatch(text)
    if match is None:
        raise InputError(f"type {text!r} must be sizes and an element type joined by x, such as 1x32x32x3xi8")
    sizes, element = match.groups()
    if element not in DTYPES:
        raise InputError(f"type {text!r} has the unknown element type {element!r}{suggestion(element, DTYPES)}")
    return TensorType(tuple(int(n) for n in sizes.split("x")) if sizes else (), DTYPES[element])


def random_array(tensor: TensorType, seed: int, name: str, lo: int | None = None, hi: int | None = None) -> Array:
    """Uniform integers (or bools) of the type ``tensor`` in its storage type, from ``lo`` to ``hi``, both included.

    The bounds default to those of the element type. The numbers depend on the arguments alone: numpy's PCG64 starts
    from the SHA-256 of seed and name. Raises InputError for bounds that are not values of the type, and for floats.
    """
    dtype = tensor.dtype
    lo, hi = dtype.minimum if lo is None else lo, dtype.maximum if hi is None else hi
    check_range(tensor, name, lo, hi)
    digest = hashlib.sha256(f"{seed}:{name}".encode(errors="surrogatepass")).digest()
    generator = np.random.default_rng(int.from_bytes(digest, "little"))
    return np.asarray(generator.integers(lo, hi, tensor.shape, dtype.storage.type, endpoint=True), dtype.storage)


def check_range(tensor: TensorType, name: str, lo: int, hi: int) -> None:
    """Raise InputError if there are no random values of the type from ``lo`` to ``hi``."""
    dtype = tensor.dtype
    if not dtype.is_integer and dtype.storage.kind != "b":
        raise InputError(f"random values of {name!r} ({tensor}) cannot be drawn: {dtype} has no range; give a file")
    if not dtype.minimum <= lo <= hi <= dtype.maximum:
        limits = f"[smallest, largest] within {dtype.minimum}..{dtype.maximum}"
        raise InputError(f"the random range of {name!r} ({tensor}) must be {limits}, got [{lo}, {hi}]")
    _check_size(tensor, name)


def constant_array(spec: ConstantSpec, tensor: TensorType, name: str, seed: int, folder: Path) -> Array:
    """The elements of the constant called ``name``, in the storage type of ``tensor``; InputError if they are wrong.

    ``folder`` is where relative paths start.
    """
    _check_size(tensor, name)
    if spec.file is not None:
        return load_array(folder / spec.file, tensor, f"constant {name!r}", spec.key)
    if spec.random is not None and spec.random is not False:
        bounds = () if spec.random is True else spec.random
        return random_array(tensor, seed, name, *bounds)
    if spec.fill is not None:
        value = as_operand(f"fill of constant {name!r}", spec.fill, tensor.dtype)
        return np.full(tensor.shape, value)
    if spec.arange is not None:
        start, step = spec.arange
        ends = (start, start + step * max(0, tensor.size - 1))
        as_operand(f"arange, first and last value, of constant {name!r}", ends, tensor.dtype)
        steps = np.arange(tensor.size) * (step if tensor.size > 1 else 0)
        return (start + steps).astype(tensor.dtype.storage).reshape(tensor.shape)
    array = as_operand(f"constant {name!r}", spec.values or (), tensor.dtype)
    if array.shape not in (tensor.shape, (tensor.size,)):
        wanted = f"{tensor.size} values, flat or nested as {list(tensor.shape)}"
        raise InputError(f"constant {name!r} ({tensor}) needs {wanted}; got an array of shape {list(array.shape)}")
    return array.reshape(tensor.shape)


def load_array(path: Path, tensor: TensorType, what: str, key: str | None = None) -> Array:
    """The array of the ``.npy`` file ``path``, or the one called ``key`` in an ``.npz`` file, as a new C-ordered array.

    ``what`` says in messages what the array is. Element type and shape must be exactly those of ``tensor``: i4 comes
    as int8, i48 as int64, u1 as uint8 or bool, and nothing else is converted. Files of Python objects are not read.
    Raises FileFormatError that names the file, what was wanted, what was found and the remedy.
    """

    def check(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        accepted = (tensor.dtype.storage, np.dtype(np.bool_)) if tensor.dtype is U1 else (tensor.dtype.storage,)
        if dtype.newbyteorder("=") not in accepted or shape != tensor.shape:
            wanted = f"{' or '.join(map(str, accepted))} {list(tensor.shape)} ({tensor})"
            remedy = f"save it with that shape, as {accepted[0]}"
            raise FileFormatError(f"{path}: {what} must be {wanted}, the file has {dtype} {list(shape)}; {remedy}")

    array = _read(path, key, what, check)
    at = first_outside(array, tensor.dtype)
    if at is not None:
        limits = f"{tensor.dtype.minimum}..{tensor.dtype.maximum}"
        raise FileFormatError(f"{path}: {what} has {array[at]} at {list(at)}; values of {tensor.dtype} are {limits}")
    return np.asarray(array, tensor.dtype.storage, order="C")


def load_labels(path: Path, outputs: TensorType) -> Array:
    """Integer labels [N] from a ``.npy`` file, for an output with N entries along its first axis, of a score a class.

    Raises FileFormatError for other shapes and types, and for labels that are no class of the output.
    """
    count = outputs.shape[0] if outputs.shape else 1
    classes = outputs.size // max(1, count)

    def check(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if shape != (count,) or dtype.kind not in "iu":
            wanted = f"integers [{count}], one for each entry of the first output"
            raise FileFormatError(f"{path}: labels must be {wanted}; the file has {dtype} {list(shape)}")

    labels = _read(path, None, "labels", check)
    if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        got = f"got {labels.min()}..{labels.max()}"
        raise FileFormatError(f"{path}: labels must be classes of the output, 0..{classes - 1}; {got}")
    return labels


def check_exists(path: Path, what: str) -> None:
    """Raise FileFormatError if ``path`` is no file."""
    if not path.is_file():
        siblings = sorted(f.name for f in path.parent.iterdir()) if path.parent.is_dir() else []
        hint = did_you_mean(path.name, siblings, 0.75) or "; check the path"  # suffixes are alike in any case
        raise FileFormatError(f"{path}: there is no such file for {what}{hint}")


def _check_size(tensor: TensorType, name: str) -> None:
    nbytes = tensor.size * tensor.dtype.storage.itemsize
    if nbytes > MAX_TENSOR_BYTES:
        raise InputError(f"{name!r} ({tensor}) would have {nbytes} bytes; an array here has at most {MAX_TENSOR_BYTES}")


def _read(path: Path, key: str | None, what: str, check: Callable[[tuple[int, ...], np.dtype[Any]], None]) -> Array:
    """The array of a file; ``check`` sees shape and dtype, and may refuse them, before the elements are read."""
    check_exists(path, what)
    try:
        with _opened(path, key, what) as stream:
            version = npy.read_magic(stream)
            if version not in _HEADERS:
                raise ValueError(f"version {version} of the format is not known here")
            shape, _, dtype = _HEADERS[version](stream)
            check(shape, dtype)
            stream.seek(0)
            return np.asarray(npy.read_array(stream, allow_pickle=False))
    except _UNREADABLE as error:
        remedy = f"write it with numpy.{'save' if key is None else 'savez'}"
        raise FileFormatError(f"{path}: {what} cannot be read ({error}); {remedy}") from None


@contextmanager
def _opened(path: Path, key: str | None, what: str) -> Iterator[IO[bytes]]:
    """The bytes of a ``.npy`` file, or of the array called ``key`` in a ``.npz`` file."""
    with path.open("rb") as stream:
        is_archive = stream.read(2) == b"PK"
        stream.seek(0)
        if is_archive and key is None:
            raise FileFormatError(
                f"{path}: holds several arrays (.npz); give {what} as a .npy file, or say which by key"
            )
        if key is None:
            yield stream
            return
        if not is_archive:
            raise FileFormatError(f"{path}: is no .npz file; remove the key {key!r} of {what}")
        with zipfile.ZipFile(stream) as archive:
            names = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
            if key not in names:
                raise FileFormatError(f"{path}: has no array {key!r} for {what}{suggestion(key, names)}")
            with archive.open(f"{key}.npy") as member:
                yield member

"""Reads the tensors and operators of a TensorFlow Lite file that holds operators of Larq Compute Engine.

Numbers of operators, element types and paddings are looked up in PyPI's ``tflite`` package. Its accessors are not used:
they follow every offset of a file unchecked, so that a damaged one ends in an error of ``struct`` or numpy, or in a
huge allocation. The bytes go through :mod:`npusim.frontends.tosa.flatbuffer`, which trusts no offset and no length. The
options of Larq's operators are small maps; ``flatbuffers.flexbuffers`` reads single entries of them by bisection, which
ends for any bytes, and its errors are turned into ours.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from flatbuffers import flexbuffers

from npusim.errors import FileFormatError
from npusim.frontends.larq import schema
from npusim.frontends.tosa.flatbuffer import FlatBuffer, Table
from npusim.numerics.types import Array

STORAGE: Final[Mapping[str, np.dtype[Any]]] = {"FLOAT32": np.dtype("<f4"), "INT32": np.dtype("<i4")}
"""What the constants of a Larq network of float32 are made of."""

_WINDOW: Final = {"padding": None, "stride_height": None, "stride_width": None}
CUSTOM: Final[Mapping[str, Mapping[str, int | None]]] = {
    "LceQuantize": {},
    "LceDequantize": {},
    "LceBMaxPool2d": {**_WINDOW, "filter_height": None, "filter_width": None},
    "LceBconv2d": {
        **_WINDOW,
        "channels_in": None,
        "dilation_height_factor": None,
        "dilation_width_factor": None,
        "fused_activation_function": 0,
        "pad_values": 0,
    },
}
"""Larq's operators, and their options with defaults (None: the option must be there)."""

_FLEXBUFFER_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    struct.error,
)


@dataclass(frozen=True, slots=True)
class LarqTensor:
    """One tensor: ``dtype`` as TensorFlow Lite calls it; ``data`` are the bytes of a constant, else None."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: memoryview | None = None

    def array(self) -> Array:
        """The constant. Raises FileFormatError when its bytes do not fill its shape, or are of another type."""
        storage = STORAGE.get(self.dtype)
        if self.data is None or storage is None:
            known = " or ".join(STORAGE)
            raise FileFormatError(f"tensor {self.name!r} ({self.dtype}) must be a constant of {known}")
        if len(self.data) != prod(self.shape) * storage.itemsize:
            raise FileFormatError(
                f"constant {self.name!r} has {len(self.data)} bytes for shape {list(self.shape)} of {self.dtype}; "
                "the file is damaged: convert the model again"
            )
        return np.frombuffer(self.data, storage).reshape(self.shape).astype(storage.newbyteorder("="))


@dataclass(frozen=True, slots=True)
class LarqOperator:
    """One operator by name, with its tensors by name (None: left out) and its options."""

    kind: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    options: Mapping[str, Any]

    @property
    def label(self) -> str:
        """What reports and messages call it: operators have no names, so that it is that of its output."""
        return f"{self.kind} {self.outputs[0]!r}" if self.outputs else self.kind


@dataclass(frozen=True, slots=True)
class LarqFile:
    """The first graph of a file. Tensor names are unique: where the file repeats one, its number is added."""

    tensors: Mapping[str, LarqTensor]
    operators: tuple[LarqOperator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_larq(data: bytes, name: str) -> LarqFile:
    """The first graph in ``data``, which messages call ``name``; nothing is known yet about what its operators mean.

    Raises FileFormatError for bytes that are not a TensorFlow Lite file, or where the ``tflite`` package is absent.
    """
    try:
        tflite: Any = importlib.import_module("tflite")
    except ImportError:
        raise FileFormatError(
            f"{name}: reading Larq networks needs the package tflite: pip install npusim[larq]"
        ) from None
    root = FlatBuffer(data, name).root(schema.IDENTIFIER, "model")
    return _Reader(root, {e: _names(getattr(tflite, e)) for e in _ENUMERATIONS}).read()


_ENUMERATIONS: Final = ("BuiltinOperator", "BuiltinOptions", "TensorType", "Padding", "ActivationFunctionType")


def _names(enumeration: Any) -> dict[int, str]:
    return {v: k for k, v in vars(enumeration).items() if isinstance(v, int) and not k.startswith("_")}


class _Reader:
    """One file under way: its root table, and the names of enumerations by number."""

    def __init__(self, root: Table, names: Mapping[str, Mapping[int, str]]) -> None:
        self.root, self.names = root, names
        self.model = root.read(schema.MODEL)
        if not self.model["subgraphs"]:
            raise root.fault("it has no graph")
        self.buffers = [t.read(schema.BUFFER) for t in self.model["buffers"]]
        self.kinds = [self._kind(t) for t in self.model["operator_codes"]]
        self.graph: Table = self.model["subgraphs"][0]

    def read(self) -> LarqFile:
        graph = self.graph.read(schema.SUBGRAPH)
        tensors = [self._tensor(t) for t in graph["tensors"]]
        seen: set[str] = set()
        unique = []
        for i, t in enumerate(tensors):
            name = t.name if t.name and t.name not in seen else f"{t.name}#{i}"
            while name in seen:
                name += "_"
            seen.add(name)
            unique.append(LarqTensor(name, t.shape, t.dtype, t.data))
        named = [t.name for t in unique]
        return LarqFile(
            {t.name: t for t in unique},
            tuple(self._operator(t, named) for t in graph["operators"]),
            tuple(self._lookup(self.graph, named, i, "input") for i in graph["inputs"]),
            tuple(self._lookup(self.graph, named, i, "output") for i in graph["outputs"]),
        )

    def _kind(self, table: Table) -> str:
        code = table.read(schema.OPERATOR_CODE)
        # the byte came first and saturates at 127; writers fill both, or only the one that they know
        number = max(code["deprecated_builtin_code"], code["builtin_code"])
        kind = self.names["BuiltinOperator"].get(number, f"number {number}")
        return code["custom_code"] or kind if kind == "CUSTOM" else kind

    def _tensor(self, table: Table) -> LarqTensor:
        t = table.read(schema.TENSOR)
        dtype = self.names["TensorType"].get(t["type"], f"type {t['type']}")
        if any(n < 1 for n in t["shape"]):
            raise table.fault(f"tensor {t['name']!r} has shape {list(t['shape'])}; every dimension must be at least 1")
        buffer = self._lookup(table, self.buffers, t["buffer"], "buffer")
        if buffer["offset"] > 1:
            raise table.fault(f"the data of tensor {t['name']!r} lie outside the flatbuffer", "convert a smaller model")
        if t["sparsity"] is not None:
            raise table.fault(f"tensor {t['name']!r} is sparse", "convert the model without sparse tensors")
        return LarqTensor(t["name"], t["shape"], dtype, buffer["data"] if len(buffer["data"]) else None)

    def _operator(self, table: Table, named: Sequence[str]) -> LarqOperator:
        o = table.read(schema.OPERATOR)
        kind = self._lookup(table, self.kinds, o["opcode_index"], "operator code")
        inputs = tuple(None if i == -1 else self._lookup(table, named, i, "input") for i in o["inputs"])
        outputs = tuple(self._lookup(table, named, i, "output") for i in o["outputs"])
        if not outputs:
            raise table.fault(f"operator {kind} makes nothing")
        return LarqOperator(kind, inputs, outputs, self._options(table, kind, o))

    def _lookup(self, table: Table, items: Sequence[Any], index: int, what: str) -> Any:
        if not 0 <= index < len(items):
            raise table.fault(f"{what} {index} does not exist ({len(items)} there are)")
        return items[index]

    def _options(self, table: Table, kind: str, operator: Mapping[str, Any]) -> dict[str, Any]:
        if kind in CUSTOM:
            options = self._custom(table, kind, operator["custom_options"])
        elif kind in schema.OPTIONS:
            wanted, fields = schema.OPTIONS[kind]
            given: Table | None = operator["builtin_options"]
            number = operator["builtin_options_type"]
            if given is not None and wanted and self.names["BuiltinOptions"].get(number) != wanted:
                raise given.fault(f"operator {kind} has options of type {number} instead of {wanted}")
            options = {f.name: f.absent for f in fields} if given is None else given.read(fields)
        else:
            return {}
        for option, enumeration in (("padding", "Padding"), ("fused_activation_function", "ActivationFunctionType")):
            if isinstance(number := options.get(option), int):
                options[option] = self.names[enumeration].get(number, f"number {number}")
        return options

    def _custom(self, table: Table, kind: str, data: bytes) -> dict[str, Any]:
        """The options of one of Larq's operators; earlier releases wrote paddings and activations as words."""
        wanted, found = CUSTOM[kind], dict[str, Any]()
        if not wanted:
            return found
        try:
            entries = flexbuffers.GetRoot(bytearray(data)).AsMap
            for key, default in wanted.items():
                try:
                    entry = entries[key]
                except KeyError:
                    found[key] = default
                    continue
                found[key] = entry.AsString.upper() or "NONE" if entry.IsString else int(entry.AsInt)
        except _FLEXBUFFER_ERRORS as e:
            raise table.fault(f"the options of operator {kind} cannot be read ({type(e).__name__})") from None
        missing = [k for k, v in found.items() if v is None]
        words = [
            k for k, v in found.items() if isinstance(v, str) and k not in ("padding", "fused_activation_function")
        ]
        if missing or words:
            problem = f"operator {kind} has no option {missing[0]!r}" if missing else f"option {words[0]!r} is a word"
            raise table.fault(problem, "convert the model with a current release of Larq Compute Engine")
        return found

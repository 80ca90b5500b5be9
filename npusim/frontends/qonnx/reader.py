"""Reads an ONNX file with PyPI's onnx: its nodes, constants, inputs and outputs as plain Python and numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from npusim.errors import FileFormatError, InvalidGraphError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import BOOL, F16, F32, I8, I16, I32, U8, U16, Array, DType

STANDARD: Final = frozenset({"", "ai.onnx"})
"""Domains of the operators of the ONNX standard."""

QUANTISING: Final = frozenset({"onnx.brevitas", "qonnx.custom_op.general", "finn.custom_op.general"})
"""Domains of the operators of QONNX and FINN."""

ELEMENT_TYPES: Final[Mapping[int, DType]] = {1: F32, 2: U8, 3: I8, 4: U16, 5: I16, 6: I32, 9: BOOL, 10: F16}
"""Element types by their number in ONNX (TensorProto.DataType)."""

LARGEST_INPUT: Final = 1 << 26
"""Elements of an input beyond which a file is taken for damaged."""


@dataclass(frozen=True)
class OnnxNode:
    """One node. ``inputs`` may hold empty names, of operands that are left out. ``proto`` is the node in bytes."""

    operator: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: bytes

    @property
    def label(self) -> str:
        """What messages and reports call it, such as ``Mul 'scaled'``: by its name, or else by its output."""
        return f"{self.operator} {(self.name or ''.join(self.outputs[:1]))!r}"

    def integer(self, name: str, default: int) -> int:
        """An attribute that is an integer; InvalidGraphError where it is something else."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise InvalidGraphError(f"attribute {name} must be an integer, got {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        """An attribute that is a finite number."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float) or not np.isfinite(value):
            raise InvalidGraphError(f"attribute {name} must be a finite number, got {value!r}")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """An attribute that is a string."""
        value = self.attributes.get(name, default.encode())
        if not isinstance(value, bytes):
            raise InvalidGraphError(f"attribute {name} must be a string, got {value!r}")
        return value.decode(errors="replace")

    def integers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """An attribute that is a list of as many integers as the default has."""
        value = self.attributes.get(name, default)
        if not isinstance(value, list | tuple) or len(value) != len(default) or not all(type(v) is int for v in value):
            raise InvalidGraphError(f"attribute {name} must be {len(default)} integers, got {value!r}")
        return tuple(value)


@dataclass(frozen=True)
class OnnxFile:
    """A model. ``opset`` is the version of the standard's operators, ``remarks`` say what was assumed in reading.

    ``annotations`` are FINN's data types of tensors, such as UINT8, by tensor.
    """

    nodes: tuple[OnnxNode, ...]
    constants: Mapping[str, Array]
    inputs: Mapping[str, TensorType]
    outputs: tuple[str, ...]
    opset: int
    remarks: tuple[str, ...]
    annotations: Mapping[str, str]

    @cached_property
    def readers(self) -> Mapping[str, tuple[OnnxNode, ...]]:
        """The nodes that read a tensor, each as often as it does."""
        found: dict[str, list[OnnxNode]] = {}
        for node in self.nodes:
            for value in node.inputs:
                found.setdefault(value, []).append(node)
        return {v: tuple(nodes) for v, nodes in found.items()}

    def read_once(self, tensor: str) -> bool:
        """Whether one node alone reads a tensor that is no output."""
        return len(self.readers.get(tensor, ())) == 1 and tensor not in self.outputs


def read_onnx(path: str | Path) -> OnnxFile:
    """The model in the file ``path``.

    A first dimension of an input that is given by name, or not at all, is taken as 1 and remarked on.
    Raises FileFormatError where the file cannot be read or is damaged, and where onnx is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise FileFormatError(f"{path}: reading ONNX files takes the onnx package: pip install npusim[onnx]") from None
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise FileFormatError(f"{path}: cannot be read ({e.strerror}); name an ONNX file") from None
    try:
        return _plain(onnx.load_model_from_string(data))
    except FileFormatError as e:
        raise FileFormatError([f"{path}: {p}" for p in e.problems]) from None
    except Exception as e:  # protobuf and onnx raise what they like on damaged bytes
        raise FileFormatError(
            f"{path}: is no ONNX model or is damaged ({type(e).__name__}: {e}); export it again"
        ) from None


def _plain(model: Any) -> OnnxFile:
    from onnx import helper, numpy_helper

    graph = model.graph
    if not graph.node or not graph.output:
        raise FileFormatError("the file has no graph with nodes and outputs; export the model again")
    constants: dict[str, Array] = {}
    for tensor in graph.initializer:
        if tensor.data_location:
            raise FileFormatError(
                f"constant {tensor.name!r} is stored in another file; save the model with its data inside"
            )
        constants[tensor.name] = numpy_helper.to_array(tensor)
    names = [n for node in graph.node for n in (node.op_type, node.domain, node.name, *node.input, *node.output)]
    if not all(isinstance(n, str) for n in (*names, *(v.name for v in (*graph.input, *graph.output)))):
        raise FileFormatError("a name in it is no text; the file is damaged: export the model again")
    nodes = tuple(
        OnnxNode(
            node.op_type,
            node.domain,
            node.name,
            tuple(node.input),
            tuple(node.output),
            {a.name: helper.get_attribute_value(a) for a in node.attribute},
            node.SerializeToString(),
        )
        for node in graph.node
    )
    remarks: list[str] = []
    inputs = {i.name: _input_type(i, remarks) for i in graph.input if i.name not in constants}
    opset = next((o.version for o in model.opset_import if o.domain in STANDARD), 9)
    annotations = {
        annotation.tensor_name: pair.value
        for annotation in graph.quantization_annotation
        for pair in annotation.quant_parameter_tensor_names
        if pair.key == "finn_datatype"
    }
    outputs = tuple(o.name for o in graph.output)
    return OnnxFile(nodes, constants, inputs, outputs, opset, tuple(remarks), annotations)


def _input_type(value: Any, remarks: list[str]) -> TensorType:
    tensor = value.type.tensor_type
    dtype = ELEMENT_TYPES.get(tensor.elem_type)
    if dtype is None:
        known = ", ".join(map(str, ELEMENT_TYPES.values()))
        raise FileFormatError(
            f"input {value.name!r} has elements of ONNX's type number {tensor.elem_type}; npusim reads {known}"
        )
    shape = [d.dim_value for d in tensor.shape.dim]
    if shape and shape[0] == 0:
        remarks.append(f"the first dimension of input {value.name!r}, which the model leaves open, is taken as 1")
        shape[0] = 1
    if min(shape, default=1) < 1 or prod(shape) > LARGEST_INPUT:
        raise FileFormatError(
            f"input {value.name!r} has the shape {shape}; state every dimension but the first as a number of 1 or "
            f"more, at most {LARGEST_INPUT} elements in all"
        )
    return TensorType(tuple(shape), dtype)

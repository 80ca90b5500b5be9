"""Reads the bytes of a TOSA flatbuffer into frozen records."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from npusim.frontends.tosa import schema
from npusim.frontends.tosa.flatbuffer import FlatBuffer, Table
from npusim.frontends.tosa.records import TosaBlock, TosaFile, TosaOperator, TosaRegion, TosaShape, TosaTensor

_OTHER_VERSION: Final = "export it for TOSA 1.0 or 1.1"
_FIXED_SHAPES: Final = "fix all shapes before exporting"
_EXTERNAL_OFFSET: Final = 2
"""From this value on, a tensor's ``offset`` says where in the file, behind the flatbuffer, its bytes stand."""


def read_tosa(data: bytes | bytearray | memoryview, name: str) -> TosaFile:
    """The records of the TOSA file ``data``; ``name`` stands for the file in messages.

    Constants stay views of ``data``. Checked are the file's structure, its version, its numbers of operators, types
    and enumerations, and that names are unique within a block; whether the graph makes sense is not.
    Raises FileFormatError, whatever the bytes.
    """
    graph = FlatBuffer(data, name).root(schema.IDENTIFIER, "graph")
    fields = graph.read(schema.GRAPH)
    version = _version(graph, fields["version"])
    features = fields["compatibility"].read(schema.COMPATIBILITY)["features"] if fields["compatibility"] else 0
    if features:
        problem = f"the file needs its reader to know the features {features:#x}, and npusim knows none of them"
        raise graph.fault(problem, "export it without block-scaled types")
    return TosaFile(version, tuple(_region(region) for region in fields["regions"]))


def _version(graph: Table, table: Table | None) -> tuple[int, int, int, bool]:
    if table is None:
        raise graph.fault("it states no version of TOSA", _OTHER_VERSION)
    version = table.read(schema.VERSION)
    major, minor, patch = version["major"], version["minor"], version["patch"]
    if major != schema.MAJOR_VERSION:
        raise table.fault(f"the file follows TOSA {major}.{minor}.{patch}, npusim reads 1.x", _OTHER_VERSION)
    return major, minor, patch, version["draft"]


def _region(table: Table) -> TosaRegion:
    region = table.read(schema.REGION)
    return TosaRegion(region["name"], tuple(_block(block) for block in region["blocks"]))


def _block(table: Table) -> TosaBlock:
    block = table.read(schema.BLOCK)
    tensors: dict[str, TosaTensor] = {}
    shapes: dict[str, TosaShape] = {}
    for entry in block["tensors"]:
        tensor = _tensor(entry)
        _refuse_taken(entry, tensor.name, tensors)
        tensors[tensor.name] = tensor
    for entry in block["shapes"]:
        shape = _shape(entry)
        _refuse_taken(entry, shape.name, tensors, shapes)
        shapes[shape.name] = shape
    return TosaBlock(
        block["name"],
        tuple(_operator(entry, index) for index, entry in enumerate(block["operators"])),
        MappingProxyType(tensors),
        MappingProxyType(shapes),
        block["inputs"],
        block["outputs"],
    )


def _refuse_taken(table: Table, name: str, *taken: Mapping[str, object]) -> None:
    if not name or any(name in names for names in taken):
        raise table.fault(f"its name {name!r} is empty or taken", "give each tensor and shape of a block its own name")


def _tensor(table: Table) -> TosaTensor:
    tensor = table.read(schema.TENSOR)
    name, shape, dtype = tensor["name"], tensor["shape"], tensor["type"]
    if not 0 < dtype < len(schema.DTYPES):
        problem = f"tensor {name!r} has the unknown element type number {dtype} (1..{len(schema.DTYPES) - 1} are known)"
        raise table.fault(problem, _OTHER_VERSION)
    if tensor["scale_type"]:
        raise table.fault(f"tensor {name!r} is block-scaled", "export it with integer elements")
    if tensor["is_unranked"]:
        raise table.fault(f"tensor {name!r} has no rank", _FIXED_SHAPES)
    if len(shape) > schema.MAXIMUM_RANK:
        problem = f"tensor {name!r} has rank {len(shape)}, and TOSA allows {schema.MAXIMUM_RANK} at most"
        raise table.fault(problem, "reshape it before exporting")
    data = tensor["data"]
    if tensor["offset"] >= _EXTERNAL_OFFSET:
        data = table.file.view(tensor["offset"], tensor["size"], f"{table.path}.offset")
    variable_name = tensor["variable_name"]
    return TosaTensor(name, shape, schema.DTYPES[dtype], data or None, tensor["variable"], variable_name)


def _shape(table: Table) -> TosaShape:
    shape = table.read(schema.SHAPE)
    name, rank, data = shape["name"], shape["rank"], shape["data"]
    if rank == 0:  # writers may put a filler value there, as vectors of no bytes confuse some readers
        return TosaShape(name, ())
    if not data:
        raise table.fault(f"shape {name!r} is not constant", _FIXED_SHAPES)
    if len(data) != 8 * rank:
        raise table.fault(f"shape {name!r} of rank {rank} wants {8 * rank} bytes, {len(data)} are given")
    return TosaShape(name, struct.unpack(f"<{rank}q", data))


def _operator(table: Table, index: int) -> TosaOperator:
    operator = table.read(schema.OPERATOR)
    outputs = operator["outputs"]
    label = f"the operator with output {outputs[0]!r}" if outputs else "the operator without outputs"
    name = _operator_name(table, operator["op"], operator["attribute_type"], label)
    attribute = operator["attribute"] if operator["attribute_type"] else None
    fields = schema.ATTRIBUTES[name]
    values = attribute.read(fields) if attribute else {field.name: field.absent for field in fields}
    return TosaOperator(name, MappingProxyType(values), operator["inputs"], outputs, index)


def _operator_name(table: Table, number: int, attribute_number: int, label: str) -> str:
    known = len(schema.OPERATORS)
    if not 0 < number < known:
        problem = f"{label} has the unknown operator number {number} (1..{known - 1} are known)"
        raise table.fault(problem, _OTHER_VERSION)
    name = schema.OPERATORS[number]
    if attribute_number in (0, number):
        return name
    if attribute_number >= known:
        raise table.fault(f"{label}, {name}, has the unknown attribute number {attribute_number}", _OTHER_VERSION)
    # MLIR's serializer writes accesses to variables as IDENTITY; only their attributes tell what they are.
    attribute_name = schema.OPERATORS[attribute_number]
    if name == "IDENTITY" and attribute_name in ("VARIABLE_READ", "VARIABLE_WRITE"):
        return attribute_name
    raise table.fault(f"{label}, {name}, has the attributes of {attribute_name}")

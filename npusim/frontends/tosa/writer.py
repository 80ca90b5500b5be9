"""Writes records as the bytes of a TOSA flatbuffer."""

from __future__ import annotations

import flatbuffers

from npusim.frontends.tosa import schema
from npusim.frontends.tosa.flatbuffer import Builder, number_of, write_table
from npusim.frontends.tosa.records import TosaBlock, TosaFile, TosaOperator, TosaRegion, TosaShape, TosaTensor


def write_tosa(file: TosaFile) -> bytes:
    """The bytes of a TOSA file that reads back as records equal to ``file``; equal records give equal bytes.

    Attributes that an operator's record leaves out get their default, and are there when read back. Raises InputError
    for names of operators, types, attributes or enumerations that TOSA does not have.
    """
    constants = (tensor.data for region in file.regions for block in region.blocks for tensor in block.tensors.values())
    builder = flatbuffers.Builder(1024 + sum(len(data) for data in constants if data))
    regions = [_region(builder, region) for region in file.regions]
    version = dict(zip((field.name for field in schema.VERSION), file.version, strict=True))
    graph = {"version": write_table(builder, schema.VERSION, version, "the version"), "regions": regions}
    builder.Finish(write_table(builder, schema.GRAPH, graph, "the graph"), schema.IDENTIFIER.encode())
    return bytes(builder.Output())


def _region(builder: Builder, region: TosaRegion) -> int:
    blocks = [_block(builder, block) for block in region.blocks]
    return write_table(builder, schema.REGION, {"name": region.name, "blocks": blocks}, f"region {region.name!r}")


def _block(builder: Builder, block: TosaBlock) -> int:
    fields = {
        "name": block.name,
        "operators": [_operator(builder, operator) for operator in block.operators],
        "tensors": [_tensor(builder, tensor) for tensor in block.tensors.values()],
        "inputs": block.inputs,
        "outputs": block.outputs,
        "shapes": [_shape(builder, shape) for shape in block.shapes.values()],
    }
    return write_table(builder, schema.BLOCK, fields, f"block {block.name!r}")


def _operator(builder: Builder, operator: TosaOperator) -> int:
    what = f"operator {operator.name} with outputs {', '.join(operator.outputs) or 'none'}"
    number = 1 + number_of(operator.name, schema.OPERATORS[1:], f"the name of {what}")
    fields = {
        "op": number,
        "attribute_type": number,
        "attribute": write_table(builder, schema.ATTRIBUTES[operator.name], operator.attributes, what),
        "inputs": operator.inputs,
        "outputs": operator.outputs,
    }
    return write_table(builder, schema.OPERATOR, fields, what)


def _tensor(builder: Builder, tensor: TosaTensor) -> int:
    what = f"tensor {tensor.name!r}"
    fields = {
        "name": tensor.name,
        "shape": tensor.shape,
        "type": 1 + number_of(tensor.dtype, schema.DTYPES[1:], f"the element type of {what}"),
        "data": tensor.data or b"",
        "variable": tensor.is_variable,
        "variable_name": tensor.variable_name,
    }
    return write_table(builder, schema.TENSOR, fields, what)


def _shape(builder: Builder, shape: TosaShape) -> int:
    data = b"".join(value.to_bytes(8, "little", signed=True) for value in shape.values)
    fields = {"name": shape.name, "rank": len(shape.values), "data": data}
    return write_table(builder, schema.SHAPE, fields, f"shape {shape.name!r}")

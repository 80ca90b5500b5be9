"""TensorFlow Lite files written with the ``tflite`` package, and Larq's operators as Larq defines them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tflite
from flatbuffers import flexbuffers

from npusim.numerics.types import Array

SHARED = Path(__file__).resolve().parents[4] / "shared"

TABLES = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "MEAN": "ReducerOptions",
    "SOFTMAX": "SoftmaxOptions",
    "RESHAPE": "ReshapeOptions",
    "PAD": "PadOptions",
}
WINDOW = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
SAME, VALID = 0, 1
NONE, RELU, RELU_N1_TO_1, RELU6, TANH = range(5)


@dataclass
class Network:
    """A file under construction: tensors and operators by name; the graph's inputs and outputs."""

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    tensors: dict[str, tuple[tuple[int, ...], str, bytes]] = field(default_factory=dict)
    operators: list[tuple[str, list[str | None], list[str], dict[str, Any], str]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """What tensors are called in the file, where that is not their own name."""

    def tensor(self, name: str, shape: Sequence[int], dtype: str = "FLOAT32", data: bytes = b"") -> str:
        self.tensors[name] = (tuple(shape), dtype, data)
        return name

    def given(self, name: str, shape: Sequence[int], dtype: str = "FLOAT32") -> str:
        self.inputs.append(name)
        return self.tensor(name, shape, dtype)

    def constant(self, name: str, array: Array) -> str:
        dtype = "INT32" if array.dtype.kind == "i" else "FLOAT32"
        return self.tensor(name, array.shape, dtype, array.astype("<i4" if dtype == "INT32" else "<f4").tobytes())

    def operator(
        self,
        kind: str,
        inputs: Sequence[str | None],
        output: str,
        shape: Sequence[int],
        dtype: str = "FLOAT32",
        table: str = "",
        **options: Any,
    ) -> str:
        """Append an operator; ``table`` is a table of options other than its own."""
        self.operators.append((kind, list(inputs), [output], options, table))
        return self.tensor(output, shape, dtype)

    def quantize(self, x: str, output: str) -> str:
        *rest, channels = self.tensors[x][0]
        return self.operator("LceQuantize", [x], output, (*rest, -(-channels // 32)), "INT32")

    def data(self) -> bytes:
        builder = flatbuffers.Builder(0)
        order = list(self.tensors)
        kinds = list(dict.fromkeys(o[0] for o in self.operators))
        buffers = [self._buffer(builder, b"")]
        tensors = []
        for name in order:
            shape, dtype, data = self.tensors[name]
            if data:
                buffers.append(self._buffer(builder, data))
            called, dims = builder.CreateString(self.names.get(name, name)), _ints(builder, shape)
            tflite.TensorStart(builder)
            tflite.TensorAddShape(builder, dims)
            tflite.TensorAddType(builder, getattr(tflite.TensorType, dtype))
            tflite.TensorAddBuffer(builder, len(buffers) - 1 if data else 0)
            tflite.TensorAddName(builder, called)
            tensors.append(tflite.TensorEnd(builder))
        operators = [self._operator(builder, order, kinds, o) for o in self.operators]
        vectors = [_offsets(builder, tensors), *(_ints(builder, [order.index(v) for v in vs]) for vs in self.ends)]
        listed = _offsets(builder, operators)
        tflite.SubGraphStart(builder)
        tflite.SubGraphAddTensors(builder, vectors[0])
        tflite.SubGraphAddInputs(builder, vectors[1])
        tflite.SubGraphAddOutputs(builder, vectors[2])
        tflite.SubGraphAddOperators(builder, listed)
        graph = _offsets(builder, [tflite.SubGraphEnd(builder)])
        codes = _offsets(builder, [self._code(builder, k) for k in kinds])
        held = _offsets(builder, buffers)
        tflite.ModelStart(builder)
        tflite.ModelAddVersion(builder, 3)
        tflite.ModelAddOperatorCodes(builder, codes)
        tflite.ModelAddSubgraphs(builder, graph)
        tflite.ModelAddBuffers(builder, held)
        builder.Finish(tflite.ModelEnd(builder), b"TFL3")
        return bytes(builder.Output())

    @property
    def ends(self) -> tuple[list[str], list[str]]:
        return self.inputs, self.outputs

    def write(self, folder: Path) -> Path:
        path = folder / "net.tflite"
        path.write_bytes(self.data())
        return path

    def _buffer(self, builder: Any, data: bytes) -> int:
        at = builder.CreateByteVector(data) if data else None
        tflite.BufferStart(builder)
        if at is not None:
            tflite.BufferAddData(builder, at)
        return int(tflite.BufferEnd(builder))

    def _code(self, builder: Any, kind: str) -> int:
        custom = not hasattr(tflite.BuiltinOperator, kind)
        number = tflite.BuiltinOperator.CUSTOM if custom else getattr(tflite.BuiltinOperator, kind)
        name = builder.CreateString(kind) if custom else None
        tflite.OperatorCodeStart(builder)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(number, 127))
        tflite.OperatorCodeAddBuiltinCode(builder, number)
        if name is not None:
            tflite.OperatorCodeAddCustomCode(builder, name)
        return int(tflite.OperatorCodeEnd(builder))

    def _operator(self, builder: Any, order: list[str], kinds: list[str], operator: Any) -> int:
        kind, inputs, outputs, options, other = operator
        table = other or TABLES.get(kind)
        custom = builder.CreateByteVector(bytes(flexbuffers.Dumps(options))) if options and table is None else None
        made = None
        if table is not None:
            vectors = {k: _ints(builder, v) for k, v in options.items() if isinstance(v, tuple)}
            getattr(tflite, f"{table}Start")(builder)
            for key, value in options.items():
                getattr(tflite, f"{table}Add{key}")(builder, vectors.get(key, value))
            made = getattr(tflite, f"{table}End")(builder)
        read = _ints(builder, [-1 if v is None else order.index(v) for v in inputs])
        written = _ints(builder, [order.index(v) for v in outputs])
        tflite.OperatorStart(builder)
        tflite.OperatorAddOpcodeIndex(builder, kinds.index(kind))
        tflite.OperatorAddInputs(builder, read)
        tflite.OperatorAddOutputs(builder, written)
        if made is not None:
            tflite.OperatorAddBuiltinOptionsType(builder, getattr(tflite.BuiltinOptions, table))
            tflite.OperatorAddBuiltinOptions(builder, made)
        if custom is not None:
            tflite.OperatorAddCustomOptions(builder, custom)
        return int(tflite.OperatorEnd(builder))


def _ints(builder: Any, values: Sequence[int]) -> int:
    builder.StartVector(4, len(values), 4)
    for v in reversed(values):
        builder.PrependInt32(v)
    return int(builder.EndVector())


def _offsets(builder: Any, values: Sequence[int]) -> int:
    builder.StartVector(4, len(values), 4)
    for v in reversed(values):
        builder.PrependUOffsetTRelative(v)
    return int(builder.EndVector())


def convolution_options(channels: int, **others: Any) -> dict[str, Any]:
    """Options of an LceBconv2d as Larq's converter writes them."""
    return {
        "channels_in": channels,
        "dilation_height_factor": 1,
        "dilation_width_factor": 1,
        "fused_activation_function": NONE,
        "pad_values": 1,
        "padding": SAME,
        "stride_height": 1,
        "stride_width": 1,
        **others,
    }


POOL = {"padding": VALID, "stride_width": 2, "stride_height": 2, "filter_width": 2, "filter_height": 2}


def packed(numbers: Array) -> Array:
    """Larq's words of -1 and +1 along the last axis: bit 1 is -1."""
    channels = numbers.shape[-1]
    out = np.zeros((*numbers.shape[:-1], -(-channels // 32)), np.uint32)
    for c in range(channels):
        out[..., c // 32] |= (numbers[..., c] < 0).astype(np.uint32) << np.uint32(c % 32)
    return out.view(np.int32)


def unpacked(words: Array, channels: int) -> Array:
    """The -1 and +1 of Larq's words."""
    bits = [(words[..., c // 32].astype(np.int64) >> (c % 32)) & 1 for c in range(channels)]
    return 1 - 2 * np.stack(bits, -1)


def bipolar(rng: np.random.Generator, *shape: int) -> Array:
    return rng.choice(np.array([-1, 1]), shape)


def same_pads(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """As many as ceil(size / stride) windows need, the odd one behind."""
    needed = max(0, ((size + stride - 1) // stride - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return needed // 2, needed - needed // 2


def windows(
    x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], same: bool, outside: float
) -> Array:
    """[n, oy, ox, ky, kx, c] of ``x`` [n, y, x, c], position by position."""
    if same:
        ends = [same_pads(x.shape[1 + i], kernel[i], stride[i], dilation[i]) for i in (0, 1)]
        x = np.pad(x, ((0, 0), *ends, (0, 0)), constant_values=outside)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    rows = range(0, x.shape[1] - reach[0] + 1, stride[0])
    columns = range(0, x.shape[2] - reach[1] + 1, stride[1])
    taken = [[x[:, r : r + reach[0] : dilation[0], c : c + reach[1] : dilation[1]] for c in columns] for r in rows]
    return np.stack([np.stack(row, 1) for row in taken], 1)


def sums(
    x: Array,
    weight: Array,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    same: bool = True,
    pad: int = 1,
    groups: int = 1,
) -> Array:
    """Sums of products of -1 and +1, ``weight`` [o, ky, kx, c of a group]; a tap on padding is worth ``pad``."""
    taken = windows(x, weight.shape[1:3], stride, dilation, same, pad)
    inputs, filters = np.split(taken, groups, -1), np.split(weight, groups, 0)
    return np.concatenate(
        [np.einsum("nyxijc,oijc->nyxo", a, b) for a, b in zip(inputs, filters, strict=True)], -1
    ).astype(np.int64)

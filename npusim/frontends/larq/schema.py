"""Facts of the TensorFlow Lite flatbuffer schema that the Larq reader needs: the fields of its tables, in order.

Source: the published flatbuffer schema of TensorFlow Lite (``schema.fbs``, version 3). A field's number is its place in
its tuple; fields that nobody here needs are left off at a tuple's end. Numbers and names of enumerations are not
repeated here: they are those of the ``tflite`` package.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from npusim.frontends.tosa.flatbuffer import Field, Kind

IDENTIFIER: Final = "TFL3"

MODEL: Final = (
    Field("version", Kind.UINT32),
    Field("operator_codes", Kind.TABLES),
    Field("subgraphs", Kind.TABLES),
    Field("description", Kind.STRING),
    Field("buffers", Kind.TABLES),
)
OPERATOR_CODE: Final = (
    Field("deprecated_builtin_code", Kind.UINT8),
    Field("custom_code", Kind.STRING),
    Field("version", Kind.INT32, 1),
    Field("builtin_code", Kind.INT32),
)
SUBGRAPH: Final = (
    Field("tensors", Kind.TABLES),
    Field("inputs", Kind.INT32S),
    Field("outputs", Kind.INT32S),
    Field("operators", Kind.TABLES),
)
TENSOR: Final = (
    Field("shape", Kind.INT32S),
    Field("type", Kind.UINT8),
    Field("buffer", Kind.UINT32),
    Field("name", Kind.STRING),
    Field("quantization", Kind.TABLE),
    Field("is_variable", Kind.BOOL),
    Field("sparsity", Kind.TABLE),
)
BUFFER: Final = (Field("data", Kind.VIEW), Field("offset", Kind.UINT64))
OPERATOR: Final = (
    Field("opcode_index", Kind.UINT32),
    Field("inputs", Kind.INT32S),
    Field("outputs", Kind.INT32S),
    Field("builtin_options_type", Kind.UINT8),
    Field("builtin_options", Kind.TABLE),
    Field("custom_options", Kind.BYTES),
)

_ACTIVATION: Final = Field("fused_activation_function", Kind.UINT8)
_WINDOW: Final = (Field("padding", Kind.UINT8), Field("stride_w", Kind.INT32), Field("stride_h", Kind.INT32))
_DILATION: Final = (Field("dilation_w_factor", Kind.INT32, 1), Field("dilation_h_factor", Kind.INT32, 1))
_POOL: Final = (*_WINDOW, Field("filter_width", Kind.INT32), Field("filter_height", Kind.INT32), _ACTIVATION)

OPTIONS: Final[Mapping[str, tuple[str, tuple[Field, ...]]]] = MappingProxyType(
    {
        "CONV_2D": ("Conv2DOptions", (*_WINDOW, _ACTIVATION, *_DILATION)),
        "DEPTHWISE_CONV_2D": (
            "DepthwiseConv2DOptions",
            (*_WINDOW, Field("depth_multiplier", Kind.INT32), _ACTIVATION, *_DILATION),
        ),
        "MAX_POOL_2D": ("Pool2DOptions", _POOL),
        "AVERAGE_POOL_2D": ("Pool2DOptions", _POOL),
        "FULLY_CONNECTED": (
            "FullyConnectedOptions",
            (_ACTIVATION, Field("weights_format", Kind.UINT8), Field("keep_num_dims", Kind.BOOL)),
        ),
        "ADD": ("AddOptions", (_ACTIVATION,)),
        "SUB": ("SubOptions", (_ACTIVATION,)),
        "MUL": ("MulOptions", (_ACTIVATION,)),
        "MEAN": ("ReducerOptions", (Field("keep_dims", Kind.BOOL),)),
        "SOFTMAX": ("SoftmaxOptions", (Field("beta", Kind.UINT32),)),  # the bits of a float32
        "RESHAPE": ("ReshapeOptions", (Field("new_shape", Kind.INT32S),)),
        "PAD": ("PadOptions", ()),
        "RELU": ("", ()),
        "RELU6": ("", ()),
        "RELU_N1_TO_1": ("", ()),
    }
)
"""Of the builtin operators that run on the host: the name of their table of options ("": none), and its fields."""

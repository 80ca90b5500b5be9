"""Facts of the TOSA 1.0 and 1.1 flatbuffer schema: numbers and names of operators, types, tables and fields.

Source: the published flatbuffer schema ``tosa.fbs`` of the TOSA serialization library. A field's number is its place
in its tuple; fields that nobody here needs are left off at a tuple's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from npusim.frontends.tosa.flatbuffer import Field, Kind

IDENTIFIER: Final = "TOSA"
MAJOR_VERSION: Final = 1
"""Files of another major version have another schema."""

MAXIMUM_RANK: Final = 32
"""MAX_RANK of TOSA's level "none", the most that any level allows."""

_OPERATOR_NAMES: Final = """
    UNKNOWN ARGMAX AVG_POOL2D CONV2D CONV3D DEPTHWISE_CONV2D FFT2D MATMUL MAX_POOL2D RFFT2D TRANSPOSE_CONV2D
    CLAMP ERF SIGMOID TANH
    ADD ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_OR BITWISE_XOR INTDIV LOGICAL_AND LOGICAL_LEFT_SHIFT
    LOGICAL_RIGHT_SHIFT LOGICAL_OR LOGICAL_XOR MAXIMUM MINIMUM MUL POW SUB TABLE
    ABS BITWISE_NOT CEIL CLZ COS EXP FLOOR LOG LOGICAL_NOT NEGATE RECIPROCAL RSQRT SIN
    SELECT EQUAL GREATER GREATER_EQUAL
    REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM
    CONCAT PAD RESHAPE REVERSE SLICE TILE TRANSPOSE GATHER SCATTER RESIZE CAST RESCALE CONST IDENTITY CUSTOM
    COND_IF WHILE_LOOP VARIABLE VARIABLE_WRITE VARIABLE_READ CONST_SHAPE
    MATMUL_T_BLOCK_SCALED CAST_FROM_BLOCK_SCALED CAST_TO_BLOCK_SCALED
    DIM CONCAT_SHAPE ADD_SHAPE SUB_SHAPE MUL_SHAPE SLICE_SHAPE EXP2_SHAPE LOG2_CEIL_SHAPE LOG2_FLOOR_SHAPE
    MAX_SHAPE MIN_SHAPE MOD_SHAPE DIV_CEIL_SHAPE DIV_FLOOR_SHAPE ASSERT_EQUAL_SHAPE
    CONV2D_BLOCK_SCALED MAX_POOL2D_ADAPTIVE AVG_POOL2D_ADAPTIVE RESHAPE_BLOCK_SCALED
    ROW_GATHER_BLOCK_SCALED ROW_GATHER MATMUL_T
"""
OPERATORS: Final = tuple(_OPERATOR_NAMES.split())
"""Operator names by number (1.0 ends at CONST_SHAPE); the attribute union has the same order and numbers."""

_DTYPE_NAMES: Final = """
    UNKNOWN BOOL INT4 INT8 INT16 INT32 INT48 FP32 FP16 BF16 SHAPE
    FP8E4M3 FP8E5M2 FP6E2M3 FP6E3M2 FP4E2M1 FP8UE8M0 INT64 MXINT8
"""
DTYPES: Final = tuple(_DTYPE_NAMES.split())
"""Element type names by number."""

RESIZE_MODES: Final = ("UNKNOWN", "NEAREST", "BILINEAR")
NAN_MODES: Final = ("UNKNOWN", "PROPAGATE", "IGNORE")
ROUNDING_MODES: Final = ("UNKNOWN", "SINGLE_ROUND", "INEXACT_ROUND", "DOUBLE_ROUND")

VERSION: Final = (
    Field("major", Kind.INT32, -1),
    Field("minor", Kind.INT32, -1),
    Field("patch", Kind.INT32, -1),
    Field("draft", Kind.BOOL, 1),
)
COMPATIBILITY: Final = (Field("min_reader_version", Kind.TABLE), Field("features", Kind.UINT64))
GRAPH: Final = (
    Field("version", Kind.TABLE),
    Field("regions", Kind.TABLES),
    Field("software_version", Kind.TABLE),
    Field("compatibility", Kind.TABLE),
)
REGION: Final = (Field("name", Kind.STRING), Field("blocks", Kind.TABLES))
BLOCK: Final = (
    Field("name", Kind.STRING),
    Field("operators", Kind.TABLES),
    Field("tensors", Kind.TABLES),
    Field("inputs", Kind.STRINGS),
    Field("outputs", Kind.STRINGS),
    Field("shapes", Kind.TABLES),
)
OPERATOR: Final = (
    Field("op", Kind.UINT32),
    Field("attribute_type", Kind.UINT8),
    Field("attribute", Kind.TABLE),
    Field("inputs", Kind.STRINGS),
    Field("outputs", Kind.STRINGS),
)
TENSOR: Final = (
    Field("name", Kind.STRING),
    Field("shape", Kind.INT32S),
    Field("type", Kind.UINT32),
    Field("data", Kind.VIEW),
    Field("variable", Kind.BOOL),
    Field("is_unranked", Kind.BOOL),
    Field("variable_name", Kind.STRING),
    Field("offset", Kind.UINT64),
    Field("size", Kind.UINT64),
    Field("scale_type", Kind.UINT32),
)
SHAPE: Final = (Field("name", Kind.STRING), Field("rank", Kind.UINT32), Field("data", Kind.BYTES))

_AXIS = Field("axis", Kind.INT32)
_KERNEL = Field("kernel", Kind.INT32S)
_STRIDE = Field("stride", Kind.INT32S)
_PAD = Field("pad", Kind.INT32S)
_LOCAL_BOUND = Field("local_bound", Kind.BOOL)
_BLOCK_SIZE = Field("block_size", Kind.UINT32)
_ACC_TYPE = Field("acc_type", Kind.ENUMERATION, names=DTYPES)
_NAN_MODE = Field("nan_mode", Kind.ENUMERATION, names=NAN_MODES)
_CONVOLUTION = (_PAD, _STRIDE, Field("dilation", Kind.INT32S), _LOCAL_BOUND, _ACC_TYPE)

ATTRIBUTES: Final[Mapping[str, tuple[Field, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(OPERATORS[1:], ()),
        "ARGMAX": (_AXIS, _NAN_MODE),
        "AVG_POOL2D": (_KERNEL, _STRIDE, _PAD, _ACC_TYPE),
        "CONV2D": _CONVOLUTION,
        "CONV3D": _CONVOLUTION,
        "DEPTHWISE_CONV2D": _CONVOLUTION,
        "FFT2D": (Field("inverse", Kind.BOOL), _LOCAL_BOUND),
        "MAX_POOL2D": (_KERNEL, _STRIDE, _PAD, _NAN_MODE),
        "RFFT2D": (_LOCAL_BOUND,),
        "TRANSPOSE_CONV2D": (Field("out_pad", Kind.INT32S), _STRIDE, _LOCAL_BOUND, _ACC_TYPE),
        "CLAMP": (Field("min_val", Kind.BYTES), Field("max_val", Kind.BYTES), _NAN_MODE),
        "ARITHMETIC_RIGHT_SHIFT": (Field("round", Kind.BOOL),),
        "MAXIMUM": (_NAN_MODE,),
        "MINIMUM": (_NAN_MODE,),
        "REDUCE_ALL": (_AXIS,),
        "REDUCE_ANY": (_AXIS,),
        "REDUCE_MAX": (_AXIS, _NAN_MODE),
        "REDUCE_MIN": (_AXIS, _NAN_MODE),
        "REDUCE_PRODUCT": (_AXIS,),
        "REDUCE_SUM": (_AXIS,),
        "CONCAT": (_AXIS,),
        "REVERSE": (_AXIS,),
        "TRANSPOSE": (Field("perms", Kind.INT32S),),
        "RESIZE": (Field("mode", Kind.ENUMERATION, names=RESIZE_MODES),),
        "RESCALE": (
            Field("scale32", Kind.BOOL),
            Field("rounding_mode", Kind.ENUMERATION, names=ROUNDING_MODES),
            Field("per_channel", Kind.BOOL),
            Field("input_unsigned", Kind.BOOL),
            Field("output_unsigned", Kind.BOOL),
        ),
        "CUSTOM": (
            Field("operator_name", Kind.STRING),
            Field("domain_name", Kind.STRING),
            Field("implementation_attrs", Kind.BYTES),
        ),
        "COND_IF": (Field("then_graph", Kind.STRING), Field("else_graph", Kind.STRING)),
        "WHILE_LOOP": (Field("cond_graph", Kind.STRING), Field("body_graph", Kind.STRING)),
        "MATMUL_T_BLOCK_SCALED": (_BLOCK_SIZE,),
        "CAST_FROM_BLOCK_SCALED": (_BLOCK_SIZE,),
        "CAST_TO_BLOCK_SCALED": (_BLOCK_SIZE,),
        "DIM": (_AXIS,),
        "ASSERT_EQUAL_SHAPE": (Field("allow_broadcast", Kind.BOOL),),
        "CONV2D_BLOCK_SCALED": (_BLOCK_SIZE,),
        "MAX_POOL2D_ADAPTIVE": (_NAN_MODE,),
        "AVG_POOL2D_ADAPTIVE": (_ACC_TYPE,),
        "RESHAPE_BLOCK_SCALED": (_BLOCK_SIZE,),
        "ROW_GATHER_BLOCK_SCALED": (_BLOCK_SIZE,),
    }
)
"""Attribute fields of every operator by its name, by field number; most operators have none."""

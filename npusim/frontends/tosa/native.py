"""One operator of a TOSA file in npusim's native form: constants become attributes, the other inputs stay operands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from npusim.errors import InvalidGraphError
from npusim.frontends.tosa.constants import decode_constant
from npusim.frontends.tosa.records import TosaBlock, TosaOperator, TosaTensor
from npusim.numerics.types import BOOL, I4, I8, I16, I32, I48, Array, DType
from npusim.ops import Op, as_operand, make_op

ELEMENT_TYPES: Final[Mapping[str, DType]] = MappingProxyType(
    {"BOOL": BOOL, "INT4": I4, "INT8": I8, "INT16": I16, "INT32": I32, "INT48": I48}
)
"""The element types that npusim computes with, by TOSA's names."""

_CONVOLUTION: Final = "input weight bias input_zp=input weight_zp=weight"
_PRODUCT: Final = "a b a_zp=a b_zp=b"
_INPUTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AVG_POOL2D": "input input_zp=input output_zp=output",
        "CONV2D": _CONVOLUTION,
        "CONV3D": _CONVOLUTION,
        "DEPTHWISE_CONV2D": _CONVOLUTION,
        "TRANSPOSE_CONV2D": _CONVOLUTION,
        "MATMUL": _PRODUCT,
        "MATMUL_T": _PRODUCT,
        "MUL": "a b shift=INT8",
        "NEGATE": "input input_zp=input output_zp=output",
        "PAD": "input padding=SHAPE pad_const=input",
        "RESCALE": "input multiplier shift input_zp=input output_zp=output",
        "RESHAPE": "input new_shape=SHAPE",
        "RESIZE": "input scale=SHAPE offset=SHAPE border=SHAPE",
        "SLICE": "input start=SHAPE size=SHAPE",
        "TILE": "input multiples=SHAPE",
    }
)
"""The inputs, in the file's order, of the operators with inputs that are attributes to npusim (TOSA 1.0, "Operators").

``x`` stays an operand. ``x=SHAPE`` is a shape and becomes the attribute x. ``x=t`` is a constant of shape [1], whose
element becomes the attribute x; its element type is t, or that of the operand (or output) called t.
"""

_FLOAT_ATTRIBUTES: Final = frozenset({"nan_mode", "local_bound"})
"""Attributes that say nothing about integers."""


def constant_array(tensor: TosaTensor) -> Array:
    """The array of a constant in the storage type of its element type, which is one of ``ELEMENT_TYPES``.

    Raises FileFormatError for bytes that do not make an array of the tensor's shape, InvalidGraphError for an int4
    element of -8, which TOSA does not allow.
    """
    return as_operand(f"constant {tensor.name!r}", decode_constant(tensor), ELEMENT_TYPES[tensor.dtype])


def to_native(
    operator: TosaOperator, block: TosaBlock, constants: Mapping[str, TosaTensor]
) -> tuple[Op, tuple[str, ...]]:
    """The operator of npusim, with its attributes, and the names of its operands.

    ``operator`` is one that npusim knows; its output is described by ``block`` and it uses tensors of
    ``ELEMENT_TYPES`` only. ``constants`` are the constants of ``block``. Raises InvalidGraphError with every input and
    attribute at fault; what depends on the operands' types is checked when the operator is bound to them.
    """
    output = block.tensors[operator.outputs[0]]
    attributes = _attributes(operator, output)
    operands, problems = list(operator.inputs), list(_accumulator_problems(operator, output))
    if operator.name in _INPUTS:
        operands = []
        types = {name: block.tensors[v].dtype for name, v in _named_inputs(operator).items() if v in block.tensors}
        types["output"] = output.dtype
        for word, value in zip(_INPUTS[operator.name].split(), operator.inputs, strict=True):
            name, _, source = word.partition("=")
            try:
                if not source:
                    operands.append(value)
                elif source == "SHAPE":
                    attributes[name] = _shape(name, value, block)
                else:
                    attributes[name] = _element(name, value, types.get(source, source), constants)
            except InvalidGraphError as e:
                problems += e.problems
    if problems:
        raise InvalidGraphError(problems)
    if operator.name == "RESCALE":
        _reread_zero_points(attributes, types)
    return make_op(operator.name.lower(), attributes), tuple(operands)


def _named_inputs(operator: TosaOperator) -> dict[str, str]:
    """The inputs of an operator with a layout, by name."""
    names = [word.partition("=")[0] for word in _INPUTS[operator.name].split()]
    if len(operator.inputs) != len(names):
        got = len(operator.inputs)
        raise InvalidGraphError(f"takes {len(names)} inputs in a TOSA file ({', '.join(names)}), got {got}")
    return dict(zip(names, operator.inputs, strict=True))


def _attributes(operator: TosaOperator, output: TosaTensor) -> dict[str, Any]:
    """The attributes of the file under npusim's names and in its form."""
    values = {k: v for k, v in operator.attributes.items() if k not in _FLOAT_ATTRIBUTES and k != "acc_type"}
    if operator.name == "CLAMP":
        for limit in ("min_val", "max_val"):
            encoded = TosaTensor(f"{limit} of {output.name}", (1,), output.dtype, values[limit])
            values[limit] = int(decode_constant(encoded)[0])
    if operator.name == "RESIZE":
        values["mode"] = values["mode"].lower()
    if operator.name == "RESCALE":
        values["rounding"] = values.pop("rounding_mode").removesuffix("_ROUND").lower()
    if operator.name in ("RESCALE", "CAST"):
        values["out_type"] = ELEMENT_TYPES[output.dtype].name
    return values


def _accumulator_problems(operator: TosaOperator, output: TosaTensor) -> list[str]:
    """What is wrong with the stated accumulator: a pooling's is INT32, a convolution's is its output's type."""
    stated = operator.attributes.get("acc_type")
    wanted = "INT32" if operator.name == "AVG_POOL2D" else output.dtype
    if stated in (None, wanted):
        return []
    return [f"acc_type must be {wanted} for output {output.name!r} of {output.dtype}, got {stated}"]


def _shape(name: str, value: str, block: TosaBlock) -> tuple[int, ...]:
    if value not in block.shapes:
        raise InvalidGraphError(f"{name} must be a constant shape, and the file has none called {value!r}")
    return block.shapes[value].values


def _element(name: str, value: str, dtype: str, constants: Mapping[str, TosaTensor]) -> int:
    if value not in constants:
        raise InvalidGraphError(f"{name} {value!r} must be a constant: npusim needs its value before the run")
    tensor = constants[value]
    if (tensor.shape, tensor.dtype) != ((1,), dtype):
        raise InvalidGraphError(
            f"{name} {value!r} must be {dtype} of shape [1], got {tensor.dtype} {list(tensor.shape)}"
        )
    return int(constant_array(tensor)[0])


def _reread_zero_points(attributes: dict[str, Any], types: Mapping[str, str]) -> None:
    """Zero points of unsigned sides as unsigned numbers: files hold their bits in a signed type."""
    for side in ("input", "output"):
        if attributes[f"{side}_unsigned"]:
            attributes[f"{side}_zp"] %= 1 << ELEMENT_TYPES[types[side]].bits

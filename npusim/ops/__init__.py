"""The operators: every module here without a leading underscore is one operator of that name."""

from __future__ import annotations

from npusim.ops._base import Bound, Op, TypeRow, evaluate_bound, evaluate_box, read_padded
from npusim.ops._evaluate import as_operand, bind_arrays, complete_types, evaluate, make_op
from npusim.ops._registry import op_class, op_names, suggestion

__all__ = [
    "Bound",
    "Op",
    "TypeRow",
    "as_operand",
    "bind_arrays",
    "complete_types",
    "evaluate",
    "evaluate_bound",
    "evaluate_box",
    "make_op",
    "op_class",
    "op_names",
    "read_padded",
    "suggestion",
]

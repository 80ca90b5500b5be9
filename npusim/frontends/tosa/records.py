"""What a TOSA file says, as frozen records that know neither flatbuffers nor npusim's operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TosaTensor:
    """A tensor of a block. ``dtype`` is TOSA's name (``INT8``); dimensions are as the file has them, even negative.

    ``data`` are the bytes of a constant or of a variable's first value, or None; read from a file, they are a view of
    the file. ``variable_name`` is empty unless ``is_variable``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: bytes | memoryview | None = None
    is_variable: bool = False
    variable_name: str = ""


@dataclass(frozen=True, slots=True)
class TosaShape:
    """A constant shape operand: signed 64-bit ``values``, as many as the shape's rank."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TosaOperator:
    """An operator, the ``index``-th of its block; operands are names of tensors or shapes of the block.

    ``attributes`` hold every field that the schema gives the operator, absent ones with their default: ``int``,
    ``bool``, ``str``, ``bytes`` or a tuple of ``int``; enumerations (``acc_type``, ``nan_mode``, ``rounding_mode``,
    ``mode``) are their names, with ``UNKNOWN`` for 0.
    """

    name: str
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    index: int


@dataclass(frozen=True, slots=True)
class TosaBlock:
    """A basic block: operators in file order, its tensors and shapes by name, names of inputs and outputs in order."""

    name: str
    operators: tuple[TosaOperator, ...]
    tensors: Mapping[str, TosaTensor]
    shapes: Mapping[str, TosaShape]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TosaRegion:
    """A region: the main graph, or a body that control flow refers to by name."""

    name: str
    blocks: tuple[TosaBlock, ...]


@dataclass(frozen=True, slots=True)
class TosaFile:
    """A whole file; ``version`` is (major, minor, patch, draft) of the specification it follows."""

    version: tuple[int, int, int, bool]
    regions: tuple[TosaRegion, ...]

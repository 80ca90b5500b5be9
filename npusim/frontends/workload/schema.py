"""The structure of a workload YAML as records; what the parts mean is checked where they are used."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from npusim.config import NonNegative, record
from npusim.frontends.chip import DEFAULT_CHIP
from npusim.frontends.model import ModelOptions
from npusim.graph.level import Level
from npusim.ir.mapping_options import MappingOptions

SOURCES = ("random", "values", "fill", "arange", "file")
"""The keys that say where the elements of a constant come from."""


def _file_name(name: str) -> str:
    if not name.strip() or not name.isprintable() or any(c in name for c in "/\\") or name in (".", ".."):
        raise ValueError(f"{name!r} cannot name the folder of a report; use visible characters without slashes")
    return name


@record
class RandomSpec:
    """Random elements."""

    random: Annotated[tuple[int, int], Field(description="smallest and largest value, both included")]


@record
class ConstantSpec:
    """A constant: its type and one source of its elements."""

    type: Annotated[str, Field(description="shape and element type, such as 16x3x3x3xi8")]
    random: Annotated[
        bool | tuple[int, int] | None,
        Field(description="true: uniform over the type's range, or over [smallest, largest]; fixed by seed and name"),
    ] = None
    values: Annotated[tuple[Any, ...] | None, Field(description="the elements, flat in C order or nested")] = None
    fill: Annotated[bool | int | float | None, Field(description="the value of every element")] = None
    arange: Annotated[tuple[int, int] | None, Field(description="[start, step] of the elements in C order")] = None
    file: Annotated[str | None, Field(description=".npy or .npz file, its path relative to the YAML file")] = None
    key: Annotated[str | None, Field(description="name of the array in an .npz file")] = None

    def __post_init__(self) -> None:
        stated = [(s, getattr(self, s)) for s in SOURCES]
        given = [s for s, value in stated if value is not None and (s, value) != ("random", False)]
        if len(given) != 1:
            got = f"got {', '.join(given)}" if given else "none is given"
            raise ValueError(f"a constant takes its elements from one of {', '.join(SOURCES)}; {got}")
        if self.key is not None and self.file is None:
            raise ValueError(f"key {self.key!r} needs a file to look into")


@record
class OperatorSpec:
    """One operator."""

    name: Annotated[str, Field(description="what reports call it; unique")]
    op: Annotated[str, Field(description="the operator, such as conv2d")]
    inputs: Annotated[tuple[str | ConstantSpec, ...], Field(description="its operands: names of values, or constants")]
    output: Annotated[str | None, Field(description="name of the value it makes; default: its own name")] = None
    attributes: Annotated[dict[str, Any], Field(description="its attributes")] = field(default_factory=dict)

    @property
    def value(self) -> str:
        """Name of the value it makes."""
        return self.name if self.output is None else self.output


@record
class GraphSpec:
    """Operators written out, in an order in which each comes after those that it reads from."""

    inputs: Annotated[dict[str, str], Field(description="name -> type, such as 1x32x32x3xi8")]
    operators: Annotated[tuple[OperatorSpec, ...], Field(description="the operators")]
    outputs: Annotated[tuple[str, ...], Field(description="names of the values that leave the graph")]
    constants: Annotated[dict[str, ConstantSpec], Field(description="constants by name")] = field(default_factory=dict)


@record
class WorkloadSpec:
    """A workload: a network with its data and how to map it. Paths are relative to the YAML file."""

    name: Annotated[
        Annotated[str, AfterValidator(_file_name)] | None, Field(description="default: the file's name")
    ] = None
    chip: Annotated[str, Field(description="name of a shipped chip, or path of a YAML file")] = DEFAULT_CHIP
    seed: Annotated[NonNegative, Field(description="of random inputs and constants")] = 0
    model: Annotated[str | None, Field(description="path of a model file: .tosa, .xml, .onnx or .tflite")] = None
    model_options: Annotated[ModelOptions, Field(description="choices that the model's format leaves open")] = (
        ModelOptions()
    )
    graph: Annotated[GraphSpec | None, Field(description="the operators, where there is no model file")] = None
    dialect: Annotated[Literal["tosa", "seed"], Field(description="TOSA 1.0, or the draft of January 2021")] = "tosa"
    level: Annotated[Level, Field(description="limits on sizes: those of TOSA's level 8K, or none")] = "8k"
    inputs: Annotated[
        tuple[str | RandomSpec, ...] | dict[str, str | RandomSpec],
        Field(description=".npy files or random ranges, in graph order or by name; random by default"),
    ] = ()
    expect: Annotated[
        tuple[str, ...] | dict[str, str],
        Field(description=".npy files of the right outputs, in graph order or by name"),
    ] = ()
    labels: Annotated[
        str | None, Field(description=".npy file with the class of each image along the first output's first axis")
    ] = None
    mapping: Annotated[MappingOptions, Field(description="how to map it")] = MappingOptions()

    def __post_init__(self) -> None:
        if (self.model is None) == (self.graph is None):
            raise ValueError("a workload has either a 'model' (a file) or a 'graph' (operators); give one of them")
        if self.model is not None and self.dialect != "tosa":
            raise ValueError("a TOSA file follows dialect tosa; remove 'dialect', which is for operators written out")

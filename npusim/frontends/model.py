"""Model files of other tools, by their suffix: what a reader gives, and which reader takes a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from npusim.config import record
from npusim.errors import FileFormatError
from npusim.graph.graph import Graph
from npusim.graph.host import Host
from npusim.graph.level import Level

MODEL_SUFFIXES: Final = {
    ".tosa": "a TOSA flatbuffer",
    ".xml": "an OpenVINO IR of binary operators",
    ".onnx": "a QONNX or FINN network of few bits",
    ".tflite": "a Larq network of binary operators",
}
"""The formats of models that npusim reads, by suffix."""


@record
class ModelOptions:
    """Choices that a model's format leaves open."""

    pad_rule: Annotated[
        Literal["plugin", "literal"],
        Field(
            description="OpenVINO IR, what pad_value means: plugin: 0 adds nothing, 1 is +1, -1 is -1; literal: the "
            "bit itself, 0 is -1 and 1 is +1"
        ),
    ] = "plugin"
    bit_order: Annotated[
        Literal["lsb", "msb"], Field(description="OpenVINO IR, which bit of a byte of u1 constants comes first")
    ] = "lsb"
    binarize: Annotated[
        Literal["none", "gt0", "ge0", "lt0"],
        Field(description="OpenVINO IR, how inputs of BinaryConvolution become bits; none: they must be 0 or 1"),
    ] = "none"


@dataclass(frozen=True)
class Model:
    """A model as read: its integer graph, and what of it runs on the host around that (None: nothing)."""

    graph: Graph
    host: Host | None = None

    @property
    def around(self) -> Host:
        """The host's part, which may be empty."""
        return self.host or Host.of(self.graph)


def is_model(path: Path) -> bool:
    """Whether the suffix is that of a model file."""
    return path.suffix.lower() in MODEL_SUFFIXES


def load_model(path: str | Path, level: Level = "8k", options: ModelOptions | None = None) -> Model:
    """The model in the file ``path``. ``level`` is for TOSA files, ``options`` for the formats that they name.

    Raises FileFormatError for an unknown suffix, for a file that cannot be read, and where the reader's library is not
    installed; InvalidGraphError with everything in it that npusim has no integer operator for.
    """
    path, options = Path(path), options or ModelOptions()
    match path.suffix.lower():  # each reader is imported with the file that needs it
        case ".tosa":
            from npusim.frontends.tosa import load_tosa

            return Model(load_tosa(path, level))
        case ".xml":
            from npusim.frontends.openvino import load_openvino

            return load_openvino(path, options)
        case ".onnx":
            from npusim.frontends.qonnx import load_qonnx

            return load_qonnx(path)
        case ".tflite":
            from npusim.frontends.larq import load_larq

            return load_larq(path)
    known = ", ".join(f"{suffix} ({what})" for suffix, what in MODEL_SUFFIXES.items())
    raise FileFormatError(f"{path}: {path.suffix or 'no suffix'!r} is no model format that npusim reads: {known}")

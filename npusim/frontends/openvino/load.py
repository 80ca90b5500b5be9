"""From the files of an OpenVINO IR to a model: the bytes of both, read and converted."""

from __future__ import annotations

from pathlib import Path

from npusim.errors import FileFormatError
from npusim.frontends.model import Model, ModelOptions
from npusim.frontends.openvino.convert import to_model
from npusim.frontends.openvino.reader import read_layers


def load_openvino(path: str | Path, options: ModelOptions | None = None) -> Model:
    """The model in the IR at ``path`` (``.xml``; its constants are in the ``.bin`` of the same name beside it).

    The graph is named like the file without its suffix. Its values keep the names of the layers that make them; inputs
    and outputs of the host are called after the Parameter and Result layers. Operators and their limits are those of
    :func:`npusim.frontends.openvino.convert.to_model`.

    Raises FileFormatError for files that cannot be read or are damaged, and InvalidGraphError with everything in the
    model that breaks a rule or has no integer operator.
    """
    path = Path(path)
    try:
        xml = path.read_bytes()
    except OSError as e:
        raise FileFormatError(f"{path}: cannot be read ({e.strerror}); name the .xml of an OpenVINO IR") from None
    layers = read_layers(xml, str(path))
    data = b""
    if any(layer.is_constant for layer in layers):
        weights = path.with_suffix(".bin")
        try:
            data = weights.read_bytes()
        except OSError as e:
            raise FileFormatError(
                f"{weights}: cannot be read ({e.strerror}); the constants of {path.name} must lie beside it"
            ) from None
    return to_model(layers, data, path.stem, options or ModelOptions())

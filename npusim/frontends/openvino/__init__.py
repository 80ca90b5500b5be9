"""OpenVINO IR (``.xml`` with ``.bin`` beside it) of binary operators, read with the standard library alone."""

from npusim.frontends.openvino.load import load_openvino

__all__ = ["load_openvino"]

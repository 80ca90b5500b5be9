"""QONNX and FINN networks in ONNX files."""

from npusim.frontends.qonnx.convert import load_qonnx

__all__ = ["load_qonnx"]

"""Larq networks: TensorFlow Lite files with the binary operators of Larq Compute Engine."""

from npusim.frontends.larq.convert import load_larq

__all__ = ["load_larq"]

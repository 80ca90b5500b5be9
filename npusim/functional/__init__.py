"""Bits: a tile program executed on the bytes of the SRAM, and graphs evaluated operator by operator."""

from npusim.functional.executor import execute, program_order
from npusim.functional.whole import evaluate_graph

__all__ = ["evaluate_graph", "execute", "program_order"]

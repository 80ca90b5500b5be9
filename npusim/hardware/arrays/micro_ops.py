"""Micro-ops: the list of steps that an instruction repeats, and what each start of the list costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from npusim.config import Positive, record
from npusim.hardware.base import Count
from npusim.ir.work import Loop

LoopOfSteps = Literal[
    "batch", "depth", "row", "column", "channel", "out_channel", "in_channel",
    "kernel_depth", "kernel_row", "kernel_column",
]  # fmt: skip


@record
class MicroOps:
    """The steps of a box in the order of ``loops``, as instructions with ``counters`` loops over a list of micro-ops.

    The outermost loops of more than one step become the counters, as many as there are; the list holds the steps of the
    loops inside them, one a cycle, and is read once for each step of the counters. Each time the pipeline is filled
    anew, for ``fill_cycles``. (VTA: apache/tvm-vta, hardware/xilinx/src/vta.cc, gemm, whose innermost loop is
    pipelined; apache/tvm, vta/python/vta/transform.py, FoldUopLoop.)
    """

    loops: Annotated[tuple[LoopOfSteps, ...], Field(description="outermost first; others are outside of them")]
    counters: Annotated[Positive, Field(description="loops of an instruction around its list")]
    fill_cycles: Annotated[Positive, Field(description="added each time the list is read")]

    def __post_init__(self) -> None:
        if len(set(self.loops)) < len(self.loops):
            raise ValueError(f"loops: {', '.join(self.loops)} names a loop twice; name each loop once")

    def start_cycles(self, steps: Mapping[Loop, Count]) -> Count:
        """Cycles to fill the pipeline for a box of so many steps of each loop."""
        starts: Count = 1
        left: Count = self.counters
        for loop, count in steps.items():
            if loop.value not in self.loops:
                starts = starts * count
        for name in self.loops:
            count = steps.get(Loop(name), 1)
            counts = (left > 0) * (count > 1) * 1
            starts = starts * (1 + counts * (count - 1))
            left = left - counts
        return starts * self.fill_cycles

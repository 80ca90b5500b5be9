"""The unrolled array: loops laid out in space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast, get_args

from pydantic import Field

from npusim.config import Positive, record
from npusim.hardware.arrays.loops import POSITION, Extents, Stationary
from npusim.hardware.arrays.micro_ops import MicroOps
from npusim.hardware.base import IM2COL, Count, Task, chosen, largest, product
from npusim.ir.work import Loop
from npusim.numerics.types import ceil_div

LoopName = Literal[
    "batch", "depth", "row", "column", "channel", "out_channel", "in_channel",
    "kernel_depth", "kernel_row", "kernel_column", "position", "reduction",
]  # fmt: skip
"""A loop to unroll; ``position`` is batch, depth, row and column as one loop, ``reduction`` all reduced loops as one
(im2col)."""


@record
class Unrolled:
    """Spatial unrolling: each cycle does one point of every unrolled loop at once.

    Each entry of ``unrollings`` is one mode (loop name -> factor); the array takes the mode with the fewest cycles
    for the box, of those that the layer's mapping leaves it. Cycles of a mode: product over loops of
    ceil(extent / factor).

    With ``weight_load_cycles`` the weights of a step come while the positions that use those of the step before are
    done, so the steps over positions count as at least that many, each time the weights change. (In NVDLA the 8 or more
    kernels of an atomic operation are loaded one a cycle behind a stripe: nvdla.org, hw/v1/ias/unit_description,
    "stripe operation"; nvdla/hw, vmod/nvdla/csc/NV_NVDLA_CSC.h, CSC_MIN_STRIPE.)
    """

    kind: Literal["unrolled"]
    unrollings: Annotated[
        tuple[dict[LoopName, Positive], ...], Field(min_length=1, description="modes, each loop name -> factor")
    ]
    stationary: Annotated[Stationary, Field(description="the operand that is read once per tile")]
    weight_load_cycles: Annotated[
        Positive | None, Field(description="steps that weights are used for at least; null: any number")
    ] = None
    micro_ops: Annotated[
        MicroOps | None, Field(description="steps come as lists, each start of which costs; null: without a break")
    ] = None

    @property
    def macs(self) -> int:
        """Multipliers: those of the widest mode."""
        return max(int(product(u.values())) for u in self.unrollings)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each mode: its loops, in the order of LoopName, and whether it is im2col."""
        return tuple(_name(mode) for mode in self.unrollings)

    def steps(self, pairs: Extents, choice: str | int | None = None) -> tuple[Count, Count, Count]:
        """Of the fastest mode of those chosen: its steps, those over output channels, those over positions."""
        first, *others = (self._steps(pairs, i) for i in self._modes(choice))
        best = first
        for steps in others:
            faster = steps[0] < best[0]
            total, out, at = (b + faster * (s - b) for s, b in zip(steps, best, strict=True))
            best = total, out, at
        return best

    def fastest(self, pairs: Extents, choice: str | int | None = None) -> str:
        """Name of the mode whose steps those are, the first of equals."""
        return self.names[min(self._modes(choice), key=lambda i: int(self._steps(pairs, i)[0]))]

    def _modes(self, choice: str | int | None) -> Sequence[int]:
        return range(len(self.unrollings)) if choice is None else chosen(self.names, choice)

    def _steps(self, pairs: Extents, index: int) -> tuple[Count, Count, Count]:
        """What ``steps`` gives of one mode."""
        mode = self.unrollings[index]
        out = [(d, e) for d, e in pairs if d.loop is Loop.OUT_CHANNEL]
        at = _steps([(d, e) for d, e in pairs if d.loop in POSITION], mode)
        total = _steps(pairs, mode) // at * largest(at, self.weight_load_cycles or 1)
        if self.micro_ops is not None:
            total = total + self.micro_ops.start_cycles({d.loop: _steps([(d, e)], mode) for d, e in pairs})
        return total, _steps(out, mode), at

    def passes(self, task: Task, pairs: Extents) -> tuple[Count, Count]:
        """How often ifmap and weights are read: once a step over output channels and once a step over positions."""
        _, ifmap, weights = self.steps(pairs, task.unrolling)
        return 1 if self.stationary == "ifmap" else ifmap, 1 if self.stationary == "weights" else weights


def _name(mode: Mapping[LoopName, int]) -> str:
    loops = " x ".join(f"{loop} {mode[loop]}" for loop in get_args(LoopName) if loop in mode) or "nothing"
    return f"{IM2COL} ({loops})" if "reduction" in mode else loops


def _steps(pairs: Extents, mode: Mapping[LoopName, int]) -> Count:
    """Steps that a mode takes over the loops of these dimensions and extents."""
    unroll = cast(Mapping[str, int], mode)
    total: Count = 1
    joint: dict[str, Count] = {}
    for d, e in pairs:
        if "position" in unroll and d.loop in POSITION and d.loop.value not in unroll:
            joint["position"] = joint.get("position", 1) * e
        elif "reduction" in unroll and d.reduce and d.loop.value not in unroll:
            joint["reduction"] = joint.get("reduction", 1) * e
        else:
            total = total * ceil_div(e, unroll.get(d.loop.value, 1))
    for name, e in joint.items():
        total = total * ceil_div(e, unroll[name])
    return total

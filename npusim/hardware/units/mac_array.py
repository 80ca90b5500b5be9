"""The MAC array: spatially unrolled loops, or a systolic grid with one stationary operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field

from npusim.config import NonNegative, Positive, Ratio, record
from npusim.hardware.base import Count, Task, UnitSpec, product, smallest
from npusim.ir.work import Dim, Loop, UnitKind
from npusim.numerics.overflow import Policy
from npusim.numerics.types import ceil_div

_POSITION = frozenset({Loop.BATCH, Loop.DEPTH, Loop.ROW, Loop.COLUMN})

LoopName = Literal[
    "batch", "depth", "row", "column", "channel", "out_channel", "in_channel",
    "kernel_depth", "kernel_row", "kernel_column", "position", "reduction",
]  # fmt: skip
"""A loop to unroll; ``position`` is batch, depth, row and column as one loop, ``reduction`` all reduced loops as one
(im2col)."""

Stationary = Literal["weights", "ifmap", "output"]


@record
class Unrolled:
    """Spatial unrolling: each cycle does one point of every unrolled loop at once.

    Each entry of ``unrollings`` is one mode (loop name -> factor); the array takes the mode with the fewest cycles
    for the box. Cycles of a mode: product over loops of ceil(extent / factor).
    """

    kind: Literal["unrolled"]
    unrollings: Annotated[
        tuple[dict[LoopName, Positive], ...], Field(min_length=1, description="modes, each loop name -> factor")
    ]
    stationary: Annotated[Stationary, Field(description="the operand that is read once per tile")]

    @property
    def macs(self) -> int:
        """Multipliers: those of the widest mode."""
        return max(int(product(u.values())) for u in self.unrollings)


@record
class Systolic:
    """A grid of ``rows`` x ``columns`` elements, operands moving one step a cycle.

    With the work as a product of M positions, K reduced and N output channels, per channel group:

    * weights stationary: ceil(K/rows) * ceil(N/columns) folds of M + rows + columns - 2 cycles
    * ifmap stationary: ceil(K/rows) * ceil(M/columns) folds of N + rows + columns - 2
    * output stationary: ceil(M/rows) * ceil(N/columns) folds of K + rows + columns - 2

    (cycles to the last multiply of a fold: SCALE-Sim, arXiv:1811.02883, section III; counted from 1). With
    ``overlapped_folds`` the skew of rows + columns - 2 is paid once a tile, else once a fold. ``reload_cycles`` is
    what a fold waits for its stationary operand (0: hidden by a shadow register).
    """

    kind: Literal["systolic"]
    rows: Annotated[Positive, Field(description="rows of the grid")]
    columns: Annotated[Positive, Field(description="columns of the grid")]
    stationary: Annotated[Stationary, Field(description="the operand that stays in the elements")]
    overlapped_folds: Annotated[bool, Field(description="the next fold enters while the last one drains")]
    reload_cycles: Annotated[NonNegative, Field(description="cycles a fold waits for its stationary operand")]

    @property
    def macs(self) -> int:
        """Multipliers of the grid."""
        return self.rows * self.columns


@record
class MacArray(UnitSpec):
    """Multiply-accumulate units for convolutions and products."""

    kind: Literal["mac_array"]
    serves: ClassVar[UnitKind] = UnitKind.MAC
    instances: Annotated[Positive, Field(description="identical arrays, each with a queue of its own")]
    array: Annotated[Unrolled | Systolic, Field(discriminator="kind", description="how the multipliers are used")]
    macs_per_cycle: Annotated[
        dict[str, Ratio],
        Field(description="per multiplier and cycle, by element types, for example i8xi4: 2; others are refused"),
    ]
    accumulators: Annotated[
        dict[Literal["i32", "i48", "f32"], Policy],
        Field(description="accumulator widths and what overflow does: refuse, wrap or saturate"),
    ]
    pipeline_cycles: Annotated[NonNegative, Field(description="latency from operand read to first accumulation")]

    def refuses(self, task: Task) -> str | None:
        types = _type_key(task)
        if types not in self.macs_per_cycle:
            return f"the mac_array has no rate for {types} (it has {', '.join(self.macs_per_cycle)})"
        if task.accumulator.name not in self.accumulators:
            return f"the mac_array has no {task.accumulator} accumulator (it has {', '.join(self.accumulators)})"
        return None

    def cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        dims = task.work.dims
        useful = [ceil_div(e, d.every) for d, e in zip(dims, extents, strict=True)]
        array = self.array
        if isinstance(array, Unrolled):
            raw = _unrolled(dims, useful, array.unrollings[0])
            for mode in array.unrollings[1:]:
                raw = smallest(raw, _unrolled(dims, useful, mode))
        else:
            raw = _systolic(dims, useful, array)
        rate = self.macs_per_cycle[_type_key(task)]
        return ceil_div(raw * rate.denominator, rate.numerator) + self.pipeline_cycles

    def passes(self, task: Task, extents: Sequence[Count]) -> tuple[Count, ...]:
        dims, array = task.work.dims, self.array
        if isinstance(array, Unrolled):
            first = array.unrollings[0]
            at_once_out = first.get("out_channel", 1)
            at_once_positions = first.get("position", 1) * first.get("row", 1) * first.get("column", 1)
        else:
            at_once_out = array.rows if array.stationary == "ifmap" else array.columns
            at_once_positions = array.rows if array.stationary == "output" else array.columns
        out = product(e for d, e in zip(dims, extents, strict=True) if d.loop is Loop.OUT_CHANNEL)
        positions = product(e for d, e in zip(dims, extents, strict=True) if d.loop in _POSITION)
        ifmap = 1 if array.stationary == "ifmap" else ceil_div(out, at_once_out)
        weights = 1 if array.stationary == "weights" else ceil_div(positions, at_once_positions)
        return tuple([ifmap, weights] + [1] * (len(task.work.reads) - 2))

    def peak_per_cycle(self, task: Task) -> tuple[int, int]:
        rate = Fraction(self.macs_per_cycle[_type_key(task)]) * self.array.macs
        return rate.numerator, rate.denominator


def _type_key(task: Task) -> str:
    return f"{task.operands[0]}x{task.operands[1]}"


def _unrolled(dims: Sequence[Dim], extents: Sequence[Count], mode: Mapping[LoopName, int]) -> Count:
    unroll = cast(Mapping[str, int], mode)
    total: Count = 1
    joint: dict[str, Count] = {}
    for d, e in zip(dims, extents, strict=True):
        if "position" in unroll and d.loop in _POSITION and d.loop.value not in unroll:
            joint["position"] = joint.get("position", 1) * e
        elif "reduction" in unroll and d.reduce and d.loop.value not in unroll:
            joint["reduction"] = joint.get("reduction", 1) * e
        else:
            total = total * ceil_div(e, unroll.get(d.loop.value, 1))
    for name, e in joint.items():
        total = total * ceil_div(e, unroll[name])
    return total


def _systolic(dims: Sequence[Dim], extents: Sequence[Count], array: Systolic) -> Count:
    pairs = list(zip(dims, extents, strict=True))
    m = product(e for d, e in pairs if d.loop in _POSITION)
    n = product(e for d, e in pairs if d.loop is Loop.OUT_CHANNEL)
    k = product(e for d, e in pairs if d.reduce)
    groups = product(e for d, e in pairs if d.loop is Loop.CHANNEL)
    rows, columns = array.rows, array.columns
    if array.stationary == "weights":
        folds, stream = ceil_div(k, rows) * ceil_div(n, columns), m
    elif array.stationary == "ifmap":
        folds, stream = ceil_div(k, rows) * ceil_div(m, columns), n
    else:
        folds, stream = ceil_div(m, rows) * ceil_div(n, columns), k
    folds = folds * groups
    skew = rows + columns - 2
    if array.overlapped_folds:
        return folds * (stream + array.reload_cycles) + skew
    return folds * (stream + array.reload_cycles + skew)

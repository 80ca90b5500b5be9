"""The MAC array: spatially unrolled loops, a systolic grid with one stationary operand, or stationary rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field

from npusim.config import NonNegative, Positive, Ratio, record
from npusim.hardware.arrays.bit_serial import BitSerial
from npusim.hardware.arrays.block_stationary import BlockStationary
from npusim.hardware.arrays.row_stationary import RowStationary
from npusim.hardware.base import Count, Task, UnitSpec, largest, product, smallest
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

    @property
    def macs(self) -> int:
        """Multipliers: those of the widest mode."""
        return max(int(product(u.values())) for u in self.unrollings)


@record
class Systolic:
    """A grid of ``rows`` x ``columns`` elements; operands move by one element a cycle.

    Row and column i get their operands i cycles after the first. The work, per channel, is a product of M positions, K
    reduced and N output channels; it is cut into folds that fit the grid, and each fold streams the rest:

    * weights stationary: K on the rows, N on the columns, M streams
    * ifmap stationary: K on the rows, M on the columns, N streams
    * output stationary: M on the rows, N on the columns, K streams

    A fold that uses r rows and c columns makes its last multiplication in cycle stream + r + c - 2, counted from 1: the
    R + C + T - 2 of SCALE-Sim (arXiv:1811.02883), whose R more cycles to fill or drain the grid are ``reload_cycles``
    here. The 2 x 2 x 2 product, output stationary on 2 x 2, by hand (which of k = 0, 1 an element multiplies)::

        cycle           1      2      3      4
        element 0,0   k = 0  k = 1
        element 0,1          k = 0  k = 1
        element 1,0          k = 0  k = 1
        element 1,1                 k = 0  k = 1

    Folds come along the columns first. Each starts after the last multiplication of the one before, or, with
    ``overlapped_folds``, as soon as the stream of the one before has entered; then the skew of r + c - 2 is paid once a
    tile. ``reload_cycles`` is what every fold waits for its stationary operand first (0: hidden by a shadow register).

    With ``overlapped_commands`` tiles follow each other as folds do, and shadow registers take up the next stationary
    operand while the array streams: a fold is followed by the next after the longer of its stream and the reload. The
    reload of a tile's first fold starts when the operand is there and the tile before has begun to stream. (In the TPU
    weights move into the array while it computes, and take effect with the wave of the data that need them: Jouppi et
    al., "In-datacenter performance analysis of a tensor processing unit", ISCA 2017, section 2.)
    """

    kind: Literal["systolic"]
    rows: Annotated[Positive, Field(description="rows of the grid")]
    columns: Annotated[Positive, Field(description="columns of the grid")]
    stationary: Annotated[Stationary, Field(description="the operand that stays in the elements")]
    overlapped_folds: Annotated[bool, Field(description="the next fold enters while the last one drains")]
    reload_cycles: Annotated[NonNegative, Field(description="cycles a fold waits for its stationary operand")]
    overlapped_commands: Annotated[
        bool, Field(description="the next tile enters while the last one drains; reloads go on beside the stream")
    ] = False

    def __post_init__(self) -> None:
        if self.overlapped_commands and not self.overlapped_folds:
            raise ValueError("overlapped_commands: tiles only follow each other where folds do; set overlapped_folds")

    @property
    def macs(self) -> int:
        """Multipliers of the grid."""
        return self.rows * self.columns


@record
class MacArray(UnitSpec):
    """Multiply-accumulate units for convolutions and products."""

    kind: Literal["mac_array"]
    serves: ClassVar[UnitKind] = UnitKind.MAC
    name: Annotated[str | None, Field(description="shown in reports, used by mappings; default: what it serves")] = None
    instances: Annotated[Positive, Field(description="identical arrays, each with a queue of its own")]
    array: Annotated[
        Unrolled | Systolic | RowStationary | BitSerial | BlockStationary,
        Field(discriminator="kind", description="how the multipliers are used"),
    ]
    macs_per_cycle: Annotated[
        dict[str, Ratio],
        Field(description="per multiplier and cycle, by element types, for example i8xi4: 2; others are refused"),
    ]
    accumulators: Annotated[
        dict[Literal["i32", "i48", "f32"], Policy],
        Field(description="accumulator widths and what overflow does: refuse, wrap or saturate"),
    ]
    accumulator_bytes: Annotated[
        NonNegative, Field(description="memory of its own for partial sums of split reductions; 0: they lie in SRAM")
    ]
    pipeline_cycles: Annotated[NonNegative, Field(description="latency from operand read to first accumulation")]
    operators: Annotated[
        tuple[str, ...] | None, Field(description="the only operators it takes; null: any that its array can do")
    ] = None

    def refuses(self, task: Task) -> str | None:
        if self.operators is not None and task.operator not in self.operators:
            return f"unit {self.label!r} takes {', '.join(self.operators)}; add {task.operator} to its operators"
        types = _type_key(task)
        if types not in self.macs_per_cycle:
            rates = ", ".join(self.macs_per_cycle)
            return f"the mac_array has no rate for {types} (it has {rates}); add it to macs_per_cycle"
        if task.accumulator.name not in self.accumulators:
            return (
                f"the mac_array has no {task.accumulator} accumulator (it has {', '.join(self.accumulators)}); "
                "add it to accumulators"
            )
        return self.array.refuses(task) if isinstance(self.array, RowStationary | BitSerial) else None

    def cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """Cycles to the last multiplication, after ``pipeline_cycles``, on an overlapped array to the next tile.

        See the kinds of arrays.
        """
        pairs, array = _useful(task, extents), self.array
        rate = self.macs_per_cycle[_type_key(task)]
        if isinstance(array, BitSerial):
            bits = int(ceil_div(rate.denominator, rate.numerator))
            return array.cycles(task, pairs, bits) + self.pipeline_cycles
        if isinstance(array, RowStationary):
            raw = array.map(task, pairs).cycles
        elif isinstance(array, BlockStationary):
            raw = array.cycles(pairs)
        else:
            raw = _unrolled(pairs, array)[0] if isinstance(array, Unrolled) else _systolic(pairs, array)[0]
        return ceil_div(raw * rate.denominator, rate.numerator) + (0 if self.overlapped else self.pipeline_cycles)

    @property
    def _overlapped_grid(self) -> Systolic | None:
        return self.array if isinstance(self.array, Systolic) and self.array.overlapped_commands else None

    @property
    def overlapped(self) -> bool:
        return self._overlapped_grid is not None

    def reload_cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """On an overlapped array the cycles in which the stationary operand of the first fold moves in."""
        grid = self._overlapped_grid
        return grid.reload_cycles if grid else 0

    def drain_cycles(self, task: Task, extents: Sequence[Count]) -> Count:
        """On an overlapped array the cycles from the end of the stream to the last multiplication."""
        grid = self._overlapped_grid
        return _systolic(_useful(task, extents), grid)[1] + self.pipeline_cycles if grid else 0

    def passes(self, task: Task, extents: Sequence[Count]) -> tuple[Count, ...]:
        """The ifmap is read once per step, fold or pass over output channels, weights once per one over positions.

        The stationary operand and any operand after these two are read once.
        """
        pairs, array = _useful(task, extents), self.array
        if isinstance(array, Unrolled):
            _, ifmap, weights = _unrolled(pairs, array)
        elif isinstance(array, BitSerial | BlockStationary):
            return array.passes(task, pairs)
        elif isinstance(array, RowStationary):
            mapping = array.map(task, pairs)
            return (mapping.filter_passes, mapping.strips, *[1] * (len(task.work.reads) - 2))
        else:
            ifmap = ceil_div(_extent(pairs, Loop.OUT_CHANNEL), array.columns)
            weights = ceil_div(
                _extent(pairs, *_POSITION), array.rows if array.stationary == "output" else array.columns
            )
        ifmap = 1 if array.stationary == "ifmap" else ifmap
        weights = 1 if array.stationary == "weights" else weights
        return (ifmap, weights, *[1] * (len(task.work.reads) - 2))

    def actions(self, task: Task, extents: Sequence[Count]) -> dict[str, Count]:
        """Multiply-accumulates, those on padding included, and bytes that elements pass to their neighbours."""
        pairs, array = _useful(task, extents), self.array
        counts = {f"mac.{_type_key(task)}": product(e for _, e in pairs)}
        if isinstance(array, Systolic):
            counts["hop_byte"] = ceil_div(_hop_bits(task, pairs, array), 8)
        elif not isinstance(array, Unrolled):
            return UnitSpec.actions(self, task, extents)  # refuses: another kind of array
        return counts

    def peak_per_cycle(self, task: Task) -> tuple[int, int]:
        rate = Fraction(self.macs_per_cycle[_type_key(task)]) * self.array.macs
        return rate.numerator, rate.denominator


def _type_key(task: Task) -> str:
    return f"{task.operands[0]}x{task.operands[1]}"


def _useful(task: Task, extents: Sequence[Count]) -> list[tuple[Dim, Count]]:
    """The dimensions, each with as many of its points as do real work."""
    return [(d, ceil_div(e, d.every)) for d, e in zip(task.work.dims, extents, strict=True)]


def _steps(pairs: Sequence[tuple[Dim, Count]], mode: Mapping[LoopName, int]) -> Count:
    """Steps that a mode takes over the loops of these dimensions and extents."""
    unroll = cast(Mapping[str, int], mode)
    total: Count = 1
    joint: dict[str, Count] = {}
    for d, e in pairs:
        if "position" in unroll and d.loop in _POSITION and d.loop.value not in unroll:
            joint["position"] = joint.get("position", 1) * e
        elif "reduction" in unroll and d.reduce and d.loop.value not in unroll:
            joint["reduction"] = joint.get("reduction", 1) * e
        else:
            total = total * ceil_div(e, unroll.get(d.loop.value, 1))
    for name, e in joint.items():
        total = total * ceil_div(e, unroll[name])
    return total


def _unrolled(pairs: Sequence[tuple[Dim, Count]], array: Unrolled) -> tuple[Count, Count, Count]:
    """Of the fastest mode, the first of equals: its steps, those over output channels, those over positions."""
    out = [(d, e) for d, e in pairs if d.loop is Loop.OUT_CHANNEL]
    positions = [(d, e) for d, e in pairs if d.loop in _POSITION]
    best: tuple[Count, ...] | None = None
    for mode in array.unrollings:
        at = _steps(positions, mode)
        steps = _steps(pairs, mode) // at * largest(at, array.weight_load_cycles or 1), _steps(out, mode), at
        if best is None:
            best = steps
        else:
            faster = steps[0] < best[0]
            best = tuple(b + faster * (s - b) for s, b in zip(steps, best, strict=True))
    assert best is not None, "an array has at least one mode"
    return best[0], best[1], best[2]


def _systolic(pairs: Sequence[tuple[Dim, Count]], array: Systolic) -> tuple[Count, Count]:
    """Cycles until the next tile may enter, and from then until the last multiplication."""
    m, n = _extent(pairs, *_POSITION), _extent(pairs, Loop.OUT_CHANNEL)
    k = product(e for d, e in pairs if d.reduce)
    on_rows, on_columns, stream = {"weights": (k, n, m), "ifmap": (k, m, n), "output": (m, n, k)}[array.stationary]
    row_folds, column_folds = ceil_div(on_rows, array.rows), ceil_div(on_columns, array.columns)
    groups = _extent(pairs, Loop.CHANNEL)
    shadow = array.overlapped_commands
    period = largest(stream, array.reload_cycles) if shadow else stream + array.reload_cycles
    folds = groups * row_folds * column_folds
    if not array.overlapped_folds:
        # The used rows of one fold after the other add up to on_rows, and so for the columns.
        return folds * (period - 2) + groups * (column_folds * on_rows + row_folds * on_columns), 0
    # The last fold, unless one row or one column of folds earlier there is one so much wider that it ends later.
    last_rows, last_columns = on_rows - (row_folds - 1) * array.rows, on_columns - (column_folds - 1) * array.columns
    used_rows = largest(last_rows, smallest(on_rows, array.rows) - column_folds * period)
    used_columns = largest(last_columns, smallest(on_columns, array.columns) - period)
    skew = used_rows + used_columns - 2
    return ((folds - 1) * period + stream, skew) if shadow else (folds * period + skew, 0)


def _hop_bits(task: Task, pairs: Sequence[tuple[Dim, Count]], array: Systolic) -> Count:
    """Bits that go from element to element in a box, each as often as it moves on.

    Of a fold on r x c elements, whatever streams in along the rows moves c - 1 times, and whatever goes down the
    columns r - 1 times: partial sums, or the weights where outputs are stationary. The stationary operand comes down
    the columns as well, and stationary outputs leave that way: of each column r (r - 1) / 2 moves.
    """
    m, n = _extent(pairs, *_POSITION), _extent(pairs, Loop.OUT_CHANNEL)
    k = product(e for d, e in pairs if d.reduce)
    on_rows, on_columns, stream = {"weights": (k, n, m), "ifmap": (k, m, n), "output": (m, n, k)}[array.stationary]
    ifmap, weights, sums = (t.bits for t in (*task.operands[:2], task.accumulator))
    along, down, kept = {
        "weights": (ifmap, sums, weights), "ifmap": (weights, sums, ifmap), "output": (ifmap, weights, sums),
    }[array.stationary]  # fmt: skip
    row_folds, column_folds = ceil_div(on_rows, array.rows), ceil_div(on_columns, array.columns)
    last = on_rows - (row_folds - 1) * array.rows
    triangles = ((row_folds - 1) * array.rows * (array.rows - 1) + last * (last - 1)) // 2
    moved = stream * (on_rows * (on_columns - column_folds) * along + on_columns * (on_rows - row_folds) * down)
    return _extent(pairs, Loop.CHANNEL) * (moved + on_columns * triangles * kept)


def _extent(pairs: Sequence[tuple[Dim, Count]], *loops: Loop) -> Count:
    return product(e for d, e in pairs if d.loop in loops)

"""The report of a run: frozen records that survive a round trip through JSON; every file and plot derives from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Ge
from pydantic import Field, Strict, TypeAdapter

from npusim.config import NonNegative, record

Amounts = dict[str, Annotated[int, Strict(), Ge(0)]]
"""Whole numbers by name, of any size."""


@record
class Fingerprint:
    """A tensor that went in or came out."""

    name: str
    type: Annotated[str, Field(description="shape and element type, for example 1x8x8x1xi8")]
    sha256: Annotated[str, Field(description="of its packed bytes")]


@record
class Manifest:
    """All that is needed to repeat the run."""

    npusim_version: Annotated[str, Field(description="version that made the report")]
    workload: Annotated[str, Field(description="name of the workload")]
    workload_sha256: Annotated[str, Field(description="of the operators, constants and manual mappings")]
    chip: Annotated[dict[str, Any], Field(description="the chip as simulated, overrides included")]
    options: Annotated[dict[str, Any], Field(description="mapping options and switches of the run")]
    seed: Annotated[int | None, Field(description="seed of the random inputs; None where all were given")]
    inputs: Annotated[tuple[Fingerprint, ...], Field(description="what went in, in graph order")]
    remarks: Annotated[
        tuple[str, ...], Field(description="how the model was read where its format leaves a choice")
    ] = ()


@record
class EngineFigures:
    """Cycles of one engine: busy + stalls + idle = the run's cycles (or the layer window's)."""

    engine: str
    busy_cycles: NonNegative
    stalled_cycles: Annotated[dict[str, NonNegative], Field(description="by cause")]
    idle_cycles: NonNegative


@record
class LayerFigures:
    """One layer. ``cycles`` is its share of the run: from the completion of the layers before to its own."""

    name: str
    operators: tuple[str, ...]
    engine: str
    output: Annotated[str, Field(description="type of the output")]
    start_cycle: Annotated[
        NonNegative, Field(description="its first command's start, which may lie in earlier windows")
    ]
    cycles: NonNegative
    span_cycles: Annotated[NonNegative, Field(description="from its first command's start to its last one's finish")]
    active_cycles: Annotated[
        NonNegative,
        Field(
            description="from the first start to the last finish of its computations, or its cycles if they are more"
        ),
    ]
    compute_cycles: Annotated[NonNegative, Field(description="cycles its unit worked on it")]
    compute_cycles_by_part: Annotated[
        dict[str, NonNegative],
        Field(
            description="these, split: stream of operands, fill_drain, beyond them output_path and sram_port, and "
            "control overhead; they sum to compute_cycles"
        ),
    ]
    bank_conflict_cycles: Annotated[
        NonNegative,
        Field(description="cycles it holds its SRAM port for parts of words of the banks that carry none of its data"),
    ]
    macs: Annotated[NonNegative, Field(description="multiply-accumulates, taps on padding included")]
    useful_macs: Annotated[NonNegative, Field(description="taps inside the image only")]
    utilization: Annotated[float, Field(ge=0, le=1, description="points done / (peak points a cycle x active cycles)")]
    dram_read_bytes: NonNegative
    dram_write_bytes: NonNegative
    bound_by: Annotated[str, Field(description="what most of its cycles went to")]
    cycles_by_cause: Annotated[dict[str, NonNegative], Field(description="its cycles, split; they sum to cycles")]
    engines: tuple[EngineFigures, ...]
    tile: Annotated[dict[str, int], Field(description="tile size by dimension")]
    loop_order: Annotated[tuple[str, ...], Field(description="outermost first")]
    buffers: NonNegative
    tiles: NonNegative
    sram_bytes: Annotated[NonNegative, Field(description="working set, without feature maps that stay")]
    output_in_sram: Annotated[bool, Field(description="the output stays in SRAM for its readers")]
    bound_cycles: Annotated[
        NonNegative, Field(description="closed-form lower bound of span_cycles: the largest of bound_resources")
    ]
    bound_resources: Annotated[
        dict[str, NonNegative], Field(description="fewest cycles of each resource at its peak: of engine and DRAM")
    ]
    estimate_cycles: Annotated[
        NonNegative, Field(description="closed-form estimate of span_cycles by which the tile search chose")
    ]
    overflow_events: NonNegative
    energy_femtojoules: Annotated[
        Amounts | None, Field(description="by component, leakage over its cycles included; null: not modelled")
    ] = None
    unrolling: Annotated[
        str | None,
        Field(
            description="loops that its array does at once; of tiles that differ, that of the most compute cycles; "
            "null: its unit has no array"
        ),
    ] = None


@record
class Totals:
    """The whole run."""

    cycles: Annotated[NonNegative, Field(description="when the last command has finished")]
    bound_cycles: Annotated[
        NonNegative, Field(description="closed-form lower bound of cycles: the largest of bound_resources")
    ]
    bound_resources: Annotated[
        dict[str, NonNegative], Field(description="fewest cycles of each resource at its peak, all layers added up")
    ]
    estimate_cycles: Annotated[
        NonNegative, Field(description="sum of the layers' estimates: none overlapping the next")
    ]
    clock_hz: Annotated[NonNegative, Field(description="clock of the chip")]
    latency_seconds: Annotated[float, Field(description="cycles at this clock")]
    macs: Annotated[NonNegative, Field(description="multiply-accumulates, taps on padding included")]
    useful_macs: Annotated[NonNegative, Field(description="taps inside the image only")]
    utilization: Annotated[
        dict[str, Annotated[float, Field(ge=0, le=1)]],
        Field(description="by engine: work done of what all of its instances could do in all cycles"),
    ]
    dram_read_bytes: Annotated[NonNegative, Field(description="whole bursts, constants included")]
    dram_write_bytes: Annotated[NonNegative, Field(description="whole bursts")]
    sram_peak_bytes: Annotated[NonNegative, Field(description="most SRAM in use at once")]
    sram_bytes: Annotated[NonNegative, Field(description="capacity")]
    commands: Annotated[NonNegative, Field(description="loads, stores and computations")]
    overflow_events: Annotated[NonNegative, Field(description="partial sums that left their accumulator")]
    energy_femtojoules: Annotated[
        Amounts | None, Field(description="by component, summed over the layers; null: the chip states no energies")
    ] = None
    area_square_micrometres: Annotated[
        Amounts | None, Field(description="of the chip, by part; null: the chip states no areas")
    ] = None


@record
class Check:
    """Something the run verified."""

    name: str
    passed: bool
    detail: str


@record
class Report:
    """The report of one run."""

    schema_version: Annotated[Literal[1], Field(description="changes when a field changes its meaning")]
    manifest: Annotated[Manifest, Field(description="what was run")]
    totals: Annotated[Totals, Field(description="figures of the whole run")]
    engines: Annotated[tuple[EngineFigures, ...], Field(description="figures of every engine over the run")]
    layers: Annotated[tuple[LayerFigures, ...], Field(description="figures of every layer, in order of execution")]
    checks: Annotated[tuple[Check, ...], Field(description="what the run compared and found")]
    outputs: Annotated[tuple[Fingerprint, ...], Field(description="what came out; empty with bits off")]
    host: Annotated[
        tuple[str, ...],
        Field(description="float operators of the model that the host runs; their time is not modelled"),
    ] = ()

    def to_json(self) -> str:
        """The report as indented JSON text, equal for equal reports."""
        return _ADAPTER.dump_json(self, indent=2).decode() + "\n"

    @staticmethod
    def from_json(text: str) -> Report:
        """Inverse of :meth:`to_json`."""
        return _ADAPTER.validate_json(text)


_ADAPTER: TypeAdapter[Report] = TypeAdapter(Report)

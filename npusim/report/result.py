"""The report of a run: frozen records that survive a round trip through JSON; every file and plot derives from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from npusim.config import NonNegative, record

SCHEMA_VERSION = 1


@record
class Fingerprint:
    """A tensor that went in or came out."""

    name: str
    type: Annotated[str, Field(description="shape and element type, for example 1x8x8x1xi8")]
    sha256: Annotated[str, Field(description="of its packed bytes")]


@record
class Manifest:
    """All that is needed to repeat the run."""

    npusim_version: str
    workload: str
    workload_sha256: Annotated[str, Field(description="of the operators, constants and manual mappings")]
    chip: Annotated[dict[str, Any], Field(description="the chip as simulated, overrides included")]
    options: Annotated[dict[str, Any], Field(description="mapping options and switches of the run")]
    seed: Annotated[int | None, Field(description="seed of the random inputs; None where all were given")]
    inputs: tuple[Fingerprint, ...]


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
    start_cycle: Annotated[NonNegative, Field(description="its first command's start, which may lie in earlier windows")]
    cycles: NonNegative
    span_cycles: Annotated[NonNegative, Field(description="from its first command's start to its last one's finish")]
    compute_cycles: Annotated[NonNegative, Field(description="cycles its unit worked on it")]
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
    estimate_cycles: Annotated[NonNegative, Field(description="the tile search's own estimate")]
    overflow_events: NonNegative


@record
class Totals:
    """The whole run."""

    cycles: NonNegative
    clock_hz: NonNegative
    latency_seconds: float
    macs: NonNegative
    useful_macs: NonNegative
    mac_utilization: Annotated[float, Field(ge=0, le=1)]
    dram_read_bytes: NonNegative
    dram_write_bytes: NonNegative
    sram_peak_bytes: Annotated[NonNegative, Field(description="most SRAM allocated in any layer")]
    sram_bytes: NonNegative
    commands: NonNegative
    overflow_events: NonNegative


@record
class Check:
    """Something the run verified."""

    name: str
    passed: bool
    detail: str


@record
class Report:
    """The report of one run."""

    schema_version: Literal[1]
    manifest: Manifest
    totals: Totals
    engines: tuple[EngineFigures, ...]
    layers: tuple[LayerFigures, ...]
    checks: tuple[Check, ...]
    outputs: tuple[Fingerprint, ...]

    def to_json(self) -> str:
        """The report as indented JSON text, equal for equal reports."""
        return _ADAPTER.dump_json(self, indent=2).decode() + "\n"

    @staticmethod
    def from_json(text: str) -> Report:
        """Inverse of :meth:`to_json`."""
        return _ADAPTER.validate_json(text)


_ADAPTER: TypeAdapter[Report] = TypeAdapter(Report)

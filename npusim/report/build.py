"""From a timed program to the report's figures: per layer, per engine, in total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, prod

from npusim.energy import area, priced
from npusim.graph.region import Region
from npusim.hardware import Chip
from npusim.hardware.energy_table import COMPONENTS
from npusim.ir.taps import dense_points, points_inside
from npusim.mapping.cost import RegionCost
from npusim.mapping.plan import Plan
from npusim.program.program import Compute, Load, TileProgram
from npusim.report.occupancy import peak_bytes
from npusim.report.result import EngineFigures, LayerFigures, Totals
from npusim.timing.accounting import Segment, segments, split_by_layer, windows
from npusim.timing.bound import Bound, bound_cycles, layer_bounds, run_bound
from npusim.timing.costs import ComputeCost, DmaCost
from npusim.timing.timeline import Span, Timeline


def figures(
    program: TileProgram,
    plan: Plan,
    timeline: Timeline,
    costs: Sequence[ComputeCost | DmaCost],
    chip: Chip,
    overflow_events: Mapping[str, int],
    spent: Sequence[Mapping[str, int]] | None = None,
) -> tuple[Totals, tuple[EngineFigures, ...], tuple[LayerFigures, ...]]:
    """All figures of a run.

    ``overflow_events`` are by layer (empty where no bits were computed). ``spent`` is what ``layer_energy`` found: the
    energy of each layer without leakage, None where it is not modelled.
    """
    parts = segments(program, timeline, costs)
    found = windows(program, timeline)
    split = {q: split_by_layer(ss, found) for q, ss in parts.items()}
    spans: list[list[Span]] = [[] for _ in program.regions]
    for s in timeline:
        spans[s.layer].append(s)
    bounds = layer_bounds(program, [layer.cost for layer in plan.layers], chip, costs)
    layers = []
    for k, layer in enumerate(plan.layers):
        mine = spans[k]
        work = [s for s in mine if isinstance(costs[s.command], ComputeCost)]
        reads = writes = 0
        for s in mine:
            cost = costs[s.command]
            if isinstance(cost, DmaCost):
                if isinstance(program.commands[s.command], Load):
                    reads += cost.bytes_moved
                else:
                    writes += cost.bytes_moved
        causes = split[work[-1].queue][k][1]
        active = max(found[k].cycles, max(s.finish for s in work) - min(s.start for s in work), 1)
        region, dims = layer.region, layer.region.work.dims
        macs, useful = region_macs(region)
        layers.append(
            LayerFigures(
                name=region.name,
                operators=tuple(m.op.name for m in region.members),
                engine=layer.cost.engine,
                output=str(region.output_type),
                start_cycle=min(s.start for s in mine),
                cycles=found[k].cycles,
                span_cycles=max(s.finish for s in mine) - min(s.start for s in mine),
                active_cycles=active,
                compute_cycles=sum(s.busy for s in work),
                compute_cycles_by_part=_by_part(work, costs),
                bank_conflict_cycles=_bank_conflict_cycles(work, program, costs, layer.cost, chip),
                macs=macs,
                useful_macs=useful,
                utilization=_utilization(layer.cost, active),
                dram_read_bytes=reads,
                dram_write_bytes=writes,
                bound_by=max(causes, key=lambda c: (causes[c], c)) if causes else "overlapped",
                cycles_by_cause=dict(sorted(causes.items())),
                engines=tuple(_engine(str(q), {str(a): n for a, n in split[q][k][0].items()}) for q in split),
                tile={d.name: t for d, t in zip(dims, layer.mapping.tile, strict=True)},
                loop_order=tuple(dims[i].name for i in layer.mapping.order),
                buffers=layer.mapping.buffers,
                tiles=len(work),
                sram_bytes=layer.mapping.sram_bytes,
                output_in_sram=layer.output_resident,
                bound_cycles=bound_cycles(bounds[k]),
                bound_resources=_rounded_up(bounds[k]),
                estimate_cycles=layer.mapping.estimate_cycles,
                overflow_events=overflow_events.get(region.name, 0),
                energy_femtojoules=None if spent is None else _with_leakage(spent[k], found[k].cycles, chip),
                unrolling=_unrolling(work, program, layer.cost),
            )
        )
    engines = tuple(_engine(str(q), _by_activity(ss)) for q, ss in parts.items())
    return _totals(layers, plan, program, timeline, chip, run_bound(bounds)), engines, tuple(layers)


def region_macs(region: Region) -> tuple[int, int]:
    """(multiply-accumulates of a region with padded taps counted, those inside the image)."""
    work = region.work
    if not work.macs:
        return 0, 0
    return dense_points(work), points_inside(work, work.reads[0], region.anchor.bound.operands[0].shape)


def adds_up(engines: Sequence[EngineFigures], cycles: int) -> bool:
    """Whether busy, stalled and idle cycles of every engine sum to ``cycles``."""
    return all(e.busy_cycles + sum(e.stalled_cycles.values()) + e.idle_cycles == cycles for e in engines)


def tile_macs(program: TileProgram) -> list[int]:
    """Points done by the tiles of each layer, summed over its compute commands, counted as in a whole layer."""
    total = [0] * len(program.regions)
    for c in program:
        if isinstance(c, Compute):
            total[c.layer] += prod(c.box.shape)
    return total


def _utilization(cost: RegionCost, active_cycles: int) -> float:
    """Work done over the most the unit could do in ``active_cycles``; for the vector unit its lanes' busy share."""
    done = Fraction(0)
    tasks = [cost.task, *cost.tail_tasks] if cost.on_vector else [cost.task]
    for t in tasks:
        numerator, denominator = cost.unit.peak_per_cycle(t)
        done += Fraction(dense_points(t.work) * denominator, numerator)
    return float(round(done / (active_cycles * cost.unit.instances), 6))


def _by_part(work: Sequence[Span], costs: Sequence[ComputeCost | DmaCost]) -> dict[str, int]:
    """Busy cycles of compute commands: streaming, filling and draining, and the rest by what set the cycles."""
    total: dict[str, int] = {}
    for s in work:
        cost = costs[s.command]
        assert isinstance(cost, ComputeCost), "the work of a layer is its compute commands"
        rest = s.busy - cost.stream_cycles - cost.fill_cycles
        why = "control" if cost.limit == "compute" else cost.limit
        for part, cycles in (("stream", cost.stream_cycles), ("fill_drain", cost.fill_cycles), (why, rest)):
            if cycles:
                total[part] = total.get(part, 0) + cycles
    return dict(sorted(total.items()))


def _bank_conflict_cycles(
    work: Sequence[Span], program: TileProgram, costs: Sequence[ComputeCost | DmaCost], cost: RegionCost, chip: Chip
) -> int:
    """Cycles that compute commands hold their SRAM port longer than with banks of one byte, where no word is wasted."""
    ideal = replace(chip, sram=replace(chip.sram, banks=chip.sram.bytes_per_cycle))
    spread = RegionCost(cost.region, ideal, cost.engine, cost.task.unrolling)
    known: dict[object, int] = {}
    total = 0
    for s in work:
        c, mine = program.commands[s.command], costs[s.command]
        assert isinstance(c, Compute) and isinstance(mine, ComputeCost), "the work of a layer is its compute commands"
        key = c.box.shape, c.first, c.last
        if key not in known:
            known[key] = mine.port_cycles - int(spread.port_cycles(*key))
        total += known[key]
    return total


def _unrolling(work: Sequence[Span], program: TileProgram, cost: RegionCost) -> str | None:
    """What the unit does at once in most of the busy cycles of compute commands, the first of equals."""
    by_shape: dict[tuple[int, ...], int] = {}
    for s in work:
        c = program.commands[s.command]
        assert isinstance(c, Compute), "the work of a layer is its compute commands"
        by_shape[c.box.shape] = by_shape.get(c.box.shape, 0) + s.busy
    cycles: dict[str | None, int] = {}
    for shape, busy in by_shape.items():
        name = cost.unit.unrolling(cost.task, shape)
        cycles[name] = cycles.get(name, 0) + busy
    return max(cycles, key=lambda name: cycles[name])


def _with_leakage(spent: Mapping[str, int], cycles: int, chip: Chip) -> dict[str, int]:
    """Energy of a layer, with the leakage of the whole chip over the cycles that are the layer's own."""
    assert chip.energy is not None and chip.energy.femtojoules is not None, "energy is priced by the chip's table"
    return {**spent, **priced({"cycle": cycles}, chip.energy.femtojoules)}


def _summed(layers: Sequence[LayerFigures], chip: Chip) -> dict[str, int] | None:
    """Energy of all layers by component; None where it is not modelled."""
    if chip.energy is None or chip.energy.femtojoules is None:
        return None
    total: dict[str, int] = {}
    for layer in layers:
        if layer.energy_femtojoules is None:
            return None
        for component, spent in layer.energy_femtojoules.items():
            total[component] = total.get(component, 0) + spent
    return {c: total[c] for c in dict.fromkeys(COMPONENTS.values()) if c in total}


def _by_activity(parts: Sequence[Segment]) -> dict[str, int]:
    total: dict[str, int] = {}
    for s in parts:
        total[s.activity] = total.get(s.activity, 0) + s.end - s.start
    return total


def _engine(name: str, activities: Mapping[str, int]) -> EngineFigures:
    stalls = {a: n for a, n in sorted(activities.items()) if a not in ("busy", "idle")}
    return EngineFigures(
        engine=name,
        busy_cycles=activities.get("busy", 0),
        stalled_cycles=stalls,
        idle_cycles=activities.get("idle", 0),
    )


def _rounded_up(bound: Bound) -> dict[str, int]:
    return {resource: ceil(cycles) for resource, cycles in sorted(bound.items()) if cycles}


def _totals(
    layers: Sequence[LayerFigures], plan: Plan, program: TileProgram, timeline: Timeline, chip: Chip, bound: Bound
) -> Totals:
    cycles = timeline.cycles
    planned = next((layer.cost.chip.sram.size_bytes for layer in plan.layers), 0)  # maybe less than the chip has
    engines = sorted({layer.cost.engine for layer in plan.layers})
    return Totals(
        cycles=cycles,
        bound_cycles=bound_cycles(bound),
        bound_resources=_rounded_up(bound),
        estimate_cycles=sum(x.estimate_cycles for x in layers),
        clock_hz=chip.clock_hz,
        latency_seconds=float(Fraction(cycles, chip.clock_hz)),
        macs=sum(x.macs for x in layers),
        useful_macs=sum(x.useful_macs for x in layers),
        utilization={e: float(round(bound[e] / cycles, 6)) for e in engines},
        dram_read_bytes=sum(x.dram_read_bytes for x in layers),
        dram_write_bytes=sum(x.dram_write_bytes for x in layers),
        sram_peak_bytes=peak_bytes(program, timeline, planned),
        sram_bytes=chip.sram.size_bytes,
        commands=len(program),
        overflow_events=sum(x.overflow_events for x in layers),
        energy_femtojoules=_summed(layers, chip),
        area_square_micrometres=area(chip),
    )

"""Why MAC arrays fall short of their peak: every cycle of their multipliers, by what it went to."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from npusim.hardware import Chip
from npusim.hardware.units.mac_array import MacArray
from npusim.mapping.plan import Plan
from npusim.program.program import Queue
from npusim.report.result import Report
from npusim.report.text import Cause

SHARES: Mapping[str, Cause] = {
    "useful": Cause("useful", "multiplications on elements of the image"),
    "padding": Cause("padding", "multiplications on padding"),
    "edges": Cause("edges", "multipliers left over beside these: edges of tiles, loops shorter than the array"),
    "fill_drain": Cause("fill/drain", "skew, pipelines, operands that come to stay in the array"),
    "output_path": Cause("output path", "what a slower output pipeline adds to the streams"),
    "sram_port": Cause("SRAM port", "what a slower SRAM port, or another's turn on it, adds to the streams"),
    "dram": Cause("DRAM", "the array waits for a load or a store"),
    "dependency": Cause("dependency", "the array waits for a result of another computation"),
    "control": Cause("control", "launches, and overhead of commands"),
    "other_units": Cause("other units", "the array waits or rests while a layer of another unit, such as vector, ends"),
    "idle_instances": Cause("idle arrays", "a layer has no tile for the array"),
    "last_results": Cause("last results", "the array is done; the last results come elsewhere or go to DRAM"),
}
"""What a multiplier's cycle can go to, in the order in which it is shown: useful work first, then the losses."""

_SHARE_OF_STALL = {
    "load": "dram",
    "store": "dram",
    "dram_bus": "dram",
    "compute": "dependency",
    "launch": "control",
    "sram_port": "sram_port",
    "reload": "fill_drain",
}


def losses(report: Report, plan: Plan, chip: Chip) -> dict[str, Fraction]:
    """The share of all multiplier-cycles of a run for each of SHARES; together exactly 1.

    A multiplier-cycle is one multiplier for one cycle; a run has cycles x instances x multipliers of every MAC array,
    at the peak rate of what each layer's element types allow. ``plan`` and ``chip`` are those of the run. Empty for a
    run without cycles and for a chip without MAC arrays.
    """
    arrays = [u for u in chip.units if isinstance(u, MacArray)]
    budget = report.totals.cycles * sum(u.instances * u.array.macs for u in arrays)
    if not budget:
        return {}
    total = dict.fromkeys(SHARES, Fraction(0))
    for unit in arrays:
        for share, cycles in _cycles(report, plan, unit).items():
            total[share] += cycles * unit.array.macs / budget
    return total


def _cycles(report: Report, plan: Plan, unit: MacArray) -> dict[str, Fraction]:
    """Cycles of all instances of an array by share: those at work layer by layer, the others window by window."""
    total = dict.fromkeys(SHARES, Fraction(0))
    instances = [str(Queue(unit.label, i)) for i in range(unit.instances)]
    for layer, planned in zip(report.layers, plan.layers, strict=True):
        own = layer.engine == unit.label
        if own:
            numerator, denominator = unit.peak_per_cycle(planned.cost.task)
            done, useful = (Fraction(n * denominator, numerator) for n in (layer.macs, layer.useful_macs))
            for part, cycles in layer.compute_cycles_by_part.items():
                if part != "stream":
                    total[part] += cycles
            total["useful"] += useful
            total["padding"] += done - useful
            total["edges"] += layer.compute_cycles_by_part.get("stream", 0) - done
        found = {e.engine: e for e in layer.engines}
        for name in instances:
            engine = found.get(name)
            if engine is None:
                total["idle_instances" if own else "other_units"] += layer.cycles
                continue
            for stall, cycles in engine.stalled_cycles.items():
                total[_SHARE_OF_STALL[stall] if own else "other_units"] += cycles
            total["last_results" if own else "other_units"] += engine.idle_cycles
    return total

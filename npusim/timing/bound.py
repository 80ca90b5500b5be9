"""The analytic twin: in closed form, the fewest cycles in which a layer or a run can be done, by resource."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil

from npusim.hardware import Chip
from npusim.ir.taps import dense_points, elements_touched
from npusim.ir.tensor import TensorType
from npusim.mapping.cost import RegionCost
from npusim.numerics.types import ceil_div
from npusim.program.program import Compute, Load, TileProgram
from npusim.timing.costs import ComputeCost, DmaCost

Bound = Mapping[str, Fraction]
"""The fewest cycles of each resource: an engine by its name, ``dram`` (or ``dram_read`` and ``dram_write`` where writes
have a channel of their own), ``host_link``."""


def bound_cycles(bound: Bound) -> int:
    """The fewest cycles of all: resources may work side by side, but none faster than its peak."""
    return ceil(max(bound.values(), default=0))


def run_bound(layers: Iterable[Bound]) -> Bound:
    """The bound of a run: each resource does the work of all layers, one after the other."""
    total: dict[str, Fraction] = {}
    for bound in layers:
        for resource, cycles in bound.items():
            total[resource] = total.get(resource, Fraction(0)) + cycles
    return total


def layer_bounds(
    program: TileProgram, regions: Sequence[RegionCost], chip: Chip, costs: Sequence[ComputeCost | DmaCost]
) -> list[Bound]:
    """The bound of each layer, from the start of its first command to the finish of its last.

    Engine: points / (peak points a cycle x instances), summed over the operators that it runs. DRAM and host link:
    bytes / bytes a cycle, where the bytes of a value that moves are its elements that the layer touches, packed, each
    once. No tiling with the same feature maps in SRAM needs less; bursts, reading again, edge tiles, latencies, fill
    and drain come on top in the simulation. This is the roofline of Williams, Waterman and Patterson (CACM 52(4), 2009)
    with a roof for every resource.
    """
    moved: list[Counter[tuple[str, bool]]] = [Counter() for _ in regions]
    values: list[dict[tuple[str, bool], set[str]]] = [{} for _ in regions]
    for c in program:
        cost = costs[c.id]
        if isinstance(c, Compute) or not isinstance(cost, DmaCost) or cost.preloaded:
            continue
        loads = isinstance(c, Load)
        key = "host_link" if cost.host else "dram", loads
        moved[c.layer][key] += cost.bytes_moved
        refs = c.parts if isinstance(c, Load) else (c.ref,)
        values[c.layer].setdefault(key, set()).update(program.slots[ref.slot].value for ref in refs)
    bounds: list[Bound] = []
    for region, done, names in zip(regions, moved, values, strict=True):
        bound = {region.engine: _compute(region)}
        for (link, loads), nbytes in done.items():
            # A value of which a part is in SRAM already moves less than its touched elements.
            fewest = min(nbytes, sum(_fewest_bytes(region, v, loads) for v in names[link, loads]))
            resource, rate = _channel(chip, link, loads)
            bound[resource] = bound.get(resource, Fraction(0)) + fewest / rate
        bounds.append(bound)
    return bounds


def _compute(region: RegionCost) -> Fraction:
    """Cycles of the points of a layer at its unit's peak; on the vector unit, those of every operator."""
    tasks = [region.task, *region.tail_tasks] if region.on_vector else [region.task]
    cycles = Fraction(0)
    for task in tasks:
        numerator, denominator = region.unit.peak_per_cycle(task)
        cycles += Fraction(dense_points(task.work) * denominator, numerator)
    return cycles / region.unit.instances


def _fewest_bytes(region: RegionCost, value: str, loads: bool) -> int:
    """Bytes of the elements of a value that the layer must load, or of its output; 0 of what is neither."""
    if not loads:
        return _packed(region.output.size, region.output)
    reads = [x for x in region.region.inputs if x.value == value]
    touched = (_packed(elements_touched(region.work, x.access, x.type.shape), x.type) for x in reads)
    return max(touched, default=0)


def _packed(elements: int, tensor: TensorType) -> int:
    return int(ceil_div(elements * tensor.dtype.bits, 8))


def _channel(chip: Chip, link: str, loads: bool) -> tuple[str, Fraction]:
    """The resource that moves bytes, and its bytes a cycle."""
    if link == "host_link":
        assert chip.host_link is not None, "only a chip with a host link moves bytes over it"
        return link, Fraction(chip.host_link.bytes_per_cycle)
    write = chip.dram.write_channel
    if write is None:
        return "dram", Fraction(chip.dram.bytes_per_cycle)
    return (
        ("dram_read", Fraction(chip.dram.bytes_per_cycle))
        if loads
        else (
            "dram_write",
            Fraction(write.bytes_per_cycle),
        )
    )

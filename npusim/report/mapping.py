"""A chosen mapping as people read it, a loop nest per layer, and as YAML that can be given back to a workload."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.config import dump
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.plan import LayerPlan, Plan
from npusim.numerics.types import ceil_div


def mapping_of(plan: Plan, switches: MappingOptions) -> MappingOptions:
    """``switches`` with every layer's tile, order, buffers, unit and residency stated as they were chosen.

    An unrolling is stated where it was stated before.
    """
    layers = {p.region.name: _layer(p) for p in plan.layers}
    return MappingOptions(
        fuse=switches.fuse,
        residency=switches.residency,
        prefetch=switches.prefetch,
        buffers=switches.buffers,
        candidates=switches.candidates,
        smaller_memories=False,
        layers=layers,
    )


def mapping_yaml(plan: Plan, switches: MappingOptions) -> str:
    """The mapping as the value of a workload's ``mapping:`` key; given back, it makes the same program."""
    return dump(mapping_of(plan, switches))


def _layer(plan: LayerPlan) -> LayerOptions:
    dims, order = plan.region.work.dims, list(plan.mapping.order)
    while order and dims[order[-1]].reduce:
        order.pop()  # innermost, where reductions are anyway
    return LayerOptions(
        tile={d.name: t for d, t in zip(dims, plan.mapping.tile, strict=True)},
        order=tuple(dims[i].name for i in order),
        buffers=plan.mapping.buffers,
        reload=plan.mapping.reload,
        unit=plan.cost.engine,
        unrolling=plan.cost.task.unrolling,
        resident=plan.output_resident,
    )


def loop_nest(plan: LayerPlan) -> str:
    """The loops of one layer, outermost first: those over tiles, what each operand does there, the tile itself.

    The first line says by which unrolling the unit does a whole tile.
    """
    region, mapping = plan.region, plan.mapping
    dims = region.work.dims
    trips = [int(ceil_div(d.extent, t)) for d, t in zip(dims, mapping.tile, strict=True)]
    space = plan.cost.unit.unrolling(plan.cost.task, mapping.tile)
    by = f", by {space}" if space else ""
    lines = [f"{region.name}: {' + '.join(m.op.name for m in region.members)} -> {region.output_type}{by}"]
    depth = 1
    for i in mapping.order:
        if trips[i] > 1:
            kind = "sums over" if dims[i].reduce else "for"
            step = f"{dims[i].name} in 0..{dims[i].extent} step {mapping.tile[i]}"
            lines.append("  " * depth + f"{kind} {step}  # {trips[i]} tiles")
            depth += 1
    inner = ", ".join(f"{d.name} {t}" for d, t in zip(dims, mapping.tile, strict=True))
    lines.append("  " * depth + f"{plan.cost.engine}: {inner}")
    for x, slots, stays in zip(region.inputs, plan.input_slots, plan.resident, strict=True):
        anew = ", anew for every tile" if mapping.reload else ""
        where = "stays in SRAM" if stays else f"loaded from DRAM into {_slots(slots)}{anew}"
        lines.append(f"    {x.value}: {where}")
    kept = "stays in SRAM" if plan.output_resident else f"written to {_slots(plan.output_slots)}"
    stored = ", stored to DRAM" if plan.store_output else ""
    sums = f"; partial sums in {_slots(plan.accumulator_slots)}" if plan.accumulator_slots else ""
    lines.append(f"    {region.output}: {kept}{stored}{sums}")
    return "\n".join(lines)


def _slots(offsets: Sequence[int]) -> str:
    return f"{len(offsets)} slot{'s' if len(offsets) != 1 else ''}"

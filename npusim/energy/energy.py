"""Counts what the commands of a program do, and prices it by the chip's energy table; and sums up the chip's area."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import assert_never

from npusim.errors import InputError
from npusim.hardware import Chip, product
from npusim.hardware.energy_table import COMPONENTS, ActionEnergies, entry_key
from npusim.hardware.units.mac_array import MacArray
from npusim.hardware.units.popcount import PopcountUnit
from npusim.hardware.units.vector import VectorUnit
from npusim.mapping.cost import RegionCost, region_costs
from npusim.numerics.types import ceil_div
from npusim.program.program import Compute, Load, TileProgram
from npusim.timing.costs import ComputeCost, DmaCost

Actions = Mapping[str, int]
"""How often each action is done, by its name in the energy table; 0 where it is not there."""


def layer_energy(
    program: TileProgram, chip: Chip, costs: Sequence[ComputeCost | DmaCost]
) -> tuple[dict[str, int], ...] | None:
    """Femtojoules of each layer by component, leakage aside, which depends on time; None for a chip without a table.

    InputError naming every action, that of a cycle included, that the program takes and the table has no entry for.
    """
    table = chip.energy.femtojoules if chip.energy else None
    if table is None:
        return None
    counted = layer_actions(program, chip, costs)
    missing: dict[str, str] = {}
    for region, actions in zip(program.regions, counted, strict=True):
        for action in (*(a for a, n in actions.items() if n), "cycle"):
            if table.entry(action) is None:
                missing.setdefault(entry_key(action), region.name)
    if missing:
        raise InputError([
            f"layer {layer!r}: chip {chip.name!r} states energies, but not that of what this layer does: add {key} "
            "(0 if it is meant to be free), or set energy: null"
            for key, layer in missing.items()
        ])  # fmt: skip
    return tuple(priced(actions, table) for actions in counted)


def priced(actions: Actions, table: ActionEnergies) -> dict[str, int]:
    """Femtojoules by component, in the order of COMPONENTS; components that did nothing are left out."""
    spent: dict[str, int] = {}
    for action, count in actions.items():
        if count:
            each = table.entry(action)
            assert each is not None, "layer_energy() refuses what has no entry"
            component = COMPONENTS[action.partition(".")[0]]
            spent[component] = spent.get(component, 0) + count * each
    return {c: spent[c] for c in dict.fromkeys(COMPONENTS.values()) if c in spent}


def layer_actions(program: TileProgram, chip: Chip, costs: Sequence[ComputeCost | DmaCost]) -> tuple[Actions, ...]:
    """What the commands of each layer do, cycles aside; ``costs`` are those of the timing model, a command each.

    Multiplications count on padding as well, SRAM bytes in whole words of a bank and operands as often as the unit
    reads them (the traffic that holds its port), DRAM bytes in whole bursts. What was loaded before the run is not
    counted.
    """
    regions = region_costs(program, chip)
    counted: list[Counter[str]] = [Counter() for _ in program.regions]
    boxes: Counter[tuple[int, tuple[int, ...], bool, bool]] = Counter()
    parts: Counter[tuple[int, bool, int, tuple[int, ...]]] = Counter()
    for c, cost in zip(program, costs, strict=True):
        if isinstance(c, Compute):
            boxes[c.layer, c.box.shape, c.first, c.last] += 1
            continue
        assert isinstance(cost, DmaCost), "transfers have costs of transfers"
        if cost.preloaded:
            continue
        counted[c.layer]["host_byte" if cost.host else "dram_byte"] += cost.bytes_moved
        if isinstance(c, Load):
            parts.update((c.layer, True, part.slot, part.box.shape) for part in c.parts)
        elif not regions[c.layer].streamed_bytes:
            parts[c.layer, False, c.ref.slot, c.ref.box.shape] += 1
    for (layer, extents, first, last), times in boxes.items():  # boxes of equal extents do equal things
        for action, n in box_actions(regions[layer], extents, first, last).items():
            counted[layer][action] += times * n
    word = _word_bytes(chip)
    for (layer, load, number, box), times in parts.items():
        slot = program.slots[number]
        words = int(chip.sram.bank_words(program.graph.types[slot.value].shape, box, slot.dtype.bits))
        counted[layer]["sram_write_byte" if load else "sram_read_byte"] += times * words * word
    return tuple(counted)


def box_actions(region: RegionCost, extents: Sequence[int], first: bool, last: bool) -> dict[str, int]:
    """What one box of a region does in its unit, in the output pipeline and through its SRAM port."""
    counts: Counter[str] = Counter(region.unit.actions(region.task, extents))
    out = region.output_shape(extents)
    if region.on_vector and last:
        for task, axes in zip(region.tail_tasks, region.region.own_dims[1:], strict=True):
            counts.update(region.unit.actions(task, [out[a] for a in axes]))
    elif last:
        counts["output_element"] += product(out)
    if region.accumulator_bytes:
        sums = ceil_div(product(out) * region.accumulator.bits, 8)
        counts["accumulator_byte"] += sums * ((not first) + (not last))
    read, written = region.port_words(extents, first, last)
    word = _word_bytes(region.chip)
    counts.update(sram_read_byte=read * word, sram_write_byte=written * word)
    return {action: int(n) for action, n in counts.items()}


def area(chip: Chip) -> dict[str, int] | None:
    """Square micrometres by part; None for a chip that does not state them."""
    table = chip.energy.square_micrometres if chip.energy else None
    if table is None:
        return None
    total = dict.fromkeys(("mac", "popcount", "vector"), 0)
    memory = chip.sram.size_bytes
    for unit in chip.units:
        if isinstance(unit, MacArray):
            total["mac"] += unit.instances * unit.array.macs * table.multiplier
            memory += unit.instances * unit.accumulator_bytes
        elif isinstance(unit, PopcountUnit):
            bits = unit.instances * unit.lanes * unit.word_bits
            total["popcount"] += bits * table.popcount_bit
        elif isinstance(unit, VectorUnit):
            total["vector"] += unit.instances * unit.lanes * table.lane
        else:
            assert_never(unit)
    return {**total, "sram": memory * table.sram_byte}


def _word_bytes(chip: Chip) -> int:
    return chip.sram.bytes_per_cycle // chip.sram.banks

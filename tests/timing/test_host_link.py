"""A host link: graph inputs and outputs go over it, constants and what layers hand on over the DRAM's bus."""

from __future__ import annotations

import pytest

from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.mapper import map_graph
from npusim.program import Compute, Load, TileProgram
from npusim.timing import simulate
from npusim.timing.costs import DmaCost, command_costs
from tests.plain import chain, matmul, plain_chip

LINK = "host_link={bytes_per_cycle: 1/2, latency_cycles: 30}"


def whole(chip: Chip) -> TileProgram:
    """[4, 4] times a constant [4, 4] in one tile."""
    options = MappingOptions(layers={"mm": LayerOptions(tile={"h": 4, "w": 4, "c": 4})})
    return map_graph(matmul(4, 4, 4), chip, options).program


def test_inputs_and_outputs_take_the_link_and_constants_the_bus() -> None:
    """16 bytes in and 64 out at half a byte a cycle, 30 cycles late; 16 bytes of weights at one a cycle beside them."""
    chip = plain_chip(LINK)
    p = whole(chip)
    found = {}
    for c, s in zip(p, simulate(p, chip), strict=True):
        found[p.slots[c.parts[0].slot].value if isinstance(c, Load) else type(c).__name__] = s.start, s.finish
    assert found == {"a": (0, 30 + 32), "b": (0, 16), "Compute": (62, 62 + 64), "Store": (126, 126 + 30 + 128)}


def test_without_a_link_all_share_the_bus() -> None:
    chip = plain_chip()
    p = whole(chip)
    assert not any(c.host for c in command_costs(p, chip) if isinstance(c, DmaCost))
    assert simulate(p, chip).cycles == 16 + 16 + 64 + 64


@pytest.mark.parametrize("residency", [True, False])
def test_what_layers_hand_on_stays_on_the_chips_side(residency: bool) -> None:
    chip = plain_chip(LINK)
    graph = chain(2)
    p = map_graph(graph, chip, MappingOptions(residency=residency)).program
    over = {
        p.slots[ref.slot].value
        for c, cost in zip(p, command_costs(p, chip), strict=True)
        if isinstance(cost, DmaCost) and cost.host and not isinstance(c, Compute)
        for ref in (c.parts if isinstance(c, Load) else (c.ref,))
    }
    assert over == {*graph.inputs, *graph.outputs}

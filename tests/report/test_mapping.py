"""A mapping printed and given back."""

from __future__ import annotations

from dataclasses import replace

import npusim
from npusim.config import load_text
from npusim.ir.mapping_options import MappingOptions
from npusim.report.mapping import loop_nest, mapping_yaml
from tests.properties.chains import convolution_chain, small_chip


def test_a_mapping_given_back_makes_the_same_program() -> None:
    graph, chip = convolution_chain(0, layers=3), small_chip(8192)
    for switches in (MappingOptions(), MappingOptions(residency=False, buffers=1), MappingOptions(fuse=False)):
        first = npusim.run(graph, chip, bits="off", mapping=switches)
        back = load_text(mapping_yaml(first.plan, switches), MappingOptions, "mapping")
        second = npusim.run(graph, chip, bits="off", mapping=back)
        assert second.program.commands == first.program.commands
        assert second.report.totals == first.report.totals
        assert replace(back, layers={}) == switches


def test_a_loop_nest_names_tiles_slots_and_what_stays() -> None:
    chip = small_chip(8192)
    layers = {"conv0": {"tile": {"oy": 3, "ic": 8}, "order": ["oy"], "buffers": 2, "resident": True}}
    options = load_text(f"layers: {layers}", MappingOptions, "mapping")
    result = npusim.run(convolution_chain(0), chip, bits="off", mapping=options)
    first, second = (loop_nest(p) for p in result.plan.layers)
    assert first.splitlines()[:3] == [
        "conv0: conv2d + rescale -> 1x12x12x16xi8",
        "  for oy in 0..12 step 3  # 4 tiles",
        "    sums over ic in 0..16 step 8  # 2 tiles",
    ]
    assert "    x: loaded from DRAM into 2 slots" in first
    assert "    y0: stays in SRAM; partial sums in 1 slot" in first
    assert "    y0: stays in SRAM" in second and ", stored to DRAM" in second

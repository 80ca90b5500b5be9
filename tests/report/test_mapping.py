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
        assert replace(back, layers={}) == replace(switches, smaller_memories=False)


def test_orders_with_reductions_outside_and_reloads_are_given_back() -> None:
    graph, chip = convolution_chain(0, layers=1), small_chip(16384)
    layers = {"conv0": {"tile": {"oy": 4, "ox": 12, "ic": 8, "ky": 1}, "order": ["ic", "oy", "ky"], "reload": True}}
    switches = load_text(f"layers: {layers}", MappingOptions, "mapping")
    first = npusim.run(graph, chip, bits="off", mapping=switches)
    back = load_text(mapping_yaml(first.plan, switches), MappingOptions, "mapping")
    (order,) = (tuple(layer.order or ()) for layer in back.layers.values())
    assert (order, back.layers["conv0"].reload) == (("ic", "oy", "ky", "n", "ox", "oc"), True)
    assert npusim.run(graph, chip, bits="off", mapping=back).program.commands == first.program.commands
    nest = loop_nest(first.plan.layers[0])
    assert nest.splitlines()[1:4] == [
        "  sums over ic in 0..16 step 8  # 2 tiles",
        "    for oy in 0..12 step 4  # 3 tiles",
        "      sums over ky in 0..3 step 1  # 3 tiles",
    ]
    assert "x: loaded from DRAM into 2 slots, anew for every tile" in nest
    assert "; partial sums in 3 slots" in nest


def test_a_loop_nest_names_tiles_slots_and_what_stays() -> None:
    chip = small_chip(8192)
    layers = {"conv0": {"tile": {"oy": 3, "ic": 8}, "order": ["oy"], "buffers": 2, "resident": True}}
    options = load_text(f"layers: {layers}", MappingOptions, "mapping")
    result = npusim.run(convolution_chain(0), chip, bits="off", mapping=options)
    first, second = (loop_nest(p) for p in result.plan.layers)
    assert first.splitlines()[:3] == [
        "conv0: conv2d + rescale -> 1x12x12x16xi8, by out_channel 8 x in_channel 8",
        "  for oy in 0..12 step 3  # 4 tiles",
        "    sums over ic in 0..16 step 8  # 2 tiles",
    ]
    assert "    x: loaded from DRAM into 2 slots" in first
    assert "    y0: stays in SRAM; partial sums in 1 slot" in first
    assert "    y0: stays in SRAM" in second and ", stored to DRAM" in second

"""Bytes of SRAM in use: against a count in every cycle."""

from __future__ import annotations

from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.mapper import map_graph
from npusim.report.occupancy import most_at_once, peak_bytes, slots_in_use
from npusim.timing import simulate
from tests.plain import chain, matmul, plain_chip


def test_the_peak_is_that_of_the_fullest_cycle() -> None:
    tiles = {"mm": LayerOptions(tile={"h": 2, "w": 3, "c": 4}, buffers=2)}
    for graph, options in ((chain(3), MappingOptions()), (matmul(6, 8, 6), MappingOptions(layers=tiles))):
        chip = plain_chip()
        program = map_graph(graph, chip, options).program
        timeline = simulate(program, chip)
        used = slots_in_use(program, timeline)
        by_cycle = [sum(s.nbytes for s, lo, hi in used if lo <= t < hi) for t in range(timeline.cycles)]
        assert peak_bytes(program, timeline, chip.sram.size_bytes) == max(by_cycle) <= chip.sram.size_bytes
        assert peak_bytes(program, timeline, 0) == 0


def test_memories_of_units_are_not_sram() -> None:
    """Partial sums in the array's own memory."""
    tiles = MappingOptions(layers={"mm": LayerOptions(tile={"h": 4, "w": 4, "c": 2}, buffers=1)})
    peaks = []
    for own in (0, 1024):
        chip = plain_chip(f"units.0.accumulator_bytes={own}")
        program = map_graph(matmul(4, 4, 4), chip, tiles).program
        peaks.append(peak_bytes(program, simulate(program, chip), chip.sram.size_bytes))
    assert peaks[0] - peaks[1] == 4 * 4 * 4


def test_what_goes_out_of_use_makes_room_for_what_comes_in_the_same_cycle() -> None:
    assert most_at_once([(0, 5), (3, -5), (3, 7), (9, -7)]) == 7
    assert most_at_once([]) == 0

"""Memories that are shared: layouts that do not fill the banks, and clients of one port."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from npusim.frontends.chip import load_chip
from npusim.graph import Graph
from npusim.hardware import Chip
from npusim.hardware.memory import Sram
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.report.files import csv_text
from npusim.session import Job, RunResult, run
from tests.plain import conv, matmul, plain_chip


def result_of(graph: Graph, chip: Chip, **layers: LayerOptions) -> RunResult:
    inputs = {v: np.zeros(graph.types[v].shape, graph.types[v].dtype.storage) for v in graph.data_inputs}
    mapping = MappingOptions(layers=layers, smaller_memories=False)
    return run(Job(graph=graph, chip=chip, inputs=inputs, mapping=mapping, bits="off"))


WIDE = "units.0.array.unrollings=[{out_channel: 8, in_channel: 16, row: 4}]"
"""So many multipliers that the SRAM port sets the cycles."""
TILE = LayerOptions(tile={"h": 8, "w": 5, "c": 6}, buffers=1)


def banked(banks: int) -> Chip:
    return plain_chip(WIDE, "sram.bytes_per_cycle=16", f"sram.banks={banks}")


def words(nbytes: int, word: int) -> int:
    return -(-nbytes // word)


@pytest.mark.parametrize("banks", [1, 2, 4, 8, 16])
def test_cycles_lost_to_banks_are_shown(banks: int) -> None:
    """Does the layout in the banks matter, and can one see what it costs? Cycles with real banks less ideal ones.

    [8, 12] times [12, 10] in 2 x 2 tiles: rows of 6, 5 and 5 sums of 4 bytes lie apart in their tensors, and each takes
    whole words of 16 / banks bytes. With banks of a byte (the model off) nothing is lost.
    """
    (layer,) = result_of(matmul(8, 12, 10), banked(banks), mm=TILE).report.layers
    lost = 0
    for first in (True, False):
        for word, sign in ((16 // banks, 1), (1, -1)):
            a, b, sums = 8 * words(6, word), 6 * words(5, word), 8 * words(20, word)
            lost += sign * 2 * words((a + b + (1 if first else 2) * sums) * word, 16)
    assert layer.bank_conflict_cycles == lost
    assert (lost == 0) == (banks == 16)


def test_banks_that_fit_make_a_layer_faster_by_what_they_save() -> None:
    """Is a layer that the port holds up slower for it? By just the cycles that the report shows."""
    one, none = (result_of(matmul(8, 12, 10), banked(banks), mm=TILE).report for banks in (1, 16))
    (slow,), (fast,) = one.layers, none.layers
    assert slow.compute_cycles_by_part["sram_port"] > 0
    assert slow.compute_cycles - fast.compute_cycles == slow.bank_conflict_cycles > 0
    assert fast.bank_conflict_cycles == 0
    assert one.totals.cycles > none.totals.cycles


def test_conflicts_are_in_the_table_of_layers() -> None:
    """Where are they shown? In report.json and in a column of layers.csv."""
    result = result_of(conv(9, 5, 7), load_chip("micro"))
    (row,) = csv.DictReader(io.StringIO(csv_text(result.report), newline=""))
    assert int(row["bank_conflict_cycles"]) == result.report.layers[0].bank_conflict_cycles > 0


def test_words_of_a_bank_by_hand() -> None:
    """What is a conflict? Three runs of 5 bytes take two words of 4 each, and waste three bytes of the second."""
    sram: Sram = plain_chip("sram.bytes_per_cycle=16", "sram.banks=4").sram
    assert sram.bank_words((8, 12), (3, 5), 8) == 3 * 2


@pytest.mark.parametrize(("ports", "shared"), [(1, True), (3, False)])
def test_a_mapped_network_waits_where_units_share_a_port(ports: int, shared: bool) -> None:
    """Do two clients of one port take the sum of their times? In a network, too, waits appear and vanish with ports."""
    slow = ("sram.bytes_per_cycle=4", "sram.banks=4", "output_pipeline.operators=[]")
    graph = conv(10, 8, 8)
    report = result_of(graph, plain_chip(WIDE, *slow, f"sram.ports={ports}", "dram.bytes_per_cycle=4")).report
    waited = sum(e.stalled_cycles.get("sram_port", 0) for e in report.engines)
    assert (waited > 0) == shared

"""Queues between streaming units: which tiles wait for whom, cycles on paper, and what is too small."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from npusim.errors import InputError
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.hardware.units.popcount import PopcountUnit
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I32, U1
from npusim.ops import make_op
from npusim.program import Compute, TileProgram
from npusim.timing import simulate
from npusim.timing.fifos import rooms
from tests.plain import plain_chip


def products(images: int, layers: int = 2) -> Graph:
    """Fully connected layers of 64 bits, without thresholds behind the last."""
    b = GraphBuilder("products")
    b.input("x", TensorType((images, 64), U1))
    value = "x"
    for i in range(layers):
        b.constant(f"w{i}", TensorType((64, 64), U1), np.zeros((64, 64), np.uint8))
        operands = [value, f"w{i}"]
        if i + 1 < layers:
            b.constant(f"t{i}", TensorType((64,), I32), np.zeros((64,), np.int32))
            operands.append(f"t{i}")
        b.node(f"l{i}", make_op("binary_fully_connected", {}), tuple(operands), f"y{i}")
        value = f"y{i}"
    return b.finish((value,))


def chip(*fifos: int | None, lanes: int = 8, size: str = "128 KiB") -> Chip:
    """A unit a layer; 64 outputs of 64 bits take 64 / lanes cycles."""
    free = ("dram.bytes_per_cycle=4096", "dram.write_channel={bytes_per_cycle: 4096, latency_cycles: 0}")
    found = plain_chip("sram.preloaded_constants=true", f"sram.size_bytes={size}", *free)
    unit = found.units[1]
    assert isinstance(unit, PopcountUnit)
    units = [
        dataclasses.replace(unit, name=f"u{i}", lanes=lanes, word_bits=64, pipeline_cycles=0, fifo_elements=n)  # type: ignore[call-arg]
        for i, n in enumerate(fifos)
    ]
    return dataclasses.replace(found, units=(*units, found.units[2]))  # type: ignore[call-arg]


def mapped(images: int, on: Chip, channels: int = 64, layers: int = 2) -> TileProgram:
    tile = {"n": 1, "oc": channels, "ic": 64}
    options = {
        f"l{i}": LayerOptions(tile=tile, order=("n", "oc"), unit=f"u{i}", buffers=2, resident=i + 1 < layers or None)
        for i in range(layers)
    }
    return map_graph(products(images, layers), on, MappingOptions(layers=options)).program


def test_without_limits_nothing_waits() -> None:
    assert rooms(mapped(3, chip(None, None)), chip(None, None)) == {}
    assert rooms(mapped(3, chip(999, None)), chip(999, None)) == {}  # never full


def test_who_waits_for_whom() -> None:
    """Tiles of half an image, a queue of half an image, and an image in the reader: tile k waits for the readers of
    tile k - 3, that is, the second half of image i for the reading of image i - 1."""
    on = chip(32, None)
    program = mapped(4, on, channels=32)
    tiles, readers = ([c.id for c in program if isinstance(c, Compute) and c.layer == k] for k in (0, 1))
    assert len(tiles) == len(readers) == 8
    last = [readers[2 * i + 1] for i in range(4)]  # an image has been read when its second half has been computed
    found = rooms(program, on)
    assert [found.get(t) for t in tiles] == [None, None, None, last[0], last[0], last[1], last[1], last[2]]


def intervals(on: Chip, channels: int) -> int:
    cycles = [simulate(mapped(n, on, channels, 3), on).cycles for n in (4, 5)]
    return cycles[1] - cycles[0]


def test_a_full_queue_holds_back_the_layer_before() -> None:
    """Layers of 8 cycles an image in halves. With room for the other half only, it takes its 4 cycles after the reader
    has finished an image and before that begins the next: 12 cycles an image. With room for an image: 8."""
    assert intervals(chip(32, 32, None), 32) == 12
    assert intervals(chip(64, 64, None), 32) == 8
    assert intervals(chip(None, None, None), 32) == 8


def test_a_queue_smaller_than_a_tile_holds_one() -> None:
    assert intervals(chip(1, 1, None), 64) == intervals(chip(64, 64, None), 64) == 8


def test_streaming_through_too_little_memory_is_an_error() -> None:
    """Weights of a later layer would take the place of those that an earlier one needs until its last image."""
    small = chip(32, 32, 32, 32, None, size="3000")
    with pytest.raises(
        InputError, match=r"fifo_elements\) wait for each other's bytes of SRAM; enlarge sram.size_bytes"
    ):
        simulate(mapped(40, small, 32, 5), small)

"""Small graphs, and chips so plain that their cycles can be worked out on paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I32
from npusim.ops import op_class
from npusim.program import Command, Compute, Load, Queue, Ref, Slot, Store, TileProgram


def sram_rate(bytes_per_cycle: int) -> tuple[str, str]:
    """Overrides that make every port of the SRAM so fast, in banks of one byte, so that runs of bytes waste nothing."""
    return f"sram.bytes_per_cycle={bytes_per_cycle}", f"sram.banks={bytes_per_cycle}"


PLAIN = (
    "units.0.array.unrollings=[{out_channel: 1}]", "units.0.macs_per_cycle={i8xi8: 1}", "units.0.pipeline_cycles=0",
    "units.2.lanes=1", "units.2.startup_cycles=0",
    "output_pipeline.elements_per_cycle=4096", "output_pipeline.latency_cycles=0",
    "sram.ports=3", *sram_rate(65536), "sram.granule_bytes=1", "sram.channel_granule=1",
    "dma.channels=3", "dma.bytes_per_cycle=4096", "dma.setup_cycles=0",
    "dram.bytes_per_cycle=1", "dram.latency_cycles=0", "dram.burst_bytes=1", "dram.turnaround_cycles=0",
)  # fmt: skip


def plain_chip(*overrides: str) -> Chip:
    """One multiplication and one DRAM byte a cycle, all else free: no set-up, latency, bursts or granules; 3 ports."""
    return load_chip("micro", [*PLAIN, *overrides])


def matmul(h: int, c: int, w: int, seed: int = 0) -> Graph:
    """``mm``: an int8 input a [1, h, c] times a constant b [1, c, w], int32 out."""
    b = GraphBuilder("matmul")
    rng = np.random.default_rng(seed)
    b.input("a", TensorType((1, h, c), I8))
    b.constant("b", TensorType((1, c, w), I8), rng.integers(-128, 128, (1, c, w), np.int8))
    b.node("mm", op_class("matmul")(), ("a", "b"), "y")
    return b.finish(("y",))


def conv(
    size: int, channels: int, out: int, kernel: int = 3, pad: int = 1, batch: int = 1, rescaled: bool = True
) -> Graph:
    """``conv``: an int8 image [batch, size, size, channels] under a square kernel, rescaled to int8 unless raw."""
    b = GraphBuilder("conv")
    rng = np.random.default_rng(0)
    b.input("x", TensorType((batch, size, size, channels), I8))
    shape = (out, kernel, kernel, channels)
    b.constant("w", TensorType(shape, I8), rng.integers(-128, 128, shape, np.int8))
    b.constant("bias", TensorType((out,), I32), rng.integers(-1000, 1000, (out,), np.int32))
    convolution = op_class("conv2d")(pad=(pad,) * 4, stride=(1, 1), dilation=(1, 1))
    b.node("conv", convolution, ("x", "w", "bias"), "sums")
    if not rescaled:
        return b.finish(("sums",))
    return b.finish((_rescale(b, "sums", "y"),))


def chain(layers: int, h: int = 8, c: int = 8) -> Graph:
    """``mm0``, ``mm1``, ...: products of a [1, h, c] with constants [1, c, c], each rescaled to int8: y0, y1, ..."""
    b = GraphBuilder("chain")
    rng = np.random.default_rng(1)
    b.input("a", TensorType((1, h, c), I8))
    value = "a"
    for i in range(layers):
        b.constant(f"b{i}", TensorType((1, c, c), I8), rng.integers(-128, 128, (1, c, c), np.int8))
        b.node(f"mm{i}", op_class("matmul")(), (value, f"b{i}"), f"sums{i}")
        value = _rescale(b, f"sums{i}", f"y{i}")
    return b.finish((value,))


def _rescale(b: GraphBuilder, value: str, out: str) -> str:
    b.constant(f"{out}_multiplier", TensorType((1,), I32), np.full((1,), 1 << 30, np.int32))
    b.constant(f"{out}_shift", TensorType((1,), I8), np.full((1,), 38, np.int8))
    rescale = op_class("rescale")(
        scale32=True, rounding="double", per_channel=False, input_unsigned=False, output_unsigned=False, out_type="i8"
    )
    b.node(f"{out}_rescale", rescale, (value, f"{out}_multiplier", f"{out}_shift"), out)
    return out


# -- programs written by hand: what they compute does not matter to who times them ------------------------------------

BOX = Box((0,), (1,))


def load(i: int, channel: int = 0, deps: Sequence[int] = (), layer: int = 0) -> Load:
    """A load."""
    return Load(i, Queue("dma", channel), layer, tuple(deps), (Ref(0, BOX),))


def store(i: int, channel: int = 0, deps: Sequence[int] = (), layer: int = 0) -> Store:
    """A store."""
    return Store(i, Queue("dma", channel), layer, tuple(deps), Ref(0, BOX))


def compute(i: int, engine: str = "mac", instance: int = 0, deps: Sequence[int] = (), layer: int = 0) -> Compute:
    """A compute command."""
    return Compute(i, Queue(engine, instance), layer, tuple(deps), BOX, (), None, Ref(0, BOX), True, True)


def program(*commands: Command, slots: Sequence[Slot] = (), sram_bytes: int = 0) -> TileProgram:
    """These commands, of no particular graph."""
    return TileProgram(matmul(1, 1, 1), (), {}, sram_bytes, tuple(slots), commands)

"""TPU v1: where the cycles of the matrix unit go, for networks built to meet what is published of each application.

Published are the numbers of layers by kind, of weights, the batch, and operations per byte of weights, which is the
number of rows that a weight meets: the batch times the positions of a feature map. So

* fully connected layers are square, of as many features as give the weights, and these are stored in whole tiles
  (section 7: 600 x 600 weights take nine steps of 2 us); after each layer comes its share of the vector layers, which
  multiply elements. All layers form one chain.
* convolutions are over square maps of side sqrt(rows / batch), 19 for CNN0: the Go board. They are shaped like the
  network that the paper names for it (Silver et al., Nature 529, 2016): 5x5 over 48 planes, then 3x3, at last, where no
  fully connected layers follow, 1x1 to one plane; channels as give the weights. Pools are spread between them.
* networks with vector layers have 16-bit activations, as their rates say (table 3: LSTM0 does 3.7 of 92 tera-operations
  while the array is active for 8.2 %, which takes half speed).

A tile is what one MatrixMultiply does: 256 x 256 weights and as many rows as accumulators hold.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]

from npusim.explore.validation import Case, Row
from npusim.frontends.chip import load_chip
from npusim.graph.graph import GraphBuilder
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.cost import RegionCost
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8, I16, I32, I48, DType
from npusim.ops import make_op
from npusim.program import Compute, Queue
from npusim.timing import simulate

SHARES = ("array_active", "weight_stall", "weight_shift", "non_matrix")
TILE, ACCUMULATORS, PLANES, FIFO = 256, 4096, 48, 6  # four tiles in the FIFO, two in the array
WEIGHTS = Queue("dma", 0)


def read(path: Path) -> list[Row]:
    apps = yaml.safe_load(path.read_text(encoding="utf-8"))["apps"]
    return [
        Row(f"{name} {share}", name, app["measured"][f"{share}_pct"], "percent of cycles", {**app, "share": share})
        for name, app in apps.items()
        for share in SHARES
    ]


class Network:
    """A chain of layers under construction, and the tile of each."""

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        self.graph, self.dtype, self.shape = GraphBuilder("app"), dtype, shape
        self.layers: dict[str, LayerOptions] = {}
        self.value = "host"
        self.graph.input("host", TensorType(shape, dtype))
        self.copy("Read_Host_Memory")

    def node(self, name: str, op: str, attributes: dict[str, Any], *operands: str) -> None:
        self.graph.node(name, make_op(op, attributes), (self.value, *operands), f"{name} out")
        self.value = f"{name} out"
        made = self.graph.type_of(self.value)
        assert made is not None
        self.shape = made.shape

    def copy(self, name: str) -> None:
        """An instruction that moves all of a tensor between host and unified buffer."""
        self.node(name, "slice", {"start": [0] * len(self.shape), "size": self.shape})
        self.layers[name] = LayerOptions(tile={f"d{k}": n for k, n in enumerate(self.shape)})

    def constant(self, name: str, shape: tuple[int, ...], dtype: DType) -> str:
        self.graph.constant(name, TensorType(shape, dtype), np.broadcast_to(np.ones((), dtype.storage), shape))
        return name

    def weighted(self, op: str, attributes: dict[str, Any], weights: tuple[int, ...], tile: dict[str, int]) -> None:
        name, wide = f"{op} {len(self.layers)}", self.dtype is I16
        filters = self.constant(f"{name} weights", weights, I8)
        self.node(name, op, attributes, filters, self.constant(f"{name} bias", (1,), I48 if wide else I32))
        self.rescale(name, scale32=not wide)
        self.layers[name] = LayerOptions(tile={"oc": TILE, "ic": TILE, **tile}, buffers=FIFO)

    def rescale(self, name: str, scale32: bool) -> None:
        attributes = {"scale32": scale32, "rounding": "single", "per_channel": False, "out_type": self.dtype.name,
                      "input_unsigned": False, "output_unsigned": False}  # fmt: skip
        multiplier = self.constant(f"{name} multiplier", (1,), I32 if scale32 else I16)
        self.node(f"{name} rescale", "rescale", attributes, multiplier, self.constant(f"{name} shift", (1,), I8))

    def fully_connected(self, features: int) -> None:
        self.weighted("fully_connected", {}, (features, self.shape[-1]), {"n": ACCUMULATORS})

    def convolution(self, channels: int, kernel: int) -> None:
        window = {"pad": [kernel // 2] * 4, "stride": [1, 1], "dilation": [1, 1]}
        _, rows, columns, before = self.shape
        tile = {"n": max(1, ACCUMULATORS // (rows * columns)), "ky": 1, "kx": max(1, min(kernel, TILE // before))}
        self.weighted("conv2d", window, (channels, kernel, kernel, before), tile)

    def pool(self, name: str, kernel: int, pad: int) -> None:
        self.node(name, "max_pool2d", {"kernel": [kernel] * 2, "stride": [1, 1], "pad": [pad] * 4})

    def vector(self, name: str) -> None:
        self.node(name, "mul", {"shift": 0}, self.value)
        self.rescale(name, scale32=True)


def due(done: int, of: int, all_of_others: int) -> range:
    """Which of ``all_of_others`` layers follow layer ``done`` of ``of``, spread evenly."""
    return range(done * all_of_others // of, (done + 1) * all_of_others // of)


def network(fc: int, conv: int, vector: int, pool: int, weights: int, rows: int, batch: int) -> Network:
    """``weights`` in all; ``rows`` of them meet each weight on average."""
    dense = weights * fc // (fc + conv)
    features = -(-isqrt(dense // fc) // TILE) * TILE if fc else 0
    if conv:
        side = isqrt((rows * weights - batch * dense) // (weights - dense) // batch)
        made = Network((batch, side, side, PLANES), I8)
        middle = conv - 1 if fc else conv - 2
        channels = next(c for c in count(1) if 25 * PLANES * c + 9 * middle * c * c >= weights - dense)
        for k in range(conv):
            last = k == conv - 1 and not fc
            made.convolution(1 if last else channels, 1 if last else 3 if k else 5)
            for p in due(k, conv, pool):
                made.pool(f"pool {p}", 3, 1)
        if fc:
            made.pool("global pool", side, 0)
            made.node("flat", "reshape", {"new_shape": (batch, channels)})
    else:
        made = Network((batch, features), I16 if vector else I8)
    for k in range(fc):
        made.fully_connected(features)
        for v in due(k, fc, vector):
            made.vector(f"vector {v}")
    if not vector:  # npusim fuses it with a vector layer
        made.copy("Write_Host_Memory")
    return made


@cache
def shares(*published: int) -> dict[str, float]:
    """Where the cycles of the matrix unit go, in percent, for what is published of an application."""
    made, chip = network(*published), load_chip("tpu_v1")
    program = map_graph(made.graph.finish((made.value,)), chip, MappingOptions(layers=made.layers)).program
    timeline = simulate(program, chip)
    costs = [RegionCost(region, chip) for region in program.regions]
    cycles = dict.fromkeys(SHARES, 0)
    free = 0
    for c, s in zip(program, timeline, strict=True):
        if isinstance(c, Compute) and not costs[c.layer].on_vector:
            cycles["array_active"] += int(costs[c.layer].unit.cycles(costs[c.layer].task, c.box.shape))
            cycles["weight_shift"] += s.reload_wait
            if s.waited_for >= 0 and program.commands[s.waited_for].queue == WEIGHTS:
                cycles["weight_stall"] += s.start - free
            free = s.release
    cycles["non_matrix"] = timeline.cycles - sum(cycles.values())
    return {share: 100 * n / timeline.cycles for share, n in cycles.items()}


def predict(row: Row) -> float:
    app: dict[str, Any] = row.facts
    million, keys = round(app["weights_M"] * 1_000_000), ("fc", "conv", "vector", "pool")
    return shares(*(app[k] for k in keys), million, app["ops_per_weight_byte"], app["batch"])[app["share"]]


CASE = Case(
    name="tpu_v1",
    title="TPU v1, chip, shares of cycles of its applications",
    source="Jouppi et al., ISCA 2017, tables 1 and 3",
    chips=("tpu_v1",),
    rows_file=Path(__file__).with_name("measured.yaml"),
    read=read,
    predict=predict,
    measure="points",
    target=8,
    inferred=("control.layer_cycles",),
    peers=(("Google's own model of the TPU", "8 % of cycles on average (table 7)"),),
)

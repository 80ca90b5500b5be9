"""Random small graphs and chips for property tests: every kind of access, reduction and fusion a real network has."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.hardware.arrays.row_stationary import RowStationary
from npusim.hardware.energy_table import EnergyTable
from npusim.hardware.memory import HostLink
from npusim.hardware.units.mac_array import Systolic
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I16, I32, I48, Array, DType
from npusim.ops import op_class


class _Writer:
    """Appends random operators to a builder, tracking values that later operators may read."""

    def __init__(self, draw: st.DrawFn, seed: int) -> None:
        self.draw, self.rng = draw, np.random.default_rng(seed)
        self.b = GraphBuilder("random")
        self.values: list[str] = []
        self.count = 0

    def int(self, lo: int, hi: int) -> int:
        return self.draw(st.integers(lo, hi))

    def name(self, what: str) -> str:
        self.count += 1
        return f"{what}_{self.count}"

    def type_of(self, v: str) -> TensorType:
        t = self.b.type_of(v)
        assert t is not None, self.b.problems
        return t

    def constant(self, shape: tuple[int, ...], dtype: DType, lo: int, hi: int) -> str:
        name = self.name("k")
        self.b.constant(name, TensorType(shape, dtype), self.rng.integers(lo, hi, shape, dtype.storage, endpoint=True))
        return name

    def add(self, op: str, inputs: tuple[str, ...], **attributes: object) -> str:
        name = self.name(op)
        self.b.node(name, op_class(op)(**attributes), inputs, name)
        assert not self.b.problems, self.b.problems
        return name

    def rescale_to_i8(self, v: str) -> str:
        dtype, c = self.type_of(v).dtype, self.type_of(v).shape[-1]
        per_channel = self.draw(st.booleans())
        n = c if per_channel else 1
        wide = dtype is I48
        m = self.constant((n,), I16 if wide else I32, 1 << (14 if wide else 30), (1 << (15 if wide else 31)) - 1)
        s = self.constant((n,), I8, 33 if not wide else 20, 38 if not wide else 26)
        return self.add(
            "rescale", (v, m, s), scale32=not wide, rounding="single" if wide else "double", per_channel=per_channel,
            input_unsigned=False, output_unsigned=False, input_zp=0, output_zp=self.int(-128, 127), out_type="i8",
        )  # fmt: skip

    def widen(self, v: str) -> str:
        m = self.constant((1,), I32, 1 << 30, 1 << 30)
        s = self.constant((1,), I8, 20, 20)
        zp = self.int(-128, 127) if self.type_of(v).dtype is I8 else 0
        return self.add(
            "rescale", (v, m, s), scale32=True, rounding="single", per_channel=False, input_unsigned=False,
            output_unsigned=False, input_zp=zp, output_zp=0, out_type="i32",
        )  # fmt: skip

    def i8_of_rank4(self) -> str:
        return self.draw(st.sampled_from([v for v in self.values if len(self.type_of(v).shape) == 4]))

    # -- one random piece of network each -----------------------------------------------------------------------

    def conv2d(self) -> str:
        v = self.i8_of_rank4()
        _, h, w, c = self.type_of(v).shape
        kh, kw = self.int(1, min(3, h)), self.int(1, min(3, w))
        o = self.int(1, 9)
        x = self.constant((o, kh, kw, c), I8, -128, 127)
        b = self.constant((self.draw(st.sampled_from([1, o])),), I32, -5000, 5000)
        pad = tuple(self.int(0, 2) for _ in range(4))
        out = self.add("conv2d", (v, x, b), pad=pad, stride=(1, 1), dilation=(1, 1), input_zp=self.int(-128, 127),
                       weight_zp=0)  # fmt: skip
        return self.tail(out)

    def depthwise_conv2d(self) -> str:
        v = self.i8_of_rank4()
        _, h, w, c = self.type_of(v).shape
        kh, kw, m = self.int(1, min(3, h)), self.int(1, min(3, w)), self.int(1, 2)
        x = self.constant((kh, kw, c, m), I8, -128, 127)
        b = self.constant((c * m,), I32, -5000, 5000)
        out = self.add("depthwise_conv2d", (v, x, b), pad=(0, 1, 1, 0), stride=(1, 1), dilation=(1, 1),
                       input_zp=self.int(-128, 127), weight_zp=0)  # fmt: skip
        return self.tail(out)

    def transpose_conv2d(self) -> str:
        v = self.i8_of_rank4()
        c = self.type_of(v).shape[-1]
        k, s, o = self.int(1, 3), self.int(1, 3), self.int(1, 4)
        x = self.constant((o, k, k, c), I8, -128, 127)
        b = self.constant((o,), I32, -5000, 5000)
        out = self.add("transpose_conv2d", (v, x, b), out_pad=(0, 1, 0, 0), stride=(s, s), input_zp=self.int(-128, 127),
                       weight_zp=0)  # fmt: skip
        return self.tail(out)

    def conv2d_int16(self) -> str:
        wide = self.widen(self.i8_of_rank4())
        m, s = self.constant((1,), I32, 1 << 30, 1 << 30), self.constant((1,), I8, 40, 40)
        x = self.add(
            "rescale", (wide, m, s), scale32=True, rounding="double", per_channel=False, input_unsigned=False,
            output_unsigned=False, input_zp=0, output_zp=0, out_type="i16",
        )  # fmt: skip
        c, o = self.type_of(x).shape[-1], self.int(1, 4)
        k = self.constant((o, 1, 1, c), I8, -128, 127)
        b = self.constant((o,), I48, -(1 << 30), 1 << 30)
        out = self.add("conv2d", (x, k, b), pad=(0, 0, 0, 0), stride=(1, 1), dilation=(1, 1), input_zp=0, weight_zp=0)
        return self.rescale_to_i8(out)

    def tail(self, v: str) -> str:
        if self.draw(st.integers(0, 4)) == 0:
            v = self.add("add", (v, self.constant((1,) * len(self.type_of(v).shape), I32, -99, 99)))
        v = self.rescale_to_i8(v)
        if self.draw(st.booleans()):
            v = self.add("clamp", (v,), min_val=-100, max_val=90)
        return v

    def pool(self) -> str:
        v = self.i8_of_rank4()
        _, h, w, _ = self.type_of(v).shape
        kernel = (self.int(1, min(3, h)), self.int(1, min(3, w)))
        pad = (self.int(0, kernel[0] - 1), 0, 0, self.int(0, kernel[1] - 1))
        if self.draw(st.booleans()):
            return self.add("max_pool2d", (v,), kernel=kernel, stride=(1, 1), pad=pad)
        return self.add("avg_pool2d", (v,), kernel=kernel, stride=(1, 1), pad=pad, input_zp=self.int(-128, 127),
                        output_zp=self.int(-128, 127))  # fmt: skip

    def residual(self) -> str:
        v = self.i8_of_rank4()
        same = [u for u in self.values if self.type_of(u) == self.type_of(v)]
        a, b = self.widen(v), self.widen(self.draw(st.sampled_from(same)))
        return self.rescale_to_i8(self.add(self.draw(st.sampled_from(["add", "sub", "maximum"])), (a, b)))

    def matmul(self) -> str:
        v = self.i8_of_rank4()
        n, h, w, c = self.type_of(v).shape
        a = self.add("reshape", (v,), new_shape=(n, h * w, c))
        b = self.add("transpose", (a,), perms=(0, 2, 1)) if self.draw(st.booleans()) else self.constant(
            (n, c, self.int(1, 7)), I8, -128, 127)  # fmt: skip
        out = self.rescale_to_i8(self.add("matmul", (a, b), a_zp=self.int(-128, 127), b_zp=0))
        rows, columns = self.type_of(out).shape[1:]
        return self.add("reshape", (out,), new_shape=(n, rows, 1, columns))

    def reduce(self) -> str:
        wide = self.widen(self.i8_of_rank4())
        op = self.draw(st.sampled_from(["reduce_sum", "reduce_max", "reduce_min"]))
        out = self.add(op, (wide,), axis=self.int(1, 3))
        return self.rescale_to_i8(self.add("sub", (wide, out)) if self.draw(st.booleans()) else out)

    def move(self) -> str:
        v = self.i8_of_rank4()
        shape = self.type_of(v).shape
        kind = self.draw(st.sampled_from(["slice", "pad", "concat", "transpose", "reverse", "tile", "table", "resize"]))
        if kind == "slice":
            start = tuple(self.int(0, n - 1) for n in shape)
            size = tuple(self.int(1, n - a) for n, a in zip(shape, start, strict=True))
            return self.add("slice", (v,), start=start, size=size)
        if kind == "pad":
            padding = tuple(self.int(0, 1) if i > 1 else 0 for i in range(8))
            return self.add("pad", (v,), padding=padding, pad_const=self.int(-128, 127))
        if kind == "concat":
            return self.add("concat", (v, v, self.constant(shape, I8, -128, 127)), axis=self.int(1, 3))
        if kind == "transpose":
            return self.add("transpose", (v,), perms=(0, *self.draw(st.permutations([1, 2, 3]))))
        if kind == "reverse":
            return self.add("reverse", (v,), axis=self.int(0, 3))
        if kind == "tile":
            return self.add("tile", (v,), multiples=(1, self.int(1, 2), 1, self.int(1, 2)))
        if kind == "resize":
            return self.add("resize", (v,), scale=(2, 1, 2, 1), offset=(0, 0), border=(1, 1), mode="nearest")
        return self.add("table", (v, self.constant((256,), I8, -128, 127)))


PIECES = (
    "conv2d", "depthwise_conv2d", "transpose_conv2d", "conv2d_int16", "pool", "residual", "matmul", "reduce", "move",
)  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn, pieces: int = 5) -> Graph:
    """A graph of up to ``pieces`` pieces whose unread values are its outputs."""
    w = _Writer(draw, draw(st.integers(0, 2**32 - 1)))
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 7)), draw(st.integers(1, 7)), draw(st.integers(1, 9)))
    w.b.input("x", TensorType(shape, I8))
    w.values.append("x")
    for piece in draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=pieces)):
        out = getattr(w, piece)()
        if w.type_of(out).size <= 4096:
            w.values.append(out)
        else:
            w.values.append("x")
    made = [v for v in dict.fromkeys(w.values) if v != "x"] or ["x"]
    some = [v for v in made[:-1] if draw(st.integers(0, 3)) == 0]
    return w.b.finish((*some, made[-1]))


def random_input(graph: Graph, seed: int) -> dict[str, Array]:
    """Full-range inputs."""
    rng = np.random.default_rng(seed)
    return {v: rng.integers(-128, 127, graph.types[v].shape, np.int8, endpoint=True) for v in graph.data_inputs}


@st.composite
def chips(draw: st.DrawFn) -> Chip:
    """A preset with small, odd parameters: SRAM down to 8 KiB, any ports, channels, granules and rates."""
    base = load_chip("micro", [])
    pick = lambda *options: draw(st.sampled_from(options))  # noqa: E731
    mac, popcount, vector = base.units
    overlapped = pick(True, False)
    assert base.energy is not None and base.energy.femtojoules is not None
    energy = EnergyTable(femtojoules=dataclasses.replace(base.energy.femtojoules, host_byte=1))
    arrays = (
        mac.array,
        Systolic(kind="systolic", rows=pick(1, 3, 8), columns=pick(2, 5), stationary=pick("weights", "ifmap", "output"),
                 overlapped_folds=overlapped or pick(True, False), reload_cycles=pick(0, 3, 40),
                 overlapped_commands=overlapped),
        RowStationary(kind="row_stationary", rows=pick(7, 12), columns=pick(1, 5), filter_words=pick(7, 40),
                      ifmap_words=pick(7, 20), psum_words=pick(1, 6), filter_words_per_cycle=pick(1, 4),
                      ifmap_words_per_cycle=1, psum_words_per_cycle=pick(1, 4)),
    )  # fmt: skip
    mac = dataclasses.replace(mac, array=pick(*arrays), instances=pick(1, 1, 2, 3), pipeline_cycles=pick(0, 5))
    vector = dataclasses.replace(vector, lanes=pick(1, 4, 16), instances=pick(1, 2), startup_cycles=pick(0, 7))
    return dataclasses.replace(
        base,
        units=(mac, popcount, vector),
        sram=dataclasses.replace(
            base.sram, size_bytes=pick(8192, 16384, 65536), ports=pick(1, 2, 3), bytes_per_cycle=pick(4, 64),
            granule_bytes=pick(1, 16, 64), channel_granule=pick(1, 1, 4, 16),
        ),
        dma=dataclasses.replace(
            base.dma, channels=pick(1, 2, 3, 4), bytes_per_cycle=pick(1, 16), setup_cycles=pick(0, 12),
            outstanding_bursts=pick(1, 8),
        ),
        dram=dataclasses.replace(
            base.dram, bytes_per_cycle=pick(Fraction(1, 2), Fraction(8), Fraction(51, 5)), latency_cycles=pick(0, 40),
            burst_bytes=pick(1, 32),
        ),
        output_pipeline=dataclasses.replace(base.output_pipeline, after_tile=pick(True, False)),
        host_link=pick(None, HostLink(bytes_per_cycle=Fraction(3), latency_cycles=90)),
        energy=None if isinstance(mac.array, RowStationary) else energy,
    )  # fmt: skip


@st.composite
def mapping_options(draw: st.DrawFn) -> MappingOptions:
    """Any combination of switches."""
    return MappingOptions(
        fuse=draw(st.booleans()), residency=draw(st.booleans()), prefetch=draw(st.booleans()),
        buffers=draw(st.sampled_from([None, 1, 2, 3])),
    )  # fmt: skip


def random_tiles(
    draw: st.DrawFn, options: MappingOptions, names: dict[str, dict[str, tuple[int, bool]]]
) -> MappingOptions:
    """``options`` with random tile sizes for the layers ``names`` (dimension -> extent, splittable)."""
    layers = {}
    for layer, dims in names.items():
        tile = {
            d: draw(st.integers(1, n)) if splittable else n
            for d, (n, splittable) in dims.items()
            if draw(st.booleans())
        }
        layers[layer] = LayerOptions(tile=tile)
    return dataclasses.replace(options, layers=layers)

"""Synthetic reports of any number of layers, whose figures add up as those of a run do."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from npusim.report.result import EngineFigures, Fingerprint, LayerFigures, Manifest, Report, Totals

CAUSES = ("compute", "output_path", "sram_port", "dram_read", "dram_write", "dram_bus", "dependency", "last_results")
STAGES = ("expand", "depthwise", "project", "add")
MakeReport = Callable[..., Report]


def synthetic_layer(index: int, draw: random.Random, causes: tuple[str, ...] = CAUSES) -> LayerFigures:
    """A layer whose cycles are the sum of its causes; every fourth one runs on the vector unit."""
    vector = index % 4 == 3
    size = 10 ** draw.uniform(3.5, 5.5)
    shares = sorted(draw.sample(causes, min(len(causes), draw.randint(2, 5))), key=causes.index)
    split = {c: round(size * draw.random() ** 2) for c in shares}
    split[causes[0]] = round(size)
    cycles = sum(split.values())
    worked = split.get("compute", 0) + split.get("output_path", 0)
    macs = 0 if vector else round(size) * 900
    return LayerFigures(
        name=f"block_{index // 4}/{['expand', 'depthwise', 'project', 'add'][index % 4]}",
        operators=("add", "clamp") if vector else ("conv2d", "rescale", "clamp"),
        engine="vector" if vector else "mac",
        output="1x28x28x64xi8",
        start_cycle=0,
        cycles=cycles,
        span_cycles=cycles,
        active_cycles=max(cycles, 1),
        compute_cycles=worked,
        compute_cycles_by_part={"stream": worked},
        bank_conflict_cycles=0,
        macs=macs,
        useful_macs=macs * 9 // 10,
        utilization=draw.uniform(0.2, 0.98) * worked / cycles,
        dram_read_bytes=draw.randrange(1 << 22),
        dram_write_bytes=draw.choice((0, draw.randrange(1 << 20))),
        bound_by=max(split, key=lambda c: split[c]),
        cycles_by_cause=split,
        engines=(
            EngineFigures(
                engine="vector0" if vector else "mac0",
                busy_cycles=worked,
                stalled_cycles={"load": cycles - worked},
                idle_cycles=0,
            ),
        ),
        tile={"n": 1, "oy": 4, "ox": 28, "oc": 32, "ky": 3, "kx": 3, "ic": 16},
        loop_order=("n", "oy", "ox", "oc", "ky", "kx", "ic"),
        buffers=2,
        tiles=14,
        sram_bytes=90_000,
        output_in_sram=vector,
        bound_cycles=cycles * 8 // 10,
        bound_resources={"mac": cycles * 8 // 10},
        estimate_cycles=cycles * 9 // 10,
        overflow_events=0,
    )


def report_of(layers: tuple[LayerFigures, ...]) -> Report:
    """A report of these layers on one MAC array, one vector unit and two DMA channels."""
    cycles = sum(layer.cycles for layer in layers)
    tenth = cycles // 10
    engines = (
        EngineFigures(
            engine="dma0",
            busy_cycles=cycles - 4 * tenth,
            stalled_cycles={"compute": 2 * tenth, "dram_bus": tenth},
            idle_cycles=tenth,
        ),
        EngineFigures(
            engine="dma1", busy_cycles=tenth, stalled_cycles={"dram_bus": tenth}, idle_cycles=cycles - 2 * tenth
        ),
        EngineFigures(
            engine="mac0",
            busy_cycles=cycles - 3 * tenth,
            stalled_cycles={"load": tenth, "store": tenth, "sram_port": 0},
            idle_cycles=tenth,
        ),
        EngineFigures(engine="vector0", busy_cycles=tenth, stalled_cycles={"load": 0}, idle_cycles=cycles - tenth),
    )
    return Report(
        schema_version=1,
        manifest=Manifest(
            npusim_version="0",
            workload="synthetic",
            workload_sha256="0" * 64,
            chip={"name": "edge"},
            options={},
            seed=0,
            inputs=(),
        ),
        totals=Totals(
            cycles=cycles,
            bound_cycles=cycles * 8 // 10,
            bound_resources={"mac": cycles * 8 // 10},
            estimate_cycles=cycles * 9 // 10,
            clock_hz=1_000_000_000,
            latency_seconds=cycles / 1e9,
            macs=sum(layer.macs for layer in layers),
            useful_macs=sum(layer.useful_macs for layer in layers),
            utilization={"mac": 0.625},
            dram_read_bytes=sum(layer.dram_read_bytes for layer in layers),
            dram_write_bytes=sum(layer.dram_write_bytes for layer in layers),
            sram_peak_bytes=700_000,
            sram_bytes=1 << 20,
            commands=14 * len(layers),
            overflow_events=0,
        ),
        engines=engines,
        layers=layers,
        checks=(),
        outputs=(Fingerprint(name="y", type="1x10xi8", sha256="0" * 64),),
    )


@pytest.fixture
def make_report() -> MakeReport:
    """``make_report(layers, causes=CAUSES)``: equal calls give equal reports."""

    def make(layers: int, causes: tuple[str, ...] = CAUSES) -> Report:
        draw = random.Random(layers)
        return report_of(tuple(synthetic_layer(i, draw, causes) for i in range(layers)))

    return make

"""The popcount unit as a stage of a pipeline: bit planes at once, and the folding of published networks."""

from __future__ import annotations

import pytest

from npusim.config import load_text
from npusim.errors import ConfigError
from npusim.hardware import Task
from npusim.hardware.units.popcount import PopcountUnit
from npusim.ir.tensor import TensorType
from npusim.numerics.types import DTYPES, I8, U1
from npusim.ops import make_op

WINDOW = {"stride": [1, 1], "dilation": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "pad_value": "zero"}


def unit(lanes: int, word_bits: int, planes: int) -> PopcountUnit:
    return PopcountUnit(
        kind="popcount", instances=1, lanes=lanes, word_bits=word_bits, pipeline_cycles=0, planes=planes
    )


def convolution(bits: int, weight_bits: int) -> Task:
    """32 x 32 pixels of 3 channels to 30 x 30 of 64, the first layer of CNV."""
    x = TensorType((1, 32, 32, 3), I8 if bits == 8 else DTYPES[f"u{bits}"])
    w = TensorType((64, 3, 3, 3), U1 if weight_bits == 1 else DTYPES[f"i{weight_bits}"])
    kind = "bipolar" if weight_bits == 1 else "integer"
    bound = make_op("bitserial_conv2d", {**WINDOW, "layout": "nhwc", "weight_kind": kind}).bind([x, w])
    return Task("bitserial_conv2d", (x.dtype, w.dtype), bound.accumulator, bound.work)


@pytest.mark.parametrize(("bits", "weight_bits"), [(8, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("planes", [1, 2, 3, 16])
def test_planes_are_taken_so_many_at_once(bits: int, weight_bits: int, planes: int) -> None:
    """Folding 16 x 3 as published: 32,400 cycles an image, for every so many of the bits * weight_bits planes."""
    task = convolution(bits, weight_bits)
    found = unit(16, 3, planes)
    extents = [d.extent for d in task.work.dims]
    times = -(-bits * weight_bits // planes)
    assert found.cycles(task, extents) == 900 * (64 // 16) * (27 // 3) * times
    assert found.peak_per_cycle(task) == (16 * 3, times)


def test_actions_count_every_plane() -> None:
    task = convolution(8, 1)
    extents = [d.extent for d in task.work.dims]
    assert unit(16, 3, 16).actions(task, extents) == unit(16, 3, 1).actions(task, extents)


def test_a_unit_without_planes_is_refused() -> None:
    with pytest.raises(ConfigError, match="planes: must be at least 1; got 0"):
        load_text(
            "{kind: popcount, instances: 1, lanes: 1, word_bits: 1, pipeline_cycles: 0, planes: 0}", PopcountUnit, "u"
        )

"""Layouts in DRAM: where boxes lie, against the flattening of a permuted and blocked array; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.hardware.layout import Layouts, plain
from npusim.hardware.memory import runs
from npusim.ir.box import Box
from npusim.ir.work import Access, along
from tests.hardware.tasks import convolution_task, product_task

CONV = convolution_task((2, 6, 6), 20, (3, 3), 10).work
IFMAP, WEIGHTS = CONV.reads[0], CONV.reads[1]


def layouts(features: tuple[str, ...] | None = None, weights: tuple[str, ...] | None = None) -> Layouts:
    return Layouts(features=features, weights=weights)


def test_axes_come_in_the_order_that_is_given() -> None:
    order = ("kernel_row", "kernel_column", "in_channel", "out_channel")
    there = layouts(weights=order).arrange(CONV, WEIGHTS, (20, 3, 3, 10), constant=True)
    assert there.shape == (3, 3, 10, 20)
    assert there.extents((5, 3, 3, 10)) == (3, 3, 10, 5)
    assert there.box(Box((5, 0, 1, 2), (10, 3, 3, 4))) == Box((0, 1, 2, 5), (3, 3, 4, 10))


def test_channels_come_in_blocks() -> None:
    there = layouts(features=("batch", "channel/4", "row", "column", "channel")).arrange(
        CONV, IFMAP, (2, 8, 8, 10), constant=False
    )
    assert there.shape == (2, 3, 8, 8, 4)  # the last block is filled up
    assert there.extents((1, 5, 8, 8)) == (1, 2, 5, 8, 4)
    assert there.box(Box((0, 1, 0, 4), (1, 6, 8, 8))) == Box((0, 1, 1, 0, 0), (1, 2, 6, 8, 4))
    assert there.box(Box((0, 1, 0, 5), (1, 6, 8, 7))) == Box((0, 1, 1, 0, 1), (1, 2, 6, 8, 3))  # within a block
    assert there.box(Box((0, 1, 0, 3), (1, 6, 8, 5))) == Box((0, 0, 1, 0, 0), (1, 2, 6, 8, 4))  # parts of two


def test_blocks_make_contiguous_runs_longer() -> None:
    box = (1, 4, 8, 4)
    there = layouts(features=("channel/4", "row", "column", "channel")).arrange(CONV, IFMAP, (2, 8, 8, 12), False)
    assert runs((2, 8, 8, 12), box) == (32, 4)
    assert runs(there.shape, there.extents(box)) == (1, 4 * 8 * 4)


def test_axes_that_are_not_named_come_first() -> None:
    there = layouts(features=("channel", "row")).arrange(CONV, IFMAP, (2, 8, 9, 10), constant=False)
    assert there.shape == (2, 9, 10, 8)


def test_outputs_and_products_are_feature_maps_too() -> None:
    order = ("channel/8", "row", "column", "channel")
    assert layouts(features=order).arrange(CONV, CONV.write, (2, 6, 6, 20), False).shape == (2, 3, 6, 6, 8)
    product = product_task(5, 6, 7).work
    assert layouts(features=order).arrange(product, product.reads[0], (5, 6), False).shape == (1, 5, 6)
    matrix = layouts(weights=("out_channel", "in_channel")).arrange(product, product.reads[1], (6, 7), True)
    assert matrix.shape == (7, 6)


def test_without_an_order_and_for_two_activations_the_axes_are_the_tensors_own() -> None:
    assert layouts().arrange(CONV, WEIGHTS, (20, 3, 3, 10), True) == plain((20, 3, 3, 10))
    product = product_task(5, 6, 7).work  # both axes of the second operand are channels
    assert layouts(features=("channel", "row")).arrange(product, product.reads[1], (6, 7), False) == plain((6, 7))
    assert plain((4, 5)).box(Box((1, 2), (3, 4))) == Box((1, 2), (3, 4))


def test_an_axis_that_no_loop_walks_comes_first() -> None:
    access = Access(0, (along("ky"), along("kx"), along("ic"), CONV.reads[2].axes[0].__class__()))
    there = layouts(weights=("in_channel", "kernel_row")).arrange(CONV, access, (3, 4, 5, 1), constant=True)
    assert there.shape == (4, 1, 5, 3)


@given(st.data())
def test_a_box_holds_the_very_elements(data: st.DataObject) -> None:
    """Of a tensor numbered as it lies in DRAM, the smallest box around a box's numbers is the one that is given."""
    shape = tuple(data.draw(st.integers(1, 7)) for _ in range(4))
    block = data.draw(st.integers(2, 4))
    axes = data.draw(st.permutations(["batch", f"channel/{block}", "row", "column", "channel"]))
    if axes.index("channel") < axes.index(f"channel/{block}"):
        axes = [{"channel": f"channel/{block}", f"channel/{block}": "channel"}.get(a, a) for a in axes]
    there = layouts(features=tuple(axes)).arrange(CONV, IFMAP, shape, constant=False)
    size = min(block, shape[3])
    blocks = -(-shape[3] // block)
    index = np.indices(shape)
    parts = {"batch": index[0], "row": index[1], "column": index[2], "channel": index[3] % block,
             f"channel/{block}": index[3] // block}  # fmt: skip
    want = {"batch": shape[0], "row": shape[1], "column": shape[2], "channel": size, f"channel/{block}": blocks}
    assert there.shape == tuple(want[a] for a in axes)
    lo = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    hi = tuple(data.draw(st.integers(a + 1, n)) for a, n in zip(lo, shape, strict=True))
    inside = Box(lo, hi).slices
    got = there.box(Box(lo, hi))
    assert got == Box(
        tuple(int(parts[a][inside].min()) for a in axes), tuple(int(parts[a][inside].max()) + 1 for a in axes)
    )
    if lo[3] % block == 0:
        assert there.extents(Box(lo, hi).shape) == got.shape


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (("rows",), "features: 'rows' is no axis; name one of batch, channel, column, depth, row"),
        (("channel/x", "channel"), "'channel/x' is no axis"),
        (("channel/1", "channel"), "'channel/1' is no axis"),
        (("row", "row"), "features: 'row' is given twice; name each axis once"),
        (("channel/4", "channel/8", "channel"), "features: 'channel/4' is given twice"),
        (("channel/4", "row"), "features: 'channel/4' stands without 'channel' behind it; name that as well"),
        (("channel", "channel/4"), "features: 'channel/4' stands without 'channel' behind it"),
    ],
)
def test_a_wrong_order_is_refused(features: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layouts(features=features)


def test_weights_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match="weights: 'row' is no axis; name one of bit_plane, in_channel, kernel_column"):
        layouts(weights=("row",))

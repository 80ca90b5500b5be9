"""Points that read inside an operand, against loops over all points of convolutions, products and poolings."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ir.taps import dense_points, elements_touched, points_inside
from npusim.ir.tensor import TensorType
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.types import I8, I32
from npusim.ops import Bound, op_class


def counted(work: Work, access: Access, shape: tuple[int, ...]) -> int:
    """One point after the other."""
    names = [d.name for d in work.dims]
    inside = 0
    for point in product(*(range(d.extent) for d in work.dims)):
        at = dict(zip(names, point, strict=True))
        index = [(a.offset + sum(c * at[name] for name, c in a.terms)) // a.divisor for a in access.axes]
        inside += all(0 <= i < n for i, n in zip(index, shape, strict=True))
    return inside


def reading(access: Access, extents: dict[str, int], every: int = 1) -> Work:
    """A space of these extents that reads by ``access``."""
    dims = tuple(Dim(name, n, Loop.ROW, every=every) for name, n in extents.items())
    return Work(UnitKind.MAC, dims, (access,), Access(-1, ()), macs=True)


def bind(op: str, *shapes: tuple[int, ...], **attributes: Any) -> Bound:
    kinds = [I8, I8, I32] if len(shapes) == 3 else [I8] * len(shapes)
    types = [TensorType(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
    return op_class(op)(**attributes).bind(types)


def touched(work: Work, access: Access, shape: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Elements of the operand that are touched, one point after the other."""
    names = [d.name for d in work.dims]
    found: set[tuple[int, ...]] = set()
    for point in product(*(range(d.extent) for d in work.dims)):
        at = dict(zip(names, point, strict=True))
        lows = [(a.offset + sum(c * at[name] for name, c in a.terms)) // a.divisor for a in access.axes]
        spans = [
            range(a.whole) if a.whole >= 0 else range(lo, lo + a.extra + 1)
            for a, lo in zip(access.axes, lows, strict=True)
        ]
        found |= {i for i in product(*spans) if all(0 <= k < n for k, n in zip(i, shape, strict=True))}
    return found


# -- by enumeration ---------------------------------------------------------------------------------------------------


@st.composite
def accesses(draw: st.DrawFn) -> tuple[Access, dict[str, int], tuple[int, ...]]:
    """Axes that share no dimension, dimensions that no axis reads, and the operand's shape."""
    names = list("abcde")
    extents = {name: draw(st.integers(1, 5)) for name in names}
    axes, shape = [], []
    for _ in range(draw(st.integers(0, 3))):
        some = [names.pop() for _ in range(min(len(names), draw(st.integers(0, 3))))]
        terms = tuple((name, draw(st.integers(-3, 3))) for name in some)
        axes.append(Axis(terms, draw(st.integers(-8, 8)), draw(st.integers(1, 3))))
        shape.append(draw(st.integers(1, 6)))
    return Access(0, tuple(axes)), extents, tuple(shape)


@settings(deadline=None, max_examples=200)
@given(accesses(), st.integers(0, 2), st.integers(-1, 3))
def test_elements_touched_are_those_that_some_point_reads(
    case: tuple[Access, dict[str, int], tuple[int, ...]], extra: int, whole: int
) -> None:
    access, extents, shape = case
    axes = tuple(replace(a, extra=extra) for a in access.axes)
    if axes and not axes[0].terms:
        axes = (Axis(whole=whole), *axes[1:])
    access = Access(0, axes)
    work = reading(access, extents)
    assert elements_touched(work, access, shape) == len(touched(work, access, shape))


def test_of_axes_that_share_a_dimension_nothing_is_claimed() -> None:
    diagonal = Access(0, (along("a"), along("a")))
    assert elements_touched(reading(diagonal, {"a": 4}), diagonal, (4, 4)) == 0
    twice = Access(0, (Axis((("a", 1), ("a", 1))),))  # 2a: every other index
    assert elements_touched(reading(twice, {"a": 3}), twice, (6,)) == 3


@settings(deadline=None, max_examples=300)
@given(accesses())
def test_affine_accesses(case: tuple[Access, dict[str, int], tuple[int, ...]]) -> None:
    access, extents, shape = case
    work = reading(access, extents)
    assert points_inside(work, access, shape) == counted(work, access, shape) <= dense_points(work)


windows = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 4), st.integers(0, 4))
"""Along one axis: kernel, stride, dilation, pads."""


@settings(deadline=None, max_examples=150)
@given(st.tuples(windows, windows), st.tuples(st.integers(1, 6), st.integers(1, 6)), st.integers(1, 2), st.data())
def test_convolutions(axes: Any, size: tuple[int, int], multiplier: int, data: st.DataObject) -> None:
    """Dense and depthwise ones of every size that is legal, with kernels as long as the output among them."""
    (ky, sy, dy, top, bottom), (kx, sx, dx, left, right) = axes
    top, left = top + max(0, (ky - 1) * dy - top - bottom), left + max(0, (kx - 1) * dx - left - right)
    attributes = {"pad": (top, bottom, left, right), "stride": (sy, sx), "dilation": (dy, dx), "dialect": "seed"}
    if data.draw(st.booleans()):
        bound = bind("conv2d", (2, *size, 3), (2, ky, kx, 3), (1,), **attributes)
    else:
        bound = bind("depthwise_conv2d", (2, *size, 3), (ky, kx, 3, multiplier), (1,), **attributes)
    work, shape = bound.work, bound.operands[0].shape
    assert points_inside(work, work.reads[0], shape) == counted(work, work.reads[0], shape)
    assert points_inside(work, work.reads[1], bound.operands[1].shape) == dense_points(work) == work.points


@settings(deadline=None, max_examples=80)
@given(st.tuples(windows, windows), st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_poolings(axes: Any, size: tuple[int, int]) -> None:
    (ky, sy, _, top, bottom), (kx, sx, _, left, right) = axes
    top, bottom, left, right = (min(p, k - 1) for p, k in ((top, ky), (bottom, ky), (left, kx), (right, kx)))
    top, left = top + max(0, ky - size[0] - top - bottom), left + max(0, kx - size[1] - left - right)
    bound = bind(
        "max_pool2d",
        (2, *size, 3),
        kernel=(ky, kx),
        stride=(sy, sx),
        pad=(min(top, ky - 1), bottom, min(left, kx - 1), right),
        dialect="seed",
    )
    work, shape = bound.work, bound.operands[0].shape
    assert points_inside(work, work.reads[0], shape) == counted(work, work.reads[0], shape)


def test_products_read_nothing_but_elements() -> None:
    bound = bind("matmul", (2, 3, 5), (2, 5, 4))
    for access, operand in zip(bound.work.reads, bound.operands, strict=True):
        assert points_inside(bound.work, access, operand.shape) == 2 * 3 * 5 * 4


# -- by hand ----------------------------------------------------------------------------------------------------------

SAME = {"pad": (1, 1, 1, 1), "stride": (1, 1), "dilation": (1, 1)}


def macs(bound: Bound) -> tuple[int, int]:
    """Padded taps counted, and not."""
    return dense_points(bound.work), points_inside(bound.work, bound.work.reads[0], bound.operands[0].shape)


def test_a_kernel_larger_than_the_input() -> None:
    """One pixel of 8 channels under 3 x 3 taps: 72 products, of which the 8 in the middle meet the image."""
    assert macs(bind("conv2d", (1, 1, 1, 8), (1, 3, 3, 8), (1,), **SAME)) == (72, 8)


def test_as_many_taps_as_positions() -> None:
    """3 x 3 under 3 x 3: a corner sees 4 taps, an edge 6, the middle 9: 49 of 81."""
    assert macs(bind("conv2d", (1, 3, 3, 1), (1, 3, 3, 1), (1,), **SAME)) == (81, 49)


@pytest.mark.parametrize(
    ("op", "batch", "weight", "expected_macs", "elements", "weight_bytes"),
    [
        ("depthwise_conv2d", 1, (3, 3, 32, 1), 3612672, 401408, 288),
        ("conv2d", 1, (32, 3, 3, 32), 115605504, 401408, 9216),
        ("depthwise_conv2d", 4, (3, 3, 32, 1), 14450688, 1605632, 288),
    ],
)
def test_depthwise_layers_and_batches_count_as_what_they_are(
    op: str, batch: int, weight: tuple[int, ...], expected_macs: int, elements: int, weight_bytes: int
) -> None:
    """Along an axis of 112 the 3 taps of 112 positions make 336 pairs, of which 334 meet the image."""
    bound = bind(op, (batch, 112, 112, 32), weight, (32,), **SAME)
    assert bound.output.shape == (batch, 112, 112, 32)
    assert (bound.output.size, bound.operands[1].packed_bytes) == (elements, weight_bytes)
    dense, useful = macs(bound)
    assert dense == expected_macs
    assert useful * 336**2 == expected_macs * 334**2


def test_a_depthwise_multiplier_changes_only_the_number_of_channels() -> None:
    one = bind("depthwise_conv2d", (1, 6, 6, 4), (3, 3, 4, 1), (1,), **SAME)
    eight = bind("depthwise_conv2d", (1, 6, 6, 4), (3, 3, 4, 8), (1,), **SAME)
    assert macs(eight) == tuple(8 * n for n in macs(one)) == (8 * 4 * 18**2, 8 * 4 * 16**2)


def test_dense_points_of_a_transposed_convolution_are_one_in_every() -> None:
    """4 x 4 taps at a stride of 2 x 3 reach an output 2 x 2 times at most; they all count as inside."""
    op = {"out_pad": (0, 0, 0, 0), "stride": (2, 3)}
    bound = bind("transpose_conv2d", (1, 3, 3, 5), (2, 4, 4, 5), (1,), **op)
    outputs = bound.output.size
    assert macs(bound) == (outputs * 5 * 2 * 2,) * 2
    assert bound.work.points == outputs * 5 * 4 * 4


@pytest.mark.parametrize(
    "axes",
    [
        (along("a", 1, -2), along("a", 1, -1)),
        (Axis(whole=3), along("a", 1, -2)),
        (Axis((("a", 1),), offset=-2, extra=1), along("b")),
    ],
    ids=["a shared dimension", "a whole axis", "several indices a point"],
)
def test_other_accesses_count_as_inside_everywhere(axes: tuple[Axis, ...]) -> None:
    work = reading(Access(0, axes), {"a": 4, "b": 3})
    assert points_inside(work, work.reads[0], (3, 3)) == dense_points(work) == 12


def test_a_point_counts_once_however_many_bit_planes_it_has() -> None:
    dims = (Dim("x", 5, Loop.COLUMN), Dim("bit", 3, Loop.BIT_PLANE, reduce=True))
    work = Work(UnitKind.POPCOUNT, dims, (Access(0, (along("x", 1, -2),)),), Access(-1, (along("x"),)), macs=True)
    assert (dense_points(work), points_inside(work, work.reads[0], (2,)), work.points) == (5, 2, 15)


def test_an_operand_of_rank_0_is_inside() -> None:
    work = reading(Access(0, ()), {"a": 4, "b": 3})
    assert points_inside(work, work.reads[0], ()) == 12

"""Tasks for the tests of the compute units: products, convolutions and poolings as iteration spaces."""

from __future__ import annotations

from math import prod

from npusim.hardware import Task
from npusim.ir.work import Access, Axis, Dim, Loop, UnitKind, Work, along
from npusim.numerics.types import I8, I32, DType

Operands = tuple[DType, ...]


def product_task(m: int, k: int, n: int, operands: Operands = (I8, I8), accumulator: DType = I32) -> Task:
    """[m, k] times [k, n]; the extents are (m, n, k)."""
    dims = (Dim("h", m, Loop.ROW), Dim("w", n, Loop.OUT_CHANNEL), Dim("c", k, Loop.IN_CHANNEL, reduce=True))
    reads = (Access(0, (along("h"), along("c"))), Access(1, (along("c"), along("w"))))
    work = Work(UnitKind.MAC, dims, reads, Access(-1, (along("h"), along("w"))), macs=True)
    return Task("matmul", operands, accumulator, work)


def convolution_task(
    positions: tuple[int, int, int], out_channels: int, kernel: tuple[int, int], in_channels: int, every: int = 1
) -> Task:
    """Positions (batch, rows, columns); the extents are (*positions, out_channels, *kernel, in_channels)."""
    dims = (
        *_positions(positions),
        Dim("oc", out_channels, Loop.OUT_CHANNEL),
        *_kernel(kernel, every),
        Dim("ic", in_channels, Loop.IN_CHANNEL, reduce=True),
    )
    weight = Access(1, (along("oc"), along("ky"), along("kx"), along("ic")))
    reads = (_window("ic"), weight, Access(2, (along("oc"),), final=True))
    return Task("conv2d", (I8, I8, I32), I32, Work(UnitKind.MAC, dims, reads, _write("oc"), macs=True))


def depthwise_task(positions: tuple[int, int, int], channels: int, kernel: tuple[int, int]) -> Task:
    """The extents are (*positions, channels, *kernel)."""
    dims = (*_positions(positions), Dim("c", channels, Loop.CHANNEL), *_kernel(kernel))
    reads = (_window("c"), Access(1, (along("ky"), along("kx"), along("c"), Axis())))
    return Task("depthwise_conv2d", (I8, I8), I32, Work(UnitKind.MAC, dims, reads, _write("c"), macs=True))


def pool_task(operator: str, positions: tuple[int, int, int], channels: int, kernel: tuple[int, int]) -> Task:
    """Work of the vector unit; the extents are (*positions, channels, *kernel)."""
    dims = (*_positions(positions), Dim("c", channels, Loop.CHANNEL), *_kernel(kernel))
    return Task(operator, (I8,), I32, Work(UnitKind.VECTOR, dims, (_window("c"),), _write("c")))


def extents(task: Task) -> list[int]:
    """Extents of the whole space."""
    return [d.extent for d in task.work.dims]


def useful_points(task: Task) -> int:
    """Points that do real work."""
    return prod(-(-d.extent // d.every) for d in task.work.dims)


def _positions(sizes: tuple[int, int, int]) -> tuple[Dim, ...]:
    loops = (Loop.BATCH, Loop.ROW, Loop.COLUMN)
    return tuple(Dim(name, n, loop) for name, n, loop in zip(("n", "oy", "ox"), sizes, loops, strict=True))


def _kernel(sizes: tuple[int, int], every: int = 1) -> tuple[Dim, ...]:
    return (
        Dim("ky", sizes[0], Loop.KERNEL_ROW, reduce=True, every=every),
        Dim("kx", sizes[1], Loop.KERNEL_COLUMN, reduce=True, every=every),
    )


def _window(channel: str) -> Access:
    rows, columns = Axis((("oy", 1), ("ky", 1))), Axis((("ox", 1), ("kx", 1)))
    return Access(0, (along("n"), rows, columns, along(channel)))


def _write(channel: str) -> Access:
    return Access(-1, (along("n"), along("oy"), along("ox"), along(channel)))

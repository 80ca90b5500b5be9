"""What a tensor of an OpenVINO IR is in npusim: floats on the host, bits, integer sums, or a constant."""

from __future__ import annotations

from dataclasses import dataclass

from npusim.ir.tensor import TensorType
from npusim.numerics.types import Array
from npusim.ops.binary_conv2d import BinaryConv2d
from npusim.ops.binary_max_pool2d import BinaryMaxPool2d


@dataclass(frozen=True)
class Constant:
    """An array of the file."""

    tensor: TensorType
    array: Array


@dataclass(frozen=True)
class HostValue:
    """``value`` is computed on the host; ``maker`` is the layer that makes it, for messages."""

    value: str
    tensor: TensorType
    maker: str


@dataclass(frozen=True)
class Bits:
    """``value`` of the graph holds bits that stand for ``low`` and ``high`` [C], low <= high, of the model's type."""

    value: str
    tensor: TensorType
    low: Array
    high: Array

    @property
    def are_levels(self) -> bool:
        """Whether each bit stands for itself."""
        return bool((self.low == 0).all() and (self.high == 1).all())


@dataclass(frozen=True)
class Shift:
    """A constant that is added; ``array`` has the model's type and broadcasts."""

    name: str
    array: Array


@dataclass(frozen=True)
class Pool:
    """A maximum over windows of an image of ``shape``; ``op`` is its form on bits."""

    name: str
    op: BinaryMaxPool2d
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Convolution:
    """A convolution that is not in the graph yet, as it may still get thresholds."""

    name: str
    op: BinaryConv2d
    inputs: tuple[str, str]


@dataclass(frozen=True)
class Sums:
    """Integer sums in ``bounds`` (both included), behind which ``pending`` layers follow that are not in the graph yet.

    ``source`` is the convolution that makes them or a value of the graph. ``alone``: no other layer reads them, so that
    the convolution may write bits instead. ``tensor`` is what the model has behind the pending layers.
    """

    source: Convolution | str
    tensor: TensorType
    bounds: tuple[int, int]
    alone: bool
    pending: tuple[Shift | Pool, ...] = ()


Value = Constant | HostValue | Bits | Sums

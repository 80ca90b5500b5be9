"""What is known of the tensors of an ONNX file while it is converted, and the steps of the host so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from npusim.frontends.qonnx.chains import UNSCALED, Chain
from npusim.frontends.qonnx.emitter import Emitter
from npusim.frontends.qonnx.floats import MOVES, as_float, from_bits, function_of, scaled
from npusim.frontends.qonnx.layers import LAYERS
from npusim.frontends.qonnx.numbers import Numbers, Weights
from npusim.frontends.qonnx.reader import OnnxFile, OnnxNode
from npusim.graph.host import HostStep
from npusim.numerics.types import I2, I3, I4, I8, U1, U2, U3, U4, U8, Array

MOVABLE: Final = (U1, U2, U3, U4, I2, I3, I4, I8, U8)
"""Element types of quantised values that operators which move data take."""


@dataclass(frozen=True)
class Constant:
    """A constant, and if it is quantised or was moved since, its integers."""

    array: Array
    weights: Weights | None = None


@dataclass(frozen=True)
class Tensor:
    """A float tensor that is computed: of shape and type of ``example``, called ``host`` among those of the host.

    ``late``: it depends on the integer graph. ``chain``: from which of its integers it follows; ``why`` from none.
    """

    example: Array
    host: str
    late: bool = False
    chain: Chain | None = None
    why: str = ""


class State:
    """The tensors so far by name, the graph so far, and the steps ``before`` and ``after`` it.

    Of the steps only those are used in the end that something needs; with those after goes whether they are exact.
    ``rounding`` names the layers whose float sums depend on the order of adding.
    """

    def __init__(self, file: OnnxFile, name: str) -> None:
        self.file = file
        names = {v for node in file.nodes for v in (*node.inputs, *node.outputs)}
        self.emitter = Emitter(name, names | set(file.inputs) | set(file.constants))
        self.tensors: dict[str, Constant | Tensor] = {v: Constant(a) for v, a in file.constants.items()}
        self.before: list[HostStep] = []
        self.after: list[tuple[HostStep, bool]] = []
        self.rounding: list[str] = []
        for value, tensor in file.inputs.items():
            example = np.broadcast_to(np.zeros((), tensor.dtype.storage), tensor.shape)
            self.tensors[value] = Tensor(example, value)

    def constants(self, node: OnnxNode) -> dict[str, Array]:
        """Those inputs of a node that are constants."""
        found = {v: self.tensors[v] for v in node.inputs if v}
        return {v: c.array for v, c in found.items() if isinstance(c, Constant)}

    def function(self, node: OnnxNode) -> Callable[..., Array]:
        """A node of the standard as a function of its other inputs."""
        return function_of(node, self.file.opset, self.constants(node))

    def value_name(self, tensor: str) -> str:
        """What the graph calls the integers of a tensor: the same, but outputs of the model are floats."""
        return self.emitter.fresh(f"{tensor}.integer") if tensor in self.file.outputs else tensor

    def define(self, tensor: str, chain: Chain) -> Tensor | None:
        """``tensor``: the integers that ``chain`` begins with, as floats of the host. None if they broke a rule."""
        if not self.emitter.exists(chain.base):
            return None
        host = tensor if tensor in self.file.outputs else self.emitter.fresh(f"{tensor}.float")
        scale = chain.float_scale
        function: Callable[[Array], Array] = as_float if chain.scale == UNSCALED else partial(scaled, scale)
        if chain.numbers is not None and chain.numbers.packed_signs:
            function = partial(from_bits, scale)
        operator = "Cast" if function is as_float else "Mul"
        self.after.append((HostStep(f"{operator} {tensor!r}", function, (chain.base,), host), chain.exact))
        found = Tensor(np.broadcast_to(np.float32(0), chain.shape), host, True, chain)
        self.tensors[tensor] = found
        return found

    def wide(self, tensor: str, numbers: Numbers) -> bool:
        """Whether something else than a layer reads the quantised ``tensor``, so that it is stored as i8.

        Single bits can be pooled, and quantised values be moved, as they are.
        """
        for reader in self.file.readers.get(tensor, ()):
            if reader.operator in LAYERS or reader.operator == "Shape":
                continue
            pooled = reader.operator == "MaxPool" and numbers.dtype is U1
            moved = reader.operator in MOVES and numbers.dtype in MOVABLE
            if not (pooled or moved) or self.wide(reader.outputs[0], numbers):
                return True
        return False

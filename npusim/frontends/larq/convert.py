"""From a Larq network to an integer graph and what the host computes around it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from npusim.errors import FileFormatError, InvalidGraphError
from npusim.frontends.larq.binary import (
    Convolution,
    convolution,
    output_scales,
    output_thresholds,
    pooling,
    scaled,
    sign_bits,
    signs,
)
from npusim.frontends.larq.fold import fold_signs, is_elementwise, only_quantizer, steps
from npusim.frontends.larq.integer import IntegerPart
from npusim.frontends.larq.plans import PLANS, plan
from npusim.frontends.larq.reader import CUSTOM, LarqFile, LarqOperator, read_larq
from npusim.frontends.model import Model
from npusim.graph.host import Host, HostStep
from npusim.ir.tensor import TensorType
from npusim.numerics.types import F32, Array

EXACT: Final = frozenset({"LceDequantize", "RELU", "RELU6", "RELU_N1_TO_1", "RESHAPE", "PAD", "MAX_POOL_2D"})
"""Operators that give the same floats on every host."""


def load_larq(path: str | Path) -> Model:
    """The network in the ``.tflite`` file at ``path``; its graph is named like the file without its suffix.

    The integer graph reaches from the first LceQuantize to the last sums: bits keep the names of their tensors, the
    integer sums behind a float output are called ``<tensor>.sums``. Float operators before and after are steps of the
    host; what lies between a convolution and the next LceQuantize is folded into thresholds. Layout NHWC throughout.

    Raises FileFormatError for a file that cannot be read or has no operator of Larq, and where the package ``tflite``
    is absent; InvalidGraphError with everything in it that has no integer or host operator, or cannot be folded.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as e:
        raise FileFormatError(f"{path}: cannot be read ({e.strerror}); name a TensorFlow Lite file") from None
    file = read_larq(data, str(path))
    if not any(o.kind in CUSTOM for o in file.operators):
        raise FileFormatError(
            f"{path}: has no operator of Larq Compute Engine ({', '.join(CUSTOM)}); npusim reads quantised TensorFlow "
            "Lite networks through TOSA: convert it to a .tosa file first"
        )
    unknown = list(_unknown(file))
    if unknown:
        raise InvalidGraphError([f"{path}: {problem}" for problem in unknown])
    model = _Conversion(file, str(path)).run()
    return replace(model, graph=replace(model.graph, name=path.stem))


def _unknown(file: LarqFile) -> Iterator[str]:
    """One message for each kind of operator that neither the graph nor the host can compute."""
    labels: dict[str, list[str]] = defaultdict(list)
    for o in file.operators:
        if o.kind not in CUSTOM and o.kind not in PLANS:
            labels[o.kind].append(o.outputs[0])
    for kind, made in labels.items():
        yield (
            f"operator {kind} is not known to npusim's reader of Larq networks "
            f"({len(made)} in the file, the first makes {made[0]!r})"
        )


@dataclass(frozen=True)
class _Scaled:
    """A float tensor that an LceBconv2d makes of the integer ``sums``, a value of the graph."""

    layer: Convolution
    multiplier: Array
    bias: Array
    sums: str


class _Conversion:
    """One conversion under way.

    Every tensor is a constant, computed ``before`` the graph by the host, ``bits`` of the graph, or computed ``after``
    it; ``broken`` are those whose operator is at fault: what reads them is passed over. ``folded`` are the operators,
    by identity, that are part of the convolution before them already.
    """

    def __init__(self, file: LarqFile, path: str) -> None:
        self.file, self.path = file, path
        self.integer = IntegerPart(path, file.tensors)
        self.problems: list[str] = []
        self.before: dict[str, HostStep | None] = dict.fromkeys(file.inputs)  # None: given
        self.after: dict[str, HostStep] = {}
        self.broken: set[str] = set()
        self.folded: set[int] = set()
        self.scaled: dict[str, _Scaled] = {}
        self.made_by: dict[str, LarqOperator] = {}

    def run(self) -> Model:
        for v in self.file.inputs:
            if (dtype := self.file.tensors[v].dtype) != "FLOAT32":
                self.problems.append(
                    f"{self.path}: input {v!r} is {dtype}; npusim reads Larq networks whose inputs are float32: "
                    "convert without quantisation"
                )
        for operator in self.file.operators:
            self._convert(operator)
        for v in self.file.outputs:
            if v not in self.after and v not in self.broken:
                kind = "packed bits" if v in self.integer.bits else "not computed from any bits"
                self.problems.append(f"{self.path}: output {v!r} is {kind}; end the network with float operators")
        if self.problems:
            raise InvalidGraphError(self.problems)
        after = _needed(self.after, self.file.outputs)
        graph = self.integer.builder.finish(
            tuple(dict.fromkeys(v for s in after for v in s.inputs if self.integer.builder.type_of(v)))
        )
        if not graph.nodes:
            raise InvalidGraphError(f"{self.path}: has no integer operator between its bits; it needs an LceBconv2d")
        host = Host(
            {v: TensorType(self.file.tensors[v].shape, F32) for v in self.file.inputs},
            {v: TensorType(self.file.tensors[v].shape, F32) for v in self.file.outputs},
            _needed(self.before, graph.data_inputs),
            after,
            exact=all(s.name.split()[0] in EXACT for s in after),
        )
        return Model(graph, host)

    def _convert(self, operator: LarqOperator) -> None:
        output = operator.outputs[0]
        if id(operator) in self.folded:
            return
        if self.broken.intersection(operator.inputs):
            self.broken.update(operator.outputs)
            return
        try:
            self._check_order(operator)
            if operator.kind == "LceQuantize":
                self._quantize(operator)
            elif operator.kind == "LceBconv2d":
                self._convolve(operator)
            elif operator.kind == "LceBMaxPool2d":
                value = self._bits_read_by(operator)
                shape = self.integer.node(operator.label, "binary_max_pool2d", pooling(operator), (value,), output)
                self.integer.require(output, shape, "INT32")
            elif operator.kind == "LceDequantize":
                value = self._bits_read_by(operator)
                self.integer.require(output, self.integer.shape(value), "FLOAT32")
                self.after[output] = HostStep(operator.label, signs, (value,), output)
            else:
                self._compute(operator)
        except (InvalidGraphError, FileFormatError) as e:
            # what cannot be folded is named there: it may be an operator between
            self.problems += [
                f"{self.path}: {p}" if " cannot be folded" in p else f"{self.path}: {operator.label}: {p}"
                for p in e.problems
            ]
            self.broken.update(operator.outputs)

    def _check_order(self, operator: LarqOperator, known: Sequence[str] = ()) -> None:
        """Refuse an operator that makes what exists, or reads what does not (``known``: what is about to)."""
        for v in operator.outputs:
            if v in self.made_by or v in self.file.inputs or self.file.tensors[v].data is not None:
                raise InvalidGraphError(f"makes {v!r}, which is there already; the file is damaged: convert it again")
            self.made_by[v] = operator
        there = (self.before, self.integer.bits, self.after, self.scaled, known)
        for read in operator.inputs:
            if read is None or self.file.tensors[read].data is not None or any(read in made for made in there):
                continue
            raise InvalidGraphError(f"reads {read!r}, which no operator before it makes; convert the model again")

    # -- floats ------------------------------------------------------------------------------------------------------

    def _compute(self, operator: LarqOperator) -> None:
        """A builtin operator on the host."""
        packed = [v for v in operator.inputs if v in self.integer.bits]
        if packed:
            raise InvalidGraphError(f"reads the packed bits {packed[0]!r}; put an LceDequantize before it")
        found = plan(operator, self.file.tensors)
        early = [v for v in found.inputs if v in self.before]
        host_step = HostStep(operator.label, found.function, found.inputs, operator.outputs[0])
        if len(early) == len(found.inputs):
            self.before[operator.outputs[0]] = host_step
            return
        if early:
            raise InvalidGraphError(
                f"reads {early[0]!r}, a float from before the binary layers, together with floats from behind them; "
                "npusim has one host part before and one after the integer graph"
            )
        for v in found.inputs:
            self._need_sums(v)
        self.after[operator.outputs[0]] = host_step

    def _need_sums(self, value: str) -> None:
        """Have the host compute the floats ``value`` if they are those of a convolution."""
        found = self.scaled.get(value)
        if found is not None and value not in self.after:
            layer = found.layer
            function = partial(scaled, low=layer.low, high=layer.high, multiplier=found.multiplier, bias=found.bias)
            self.after[value] = HostStep(self.made_by[value].label, function, (found.sums,), value)

    def _fold(
        self, quantizer: LarqOperator, layer: Convolution, multiplier: Array, bias: Array, chain: Sequence[LarqOperator]
    ) -> tuple[str, ...]:
        """Thresholds, and invert bits where there are, that make the bits of ``quantizer`` of the sums of ``layer``."""
        between = steps(chain, self.file.tensors, len(multiplier))
        found = fold_signs(quantizer.label, layer, multiplier, bias, between)
        return self.integer.thresholds(quantizer.outputs[0], found.values[:, 0], found.invert)

    # -- bits --------------------------------------------------------------------------------------------------------

    def _bits_read_by(self, operator: LarqOperator) -> str:
        value = operator.inputs[0] if operator.inputs else None
        if value is None or value not in self.integer.bits:
            raise InvalidGraphError(f"reads {value!r}, which are not bits: put an LceQuantize before it")
        return value

    def _quantize(self, operator: LarqOperator) -> None:
        """Signs of floats: on the host before the graph, else as thresholds of the sums that the floats come from."""
        output = operator.outputs[0]
        read = operator.inputs[0] if operator.inputs else None
        if read is None or read in self.integer.bits or self.file.tensors[read].data is not None:
            raise InvalidGraphError(f"reads {read!r}, which are no computed floats")
        source: str = read
        given = self.file.tensors[source]
        if len(given.shape) != 4:
            raise InvalidGraphError(f"reads {source!r} of shape {list(given.shape)}; it must have rank 4 (NHWC)")
        self.integer.require(source, given.shape, "FLOAT32")
        self.integer.require(output, given.shape, "INT32")
        if source in self.before:
            self.before[output] = HostStep(operator.label, sign_bits, (source,), output)
            self.integer.input(output, given.shape)
            return
        chain: list[LarqOperator] = []
        while source not in self.scaled:
            maker = self.made_by[source]
            if not is_elementwise(maker):
                raise InvalidGraphError(
                    f"{operator.label} takes signs of floats from {maker.label}, which cannot be folded into integer "
                    "thresholds: only element-wise operators with constants behind an LceBconv2d can"
                )
            chain.insert(0, maker)
            computed = [v for v in maker.inputs if v is not None and self.file.tensors[v].data is None]
            if len(computed) != 1:
                steps(chain[:1], self.file.tensors, given.shape[-1])  # says why
            source = computed[0]
        found = self.scaled[source]
        operands = self._fold(operator, found.layer, found.multiplier, found.bias, chain)
        self.integer.node(operator.label, "threshold", {"axis": 3, "compare": "ge"}, (found.sums, *operands), output)

    def _convolve(self, operator: LarqOperator) -> None:
        value = self._bits_read_by(operator)
        output = operator.outputs[0]
        makes_bits = self.file.tensors[output].dtype == "INT32"
        layer = convolution(operator, self.file.tensors, self.integer.shape(value), makes_bits)
        inputs = (value, self.integer.constant(str(operator.inputs[1]), layer.weight))
        to_bits = {**layer.attributes, "compare": "ge"}
        if makes_bits:
            operands = self.integer.thresholds(output, output_thresholds(operator, self.file.tensors, layer))
            shape = self.integer.node(operator.label, "binary_conv2d", to_bits, (*inputs, *operands), output)
            self.integer.require(output, shape, "INT32")
            return
        multiplier, bias = output_scales(operator, self.file.tensors, len(layer.weight))
        only = only_quantizer(output, self.file)
        if only is None:
            sums = f"{output}.sums"
            shape = self.integer.node(operator.label, "binary_conv2d", layer.attributes, inputs, sums)
            self.integer.require(output, shape, "FLOAT32")
            self.scaled[output] = _Scaled(layer, multiplier, bias, sums)
            if output in self.file.outputs:
                self._need_sums(output)
            return
        chain, quantizer = only
        bits = quantizer.outputs[0]
        for o in (*chain, quantizer):
            self._check_order(o, known=(output, *(v for c in chain for v in c.outputs)))
            self.folded.add(id(o))
        self.broken.add(bits)  # until all went well
        operands = self._fold(quantizer, layer, multiplier, bias, chain)
        shape = self.integer.node(operator.label, "binary_conv2d", to_bits, (*inputs, *operands), bits)
        self.integer.require(output, shape, "FLOAT32")
        self.integer.require(bits, shape, "INT32")
        self.broken.discard(bits)


def _needed(steps: Mapping[str, HostStep | None], wanted: Iterable[str]) -> tuple[HostStep, ...]:
    """Those of ``steps``, by what they make, that the ``wanted`` tensors follow from, in order."""
    reached, found = set(wanted), []
    for v, made in reversed(list(steps.items())):
        if made is not None and v in reached:
            reached.update(made.inputs)
            found.append(made)
    return tuple(found[::-1])

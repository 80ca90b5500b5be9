"""Nodes of an ONNX file as integer operators: quantisers, layers, max-pools, moves and residual additions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from npusim.errors import InputError, InvalidGraphError
from npusim.frontends.qonnx.chains import (
    FLOAT_INTEGERS,
    UNSCALED,
    Chain,
    Pool,
    affine_step,
    is_power_of_two,
    per_channel,
)
from npusim.frontends.qonnx.floats import MOVES, agreements, plus, tried
from npusim.frontends.qonnx.layers import LAYERS, XNOR, layer_of, pooling, shared
from npusim.frontends.qonnx.numbers import Numbers, Weights, annotated
from npusim.frontends.qonnx.quantisers import Quantiser, channel_axis, quantiser_of
from npusim.frontends.qonnx.reader import OnnxNode
from npusim.frontends.qonnx.state import Constant, State, Tensor
from npusim.graph.host import HostStep
from npusim.ir.tensor import TensorType
from npusim.numerics.types import U1, Array


def quantise(state: State, node: OnnxNode) -> None:
    """A quantiser: of a constant at once, of a float of the host by it, behind integers as thresholds of them."""
    if not node.inputs or not node.inputs[0]:
        raise InvalidGraphError("has no input; export the model again")
    x, output = state.tensors[node.inputs[0]], node.outputs[0]
    shape = x.array.shape if isinstance(x, Constant) else x.example.shape
    parameters = {v: a for v, a in state.constants(node).items() if v in node.inputs[1:]}
    quantiser = quantiser_of(node, parameters, len(shape))
    if isinstance(x, Constant):
        state.tensors[output] = _quantised_constant(x.array, quantiser)
        return
    if x.late and x.chain is None:
        raise InvalidGraphError(f"has no integers to quantise: {x.why}")
    if len(shape) < 2:
        raise InvalidGraphError(f"quantises a tensor of shape {list(shape)}; give it axes for batch and channels")
    axis = channel_axis(len(shape))
    scale = shared([Fraction(float(s)) for s in per_channel(quantiser.scale, shape, axis)])
    numbers = quantiser.numbers
    pooled = x.chain is not None and x.chain.pool is not None and numbers.dtype is not U1
    numbers = replace(numbers, wide=pooled or state.wide(output, numbers))
    value = state.value_name(output)
    if x.chain is None:
        function = partial(_elements, node.label, quantiser, numbers)
        tried(function, np.zeros(shape, np.float32))  # refuses parameters that do not go with the tensor
        state.before.append(HostStep(node.label, function, (x.host,), value))
        state.emitter.input(value, TensorType(shape, numbers.dtype))
    else:
        _fold(state, node, quantiser, numbers, x.chain, value)
    state.define(output, Chain(value, shape, axis, scale, (numbers.low, numbers.high), numbers))


def _quantised_constant(array: Array, quantiser: Quantiser) -> Constant:
    if not np.isfinite(array).all():
        raise InvalidGraphError("quantises a constant that is not made of finite numbers; export the model again")
    numbers = tried(quantiser.integers, array.astype(np.float32))
    scale = tried(lambda: np.broadcast_to(quantiser.scale, numbers.shape))
    return Constant(numbers.astype(np.float32) * scale, Weights(numbers, scale, quantiser.numbers))


def _elements(label: str, quantiser: Quantiser, numbers: Numbers, x: Array) -> Array:
    if np.isnan(x).any():
        raise InputError(f"{label} is given values that are not numbers (NaN); give the model finite inputs")
    return numbers.encode(quantiser.integers(x))


def integer_inputs(state: State) -> None:
    """Inputs of the model that a layer reads as they are and that FINN's annotations say are integers."""
    for value, tensor in state.file.inputs.items():
        numbers, shape = annotated(state.file.annotations.get(value, "")), tensor.shape
        readers = state.file.readers.get(value, ())
        if numbers is None or len(shape) < 2 or not any(r.operator in LAYERS for r in readers):
            continue
        numbers = replace(numbers, wide=state.wide(value, numbers))
        base, legal = state.emitter.fresh(f"{value}.integer"), (numbers.low, numbers.high)
        state.before.append(HostStep(f"Cast {value!r}", partial(_annotated_elements, value, numbers), (value,), base))
        state.emitter.input(base, TensorType(shape, numbers.dtype))
        state.define(value, Chain(base, shape, channel_axis(len(shape)), UNSCALED, legal, numbers))


def _annotated_elements(name: str, numbers: Numbers, x: Array) -> Array:
    legal = (x == np.rint(x)) & (x >= numbers.low) & (x <= numbers.high) & ~(numbers.bipolar & (x == 0))
    if not legal.all():
        what = "-1 and 1" if numbers.bipolar else f"the integers {numbers.low}..{numbers.high}"
        raise InputError(f"input {name!r} must be made of {what}, as its FINN annotation says, got {x[~legal][0]}")
    return numbers.encode(x)


def _fold(state: State, node: OnnxNode, quantiser: Quantiser, numbers: Numbers, chain: Chain, value: str) -> None:
    """``value``: the thresholds that the chain and the quantiser are, and the max-pool between them if any."""
    found = chain.thresholds(node.label, quantiser)
    alone = chain.alone and state.file.read_once(node.inputs[0])
    threshold = partial(state.emitter.threshold, node, chain.base, chain.axis, found, numbers, alone)
    if chain.pool is None:
        threshold(value)
        return
    slopes = list(chain.slopes(chain.pool.after))
    rises, falls = all(s.low >= 0 for s in slopes), all(s.high <= 0 for s in slopes)
    if not (rises or falls):
        raise InvalidGraphError(
            f"cannot be moved before {chain.pool.node.label}: the floats between rise in some channels and fall in "
            "others; quantise before pooling"
        )
    whole = state.emitter.fresh(f"{value}.unpooled")
    threshold(whole)
    if state.emitter.exists(whole):
        state.emitter.pool(chain.pool.node, whole, not rises, value)


def integer_operator(state: State, node: OnnxNode) -> str | None:
    """Makes the node an operator on integers (None), or says why it is none ("": it never is)."""
    operands = [state.tensors[v] for v in node.inputs if v]
    x = operands[0]
    if not isinstance(x, Tensor) or x.chain is None:
        return x.why if isinstance(x, Tensor) else ""
    if node.operator in LAYERS:
        return _layer(state, node, x.chain)
    if node.operator == "MaxPool":
        return _max_pool(state, node, x)
    if node.operator in MOVES:
        return _move(state, node, x)
    if node.operator == "Add" and len(operands) == 2 and isinstance(operands[1], Tensor):
        return _add(state, node, x.chain, operands[1].chain)
    return ""


def _layer(state: State, node: OnnxNode, x: Chain) -> str | None:
    operands = [state.tensors[v] if v else None for v in (*node.inputs[1:3], "", "")[:2]]
    if not x.is_integer or x.numbers is None:
        return f"{node.label} reads {node.inputs[0]!r}, which is not quantised"
    if not isinstance(operands[0], Constant) or isinstance(operands[1], Tensor):
        return f"{node.label} has weights or a bias that are computed"
    weights = operands[0].weights or Weights.of_integers(operands[0].array)
    if weights is None:
        return f"{node.label} has weights {node.inputs[1]!r} that are not quantised to up to 8 bits"
    layer = layer_of(node, x, weights, None if operands[1] is None else operands[1].array)
    bias, output = layer.bias, node.outputs[0]
    inner = output if bias is None and node.operator != XNOR else state.emitter.fresh(f"{output}.sum")
    base = state.value_name(inner)
    shape = state.emitter.sum(node, x.base, layer, base)
    sums = Chain(base, shape, channel_axis(len(shape)), layer.scale, layer.range)
    exact = _rounds_nothing(sums, np.zeros(sums.channels) if bias is None else sums.per_channel(bias))
    sums = replace(sums, exact=exact)
    if not exact:
        state.rounding.append(node.label)
    defined = state.define(inner, sums)
    if inner == output or defined is None:
        return None
    function: Callable[[Array], Array]
    if bias is not None:
        function, scale, offset = partial(plus, bias), np.ones(sums.channels), sums.per_channel(bias)
    else:
        function, scale = partial(agreements, layer.length), np.full(sums.channels, 0.5)
        offset = scale * layer.length
    state.after.append((HostStep(node.label, function, (defined.host,), output), exact))
    chain = sums.then(affine_step(function, scale, offset), read_once=True)
    state.tensors[output] = Tensor(defined.example, output, True, chain)
    return None


def _rounds_nothing(sums: Chain, bias: Array) -> bool:
    """Whether scaled sums plus the bias of their channel are the same floats in whatever order they are added.

    They are if all terms are multiples of one power of two, and no sum of them is beyond 2**24 times that.
    """
    largest = max(abs(n) for n in sums.range)
    for c in range(sums.channels):
        scale, term = sums.scale[c % len(sums.scale)], Fraction(float(bias[c]))
        grain = min(Fraction(t.numerator & -t.numerator, t.denominator) for t in (scale, term or scale))
        if not is_power_of_two(scale) or largest * scale + abs(term) > FLOAT_INTEGERS * grain:
            return False
    return True


def _max_pool(state: State, node: OnnxNode, x: Tensor) -> str | None:
    """Of quantised values at once; of sums, or of floats of them, where they are quantised: all of it is monotone."""
    assert x.chain is not None
    if x.chain.pool is not None:
        return f"{node.label} is the second max-pool of floats that are not quantised yet"
    if x.chain.is_integer and x.chain.numbers is not None:
        value = state.value_name(node.outputs[0])
        state.emitter.pool(node, x.chain.base, False, value)
        if state.emitter.exists(value):
            state.define(node.outputs[0], replace(x.chain, base=value, shape=state.emitter.type_of(value).shape))
        return None
    try:
        pooling(node)
    except InvalidGraphError as e:  # which matters only where a quantiser follows
        return f"{node.label} cannot be moved behind a quantiser: {e.problems[0]}"
    example = tried(state.function(node), x.example)
    step = HostStep(node.label, state.function(node), (x.host,), node.outputs[0])
    state.after.append((step, True))
    chain = x.chain.then(None, state.file.read_once(node.inputs[0]))
    chain = replace(chain, pool=Pool(node, len(chain.steps)))
    state.tensors[node.outputs[0]] = Tensor(example, node.outputs[0], True, chain)
    return None


def _move(state: State, node: OnnxNode, x: Tensor) -> str | None:
    chain = x.chain
    assert chain is not None
    if not chain.is_integer or len(chain.scale) > 1:
        return f"{node.label} moves floats that differ by channel and are not quantised yet"
    shape = tried(state.function(node), x.example).shape
    if len(shape) < 2:
        return f"{node.label} leaves no axes for batch and channels"
    perms = None
    if node.operator == "Transpose":
        perms = node.integers("perm", tuple(range(len(shape)))[::-1])
    value = state.value_name(node.outputs[0])
    state.emitter.move(node, state.emitter.value(chain.base), shape, perms, value)
    state.define(node.outputs[0], replace(chain, base=value, shape=shape, axis=channel_axis(len(shape)), alone=True))
    return None


def _add(state: State, node: OnnxNode, a: Chain, b: Chain | None) -> str | None:
    """A residual connection: integers of one scale."""
    if b is None or not (a.is_integer and b.is_integer) or a.scale != b.scale or len(a.scale) > 1:
        return f"{node.label} adds tensors that are not integers of one and the same scale"
    if a.shape != b.shape:
        return f"{node.label} adds tensors of the shapes {list(a.shape)} and {list(b.shape)}"
    values = [state.emitter.value(c.base) for c in (a, b)]
    total = (a.range[0] + b.range[0], a.range[1] + b.range[1])
    value = state.value_name(node.outputs[0])
    state.emitter.add(node, values[0], values[1], value)
    state.define(node.outputs[0], replace(a, base=value, range=total, numbers=None, exact=a.exact and b.exact))
    return None

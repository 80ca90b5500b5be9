"""What the QONNX reader refuses, each with a message that names the node and the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.errors import InvalidGraphError
from npusim.frontends.qonnx import load_qonnx
from tests.frontends.qonnx.networks import QONNX, Network, helper

ONES = np.ones((16, 8))
FILTERS = np.ones((4, 4, 3, 3))


def refusal(net: Network, folder: Path, *outputs: str) -> str:
    path = net.save(folder, *outputs)
    with pytest.raises(InvalidGraphError) as e:
        load_qonnx(path)
    assert all(p.startswith(f"{path}: ") for p in e.value.problems)
    return "\n".join(p.removeprefix(f"{path}: ") for p in e.value.problems)


IMAGES = {
    "scale must be greater than 0, got -1.0": lambda n: n.bipolar("x", -1.0),
    "zero_point must be one integer, got [0.5]": lambda n: n.quant("x", 4, zero=0.5),
    "bitwidth must be one integer, got [2.5]": lambda n: n.quant("x", 2.5),
    "bitwidth must be a number of bits in 1..32, got 0": lambda n: n.quant("x", 0),
    "zero_point must be 0 where one signed bit is a sign, got 1": lambda n: n.quant("x", 1, zero=1),
    "has one level only (1 bit, unsigned, narrow)": lambda n: n.quant("x", 1, signed=0, narrow=1),
    "rounding_mode must be one of ROUND, ": lambda n: n.quant("x", 4, rounding_mode="STOCHASTIC"),
    "integers -32768..32767 do not fit 8 bits": lambda n: n.quant("x", 16),
    "integers 0..255 do not fit -128..127": lambda n: n.op("MaxPool", n.quant("x", 8, signed=0), kernel_shape=[2, 2]),
    "SequenceEmpty 'n0' gives no tensor": lambda n: n.op("SequenceEmpty"),
    "attribute signed must be an integer, got b'yes'": lambda n: n.quant("x", 4, signed="yes"),  # type: ignore[arg-type]
    "must have 4 inputs, got ['x', 'c0']": lambda n: n.op("Quant", "x", 1.0, domain=QONNX),
    "its parameter 't0' is computed; make it a constant": lambda n: n.bipolar("x", n.op("Relu", "x")),
    "its parameters must be finite numbers": lambda n: n.bipolar("x", np.inf),
    "thresholds must be [channels, steps], got the shape [3]": lambda n: n.op(
        "MultiThreshold", "x", [1, 2, 3], domain=QONNX
    ),
    "out_scale must be greater than 0, got -1.0": lambda n: n.op(
        "MultiThreshold", "x", [[1.0]], domain=QONNX, out_scale=-1.0
    ),
    "out_bias must be a multiple of out_scale, got 0.25 and 1.0": lambda n: n.op(
        "MultiThreshold", "x", [[1.0]], domain=QONNX, out_bias=0.25
    ),
    "attribute out_scale must be a finite number, got b'1'": lambda n: n.op(
        "MultiThreshold", "x", [[1.0]], domain=QONNX, out_scale="1"
    ),
    "attribute data_layout must be a string, got 1": lambda n: n.op(
        "MultiThreshold", "x", [[1.0]], domain=QONNX, data_layout=1
    ),
    "quantises a constant that is not made of finite numbers": lambda n: n.bipolar([np.nan]),
    "quantises a tensor of shape [256]": lambda n: n.bipolar(n.op("Reshape", "x", n.constant([-1], np.int64))),
    "varies along other axes of [1, 4, 8, 8] than that of channels (1)": lambda n: n.bipolar(
        "x", np.ones((8, 8)) + np.eye(8)
    ),
    "cannot be computed: ": lambda n: n.op("Reshape", "x", n.constant([7], np.int64)),
    "reads 'nowhere', which no earlier node, input or constant defines": lambda n: n.op("Relu", "nowhere"),
    "only two-dimensional convolutions run on the chip, got weights [4, 4, 3]": lambda n: n.op(
        "Conv", n.op("Reshape", n.bipolar("x"), n.constant([1, 4, 64], np.int64)), np.ones((4, 4, 3))
    ),
    "attribute strides must be 2 integers, got [1]": lambda n: n.op("Conv", n.bipolar("x"), FILTERS, strides=[1]),
    "the weight must have the channels of one group": lambda n: n.op("Conv", n.bipolar("x"), np.ones((4, 3, 3, 3))),
    "the scale of its weights varies along the products of a sum": lambda n: n.op(
        "Conv", n.bipolar("x"), n.bipolar(FILTERS, np.arange(1, 4))
    ),
    "the scale of its input varies along the products of a sum": lambda n: n.op(
        "Conv", n.bipolar("x", np.arange(1, 5).reshape(4, 1, 1)), FILTERS
    ),
    "give no sums of products": lambda n: n.op("Conv", n.bipolar("x"), n.bipolar(np.ones((4, 0, 3, 3)))),
    "dilations must be 1 and ceil_mode 0": lambda n: n.op("MaxPool", n.bipolar("x"), kernel_shape=[2, 2], ceil_mode=1),
    "every kernel size must be at least 1": lambda n: n.op("MaxPool", n.bipolar("x"), kernel_shape=[0, 2]),
    "a max-pool of i8 elements must have pads of its own": lambda n: n.op(
        "MaxPool", n.quant("x", 3), kernel_shape=[2, 2], auto_pad="SAME_UPPER"
    ),
    "combines floats before the integer graph with ones behind it": lambda n: n.op("Mul", "x", n.bipolar("x")),
    "output 't0' follows from no quantised tensor": lambda n: n.op("Relu", "x"),
    "output 'nowhere' is made by no node": lambda n: (n.bipolar("x"), "nowhere")[1],
    "output 't1' is of int64; cast it to float32": lambda n: n.op("ArgMax", n.bipolar("x")),
}


@pytest.mark.parametrize("message", IMAGES)
def test_of_images(message: str, tmp_path: Path) -> None:
    net = Network(1, 4, 8, 8)
    assert message in refusal(net, tmp_path, IMAGES[message](net))


def conv(net: Network) -> str:
    return net.op("Conv", net.bipolar("x"), FILTERS)


def product(net: Network, *shape: int) -> str:
    """Sums of 16 products."""
    x = net.op("Reshape", "x", net.constant(shape or [16, 16], np.int64))
    return net.op("MatMul", net.bipolar(x), ONES)


CHANNELS = np.arange(1, 5).reshape(4, 1, 1)

CHAINS: dict[str, Callable[[Network], str]] = {
    "Softmax 'n2' cannot be folded into thresholds: it is not linear in each element": lambda n: n.op(
        "Softmax", conv(n)
    ),
    "Mul 'n2' cannot be folded into thresholds: its constant of shape [6, 6] varies": lambda n: n.op(
        "Mul", conv(n), np.ones((6, 6))
    ),
    "its constant is not made of finite floats": lambda n: n.op("Mul", conv(n), np.nan),
    "it changes the shape of floats that are not quantised yet": lambda n: n.op(
        "ReduceMean", n.op("Mul", conv(n), 2.0), axes=[2, 3]
    ),
    "it divides a constant by the tensor, or by 0": lambda n: n.op("Div", 1.0, conv(n)),
    "variance + epsilon must be greater than 0": lambda n: n.norm(conv(n), *np.ones((3, 4)), -np.ones(4)),
    "its parameters must be finite constants of 4 elements": lambda n: n.norm(conv(n), *np.ones((4, 1))),
    "its limits are 3.0 and 1.0": lambda n: n.op("Clip", conv(n), 3.0, 1.0),
    "its limits are not one number each": lambda n: n.op("Clip", conv(n), np.ones(6)),
    "MatMul 'n3' reads 't2', which is not quantised": lambda n: n.op("MatMul", product(n), np.ones((8, 8))),
    "BatchNormalization 'n2' is in training mode": lambda n: n.op(
        "BatchNormalization", conv(n), *np.ones((4, 4)), training_mode=1
    ),
    "it normalises no channels of this tensor (axis 1) by constants": lambda n: n.norm(
        product(n, 1, 16, 16), *np.ones((4, 16))
    ),
    "both of its operands are computed": lambda n: (lambda y: n.op("Mul", y, y))(conv(n)),
    "Reshape 'n2' leaves no axes for batch and channels": lambda n: n.op(
        "Reshape", conv(n), n.constant([-1], np.int64)
    ),
    "has weights 'c1' that are not quantised to up to 8 bits": lambda n: n.op("Conv", n.bipolar("x"), FILTERS / 3),
    "MaxPool 'n3' is the second max-pool of floats": lambda n: n.op(
        "MaxPool", n.op("MaxPool", conv(n), kernel_shape=[2, 2]), kernel_shape=[2, 2]
    ),
    "Flatten 'n3' moves floats that differ by channel": lambda n: n.op("Flatten", n.op("Mul", conv(n), CHANNELS)),
    "adds tensors that are not integers of one and the same scale": lambda n: n.op(
        "Add", conv(n), n.op("Conv", n.bipolar("x", 0.5), FILTERS)
    ),
    "adds tensors of the shapes": lambda n: n.op("Add", conv(n), n.op("Conv", n.bipolar("x"), np.ones((4, 4, 8, 3)))),
    "Mul 'n4' combines several tensors": lambda n: n.op("Mul", conv(n), conv(n)),
}


@pytest.mark.parametrize("message", CHAINS)
def test_of_floats_behind_sums(message: str, tmp_path: Path) -> None:
    net = Network(1, 4, 8, 8)
    assert message in refusal(net, tmp_path, net.bipolar(CHAINS[message](net)))


def test_max_pools_that_channels_disagree_on(tmp_path: Path) -> None:
    net = Network(1, 4, 8, 8)
    x = net.op("Mul", net.op("MaxPool", conv(net), kernel_shape=[2, 2]), CHANNELS - 2.5)
    assert "the floats between rise in some channels and fall in others" in refusal(net, tmp_path, net.bipolar(x))
    net = Network(1, 4, 8, 8)
    x = net.op("Neg", net.op("MaxPool", conv(net), kernel_shape=[2, 2]))
    assert "no falling float operators behind it" in refusal(net, tmp_path, net.quant(x, 3))


def test_products(tmp_path: Path) -> None:
    net = Network(4, 16)
    out = net.op("Gemm", net.bipolar("x"), ONES, alpha=0.5)
    assert "Gemm 'n1' alpha and beta must be 1 and transA 0" in refusal(net, tmp_path, out)
    net = Network(4, 16)
    out = net.op("MatMul", net.bipolar("x"), np.ones((2, 16, 8)))
    assert "its weights must be a matrix, got the shape [2, 16, 8]" in refusal(net, tmp_path, out)
    net = Network(4, 16)
    out = net.op("XnorPopcountMatMul", "x", ONES, domain=QONNX)
    assert "is no operator on floats: its first operand is not quantised" in refusal(net, tmp_path, out)
    net = Network(4, 16)
    out = net.op("XnorPopcountMatMul", net.bipolar("x"), ONES, domain=QONNX)
    assert "both of its operands must be made of 0 and 1" in refusal(net, tmp_path, out)


def test_what_floats_round_another_way(tmp_path: Path) -> None:
    """2^24 + 3 is no float and rounds to 2^24 + 4, where the sign changes."""
    net = Network(4, 16)
    x = net.op("Add", net.op("Add", net.op("MatMul", net.bipolar("x"), ONES), 1.0), 2.0**24)
    out = net.bipolar(net.op("Sub", x, 2.0**24 + 4))
    message = refusal(net, tmp_path, out)
    assert "BipolarQuant 'n5' cannot be folded into integer thresholds: in channel 0 the sum" in message
    assert "in exact arithmetic" in message and "in float32" in message


def test_all_problems_of_a_file_at_once(tmp_path: Path) -> None:
    net = Network(4, 16)
    first = net.quant("x", 20)
    second = net.bipolar(net.op("Softmax", net.op("MatMul", net.bipolar("x"), ONES)))
    out = net.op("Add", first, second)
    problems = refusal(net, tmp_path, out).splitlines()
    assert [p.split(" ", 2)[:2] for p in problems] == [["Quant", "'n0'"], ["BipolarQuant", "'n4'"]]


def test_unknown_operators_by_kind(tmp_path: Path) -> None:
    net = Network(4, 16)
    x = net.bipolar("x")
    for _ in range(2):
        x = net.op("Trunc", x, 1.0, 0.0, 8.0, 4.0, domain=QONNX)
    out = net.op("Quantum", net.op("RandomNormalLike", x), domain="elsewhere")
    assert refusal(net, tmp_path, out).splitlines() == [
        f"operator {kind} is not known to npusim ({n} in the file, the first is {first}); export the model without it"
        for kind, n, first in [
            (f"{QONNX}.Trunc", 2, "Trunc 'n1'"),
            ("RandomNormalLike", 1, "RandomNormalLike 'n3'"),
            ("elsewhere.Quantum", 1, "Quantum 'n4'"),
        ]
    ]


def test_names_that_are_given_twice_and_nodes_without_outputs(tmp_path: Path) -> None:
    net = Network(4, 16)
    x = net.bipolar("x")
    net.nodes.append(helper.make_node("Relu", [x], [x]))
    net.nodes.append(helper.make_node("Relu", [x], [], "lost"))
    message = refusal(net, tmp_path, x)
    assert "Relu 't0' gives 't0', which exists already; every tensor needs its own name" in message
    assert "Relu 'lost' has no output" in message


def test_a_quantiser_without_an_input(tmp_path: Path) -> None:
    net = Network(4, 16)
    net.nodes.append(helper.make_node("BipolarQuant", [], ["y"], "q", domain=QONNX))
    assert "BipolarQuant 'q' has no input" in refusal(net, tmp_path, "y")


def test_operands_that_are_computed(tmp_path: Path) -> None:
    net = Network(4, 16)
    a = net.bipolar("x")
    out: Any = net.bipolar(net.op("MatMul", a, net.op("Transpose", a)))
    assert "MatMul 'n2' has weights or a bias that are computed" in refusal(net, tmp_path, out)

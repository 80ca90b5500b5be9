"""Compares npusim with the package qonnx, which executes QONNX networks node by node: ``make oracle-qonnx``.

Run ``python -m scripts.oracle_qonnx [--cases N] [--seed S]``. The exit code is 1 if any network gives other numbers.

Networks: convolutions with groups, pads, strides and dilations; chains of MatMul and Gemm; residual connections; sums
of agreeing bits (XnorPopcountMatMul). Between them batch norms, activations, constants and max-pools, and quantisers of
all kinds: Quant of 1 to 8 bits with every rounding mode of the package, BipolarQuant and MultiThreshold, or inputs that
FINN annotates as integers. Numbers are equal where npusim says that its floats are exact, else close. Most scales are
powers of two. With others floats are rounded in the sums before a quantiser: there a constant keeps them off its steps.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from scripts.live_oracle import Case, Oracle, main
from scripts.qonnx_networks import ANNOTATIONS, Drawn
from tests.frontends.qonnx.networks import QONNX


def random_case(rng: np.random.Generator) -> Case:
    """A network."""
    kind = str(rng.choice(["image", "dense", "residual", "agreements"], p=[0.5, 0.25, 0.15, 0.1]))
    if kind == "dense":
        lead = [int(n) for n in rng.integers(1, 4, rng.choice([1, 1, 2]))]
        drawn = Drawn(rng, *lead, int(rng.integers(1, 80)))
    elif kind == "agreements":
        drawn = Drawn(rng, int(rng.integers(1, 4)), int(rng.integers(1, 70)))
    else:
        drawn = Drawn(rng, int(rng.integers(1, 3)), int(rng.integers(1, 9)), *(int(n) for n in rng.integers(3, 10, 2)))
    if kind == "agreements":
        agreements(drawn)
    elif kind == "residual":
        residual(drawn)
    else:
        if drawn.chance(0.15):
            drawn.annotation = str(rng.choice(list(ANNOTATIONS)))
            drawn.layer()
        else:
            if drawn.chance(0.3):
                drawn.floats()
            if drawn.chance(0.15):
                host_operator(drawn)
            drawn.quantise()
        for _ in range(rng.integers(0, 3)):
            drawn.layer()
            if len(drawn.shape) == 4 and drawn.chance(0.2):
                drawn.pool()
    if kind != "agreements":
        head(drawn)
    return drawn.case(kind)


def residual(drawn: Drawn) -> None:
    """Two quantised tensors and sums of one scale, added."""
    rng = drawn.rng
    bits, scale = int(rng.integers(1, 6)), 2.0 ** int(rng.integers(-1, 2))
    drawn.quantise(bits, scale)
    for _ in range(rng.integers(1, 4)):
        before = drawn.y
        drawn.convolve(keep=True)
        if drawn.chance(0.5):
            for _ in range(rng.integers(3)):
                drawn.y = drawn.net.op("Relu", drawn.y) if drawn.chance(0.4) else normed(drawn)
            drawn.quantise(bits, scale)
        drawn.y = drawn.net.op("Add", *([drawn.y, before] if drawn.chance(0.5) else [before, drawn.y]))
        if drawn.chance(0.2):
            drawn.outputs.append(drawn.y)
        if drawn.chance(0.5):
            drawn.y = normed(drawn)
        drawn.quantise(bits, scale)


def normed(drawn: Drawn) -> str:
    """A batch norm that rises."""
    rng, c = drawn.rng, drawn.channels
    constants = (rng.uniform(0.3, 2, c), rng.normal(size=c), rng.normal(size=c), rng.uniform(1, 30, c))
    return drawn.net.norm(drawn.y, *constants)


def agreements(drawn: Drawn) -> None:
    """Counts of agreeing bits, thresholds between."""
    rng, net = drawn.rng, drawn.net
    levels = rng.normal(size=(drawn.channels, 1))
    for _ in range(rng.integers(1, 4)):
        drawn.y = net.op("MultiThreshold", drawn.y, levels, domain=QONNX, out_dtype="BINARY")
        outputs = int(rng.integers(1, 40))
        bits = rng.integers(0, 2, size=(drawn.shape[1], outputs))
        bits.flat[:2] = (0, 1)[: bits.size]
        drawn.y = net.op("XnorPopcountMatMul", drawn.y, bits, domain=QONNX)
        levels = np.floor(drawn.shape[1] / 2 + rng.normal(size=(outputs, 1)) * 3) + rng.choice([0, 0.5])
        drawn.shape[1] = outputs


def head(drawn: Drawn) -> None:
    """The end: sums of a layer, maybe with floats behind them; or what was quantised last."""
    rng, net = drawn.rng, drawn.net
    if drawn.chance(0.15):
        return
    if len(drawn.shape) == 4 and drawn.chance(0.6):
        drawn.y = net.op("Flatten", drawn.y)
        drawn.shape = [drawn.shape[0], int(np.prod(drawn.shape[1:]))]
    if len(drawn.shape) == 4:
        drawn.convolve()
    else:
        drawn.multiply(int(rng.integers(1, 12)))
    if drawn.chance(0.3):
        host_operator(drawn)
    elif drawn.chance(0.4):
        drawn.floats()


def host_operator(drawn: Drawn) -> None:
    """An operator that only the host has, such as poolings with all of their attributes."""
    rng, net, rank = drawn.rng, drawn.net, len(drawn.shape)
    kind = str(rng.choice(["pool", "pad", "flattening", "mean", "activation"]))
    if kind == "pool" and rank == 4:
        operator, window = str(rng.choice(["MaxPool", "AveragePool"])), {"kernel_shape": drawn.ints(1, 4, 2)}
        window |= {
            "strides": drawn.ints(1, 3, 2),
            "pads": [int(rng.integers(0, k)) for k in window["kernel_shape"] * 2],
        }
        if operator == "MaxPool" and drawn.chance(0.3):
            window["dilations"] = drawn.ints(1, 3, 2)
        drawn.shape = drawn.windows(drawn.shape[1], window["kernel_shape"], window)
        drawn.y = net.op(operator, drawn.y, **window, **({"count_include_pad": 1} if operator == "AveragePool" else {}))
    elif kind == "pad":
        ends = rng.integers(0, 3, size=(2, rank)) * ([0, 0, 1, 1] if rank == 4 else [0] * (rank - 1) + [1])
        drawn.y = net.op("Pad", drawn.y, net.constant(ends.reshape(-1), np.int64), net.constant(rng.normal()))
        drawn.shape = [size + int(n) for size, n in zip(drawn.shape, ends.sum(0), strict=True)]
    elif kind == "flattening":
        operator = str(
            rng.choice(["Softmax", "LogSoftmax", *(["Hardmax"] if drawn.fine else [])])
        )  # ties may be rounded
        drawn.y = net.op(operator, drawn.y, axis=int(rng.integers(-1, rank)))
    elif kind == "mean" and rank == 4:
        drawn.y = net.op("GlobalAveragePool", drawn.y)
        drawn.shape[2:] = [1, 1]
    else:
        drawn.y = net.op(str(rng.choice(["LeakyRelu", "Elu", "HardSigmoid"])), drawn.y)


ORACLE = Oracle(
    name="qonnx",
    suffix=".onnx",
    packages=("qonnx==1.0.0", "onnxruntime==1.32.0", "onnx==1.23.2", "numpy==2.4.6"),
    runner=Path(__file__).with_name("qonnx_runner.py"),
    random_case=random_case,
    refusals=(
        "is the second max-pool of floats",
        "rise in some channels and fall in others",
        "cannot be folded into",
        "do not fit",
        "varies along",
        "falling float",
        "is not quantised",
        "moves floats that differ by channel",
        "not integers of one and the same scale",
    ),
    cases=500,
)


if __name__ == "__main__":
    sys.exit(main(ORACLE))

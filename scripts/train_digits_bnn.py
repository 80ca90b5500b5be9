"""Train, fold and export the small binary network that classifies scikit-learn's handwritten digits.

Run ``python scripts/train_digits_bnn.py`` to rewrite ``workloads/digits_bnn/`` (seeded; plain numpy, straight-through
estimator). Images, their split and their int8 form are those of ``train_digits.py``. The network, in order; tensors are
NHWC with N free, convolutions have stride 1 and pad 1 on all sides (the last none), and padding counts as 0:

====================  ============  =======  ========================  ===================  =======================
operator              name          kernel   weight                    thresholds           output
====================  ============  =======  ========================  ===================  =======================
(input)                                                                                     int8 [N,8,8,1]
conv2d, threshold     conv1         [3, 3]   int8 [64,3,3,1]           int32 [64]           u1 [N,8,8,64]
binary_conv2d         conv2         [3, 3]   u1 [64,3,3,64]            int32 [64]           u1 [N,8,8,64]
binary_max_pool2d     max_pool      [2, 2]                                                  u1 [N,4,4,64]
binary_conv2d         conv3         [3, 3]   u1 [64,3,3,64]            int32 [64]           u1 [N,4,4,64]
binary_conv2d         conv4         [3, 3]   u1 [64,3,3,64]            int32 [64, 2]        int8 [N,4,4,64]: -1, +1
conv2d                classifier    [4, 4]   int8 [10,4,4,64]                               int32 [N,1,1,10]
====================  ============  =======  ========================  ===================  =======================

u1 stands for -1 (0) and +1 (1). An output is +1 where its sum exceeds its channel's threshold. ``conv4`` writes
numbers that the MAC array takes: -1 + how many of two equal thresholds the sum exceeds. ``weights.npz`` holds
``NAME.weight`` (u1 as uint8), ``NAME.threshold`` and ``classifier.bias`` int32 [10]; ``expected_logits.npy`` the
int32 output of ``integer_forward`` on the test images, which with their labels are those in ``workloads/digits/``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from train_digits import (
    LOW,
    Array,
    Arrays,
    Convolution,
    accuracy,
    convolve,
    load_split,
    pad_zeros,
    pool_windows,
    quantise_images,
    shift_randomly,
    taps,
)

SEED = 2024
EPOCHS = 30
BATCH_SIZE = 32
LEARNING_RATE = 3e-3
VARIANCE_FLOOR = 1e-5
"""Added to the variance of a channel in training, so that constant channels can be normalised."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution, then, in training, batch norm with a learnt offset, a 2 x 2 max pool if ``pool``, and sign.

    ``binary``: the weights are signs too. The last layer has neither batch norm nor sign, but a bias.
    """

    convolution: Convolution
    binary: bool = False
    pool: bool = False
    last: bool = False

    @property
    def name(self) -> str:
        return self.convolution.name

    @property
    def fan_in(self) -> int:
        return self.convolution.kernel**2 * self.convolution.input_channels


def _layer(
    name: str, size: tuple[int, int, int, int], binary: bool = False, pool: bool = False, last: bool = False
) -> Layer:
    kernel, pad, inputs, outputs = size
    return Layer(Convolution(name, "conv2d", kernel, pad, inputs, outputs, relu=False), binary, pool, last)


NETWORK = (
    _layer("conv1", (3, 1, 1, 64)),
    _layer("conv2", (3, 1, 64, 64), binary=True, pool=True),
    _layer("conv3", (3, 1, 64, 64), binary=True),
    _layer("conv4", (3, 1, 64, 64), binary=True),
    _layer("classifier", (4, 0, 64, 10), last=True),
)
NUMBERS = "conv4"
"""The layer whose -1 and +1 are written as int8."""


def signs(values: Array) -> Array:
    """+1 where a value is positive, else -1, in its type."""
    result: Array = np.where(values > 0, values.dtype.type(1), values.dtype.type(-1))
    return result


@dataclass(frozen=True, slots=True)
class Trace:
    """What the way back needs of a layer's way forth: arrays [N,H,W,C], or [C] for ``deviation``."""

    inputs: Array
    weight: Array
    normalised: Array
    deviation: Array
    pooled: Array


def forward(parameters: Mapping[str, Array], images: Array) -> tuple[Array, list[Trace]]:
    """Return the logits [N,10] of ``images`` [N,8,8,1], with batch statistics of these images, and the traces.

    Batch norm stands before the pool and sign after it: as sign does not fall, pooling signs gives the same.
    """
    values, traces = images, []
    for layer in NETWORK:
        weight, offset = parameters[f"{layer.name}.weight"], parameters[f"{layer.name}.offset"]
        used = signs(weight) if layer.binary else weight
        if layer.last:
            logits = convolve(layer.convolution, values, used, offset)
            traces.append(Trace(values, used, logits, np.ones_like(offset), logits))
            return logits.reshape(len(images), -1), traces
        sums = convolve(layer.convolution, values, used, np.zeros_like(offset))
        deviation = np.sqrt(sums.var((0, 1, 2)) + values.dtype.type(VARIANCE_FLOOR))
        normalised = (sums - sums.mean((0, 1, 2))) / deviation
        pooled = normalised + offset
        if layer.pool:
            pooled = pool_windows(pooled).max((2, 4))
        traces.append(Trace(values, used, normalised, deviation, pooled))
        values = signs(pooled)
    raise AssertionError("the network has no last layer")


def backward(traces: Sequence[Trace], logits: Array, labels: Array) -> Arrays:
    """Return the gradient of the mean softmax cross-entropy by every parameter.

    Straight-through estimator (Hubara et al., "Binarized Neural Networks", NeurIPS 2016): sign of an activation counts
    as the identity where its argument lies in -1..1 and as constant elsewhere, sign of a weight as the identity.
    """
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    gradient = exponentials / exponentials.sum(-1, keepdims=True)
    gradient[np.arange(len(labels)), labels] -= 1
    gradient = (gradient / logits.dtype.type(len(labels)))[:, None, None, :]
    result: Arrays = {}
    for layer, trace in reversed(list(zip(NETWORK, traces, strict=True))):
        if not layer.last:
            gradient = gradient * (np.abs(trace.pooled) <= 1)
        if layer.pool:
            windows = pool_windows(trace.normalised)
            largest = windows == windows.max((2, 4), keepdims=True)
            gradient = (largest * gradient[:, :, None, :, None, :]).reshape(trace.normalised.shape)
        result[f"{layer.name}.offset"] = gradient.sum((0, 1, 2))
        if not layer.last:  # batch norm (Ioffe and Szegedy, ICML 2015): mean and deviation depend on the sums too
            follow = (gradient * trace.normalised).mean((0, 1, 2)) * trace.normalised
            gradient = (gradient - gradient.mean((0, 1, 2)) - follow) / trace.deviation
        padded = pad_zeros(layer.convolution, trace.inputs)
        weight_gradient, padded_gradient = np.zeros_like(trace.weight), np.zeros_like(padded)
        for inputs, tap in taps(layer.convolution, padded):
            weight_gradient[tap] = np.tensordot(gradient, padded[inputs], ((0, 1, 2), (0, 1, 2)))
            padded_gradient[inputs] += gradient @ trace.weight[tap]
        result[f"{layer.name}.weight"] = weight_gradient
        inside = slice(layer.convolution.pad, padded.shape[1] - layer.convolution.pad)
        gradient = padded_gradient[:, inside, inside]
    return result


def initial_parameters(generator: np.random.Generator) -> Arrays:
    """Draw weights: of binary layers uniform over -0.2..0.2, else normal of variance 1 / fan-in; offsets are 0."""
    parameters: Arrays = {}
    for layer in NETWORK:
        shape = layer.convolution.weight_shape
        weight = generator.uniform(-0.2, 0.2, shape) if layer.binary else generator.normal(0, layer.fan_in**-0.5, shape)
        parameters[f"{layer.name}.weight"] = weight.astype(np.float32)
        parameters[f"{layer.name}.offset"] = np.zeros(layer.convolution.output_channels, np.float32)
    return parameters


def train(images: Array, labels: Array, *, epochs: int = EPOCHS, seed: int = SEED) -> Arrays:
    """Train on float32 ``images`` [N,8,8,1] in 0..1 and ``labels`` 0..9; return the float32 parameters by name.

    Adam (Kingma and Ba, ICLR 2015) with a learning rate that falls along half a cosine; weights behind a sign stay in
    -1..1. The same arguments give the same bytes on one machine.
    """
    generator = np.random.default_rng(seed)
    parameters = initial_parameters(generator)
    binary = {f"{layer.name}.weight" for layer in NETWORK if layer.binary}
    first = {name: np.zeros_like(value) for name, value in parameters.items()}
    second = {name: np.zeros_like(value) for name, value in parameters.items()}
    batches = -(-len(images) // BATCH_SIZE)
    for step in range(epochs * batches):
        if step % batches == 0:
            order = generator.permutation(len(images))
        chosen = order[step % batches * BATCH_SIZE :][:BATCH_SIZE]
        logits, traces = forward(parameters, shift_randomly(images[chosen], generator))
        rate = np.float32(LEARNING_RATE * (1 + np.cos(np.pi * step / (epochs * batches))) / 2)
        correction_1, correction_2 = np.float32(1 - 0.9 ** (step + 1)), np.float32(1 - 0.999 ** (step + 1))
        for name, gradient in backward(traces, logits, labels[chosen]).items():
            first[name] += np.float32(0.1) * (gradient - first[name])
            second[name] += np.float32(0.001) * (gradient * gradient - second[name])
            update = first[name] / correction_1 / (np.sqrt(second[name] / correction_2) + np.float32(1e-8))
            parameters[name] = parameters[name] - rate * update
            if name in binary:
                parameters[name] = parameters[name].clip(-1, 1)
    return parameters


# Folding to integers, and the integer reference.


def integer_sums(layer: Layer, weights: Mapping[str, Array], values: Array) -> Array:
    """The int64 sums of a layer of ``values``: -1 and +1, or pixels less their zero point."""
    weight = weights[f"{layer.name}.weight"].astype(np.int64)
    bias = weights["classifier.bias"].astype(np.int64) if layer.last else np.zeros(len(weight), np.int64)
    # float64 sums integers below 2^53 exactly, in any order
    exact = convolve(
        layer.convolution, *(a.astype(np.float64) for a in (values, 2 * weight - 1 if layer.binary else weight, bias))
    )
    sums: Array = exact.astype(np.int64)
    return sums


def activate(layer: Layer, weights: Mapping[str, Array], sums: Array) -> Array:
    """-1 and +1 behind the thresholds of a layer and its pool."""
    threshold = weights[f"{layer.name}.threshold"].reshape(sums.shape[-1], -1)[:, 0]
    values: Array = np.where(sums > threshold, 1, -1)
    return pool_windows(values).max((2, 4)) if layer.pool else values


def fold(parameters: Mapping[str, Array], images: Array) -> Arrays:
    """Return the integer arrays of ``weights.npz`` for trained ``parameters``.

    Weights of the first and last layer become int8 (per channel, and in one step for all logits). Batch norm over the
    int8 ``images`` and sign become one threshold per channel: (s - mean) / deviation + offset > 0 for an integer s is
    s > floor(mean - offset * deviation) (Umuroglu et al., "FINN", FPGA 2017, section 4.2.2).
    """
    result: Arrays = {}
    values = images.astype(np.int64) - LOW
    for layer in NETWORK:
        weight, offset = (parameters[f"{layer.name}.{key}"].astype(np.float64) for key in ("weight", "offset"))
        if layer.binary:
            result[f"{layer.name}.weight"] = (weight > 0).astype(np.uint8)
        else:
            magnitude = np.abs(weight).max(None if layer.last else (1, 2, 3), keepdims=True)
            step = np.where(magnitude > 0, magnitude, 1) / 127  # a channel of zeros may have any step
            result[f"{layer.name}.weight"] = np.rint(weight / step).astype(np.int8)
        if layer.last:
            result["classifier.bias"] = np.rint(offset / step.item()).astype(np.int32)
            return result
        sums = integer_sums(layer, result, values)
        threshold = np.floor(sums.mean((0, 1, 2)) - offset * sums.std((0, 1, 2))).astype(np.int32)
        steps = 2 if layer.name == NUMBERS else 1
        result[f"{layer.name}.threshold"] = np.stack([threshold] * steps, 1) if steps > 1 else threshold
        values = activate(layer, result, sums)
    raise AssertionError("the network has no last layer")


def integer_forward(weights: Mapping[str, Array], images: Array) -> Array:
    """Return the int32 logits [N,1,1,10] of int8 ``images`` [N,8,8,1] under the arrays of ``weights.npz``."""
    values = images.astype(np.int64) - LOW
    for layer in NETWORK:
        sums = integer_sums(layer, weights, values)
        values = sums if layer.last else activate(layer, weights, sums)
    return values.astype(np.int32)


def main(command_line: Sequence[str] | None = None) -> None:
    """Train, fold, write both files and print both accuracies."""
    parser = argparse.ArgumentParser(description="Train and fold the binary digits network.")
    default_folder = Path(__file__).resolve().parents[1] / "workloads" / "digits_bnn"
    parser.add_argument("--out", type=Path, default=default_folder, help="folder to write (default: %(default)s)")
    arguments = parser.parse_args(command_line)

    train_images, test_images, train_labels, test_labels = load_split()
    weights = fold(train(train_images, train_labels), quantise_images(train_images))
    training_logits = integer_forward(weights, quantise_images(train_images))
    logits = integer_forward(weights, quantise_images(test_images))

    arguments.out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(arguments.out / "weights.npz", **weights)  # type: ignore[arg-type]
    np.save(arguments.out / "expected_logits.npy", logits)
    print(f"accuracy on {len(train_labels)} training images: {accuracy(training_logits, train_labels):.4f}")
    print(f"accuracy on {len(test_labels)} test images:      {accuracy(logits, test_labels):.4f}")
    print(f"written: {arguments.out}")


if __name__ == "__main__":
    main()

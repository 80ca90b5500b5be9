"""Train, quantise and export the small int8 network that classifies scikit-learn's handwritten digits.

Run ``python scripts/train_digits.py`` to rewrite ``workloads/digits/`` (seeded; float training in plain numpy, then
post-training quantisation). The data are the 1797 images of 8 x 8 pixels of ``sklearn.datasets.load_digits`` (pixels
0..16), split with equal class shares into 1347 training and 450 test images.

The network, in order; tensors are NHWC with N free, strides and pads in pixels, pad = [top, bottom, left, right],
dilation [1, 1] everywhere, names are those of the arrays in ``weights.npz``:

====================  ============  =======  =======  =============  =====================  ============
operator              name          kernel   stride   pad            weight (int8)          output
====================  ============  =======  =======  =============  =====================  ============
(input, int8)                                                                               [N,8,8,1]
conv2d                conv1         [3, 3]   [1, 1]   [1, 1, 1, 1]   [16,3,3,1]             [N,8,8,16]
conv2d                conv2         [3, 3]   [1, 1]   [1, 1, 1, 1]   [32,3,3,16]            [N,8,8,32]
max_pool2d            max_pool      [2, 2]   [2, 2]   [0, 0, 0, 0]                          [N,4,4,32]
depthwise_conv2d      depthwise     [3, 3]   [1, 1]   [1, 1, 1, 1]   [3,3,32,1]             [N,4,4,32]
conv2d                pointwise     [1, 1]   [1, 1]   [0, 0, 0, 0]   [64,1,1,32]            [N,4,4,64]
avg_pool2d            avg_pool      [2, 2]   [2, 2]   [0, 0, 0, 0]                          [N,2,2,64]
conv2d                classifier    [2, 2]   [1, 1]   [0, 0, 0, 0]   [10,2,2,64]            [N,1,1,10]
====================  ============  =======  =======  =============  =====================  ============

Each convolution ``L`` is these TOSA 1.0 operators:

1. ``conv2d`` or ``depthwise_conv2d``: int8 input and weight, int32 accumulator and output, ``L.bias`` [OC] int32,
   input zero point ``L.input_zp``, weight zero point 0. Weights are [OC,KH,KW,IC], depthwise [KH,KW,C,M] with M = 1.
2. ``rescale``: int32 -> int8, both signed, scale32 = true, rounding_mode = DOUBLE_ROUND, per_channel = true,
   ``L.multiplier`` [OC] int32 in [2^30, 2^31), ``L.shift`` [OC] int8 in 2..62, input zero point 0, output zero point
   ``L.output_zp``.
3. ``clamp``, absent after ``classifier``: min_val = ``L.output_zp`` (-128), max_val = 127, which is the ReLU.

``max_pool2d`` is int8 -> int8. ``avg_pool2d`` is int8 -> int8 with an int32 accumulator and the zero points
``avg_pool.input_zp`` and ``avg_pool.output_zp``. All zero points are 0-d int8 arrays. The pixel p is fed as the int8
value 15 p - 128, which loses nothing. The class of an image is the index of its largest logit, the smallest such index
if several are equal.

Beside ``weights.npz`` stand ``test_images.npy`` int8 [450,8,8,1], ``test_labels.npy`` int8 [450] (0..9) and
``expected_logits.npy`` int8 [450,1,1,10], the output of ``integer_forward`` on the test images.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

SEED = 2024
TEST_IMAGES = 450
EPOCHS = 40
BATCH_SIZE = 32
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-4
PIXEL_MAX = 16
PIXEL_STEP = 15  # int8 steps per grey level: the largest with 16 levels inside 255 steps
LOW, HIGH = -128, 127


@dataclass(frozen=True, slots=True)
class Convolution:
    """A stride-1 convolution with a square kernel, the same pad on four sides, a bias and, if ``relu``, a ReLU."""

    name: str
    operator: Literal["conv2d", "depthwise_conv2d"]
    kernel: int
    pad: int
    input_channels: int
    output_channels: int
    relu: bool = True

    @property
    def depthwise(self) -> bool:
        return self.operator == "depthwise_conv2d"

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """[OC,KH,KW,IC], or [KH,KW,C,1] if depthwise."""
        if self.depthwise:
            return (self.kernel, self.kernel, self.input_channels, 1)
        return (self.output_channels, self.kernel, self.kernel, self.input_channels)

    @property
    def reduced_axes(self) -> tuple[int, int, int]:
        """The axes of the weight that one output channel sums over."""
        return (0, 1, 3) if self.depthwise else (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Pool:
    """A 2 x 2 pool of stride 2 without pad."""

    name: str
    operator: Literal["max_pool2d", "avg_pool2d"]


NETWORK: tuple[Convolution | Pool, ...] = (
    Convolution("conv1", "conv2d", kernel=3, pad=1, input_channels=1, output_channels=16),
    Convolution("conv2", "conv2d", kernel=3, pad=1, input_channels=16, output_channels=32),
    Pool("max_pool", "max_pool2d"),
    Convolution("depthwise", "depthwise_conv2d", kernel=3, pad=1, input_channels=32, output_channels=32),
    Convolution("pointwise", "conv2d", kernel=1, pad=0, input_channels=32, output_channels=64),
    Pool("avg_pool", "avg_pool2d"),
    Convolution("classifier", "conv2d", kernel=2, pad=0, input_channels=64, output_channels=10, relu=False),
)


# Both arithmetics: the functions below serve float32 (training) and int64 (the integer reference) alike.


def taps(layer: Convolution, padded: Array) -> Iterator[tuple[tuple[slice, ...], tuple[Any, ...]]]:
    """Yield, per kernel tap, the index of the inputs [N,OH,OW,C] it meets and the index of its weights."""
    height, width = (size - layer.kernel + 1 for size in padded.shape[1:3])
    for y, x in np.ndindex(layer.kernel, layer.kernel):
        inputs = (slice(None), slice(y, y + height), slice(x, x + width))
        yield inputs, ((y, x, slice(None), 0) if layer.depthwise else (slice(None), y, x))


def pad_zeros(layer: Convolution, values: Array) -> Array:
    return np.pad(values, ((0, 0), (layer.pad, layer.pad), (layer.pad, layer.pad), (0, 0)))


def convolve(layer: Convolution, values: Array, weight: Array, bias: Array) -> Array:
    """Convolve ``values`` [N,H,W,C] in its own type; a padded tap contributes 0."""
    padded = pad_zeros(layer, values)
    result = bias
    for inputs, tap in taps(layer, padded):
        result = result + (padded[inputs] * weight[tap] if layer.depthwise else padded[inputs] @ weight[tap].T)
    return result


def pool_windows(values: Array) -> Array:
    """View [N,H,W,C] as [N,H/2,2,W/2,2,C], so that a pool is a reduction over axes 2 and 4."""
    n, height, width, channels = values.shape
    return values.reshape(n, height // 2, 2, width // 2, 2, channels)


# Float training.


def forward(parameters: Mapping[str, Array], images: Array) -> list[Array]:
    """Return the input and every layer's output, float32 NHWC; the last is the logits [N,1,1,10]."""
    activations = [images]
    for layer in NETWORK:
        values = activations[-1]
        if isinstance(layer, Convolution):
            output = convolve(layer, values, parameters[f"{layer.name}.weight"], parameters[f"{layer.name}.bias"])
            activations.append(np.maximum(output, 0) if layer.relu else output)
        else:
            windows = pool_windows(values)
            activations.append(windows.max((2, 4)) if layer.operator == "max_pool2d" else windows.mean((2, 4)))
    return activations


def backward(parameters: Mapping[str, Array], activations: list[Array], labels: Array) -> Arrays:
    """Return the gradient of the mean softmax cross-entropy by every parameter (back-propagation).

    The gradient of a maximum goes to all inputs that attain it.
    """
    logits = activations[-1]
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    gradient = exponentials / exponentials.sum(-1, keepdims=True)
    gradient[np.arange(len(labels)), 0, 0, labels] -= 1
    gradient /= np.float32(len(labels))
    result: Arrays = {}
    for layer, values, output in reversed(list(zip(NETWORK, activations[:-1], activations[1:], strict=True))):
        if isinstance(layer, Pool):
            spread = gradient[:, :, None, :, None, :]
            if layer.operator == "max_pool2d":
                windows = (pool_windows(values) == output[:, :, None, :, None, :]) * spread
            else:
                windows = np.broadcast_to(spread / np.float32(4), pool_windows(values).shape)
            gradient = windows.reshape(values.shape)
            continue
        if layer.relu:
            gradient = gradient * (output > 0)
        weight = parameters[f"{layer.name}.weight"]
        padded = pad_zeros(layer, values)
        weight_gradient, padded_gradient = np.zeros_like(weight), np.zeros_like(padded)
        for inputs, tap in taps(layer, padded):
            if layer.depthwise:
                weight_gradient[tap] = (gradient * padded[inputs]).sum((0, 1, 2))
                padded_gradient[inputs] += gradient * weight[tap]
            else:
                weight_gradient[tap] = np.tensordot(gradient, padded[inputs], ((0, 1, 2), (0, 1, 2)))
                padded_gradient[inputs] += gradient @ weight[tap]
        result[f"{layer.name}.weight"] = weight_gradient
        result[f"{layer.name}.bias"] = gradient.sum((0, 1, 2))
        inside = slice(layer.pad, padded.shape[1] - layer.pad)
        gradient = padded_gradient[:, inside, inside]
    return result


def initial_parameters(generator: np.random.Generator) -> Arrays:
    """Draw weights of variance 2 / fan-in (He et al., "Delving Deep into Rectifiers", ICCV 2015); biases are 0."""
    parameters: Arrays = {}
    for layer in NETWORK:
        if isinstance(layer, Convolution):
            fan_in = np.prod([layer.weight_shape[axis] for axis in layer.reduced_axes])
            weight = generator.normal(0, np.sqrt(2 / fan_in), layer.weight_shape)
            parameters[f"{layer.name}.weight"] = weight.astype(np.float32)
            parameters[f"{layer.name}.bias"] = np.zeros(layer.output_channels, np.float32)
    return parameters


def shift_randomly(images: Array, generator: np.random.Generator) -> Array:
    """Move each image by -1, 0 or 1 pixel along both axes; zeros come in at the border."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    offsets = generator.integers(0, 3, (2, len(images), 1, 1))
    rows, columns = np.arange(8)[:, None], np.arange(8)
    shifted: Array = padded[np.arange(len(images))[:, None, None], offsets[0] + rows, offsets[1] + columns]
    return shifted


def train(images: Array, labels: Array, *, epochs: int = EPOCHS, seed: int = SEED) -> Arrays:
    """Train on float32 ``images`` [N,8,8,1] in 0..1 and ``labels`` 0..9; return the float32 parameters by name.

    Adam (Kingma and Ba, ICLR 2015) with decoupled weight decay and a learning rate that falls along half a cosine
    (both Loshchilov and Hutter, ICLR 2019 and 2017). The same arguments give the same bytes on one machine.
    """
    generator = np.random.default_rng(seed)
    parameters = initial_parameters(generator)
    first = {name: np.zeros_like(value) for name, value in parameters.items()}
    second = {name: np.zeros_like(value) for name, value in parameters.items()}
    batches = -(-len(images) // BATCH_SIZE)
    for step in range(epochs * batches):
        if step % batches == 0:
            order = generator.permutation(len(images))
        chosen = order[step % batches * BATCH_SIZE :][:BATCH_SIZE]
        activations = forward(parameters, shift_randomly(images[chosen], generator))
        rate = np.float32(LEARNING_RATE * (1 + np.cos(np.pi * step / (epochs * batches))) / 2)
        correction_1, correction_2 = np.float32(1 - 0.9 ** (step + 1)), np.float32(1 - 0.999 ** (step + 1))
        for name, gradient in backward(parameters, activations, labels[chosen]).items():
            first[name] += np.float32(0.1) * (gradient - first[name])
            second[name] += np.float32(0.001) * (gradient * gradient - second[name])
            update = first[name] / correction_1 / (np.sqrt(second[name] / correction_2) + np.float32(1e-8))
            parameters[name] = parameters[name] - rate * (update + np.float32(WEIGHT_DECAY) * parameters[name])
    return parameters


# Quantisation.


def quantise_scale(scale: Array) -> tuple[Array, Array]:
    """Return int32 multipliers in [2^30, 2^31) and int8 shifts: multiplier / 2^shift is nearest to each ``scale`` > 0.

    Raises ValueError where a shift would leave TOSA's 2..62.
    """
    mantissa, exponent = np.frexp(scale)  # mantissa in [0.5, 1)
    multiplier = np.rint(mantissa * 2**31).astype(np.int64)
    carried = multiplier == 2**31
    multiplier[carried] = 2**30
    shift = 31 - exponent - carried
    if shift.min() < 2 or shift.max() > 62:
        raise ValueError(f"rescale shifts span {shift.min()}..{shift.max()}, outside 2..62: train or calibrate anew")
    return multiplier.astype(np.int32), shift.astype(np.int8)


def quantise(parameters: Mapping[str, Array], calibration_images: Array) -> Arrays:
    """Return the integer arrays of ``weights.npz`` for trained ``parameters``.

    Weights are symmetric per output channel (-127..127); an activation's scale and zero point come from its extreme
    values over ``calibration_images``, its range stretched to hold 0. Scheme: Jacob et al., "Quantization and Training
    of Neural Networks for Efficient Integer-Arithmetic-Only Inference", CVPR 2018. No input can bring an
    accumulator out of int32 or a rescale's operand out of its range; ValueError where that cannot be had.
    """
    result: Arrays = {}
    scale, zero_point = 1 / (PIXEL_STEP * PIXEL_MAX), LOW
    for layer, output in zip(NETWORK, forward(parameters, calibration_images)[1:], strict=True):
        if isinstance(layer, Pool):
            if layer.operator == "avg_pool2d":
                result[f"{layer.name}.input_zp"] = result[f"{layer.name}.output_zp"] = np.array(zero_point, np.int8)
            continue
        weight = parameters[f"{layer.name}.weight"].astype(np.float64)
        magnitude = np.abs(weight).max(layer.reduced_axes, keepdims=True)
        weight_scale = np.where(magnitude > 0, magnitude, 1) / 127  # an all-zero channel may have any scale
        accumulator_scale = scale * weight_scale.reshape(-1)
        low, high = min(float(output.min()), 0.0), max(float(output.max()), 0.0)
        output_scale = (high - low) / (HIGH - LOW) or 1.0  # a layer that is always zero may have any scale
        output_zero_point = LOW - round(low / output_scale)
        multiplier, shift = quantise_scale(accumulator_scale / output_scale)
        weight = np.rint(weight / weight_scale)
        bias = np.rint(parameters[f"{layer.name}.bias"] / accumulator_scale)
        reach = (HIGH - LOW) * np.abs(weight).sum(layer.reduced_axes) + np.abs(bias)  # bounds every partial sum
        if np.any(reach >= 2.0 ** np.minimum(shift - 1, 31)):
            raise ValueError(f"{layer.name}: accumulators up to {reach.max():.0f} leave int32 or the rescale's range")
        result |= {
            f"{layer.name}.weight": weight.astype(np.int8),
            f"{layer.name}.bias": bias.astype(np.int32),
            f"{layer.name}.multiplier": multiplier,
            f"{layer.name}.shift": shift,
            f"{layer.name}.input_zp": np.array(zero_point, np.int8),
            f"{layer.name}.output_zp": np.array(output_zero_point, np.int8),
        }
        scale, zero_point = output_scale, output_zero_point
    return result


def quantise_images(images: Array) -> Array:
    """Turn float images in 0..1 (sixteenths) into int8 with zero point -128, exactly."""
    quantised: Array = (np.rint(images * PIXEL_MAX) * PIXEL_STEP + LOW).astype(np.int8)
    return quantised


# The integer reference.


def apply_scale_32(values: Array, multiplier: Array, shift: Array, *, double_round: bool) -> Array:
    """Scale int64 ``values`` by multiplier / 2^shift per last index, as TOSA 1.0's apply_scale_32 does.

    Exact in int64: |value| < 2^31 and multiplier < 2^31 keep the product below 2^62, and the rounding terms
    add at most 2^61 + 2^30. ValueError where TOSA calls the result unpredictable: a value outside int32 or outside
    -2^(shift-1)..2^(shift-1)-1.
    """
    multiplier, shift = multiplier.astype(np.int64), shift.astype(np.int64)
    half = np.int64(1) << (shift - 1)
    bound = np.minimum(half, 2**31)
    if np.any((values < -bound) | (values >= bound)):
        raise ValueError("apply_scale_32: a value lies outside int32 or its shift's range: calibrate the scales anew")
    rounding = half + np.where(double_round & (shift > 31), np.where(values >= 0, 2**30, -(2**30)), 0)
    scaled: Array = (values * multiplier + rounding) >> shift
    return scaled


def integer_forward(weights: Mapping[str, Array], images: Array) -> Array:
    """Return the int8 logits [N,1,1,10] of int8 ``images`` [N,8,8,1] under the arrays of ``weights.npz``.

    Plain int64 arithmetic; ``quantise`` bounds the accumulators by int32, so nothing wraps here or on a chip.
    """
    values = images.astype(np.int64)
    for layer in NETWORK:
        if isinstance(layer, Convolution):
            array = {key: weights[f"{layer.name}.{key}"] for key in ("weight", "bias", "multiplier", "shift")}
            centred = values - int(weights[f"{layer.name}.input_zp"])
            zero_point = int(weights[f"{layer.name}.output_zp"])
            accumulator = convolve(layer, centred, array["weight"].astype(np.int64), array["bias"].astype(np.int64))
            scaled = apply_scale_32(accumulator, array["multiplier"], array["shift"], double_round=True)
            values = np.clip(scaled + zero_point, LOW, HIGH)
            if layer.relu:
                values = np.clip(values, zero_point, HIGH)
        elif layer.operator == "max_pool2d":
            values = pool_windows(values).max((2, 4))
        else:
            total = pool_windows(values - int(weights[f"{layer.name}.input_zp"])).sum((2, 4))
            # TOSA's reciprocal_scale(4): (2^30 + 1) / 2^32, a quarter with ties away from zero.
            mean = apply_scale_32(total, np.array(2**30 + 1), np.array(32), double_round=False)
            values = np.clip(mean + int(weights[f"{layer.name}.output_zp"]), LOW, HIGH)
    return values.astype(np.int8)


def load_split(seed: int = SEED) -> tuple[Array, Array, Array, Array]:
    """Return training images, test images (float32 [N,8,8,1] in 0..1), training labels, test labels (int64)."""
    digits = load_digits()
    images = (digits.images[..., None] / PIXEL_MAX).astype(np.float32)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, digits.target, test_size=TEST_IMAGES, stratify=digits.target, random_state=seed
    )
    return train_images, test_images, train_labels, test_labels


def accuracy(logits: Array, labels: Array) -> float:
    """Return the share of images whose first largest logit is their label."""
    return float(np.mean(logits.reshape(len(labels), -1).argmax(-1) == labels))


def main(command_line: Sequence[str] | None = None) -> None:
    """Train, quantise, write the four files and print both accuracies."""
    parser = argparse.ArgumentParser(description="Train and quantise the digits network.")
    default_folder = Path(__file__).resolve().parents[1] / "workloads" / "digits"
    parser.add_argument("--out", type=Path, default=default_folder, help="folder to write (default: %(default)s)")
    arguments = parser.parse_args(command_line)

    train_images, test_images, train_labels, test_labels = load_split()
    parameters = train(train_images, train_labels)
    weights = quantise(parameters, train_images)
    logits = integer_forward(weights, quantise_images(test_images))

    arguments.out.mkdir(parents=True, exist_ok=True)
    np.savez(arguments.out / "weights.npz", **weights)  # type: ignore[arg-type]
    np.save(arguments.out / "test_images.npy", quantise_images(test_images))
    np.save(arguments.out / "test_labels.npy", test_labels.astype(np.int8))
    np.save(arguments.out / "expected_logits.npy", logits)
    float_logits = forward(parameters, test_images)[-1]
    print(f"accuracy on {len(test_labels)} test images, float32: {accuracy(float_logits, test_labels):.4f}")
    print(f"accuracy on {len(test_labels)} test images, int8:    {accuracy(logits, test_labels):.4f}")
    print(f"written: {arguments.out}")


if __name__ == "__main__":
    main()

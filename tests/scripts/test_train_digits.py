"""Check the committed digits network (files, accuracy, exact logits) and the script that trains and quantises it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn, which holds the digits, is not installed")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "workloads" / "digits"
CONVOLUTIONS = {  # name: (weight shape, output channels)
    "conv1": ((16, 3, 3, 1), 16),
    "conv2": ((32, 3, 3, 16), 32),
    "depthwise": ((3, 3, 32, 1), 32),
    "pointwise": ((64, 1, 1, 32), 64),
    "classifier": ((10, 2, 2, 64), 10),
}


def load_script() -> ModuleType:
    name = "npusim_train_digits"
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "train_digits.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


digits = load_script()


@pytest.fixture(scope="module")
def weights():
    with np.load(FOLDER / "weights.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def images():
    return np.load(FOLDER / "test_images.npy")


@pytest.fixture(scope="module")
def labels():
    return np.load(FOLDER / "test_labels.npy")


@pytest.fixture(scope="module")
def expected():
    return np.load(FOLDER / "expected_logits.npy")


@pytest.fixture(scope="module")
def split():
    return digits.load_split()


@pytest.fixture(scope="module")
def briefly_trained(split):
    train_images, _, train_labels, _ = split
    return digits.train(train_images[:320], train_labels[:320], epochs=1)


# The committed files.


def test_weights_hold_exactly_the_documented_integer_arrays(weights):
    keys = {f"{name}.{key}" for name in CONVOLUTIONS for key in ("weight", "bias", "multiplier", "shift")}
    zero_points = {f"{name}.{side}_zp" for name in (*CONVOLUTIONS, "avg_pool") for side in ("input", "output")}
    assert set(weights) == keys | zero_points
    for name in zero_points:
        assert weights[name].shape == () and weights[name].dtype == np.int8


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_weights_have_the_documented_shapes_types_and_ranges(weights, name):
    shape, channels = CONVOLUTIONS[name]
    weight, bias, multiplier, shift = (weights[f"{name}.{key}"] for key in ("weight", "bias", "multiplier", "shift"))
    assert (weight.shape, weight.dtype) == (shape, np.int8)
    assert weight.min() >= -127
    assert (bias.shape, bias.dtype) == ((channels,), np.int32)
    assert (multiplier.shape, multiplier.dtype) == ((channels,), np.int32)
    assert multiplier.min() >= 2**30
    assert (shift.shape, shift.dtype) == ((channels,), np.int8)
    assert shift.min() >= 2 and shift.max() <= 62


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_no_input_can_overflow_an_accumulator_or_a_rescale(weights, name):
    weight = np.abs(weights[f"{name}.weight"].astype(np.int64))
    taps = weight.sum((0, 1, 3)) if name == "depthwise" else weight.sum((1, 2, 3))
    reach = 255 * taps + np.abs(weights[f"{name}.bias"].astype(np.int64))
    assert np.all(reach < 2**31)
    assert np.all(reach < np.int64(1) << (weights[f"{name}.shift"].astype(np.int64) - 1))


def test_zero_points_chain_from_layer_to_layer(weights):
    for name in CONVOLUTIONS:
        assert weights[f"{name}.input_zp"] == -128
    for name in ("conv1", "conv2", "depthwise", "pointwise", "avg_pool"):
        assert weights[f"{name}.output_zp"] == -128
    assert weights["avg_pool.input_zp"] == -128
    assert -128 < weights["classifier.output_zp"] < 127


def test_images_labels_and_logits_have_the_documented_shapes_and_types(images, labels, expected):
    assert (images.shape, images.dtype) == ((450, 8, 8, 1), np.int8)
    assert (labels.shape, labels.dtype) == ((450,), np.int8)
    assert (expected.shape, expected.dtype) == ((450, 1, 1, 10), np.int8)
    assert images.min() == -128 and images.max() == 16 * 15 - 128


def test_images_and_labels_are_the_held_out_split_without_loss(images, labels, split):
    train_images, test_images, train_labels, test_labels = split
    assert len(train_images) == len(train_labels) == 1347
    np.testing.assert_array_equal((images.astype(np.int64) + 128) / 240, test_images.astype(np.float64))
    np.testing.assert_array_equal(labels, test_labels)
    shares = np.bincount(labels, minlength=10) / 450 - np.bincount(train_labels, minlength=10) / 1347
    assert np.abs(shares).max() < 1 / 450


def test_files_stay_small():
    assert (FOLDER / "weights.npz").stat().st_size < 200_000
    assert sum(path.stat().st_size for path in FOLDER.glob("*.np[yz]")) < 300_000


def test_expected_logits_classify_at_least_97_percent(expected, labels):
    assert np.mean(expected.reshape(450, 10).argmax(-1) == labels) >= 0.97


def test_integer_forward_reproduces_the_expected_logits(weights, images, expected):
    logits = digits.integer_forward(weights, images)
    assert logits.dtype == np.int8
    np.testing.assert_array_equal(logits, expected)


# The same network by plain loops on Python integers, written from the layer table of the script's docstring.


def rescale_by_hand(value: int, multiplier: int, shift: int, zero_point: int) -> int:
    rounding = 1 << (shift - 1)
    if shift > 31:
        rounding += 1 << 30 if value >= 0 else -(1 << 30)
    return min(max(((value * multiplier + rounding) >> shift) + zero_point, -128), 127)


def convolve_by_hand(image, weights, name, kernel, pad):
    """Map image[y][x][c] to the rescaled output in the same nesting; at zero point -128 the int8 range is the ReLU."""
    arrays = {key: weights[f"{name}.{key}"].tolist() for key in ("weight", "bias", "multiplier", "shift")}
    zero_in, zero_out = int(weights[f"{name}.input_zp"]), int(weights[f"{name}.output_zp"])
    size, channels = len(image), len(image[0][0])
    side = size + 2 * pad - kernel + 1

    def output(y, x, channel):
        total = arrays["bias"][channel]
        for ky in range(max(0, pad - y), min(kernel, size + pad - y)):
            for kx in range(max(0, pad - x), min(kernel, size + pad - x)):
                pixel = image[y + ky - pad][x + kx - pad]
                if name == "depthwise":
                    total += (pixel[channel] - zero_in) * arrays["weight"][ky][kx][channel][0]
                else:
                    total += sum((pixel[c] - zero_in) * arrays["weight"][channel][ky][kx][c] for c in range(channels))
        return rescale_by_hand(total, arrays["multiplier"][channel], arrays["shift"][channel], zero_out)

    return [[[output(y, x, c) for c in range(len(arrays["bias"]))] for x in range(side)] for y in range(side)]


def pool_by_hand(image, reduce):
    half, channels = range(len(image) // 2), range(len(image[0][0]))
    return [
        [[reduce([image[2 * y + i][2 * x + j][c] for i in (0, 1) for j in (0, 1)]) for c in channels] for x in half]
        for y in half
    ]


def mean_from_minus_128(window):
    """The mean with ties away from zero, which for values not below the zero point -128 means upwards."""
    return (sum(value + 128 for value in window) + 2) // 4 - 128


def test_plain_loops_give_the_expected_logits(weights, images, expected):
    for index in (0, 449):
        values = images[index].tolist()
        values = convolve_by_hand(values, weights, "conv1", 3, 1)
        values = convolve_by_hand(values, weights, "conv2", 3, 1)
        values = pool_by_hand(values, max)
        values = convolve_by_hand(values, weights, "depthwise", 3, 1)
        values = convolve_by_hand(values, weights, "pointwise", 1, 0)
        values = pool_by_hand(values, mean_from_minus_128)
        assert convolve_by_hand(values, weights, "classifier", 2, 0) == expected[index].tolist()


# Training.


def test_training_is_deterministic_and_depends_on_the_seed(split, briefly_trained):
    train_images, _, train_labels, _ = split
    again = digits.train(train_images[:320], train_labels[:320], epochs=1)
    other = digits.train(train_images[:320], train_labels[:320], epochs=1, seed=1)
    for name, value in briefly_trained.items():
        assert value.dtype == np.float32
        assert value.tobytes() == again[name].tobytes()
        assert value.tobytes() != other[name].tobytes()


def test_gradients_agree_with_finite_differences(split):
    generator = np.random.default_rng(3)
    parameters = {name: value.astype(np.float64) for name, value in digits.initial_parameters(generator).items()}
    for name in [name for name in parameters if name.endswith("bias")]:
        parameters[name] = generator.normal(0, 0.1, parameters[name].shape)  # no output then sits on ReLU's corner
    images, labels = split[0][:4].astype(np.float64), split[2][:4]

    def loss(changed):
        logits = digits.forward(changed, images)[-1].reshape(4, 10)
        return np.mean(np.log(np.exp(logits).sum(-1)) - logits[np.arange(4), labels])

    gradients = digits.backward(parameters, digits.forward(parameters, images), labels)
    assert set(gradients) == set(parameters)
    for name, gradient in gradients.items():
        direction = generator.normal(size=gradient.shape)
        step = 1e-7
        up, down = (loss(parameters | {name: parameters[name] + sign * step * direction}) for sign in (1, -1))
        assert (up - down) / (2 * step) == pytest.approx((gradient * direction).sum(), rel=1e-4), name


def test_shifts_move_images_by_at_most_one_pixel():
    images = np.zeros((64, 8, 8, 1), np.float32)
    images[:, 4, 3, 0] = 1
    places = {tuple(place) for place in np.argwhere(digits.shift_randomly(images, np.random.default_rng(0)))[:, 1:3]}
    assert places == {(y, x) for y in (3, 4, 5) for x in (2, 3, 4)}


# Quantisation.


def test_quantised_network_follows_the_float_network(split, briefly_trained):
    train_images, test_images, _, _ = split
    quantised = digits.quantise(briefly_trained, train_images)
    assert [int(quantised[f"{name}.output_zp"]) for name in list(CONVOLUTIONS)[:-1]] == [-128] * 4  # ReLU's whole range
    calibration = digits.forward(briefly_trained, train_images)[-1]
    step = (calibration.max() - calibration.min()) / 255
    logits = digits.integer_forward(quantised, digits.quantise_images(test_images)).astype(np.float64)
    error = (logits - quantised["classifier.output_zp"]) - digits.forward(briefly_trained, test_images)[-1] / step
    assert np.sqrt(np.mean(error**2)) < 1.5, "root mean square error in steps of the int8 logits"
    assert np.abs(error).max() < 6


def test_quantise_accepts_dead_channels_and_dead_layers(split, briefly_trained):
    parameters = briefly_trained | {"conv2.weight": np.zeros_like(briefly_trained["conv2.weight"])}
    parameters["conv2.bias"] = np.full(32, -1, np.float32)
    quantised = digits.quantise(parameters, split[0][:32])
    assert not quantised["conv2.weight"].any()
    logits = digits.integer_forward(quantised, digits.quantise_images(split[0][:2]))
    np.testing.assert_array_equal(logits[0], logits[1])


def test_quantise_refuses_a_bias_that_leaves_the_accumulator(split, briefly_trained):
    bias = briefly_trained["conv1.bias"].copy()
    bias[3] = -1e9
    with pytest.raises(ValueError, match=r"conv1: accumulators up to \d+ leave int32 or the rescale's range"):
        digits.quantise(briefly_trained | {"conv1.bias": bias}, split[0][:8])


def test_quantise_scale_is_nearest_and_normalised():
    scales = np.array([1.0, 0.5, 0.75, 1e-6, 0.0123, 1 - 2.0**-40])  # the last rounds up into the next power of two
    multiplier, shift = digits.quantise_scale(scales)
    assert (multiplier.dtype, shift.dtype) == (np.int32, np.int8)
    assert multiplier.min() >= 2**30
    assert (multiplier[0], shift[0]) == (multiplier[-1], shift[-1]) == (2**30, 30)
    np.testing.assert_allclose(multiplier / 2.0**shift, scales, rtol=2.0**-31)


@pytest.mark.parametrize("scale", [2.0**30, 2.0**-33])
def test_quantise_scale_refuses_shifts_that_tosa_forbids(scale):
    with pytest.raises(ValueError, match=r"rescale shifts span -?\d+\.\.\d+, outside 2\.\.62"):
        digits.quantise_scale(np.array([scale]))


@pytest.mark.parametrize("shift", [2, 31, 32, 40, 62])
@pytest.mark.parametrize("double_round", [False, True])
def test_apply_scale_32_equals_python_integers_at_the_extremes(shift, double_round):
    bound = min(2 ** (shift - 1), 2**31)
    for value in (-bound, -bound + 1, -1, 0, 1, bound - 1):
        for multiplier in (0, 1, 2**30, 2**31 - 1):
            rounding = 1 << (shift - 1)
            if double_round and shift > 31:
                rounding += 1 << 30 if value >= 0 else -(1 << 30)
            result = digits.apply_scale_32(
                np.array([value]), np.array([multiplier]), np.array([shift]), double_round=double_round
            )
            assert result.tolist() == [(value * multiplier + rounding) >> shift]


@pytest.mark.parametrize(("value", "shift"), [(2**9, 10), (-(2**9) - 1, 10), (2**31, 40), (-(2**31) - 1, 40)])
def test_apply_scale_32_refuses_values_out_of_range(value, shift):
    with pytest.raises(ValueError, match="a value lies outside int32 or its shift's range"):
        digits.apply_scale_32(np.array([value]), np.array([2**30]), np.array([shift]), double_round=True)


def test_main_writes_the_four_files_and_prints_accuracies(tmp_path, monkeypatch, capsys, briefly_trained):
    monkeypatch.setattr(digits, "train", lambda images, labels: briefly_trained)
    for folder in ("first", "second"):
        digits.main(["--out", str(tmp_path / folder)])
    names = ["expected_logits.npy", "test_images.npy", "test_labels.npy", "weights.npz"]
    for folder in ("first", "second"):
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == names
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    assert (tmp_path / "first" / "test_images.npy").read_bytes() == (FOLDER / "test_images.npy").read_bytes()
    printed = capsys.readouterr().out
    logits = np.load(tmp_path / "first" / "expected_logits.npy")
    share = digits.accuracy(logits, np.load(FOLDER / "test_labels.npy"))
    assert f"accuracy on 450 test images, int8:    {share:.4f}" in printed

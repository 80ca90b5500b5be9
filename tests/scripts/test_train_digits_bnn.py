"""Check the committed binary digits network (files, accuracy, exact logits) and the script that trains and folds it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn, which holds the digits, is not installed")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "workloads" / "digits_bnn"
BINARY = ("conv2", "conv3", "conv4")


def load_script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))  # the script imports its neighbour
    try:
        return importlib.import_module("train_digits_bnn")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


bnn = load_script()


@pytest.fixture(scope="module")
def weights():
    with np.load(FOLDER / "weights.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def split():
    return bnn.load_split()


@pytest.fixture(scope="module")
def briefly_trained(split):
    return bnn.train(split[0][:96], split[2][:96], epochs=1)


# -- the committed files ----------------------------------------------------------------------------------------------


def test_weights_hold_exactly_the_documented_arrays(weights):
    documented = {
        "conv1.weight": ((64, 3, 3, 1), np.int8),
        "conv1.threshold": ((64,), np.int32),
        "classifier.weight": ((10, 4, 4, 64), np.int8),
        "classifier.bias": ((10,), np.int32),
    }
    for name in BINARY:
        documented[f"{name}.weight"] = ((64, 3, 3, 64), np.uint8)
        documented[f"{name}.threshold"] = ((64, 2) if name == "conv4" else (64,), np.int32)
        assert set(np.unique(weights[f"{name}.weight"])) == {0, 1}
    assert {name: (a.shape, a.dtype) for name, a in weights.items()} == documented
    assert (FOLDER / "weights.npz").stat().st_size < 100_000


def test_thresholds_lie_within_the_sums_so_that_most_channels_tell_images_apart(weights):
    for name in BINARY:
        assert np.mean(np.abs(weights[f"{name}.threshold"]) < 576) > 0.9
    np.testing.assert_array_equal(*weights["conv4.threshold"].T)


def test_integer_forward_reproduces_the_expected_logits(weights):
    expected = np.load(FOLDER / "expected_logits.npy")
    assert (expected.shape, expected.dtype) == ((450, 1, 1, 10), np.int32)
    images = np.load(ROOT / "workloads" / "digits" / "test_images.npy")
    np.testing.assert_array_equal(bnn.integer_forward(weights, images[:40]), expected[:40])
    assert bnn.accuracy(expected, np.load(ROOT / "workloads" / "digits" / "test_labels.npy")) >= 0.93


def test_plain_loops_give_the_expected_logits_of_an_image(weights):
    """The network by loops on Python integers, written from the layer table of the script's docstring."""

    def convolve(image, name, pad, number, bias):
        filters = weights[f"{name}.weight"].tolist()
        size, kernel = len(image), len(filters[0])
        side = range(size + 2 * pad - kernel + 1)

        def total(y, x, o):
            taps = [(i, j) for i in range(kernel) for j in range(kernel)]
            inside = [(i, j) for i, j in taps if 0 <= y + i - pad < size and 0 <= x + j - pad < size]
            return bias[o] + sum(
                v * number(w)
                for i, j in inside
                for v, w in zip(image[y + i - pad][x + j - pad], filters[o][i][j], strict=True)
            )

        return [[[total(y, x, o) for o in range(len(filters))] for x in side] for y in side]

    def sign(image, name):
        limits = weights[f"{name}.threshold"].reshape(64, -1)[:, 0].tolist()
        return [[[1 if s > t else -1 for s, t in zip(p, limits, strict=True)] for p in row] for row in image]

    pixels = np.load(ROOT / "workloads" / "digits" / "test_images.npy")[7].tolist()
    values = [[[v + 128 for v in p] for p in row] for row in pixels]
    values = sign(convolve(values, "conv1", 1, lambda w: w, [0] * 64), "conv1")
    for name in BINARY:
        values = sign(convolve(values, name, 1, lambda w: 2 * w - 1, [0] * 64), name)
        if name == "conv2":
            values = [
                [
                    [max(v) for v in zip(*(values[2 * y + i][2 * x + j] for i in (0, 1) for j in (0, 1)), strict=True)]
                    for x in range(4)
                ]
                for y in range(4)
            ]
    logits = convolve(values, "classifier", 0, lambda w: w, weights["classifier.bias"].tolist())
    assert logits == np.load(FOLDER / "expected_logits.npy")[7].tolist()


# -- training and folding ---------------------------------------------------------------------------------------------


def test_training_is_deterministic_and_depends_on_the_seed(split, briefly_trained):
    again = bnn.train(split[0][:96], split[2][:96], epochs=1)
    other = bnn.train(split[0][:96], split[2][:96], epochs=1, seed=1)
    for name, value in briefly_trained.items():
        assert value.dtype == np.float32
        assert value.tobytes() == again[name].tobytes() != other[name].tobytes()
        if name.split(".")[0] in BINARY and name.endswith("weight"):
            assert np.abs(value).max() <= 1


def test_gradients_of_the_last_layer_agree_with_finite_differences(split):
    """No sign lies behind them; before them the estimator is not the gradient."""
    parameters = {
        name: value.astype(np.float64) for name, value in bnn.initial_parameters(np.random.default_rng(3)).items()
    }
    images, labels = split[0][:4].astype(np.float64), split[2][:4]

    def loss(changed):
        logits, _ = bnn.forward(changed, images)
        return np.mean(np.log(np.exp(logits).sum(-1)) - logits[np.arange(4), labels])

    logits, traces = bnn.forward(parameters, images)
    gradients = bnn.backward(traces, logits, labels)
    assert {name: g.shape for name, g in gradients.items()} == {name: p.shape for name, p in parameters.items()}
    for name in ("classifier.weight", "classifier.offset"):
        direction = np.random.default_rng(5).normal(size=parameters[name].shape)
        up, down = (loss(parameters | {name: parameters[name] + step * direction}) for step in (1e-6, -1e-6))
        assert (up - down) / 2e-6 == pytest.approx((gradients[name] * direction).sum(), rel=1e-4)


def test_folded_thresholds_are_batch_norm_and_sign(split, briefly_trained):
    """Of the first layer, whose sums the float network has too: the bits of both agree but where int8 rounds."""
    images = split[0][:96]
    folded = bnn.fold(briefly_trained, bnn.quantise_images(images))
    layer = bnn.NETWORK[0]
    sums = bnn.integer_sums(layer, folded, bnn.quantise_images(images).astype(np.int64) + 128)
    _, traces = bnn.forward(briefly_trained, images)
    assert np.mean(bnn.activate(layer, folded, sums) == traces[1].inputs) > 0.99


def test_main_writes_both_files_and_prints_accuracies(tmp_path, monkeypatch, capsys, split, briefly_trained):
    small = tuple(a[:64] for a in split)
    monkeypatch.setattr(bnn, "load_split", lambda: small)
    monkeypatch.setattr(bnn, "train", lambda images, labels: briefly_trained)
    bnn.main(["--out", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected_logits.npy", "weights.npz"]
    logits = np.load(tmp_path / "expected_logits.npy")
    assert f"accuracy on 64 test images:      {bnn.accuracy(logits, small[3]):.4f}" in capsys.readouterr().out

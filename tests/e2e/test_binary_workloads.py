"""The binary workloads on the chip for them: bits through tiles, the units that do the work, packed bytes in DRAM."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

import npusim
from npusim.frontends.workload import random_array
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.numerics.types import Array, ceil_div
from npusim.report.result import LayerFigures
from npusim.session import RunResult

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"
IMAGES, BURST = 450, 64


@cache
def digits(residency: bool = True) -> RunResult:
    return npusim.run(WORKLOADS / "digits_bnn.yaml", mapping=MappingOptions(residency=residency))


@cache
def example() -> RunResult:
    return npusim.run(WORKLOADS / "openvino_example.yaml")


def layers(result: RunResult) -> dict[str, LayerFigures]:
    return {layer.name: layer for layer in result.report.layers}


def bursts(*sizes: int) -> int:
    return sum(ceil_div(n, BURST) * BURST for n in sizes)


# -- the digits -------------------------------------------------------------------------------------------------------


def test_digits_give_the_expected_logits_and_accuracy() -> None:
    result = digits()
    result.require_match()
    (logits,) = result.outputs.values()
    np.testing.assert_array_equal(logits, np.load(WORKLOADS / "digits_bnn" / "expected_logits.npy"))
    right = np.count_nonzero(logits.reshape(IMAGES, 10).argmax(1) == np.load(WORKLOADS / "digits" / "test_labels.npy"))
    assert right >= 0.93 * IMAGES
    assert any(f"({right} of {IMAGES} right)" in check.detail for check in result.report.checks)


def test_digits_use_the_array_for_the_first_and_last_layer_and_the_popcount_unit_between() -> None:
    used = [(layer.name, layer.operators, layer.engine) for layer in digits().report.layers]
    assert used == [
        ("conv1", ("conv2d", "threshold"), "mac"),
        ("conv2", ("binary_conv2d",), "popcount"),
        ("max_pool", ("binary_max_pool2d",), "vector"),
        ("conv3", ("binary_conv2d",), "popcount"),
        ("conv4", ("binary_conv2d",), "popcount"),
        ("logits", ("conv2d",), "mac"),
    ]


def test_binary_layers_take_three_words_a_position() -> None:
    """64 lanes hold all filters; 3 x 3 x 64 bits are ceil(576 / 256) words. Each tile drains both pipelines once."""
    found, chip = layers(digits()), npusim.load_chip("binary")
    drain = 4 + chip.output_pipeline.latency_cycles
    for name, side in (("conv2", 8), ("conv3", 4), ("conv4", 4)):
        assert found[name].compute_cycles == IMAGES * side**2 * 3 + drain * found[name].tiles


def test_max_pool_takes_as_long_as_its_packed_bytes_take_through_sram() -> None:
    layer, chip = layers(digits())["max_pool"], npusim.load_chip("binary")
    assert layer.compute_cycles == ceil_div(IMAGES * (8 * 8 + 4 * 4) * 8, chip.sram.bytes_per_cycle)


def test_digits_load_weights_as_packed_bits() -> None:
    """All filters in one tile, so that they are loaded once."""
    whole = LayerOptions(tile={"oc": 64, "ky": 3, "kx": 3, "ic": 64}, order=("n", "oy", "ox"))
    mapping = MappingOptions(layers=dict.fromkeys(("conv2", "conv3", "conv4"), whole))
    result = npusim.run(WORKLOADS / "digits_bnn.yaml", mapping=mapping, bits="off")
    found = {n: layer.dram_read_bytes for n, layer in layers(result).items()}
    filters, thresholds = 64 * 3 * 3 * 64 // 8, 64 * 4
    assert found["conv2"] == found["conv3"] == bursts(filters, thresholds)
    assert found["conv4"] == bursts(filters, 2 * thresholds)
    assert found["max_pool"] == 0


def test_digits_store_a_pixel_of_64_channels_in_8_bytes() -> None:
    """Each feature map goes to DRAM and comes back, packed; what conv4 writes is int8."""
    result = digits(residency=False)
    result.require_match()
    found = layers(result)
    large, small = (IMAGES * side * side * 8 for side in (8, 4))
    written = {n: layer.dram_write_bytes for n, layer in found.items() if n != "logits"}
    assert written == {
        "conv1": large,
        "conv2": large,
        "max_pool": small,
        "conv3": small,
        "conv4": small * 8,
    }
    assert found["max_pool"].dram_read_bytes == large


# -- the example of BinaryConvolution-1 -------------------------------------------------------------------------------


def sums_by_taps(image: Array, weight: Array, pad: int) -> Array:
    """Sums of products of -1 and +1, tap by tap, [N,C,H,W] and [O,C,KH,KW]; padding is worth 0."""
    x = np.pad(2.0 * image - 1, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    w = 2.0 * weight - 1
    rows, columns = image.shape[2:]
    total = np.zeros((len(image), len(w), rows, columns))
    for y, x0 in np.ndindex(*w.shape[2:]):
        total += np.einsum("nchw,oc->nohw", x[:, :, y : y + rows, x0 : x0 + columns], w[:, :, y, x0], optimize=True)
    return total.astype(np.int32)


def test_example_is_exact_with_borders_worth_nothing() -> None:
    workload = npusim.load_workload(WORKLOADS / "openvino_example.yaml")
    result = example()
    (sums,) = result.outputs.values()
    assert sums.shape == (1, 64, 224, 224) and sums.dtype == np.int32
    image = random_array(workload.graph.types["image"], workload.seed, "image")
    weight = workload.graph.constants["binary_convolution.weight"]
    np.testing.assert_array_equal(sums, sums_by_taps(image, weight, 2))
    assert np.all(sums[..., 2:-2, 2:-2] % 2 == 1)  # 75 products of odd numbers
    assert np.all(sums[..., 0, 0] % 2 == 1) and np.all(sums[..., 0, 1] % 2 == 0)  # 3 x 3 x 3 and 3 x 3 x 4 of them


def test_example_runs_on_the_popcount_unit_and_counts_its_taps() -> None:
    (layer,) = example().report.layers
    assert layer.engine == "popcount"
    assert layer.macs == 64 * 224 * 224 * 75
    inside = sum(min(224, p + 3) - max(0, p - 2) for p in range(224))
    assert layer.useful_macs == 64 * 3 * inside**2
    assert layer.dram_write_bytes == 64 * 224 * 224 * 4

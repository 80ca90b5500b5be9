"""Compares npusim's binary convolutions with OpenVINO's CPU plugin on random networks: ``make oracle-openvino``.

Run ``python scripts/oracle_openvino.py [--cases N] [--seed S] [--environment DIR]``. OpenVINO lives in a virtual
environment of its own (default ``.venv-openvino``), because only one of its versions computes these layers right; the
script makes it on the first run. Exit code 1 if any number differs.

Networks are single convolutions (any channels, groups, the three paddings, the four ways of padding), convolutions of
a binarised float input, chains of two or three convolutions with thresholds between them, strict or not, inverted
or not, and the like with residuals, constants and poolings before the thresholds (behind them the plugin has none).
Each is compared twice: npusim's operators, called one by one, and the very files that the plugin ran, read by npusim's
front end. They keep within what the plugin computes right: channels in multiples of 8 (others are filled up with ones
here, and their share is taken off again), kernels of at most 7 columns, windows that reach at most min(OW, 4) columns
beyond the image and, where padding is worth zero, have at least one row in it (the plugin gives other sums than 0 to
those that have none). A residual is not added right before thresholds without a pooling between, where the plugin gives
other bits. The plugin has no groups: each group is a network of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from npusim.frontends.openvino import load_openvino
from npusim.functional import evaluate_graph
from npusim.numerics.types import Array
from npusim.ops import evaluate

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-openvino"
PACKAGE = "openvino==2026.2.1"
RUNNER = Path(__file__).with_name("openvino_runner.py")
CASES = 1500
BATCH = 100

PLUGIN_PADS = {"minus_one": -1, "zero": 0, "plus_one": 1}
"""The plugin's own reading of ``pad_value``."""


@dataclass(frozen=True)
class Layer:
    """A convolution with its attributes, and the thresholds behind it, if any.

    The sums are those with ``weight`` and, if it is there, with ``twin``, plus ``bias``, then pooled by ``pool``
    (kernel, stride, pad).
    """

    weight: Array
    attributes: dict[str, Any]
    thresholds: Array | None = None
    invert: Array | None = None
    compare: str = "gt"
    twin: Array | None = None
    bias: Array | None = None
    pool: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Network:
    """``input`` holds bits, or floats that ``binarize`` (gt0) makes bits of."""

    kind: str
    input: Array
    layers: tuple[Layer, ...]


@dataclass(frozen=True)
class Run:
    """A model as the plugin ran it: its two files, input and output."""

    xml: bytes
    data: bytes
    input: Array
    output: Array


@dataclass
class Batch:
    """Networks as the runner takes them."""

    networks: list[list[dict[str, Any]]] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)

    def array(self, x: Array) -> str:
        """The name under which ``x`` is stored."""
        name = f"a{len(self.arrays)}"
        self.arrays[name] = x
        return name


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=CASES, help="networks to compare (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default %(default)s)")
    parser.add_argument("--environment", type=Path, default=ENVIRONMENT, help="virtual environment with OpenVINO")
    options = parser.parse_args(arguments)
    python = install(options.environment)
    tally, wrong = compare(python, options.cases, options.seed)
    for kind, count in sorted(tally.items()):
        print(f"{kind:12} {count:5} networks")
    for line in wrong:
        print(line)
    print(f"{options.cases} networks against {PACKAGE}: {options.cases - len(wrong)} equal, {len(wrong)} different")
    return 1 if wrong else 0


def install(folder: Path) -> Path:
    """The Python of the environment in ``folder``, made on the first call."""
    done = folder / f".installed-{PACKAGE}"
    python = folder / "bin" / "python"
    if not done.exists():
        print(f"making {folder} with {PACKAGE}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, PACKAGE], check=True)
        done.touch()
    return python


def compare(python: Path, cases: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Networks by kind, and a line for each that differs."""
    tally: Counter[str] = Counter()
    wrong = []
    for first in range(0, cases, BATCH):
        numbers = range(first, min(first + BATCH, cases))
        networks = [random_network(np.random.default_rng((seed, k))) for k in numbers]
        for k, network, (theirs, runs) in zip(numbers, networks, openvino(python, networks), strict=True):
            tally[network.kind] += 1
            pairs = [("operators", npusim(network), theirs), *(("front end", read(run), run.output) for run in runs)]
            for side, ours, expected in pairs:
                if ours.shape != expected.shape or not np.array_equal(ours, expected):
                    at = np.argwhere(ours != expected)[0].tolist() if ours.shape == expected.shape else "shapes"
                    where = f"seed {seed}, network {k} ({network.kind}), {side}"
                    wrong.append(f"{where}: differs at {at}: {describe(network)}")
                    break
    return tally, wrong


# -- networks ---------------------------------------------------------------------------------------------------------


def random_network(rng: np.random.Generator) -> Network:
    """A network within the limits of the plugin."""
    kind = str(rng.choice(["convolution", "binarized", "chain", "mixed"], p=[0.5, 0.1, 0.2, 0.2]))
    groups = int(rng.choice([1, 1, 1, 2, 3])) if kind == "convolution" else 1
    depth = int(rng.integers(1, 65)) if kind == "convolution" else 8 * int(rng.integers(1, 7))
    shape = [int(rng.integers(1, 4)), depth * groups, *(int(n) for n in rng.integers(1, 13, 2))]
    count = int(rng.integers(2, 4)) if kind in ("chain", "mixed") else 1
    x = rng.standard_normal(shape).astype(np.float32) if kind == "binarized" else bits(rng, shape)
    layers = []
    for k in range(count):
        last = k == count - 1
        filters = groups * int(rng.integers(1, 20)) if last else 8 * int(rng.integers(1, 6))
        layer = random_layer(rng, shape, filters, groups, thresholds=not last)
        if kind == "mixed":
            layer = with_more(rng, layer, positions(layer, shape))
        layers.append(layer)
        shape = [shape[0], filters, *pooled(layer, positions(layer, shape))]
    return Network(kind, x, tuple(layers))


def random_layer(rng: np.random.Generator, shape: Sequence[int], filters: int, groups: int, thresholds: bool) -> Layer:
    """A layer for an input of ``shape``."""
    depth = shape[1] // groups
    while True:
        kernel = (
            [int(n) for n in rng.integers(1, 8, 2)] if rng.random() < 0.3 else [int(n) for n in rng.choice([1, 3], 2)]
        )
        attributes = {
            "stride": ints(rng, 1, 4),
            "dilation": ints(rng, 1, 4) if rng.random() < 0.4 else [1, 1],
            "pads_begin": ints(rng, 0, 5),
            "pads_end": ints(rng, 0, 5),
            "auto_pad": str(rng.choice(["explicit", "explicit", "same_upper", "same_lower", "valid"])),
            "pad_value": str(rng.choice(list(PLUGIN_PADS))),
            "groups": groups,
        }
        layer = Layer(bits(rng, (filters, depth, *kernel)), attributes)
        if within_limits(layer, shape):
            break
    if not thresholds:
        return layer
    spread = layer.weight[0].size
    limits = rng.integers(-spread // 3 - 2, spread // 3 + 2, filters)
    invert = bits(rng, (filters,))
    return Layer(layer.weight, attributes, limits.astype(np.int32), invert, str(rng.choice(["gt", "ge"])))


def with_more(rng: np.random.Generator, layer: Layer, size: Sequence[int]) -> Layer:
    """The layer with some of a residual, a constant and a pooling behind its sums of ``size`` rows and columns."""
    kernel = int(rng.integers(1, 4))
    pool = (kernel, int(rng.integers(1, 4)), int(rng.integers(0, kernel)) if kernel < 3 else 1)
    pools = min(size) + 2 * pool[2] >= kernel and rng.random() < 0.7
    bias = rng.integers(-20, 20, len(layer.weight)) + rng.choice([0.0, 0.25]) if rng.random() < 0.4 else None
    adds = rng.random() < 0.5 and (layer.thresholds is None or (pools and kernel > 1))
    twin = bits(rng, layer.weight.shape) if adds else None
    return replace(layer, twin=twin, bias=bias, pool=pool if pools else None)


def pooled(layer: Layer, size: Sequence[int]) -> list[int]:
    """Rows and columns behind the pooling, if there is one."""
    if layer.pool is None:
        return list(size)
    kernel, stride, pad = layer.pool
    return [(n + 2 * pad - kernel) // stride + 1 for n in size]


def ints(rng: np.random.Generator, low: int, high: int) -> list[int]:
    """A random pair."""
    return [int(n) for n in rng.integers(low, high, 2)]


def bits(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Random bits of any density."""
    return (rng.random(tuple(shape)) < rng.choice([0.1, 0.5, 0.5, 0.9])).astype(np.uint8)


def axes(layer: Layer, shape: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Along y and x: (positions, columns before the image, columns that the last window reaches beyond it)."""
    a = layer.attributes
    for i in (0, 1):
        size, kernel, stride = shape[2 + i], layer.weight.shape[2 + i], a["stride"][i]
        reach = (kernel - 1) * a["dilation"][i] + 1
        if a["auto_pad"].startswith("same"):
            count = -(-size // stride)
            total = max(0, (count - 1) * stride + reach - size)
            before = total // 2 if a["auto_pad"] == "same_upper" else total - total // 2
        else:
            explicit = a["auto_pad"] == "explicit"
            before, after = (a["pads_begin"][i], a["pads_end"][i]) if explicit else (0, 0)
            count = (size + before + after - reach) // stride + 1
        yield count, before, (count - 1) * stride + reach - before - size


def positions(layer: Layer, shape: Sequence[int]) -> list[int]:
    """Rows and columns of the output."""
    return [count for count, _, _ in axes(layer, shape)]


def taps_inside(layer: Layer, shape: Sequence[int]) -> list[Array]:
    """Along y and x: of each window, how many of its rows or columns lie in the image."""
    found = []
    for i, (count, before, _) in enumerate(axes(layer, shape)):
        stride, dilation = layer.attributes["stride"][i], layer.attributes["dilation"][i]
        taps = np.arange(count)[:, None] * stride - before + np.arange(layer.weight.shape[2 + i]) * dilation
        found.append(((taps >= 0) & (taps < shape[2 + i])).sum(1))
    return found


def within_limits(layer: Layer, shape: Sequence[int]) -> bool:
    """Whether the layer is legal, and the plugin computes it right."""
    (rows, _, _), (columns, before, after) = axes(layer, shape)
    if rows < 1 or columns < 1 or max(before, after) > min(columns, 4):
        return False
    return layer.attributes["pad_value"] != "zero" or bool(taps_inside(layer, shape)[0].all())


def describe(network: Network) -> str:
    """A network in short, to be made again by hand."""
    layers = [
        f"weight {list(n.weight.shape)} {n.attributes} compare {n.compare}"
        + f", twin {n.twin is not None}, bias {n.bias is not None}, pool {n.pool}" * (network.kind == "mixed")
        for n in network.layers
    ]
    return f"input {list(network.input.shape)}; " + "; ".join(layers)


# -- the two sides ----------------------------------------------------------------------------------------------------


def npusim(network: Network) -> Array:
    """The sums of the last layer."""
    x = network.input
    for layer in network.layers:
        x = mixed(layer, x) if network.kind == "mixed" else convolved(layer, x, layer.weight, fused=True)
    return x


def convolved(layer: Layer, x: Array, weight: Array, fused: bool) -> Array:
    """A convolution, ``fused`` with its thresholds."""
    operands, types = [x, weight], ["f32" if x.dtype == np.float32 else "u1", "u1"]
    more: dict[str, Any] = {"binarize": "gt0"} if x.dtype == np.float32 else {}
    if fused and layer.thresholds is not None and layer.invert is not None:
        operands += [layer.thresholds, layer.invert]
        types += ["i32", "u1"]
        more["compare"] = layer.compare
    return evaluate("binary_conv2d", operands, types=types, **layer.attributes, **more)


def mixed(layer: Layer, x: Array) -> Array:
    """A layer with more than thresholds behind its sums."""
    y = convolved(layer, x, layer.weight, fused=False).astype(np.float32)
    if layer.twin is not None:
        y = y + convolved(layer, x, layer.twin, fused=False)
    if layer.bias is not None:
        y = y + layer.bias.astype(np.float32)[:, None, None]
    if layer.pool is not None:
        y = maxima(layer, layer.pool, y)
    if layer.thresholds is not None and layer.invert is not None:
        limits, invert = layer.thresholds[:, None, None], layer.invert[:, None, None]
        y = ((y >= limits if layer.compare == "ge" else y > limits) ^ invert.astype(np.bool_)).astype(np.uint8)
    return y


def maxima(layer: Layer, pool: tuple[int, int, int], x: Array) -> Array:
    """The pooling of a layer."""
    kernel, stride, pad = pool
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-np.inf)
    rows, columns = pooled(layer, x.shape[2:])
    windows = [
        padded[:, :, i : i + (rows - 1) * stride + 1 : stride, j : j + (columns - 1) * stride + 1 : stride]
        for i in range(kernel)
        for j in range(kernel)
    ]
    return np.asarray(np.maximum.reduce(windows))


def read(run: Run) -> Array:
    """What npusim makes of the files that the plugin ran."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.xml"
        path.write_bytes(run.xml)
        path.with_suffix(".bin").write_bytes(run.data)
        model = load_openvino(path)
    host = model.host
    assert host is not None
    (name,) = host.inputs
    (output,) = host.complete(evaluate_graph(model.graph, host.prepare(model.graph, {name: run.input}))).values()
    return output


def openvino(python: Path, networks: Sequence[Network]) -> Iterator[tuple[Array, list[Run]]]:
    """The sums of the last layer of each network, by the plugin, and the models it ran for them."""
    batch = Batch()
    parts = [list(submit(batch, network)) for network in networks]
    with tempfile.TemporaryDirectory() as folder:
        cases, results = Path(folder) / "cases.npz", Path(folder) / "results.npz"
        np.savez(cases, **batch.arrays, networks=json.dumps(batch.networks))  # type: ignore[arg-type]
        done = subprocess.run([str(python), str(RUNNER), str(cases), str(results)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"OpenVINO failed (exit code {done.returncode}):\n{done.stderr.strip()}")
        with np.load(results) as made:
            inputs = [batch.arrays[layers[0]["input"]] for layers in batch.networks]
            runs = [
                Run(*(made[f"{file}{k}"].tobytes() for file in ("xml", "bin")), x, made[f"r{k}"])
                for k, x in enumerate(inputs)
            ]
    for network, numbers in zip(networks, parts, strict=True):
        sums = np.concatenate([runs[k].output for k in numbers], axis=1)
        if network.kind == "convolution":
            sums = sums - filling(network)
        yield sums, [runs[k] for k in numbers]


def submit(batch: Batch, network: Network) -> Iterator[int]:
    """Add the network to the batch, or one for each of its groups; their numbers."""
    groups = network.layers[0].attributes["groups"]
    x = network.input
    for g, channels in enumerate(np.split(np.arange(x.shape[1]), groups)):
        part = fill_up(x[:, channels]) if network.kind == "convolution" else x
        layers: list[dict[str, Any]] = [{"input": batch.array(part.astype(np.float32))}]
        if network.kind == "binarized":
            layers.append(quantizer(batch, np.zeros(x.shape[1]), np.zeros(x.shape[1])))
        shape: Sequence[int] = part.shape
        for layer in network.layers:
            start, size = len(layers) - 1, positions(layer, shape)
            layers.append(convolution(batch, layer, np.split(layer.weight, groups)[g], size))
            if layer.twin is not None:
                layers.append({**convolution(batch, layer, layer.twin, size), "from": start})
                layers.append({"plus": len(layers) - 2})
            if layer.bias is not None:
                layers.append({"bias": batch.array(layer.bias)})
            if layer.pool is not None:
                layers.append(pooling(layer, size))
            if layer.thresholds is not None and layer.invert is not None:
                strict = layer.thresholds - 0.5 * (layer.compare == "ge")
                layers.append(quantizer(batch, strict, layer.invert))
            shape = [shape[0], len(layer.weight), *pooled(layer, size)]
        batch.networks.append(layers)
        yield len(batch.networks) - 1


def convolution(batch: Batch, layer: Layer, weight: Array, size: Sequence[int]) -> dict[str, Any]:
    """A convolution with an output of ``size``."""
    a = layer.attributes
    return {
        "conv": batch.array(fill_up(weight)),
        "strides": a["stride"],
        "dilations": a["dilation"],
        "pads_begin": a["pads_begin"],
        "pads_end": a["pads_end"],
        "auto_pad": a["auto_pad"],
        "pad_value": PLUGIN_PADS[a["pad_value"]],
        "size": list(size),
    }


def pooling(layer: Layer, size: Sequence[int]) -> dict[str, Any]:
    """The pooling of sums of ``size``."""
    assert layer.pool is not None
    kernel, stride, pad = layer.pool
    pads = {"pads_begin": [pad, pad], "pads_end": [pad, pad]}
    return {"pool": [kernel, kernel], "strides": [stride, stride], **pads, "size": pooled(layer, size)}


def quantizer(batch: Batch, thresholds: Array, invert: Array) -> dict[str, Any]:
    """x > threshold, flipped where ``invert`` is 1."""
    high = 1.0 - invert
    return {"quantize": batch.array(thresholds), "low": batch.array(1.0 - high), "high": batch.array(high)}


def fill_up(x: Array) -> Array:
    """Ones added to the channels up to a multiple of 8."""
    return np.pad(x, ((0, 0), (0, -x.shape[1] % 8), (0, 0), (0, 0)), constant_values=1)


def filling(network: Network) -> Array:
    """What the ones that filled up the channels add to a sum: +1 for a tap inside the image, the pad value beside."""
    (layer,) = network.layers
    missing = -layer.weight.shape[1] % 8
    rows, columns = taps_inside(layer, network.input.shape)
    taps = int(np.prod(layer.weight.shape[2:]))
    seen = rows[:, None] * columns
    return missing * (seen + PLUGIN_PADS[layer.attributes["pad_value"]] * (taps - seen))


if __name__ == "__main__":
    sys.exit(main())

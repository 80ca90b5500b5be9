"""The two files of an IR: missing, damaged, of different exports; and the published vectors of the cases."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from npusim.errors import FileFormatError, InvalidGraphError, UserError
from npusim.frontends.model import load_model
from npusim.frontends.openvino import load_openvino
from npusim.numerics.types import Array
from tests.frontends.openvino.ir import Ir, run

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases"


@pytest.fixture
def sample() -> Ir:
    rng = np.random.default_rng(0)
    g = Ir()
    limits = rng.integers(-3, 3, (1, 4, 1, 1))
    x = g.convolution(
        g.parameter((1, 3, 6, 6)), rng.integers(0, 2, (4, 3, 3, 3)), (1, 4, 6, 6), "c1", auto_pad="same_upper"
    )
    x = g.quantize(g.pool(x, (1, 4, 3, 3)), [limits, limits, [0.0], [1.0]])
    g.result(g.convolution(x, rng.integers(0, 2, (2, 4, 1, 1)), (1, 2, 3, 3), "c2"))
    return g


def test_missing_files(tmp_path: Path, sample: Ir) -> None:
    with pytest.raises(FileFormatError, match=r"net.xml: cannot be read \(No such file or directory\); name the .xml"):
        load_openvino(tmp_path / "net.xml")
    sample.load(tmp_path)
    (tmp_path / "net.bin").unlink()
    with pytest.raises(
        FileFormatError, match=r"net.bin: cannot be read .*; the constants of net.xml must lie beside it"
    ):
        load_openvino(tmp_path / "net.xml")


def test_a_short_file_of_constants_is_refused_for_every_constant_beyond_it(tmp_path: Path, sample: Ir) -> None:
    sample.load(tmp_path)
    (tmp_path / "net.bin").write_bytes(bytes(sample.data)[:-1])
    with pytest.raises(InvalidGraphError, match=r"layer 'c2/kernel' \(Const\): its bytes .* lie beyond the .bin"):
        load_openvino(tmp_path / "net.xml")
    (tmp_path / "net.bin").write_bytes(b"")
    with pytest.raises(InvalidGraphError) as e:
        load_openvino(tmp_path / "net.xml")
    assert len(e.value.problems) == 6


@pytest.mark.parametrize("kind", ["Const", "Constant"])
def test_a_model_file_is_told_by_its_suffix(tmp_path: Path, sample: Ir, kind: str) -> None:
    sample.layers = [layer.replace('type="Const"', f'type="{kind}"') for layer in sample.layers]
    first = sample.load(tmp_path)
    second = load_model(tmp_path / "net.xml")
    assert first.graph.name == second.graph.name == "net"
    x = np.random.default_rng(1).integers(0, 2, (1, 3, 6, 6)).astype(np.float32)
    np.testing.assert_array_equal(run(first, x=x)["y"], run(second, x=x)["y"])


def test_the_spelling_of_the_formats_own_writer(tmp_path: Path, sample: Ir) -> None:
    """Spaces in lists, line breaks, BIN for u1, more elements than are needed."""
    first = sample.load(tmp_path)
    xml = sample.xml().replace('"U1"', '"BIN"').replace("><", ">\n\t<")
    (tmp_path / "net.xml").write_text(xml.replace("1,1", "1, 1").replace("</net>", "<rt_info><a/></rt_info></net>"))
    x = np.random.default_rng(1).integers(0, 2, (1, 3, 6, 6)).astype(np.float32)
    np.testing.assert_array_equal(run(load_openvino(tmp_path / "net.xml"), x=x)["y"], run(first, x=x)["y"])


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_load_or_are_refused(tmp_path: Path, sample: Ir, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sample.load(tmp_path)
    xml = (tmp_path / "net.xml").read_bytes()
    refused = 0
    for k in range(120):
        damaged = bytearray(xml)
        for at in rng.integers(0, len(xml), int(rng.integers(1, 4))):
            if k % 3 == 0:
                damaged[at] = rng.integers(0, 256)
            elif k % 3 == 1:
                damaged[at] = rng.choice(list(b'0123456789-,.<>/"= abF'))
            else:
                digits = [i for i, byte in enumerate(damaged) if 48 <= byte < 58]
                damaged[digits[at % len(digits)]] = rng.choice(list(b"0123456789-"))
        if k % 10 == 9:
            damaged = damaged[: rng.integers(0, len(damaged))]
        (tmp_path / "net.xml").write_bytes(bytes(damaged))
        try:
            load_openvino(tmp_path / "net.xml")
        except UserError:
            refused += 1
    assert refused > 60


def cases(name: str) -> Any:
    files = list(CASES.glob(f"{name}-*.yaml"))
    if not files:
        pytest.skip("the cases beside the repository are absent")
    return yaml.safe_load(files[0].read_text())


def case(run: Any, bit_order: str, pad_value: Any) -> tuple[Ir, Array]:
    """The IR of a run of a case, and its input."""
    operands, a, out = run["operands"], run["attributes"], run["expect"].get("shape")
    x, weight = (
        np.full(t["shape"], t["fill"]) if "fill" in t else np.reshape(t["values"], t["shape"])
        for t in (operands["input"], operands["weight"])
    )
    g = Ir("big" if bit_order == "msb" else "little")
    attributes = {"strides": a["stride"], "dilations": a["dilation"], "pad_value": pad_value}
    pads = {k: a[k] for k in ("pads_begin", "pads_end", "auto_pad")}
    g.result(g.convolution(g.parameter(x.shape), weight, out or x.shape, **attributes, **pads))
    return g, x.astype(np.float32)


@pytest.mark.parametrize("bit_order", ["lsb", "msb"])
def test_the_published_vectors_under_the_literal_rule(tmp_path: Path, bit_order: str) -> None:
    runs = cases("V01")["runs"]
    assert len(runs) == 9
    for vector in runs:
        pad_value = {"minus_one": 0, "plus_one": 1}[vector["attributes"]["pad_value"]]
        g, x = case(vector, bit_order, pad_value)
        found = run(g.load(tmp_path, pad_rule="literal", bit_order=bit_order), x=x)["y"]
        assert found.reshape(-1).tolist() == vector["expect"]["values"], vector["name"]


@pytest.mark.parametrize("rule", ["plugin", "literal"])
def test_three_meanings_of_padding(tmp_path: Path, rule: str) -> None:
    found = cases("B25")
    runs = {r["attributes"]["pad_value"]: r for r in found["runs"]}
    for value, meaning in zip(found["input"]["pad_value_in_file"], found["expected"][rule], strict=True):
        if isinstance(meaning, dict):
            assert meaning == {"error": "invalid"}
            with pytest.raises(InvalidGraphError, match=f"attribute pad_value '{value}' must be 0 or 1"):
                case(runs["minus_one"], "lsb", value)[0].load(tmp_path, pad_rule=rule)
            continue
        expected = runs[meaning]["expect"]
        g, x = case(runs[meaning], "lsb", value)
        y = run(g.load(tmp_path, pad_rule=rule), x=x)["y"]
        assert y.shape == tuple(expected["shape"])
        assert math.prod(y.shape) == len(expected["values"])
        assert y.reshape(-1).tolist() == expected["values"]
    with pytest.raises(InvalidGraphError, match="attribute pad_value '0.5' must be"):
        case(runs[0.5], "lsb", 0.5)[0].load(tmp_path, pad_rule=rule)

"""The layer lists of ResNet-50 and MobileNetV2 are what their script writes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_script() -> ModuleType:
    name = "npusim_make_layer_lists"
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "make_layer_lists.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


script = load_script()


@pytest.mark.parametrize("name", list(script.NETWORKS))
def test_the_committed_file_is_what_the_script_writes(name: str) -> None:
    committed = (ROOT / "workloads" / f"{name}.yaml").read_text(encoding="utf-8")
    assert committed == script.NETWORKS[name](), "run python scripts/make_layer_lists.py"


def test_the_script_writes_both_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.main(["--out", str(tmp_path / "new")])
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["mobilenet_v2.yaml", "resnet50.yaml"]
    assert "resnet50.yaml" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad", "output", "cut"),
    [
        (224, 7, 2, (2, 3), 112, 0),
        (112, 3, 2, (0, 1), 56, 0),
        (56, 3, 1, (1, 1), 56, 0),
        (56, 1, 1, (0, 0), 56, 0),
        (56, 1, 2, (0, 0), 28, 1),
        (7, 3, 2, (1, 1), 4, 0),
    ],
)
def test_strides_end_at_the_border(
    size: int, kernel: int, stride: int, pad: tuple[int, int], output: int, cut: int
) -> None:
    layers = script.LayerList()
    x, got, positions = layers.padded("conv", script.Value("x", size, 8, 1.0), kernel, stride)
    assert (got, positions, size - x.size) == (pad, output, cut)
    assert (x.size + sum(got) - kernel) == (output - 1) * stride
    assert layers.lines == ([] if not cut else [f"    - {{name: conv_input, op: slice, inputs: [x], attributes: "
                            f"{{start: [0, 0, 0, 0], size: [1, {size - 1}, {size - 1}, 8]}}}}"])  # fmt: skip


def test_an_anchor_stands_for_one_text() -> None:
    layers = script.LayerList()
    assert [layers.shared("a", "{x: 1}") for _ in range(3)] == ["&a {x: 1}", "*a", "*a"]
    with pytest.raises(ValueError, match="the anchor a is taken by {x: 1}"):
        layers.shared("a", "{x: 2}")

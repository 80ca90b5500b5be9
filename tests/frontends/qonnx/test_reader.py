"""Reading ONNX files: what is refused, and that damaged bytes never end in a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.errors import FileFormatError, UserError
from npusim.frontends.model import load_model
from npusim.frontends.qonnx import load_qonnx
from npusim.frontends.qonnx.reader import read_onnx
from npusim.numerics.types import F32
from tests.frontends.qonnx.networks import Network


def small() -> Any:
    net = Network(2, 8)
    x = net.norm(net.op("MatMul", net.bipolar("x"), net.quant(np.ones((8, 3)), 2)), *np.ones((4, 3)))
    return net.model(net.op("Softmax", net.op("Gemm", net.quant(net.op("Relu", x), 2), np.ones((3, 2)))))


def test_what_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(small().SerializeToString())
    file = read_onnx(path)
    assert [n.operator for n in file.nodes[:3]] == ["BipolarQuant", "Quant", "MatMul"]
    assert file.nodes[1].attributes == {"signed": 1, "narrow": 0} and file.nodes[1].label == "Quant 'n1'"
    assert {v: (t.shape, t.dtype) for v, t in file.inputs.items()} == {"x": ((2, 8), F32)}
    assert (file.outputs, file.opset, file.remarks, file.annotations) == (("t7",), 13, (), {})
    assert file.read_once("x") and not file.read_once("t7")
    model = load_model(path)
    assert model.graph.name == "m" and model.host is not None


def change(edit: Callable[[Any], None]) -> bytes:
    model = small()
    edit(model)
    return bytes(model.SerializeToString())


def dimension(value: int) -> Callable[[Any], None]:
    def edit(model: Any) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = value

    return edit


def external(model: Any) -> None:
    model.graph.initializer[0].data_location = 1


def other_type(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 8


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file has no graph with nodes and outputs"),
        (b"no protobuf at all", "is no ONNX model or is damaged"),
        (change(external), "constant 'c0' is stored in another file; save the model with its data inside"),
        (change(other_type), "input 'x' has elements of ONNX's type number 8; npusim reads f32, "),
        (change(dimension(0)), r"input 'x' has the shape \[2, 0\]; state every dimension but the first"),
        (change(dimension(1 << 40)), "elements in all"),
        (change(lambda m: m.graph.initializer[0].dims.append(5)), "is damaged"),
    ],
)
def test_files_that_cannot_be_read(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=message) as e:
        load_qonnx(path)
    assert str(e.value).startswith(str(path))


def test_missing_files_and_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileFormatError, match=r"none.onnx: cannot be read \(No such file or directory\)"):
        load_qonnx(tmp_path / "none.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(FileFormatError, match=r"takes the onnx package: pip install npusim\[onnx\]"):
        load_qonnx(tmp_path / "none.onnx")


def test_damaged_files_load_or_are_refused(tmp_path: Path) -> None:
    data = np.frombuffer(small().SerializeToString(), np.uint8)
    path, r, refused = tmp_path / "m.onnx", np.random.default_rng(0), 0
    for k in range(400):
        damaged = data[: r.integers(len(data))].copy() if k % 4 == 0 else data.copy()
        if k % 4:
            at = r.integers(len(data), size=k % 4)
            damaged[at] = r.integers(256, size=k % 4)
        path.write_bytes(damaged.tobytes())
        try:
            load_qonnx(path)
        except UserError as e:
            refused += 1
            assert str(e).startswith(str(path))
    assert 100 < refused < 400

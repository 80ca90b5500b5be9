"""Which reader takes a model file, and what a model without a host is."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path

import pytest

from npusim.errors import FileFormatError
from npusim.frontends.model import MODEL_SUFFIXES, Model, ModelOptions, is_model, load_model
from tests.plain import matmul


def test_models_are_told_by_their_suffix() -> None:
    assert [is_model(Path(p)) for p in ("a.tosa", "b/model.ONNX", "c.xml", "d.tflite", "e.yaml", "tosa")] == [
        True
    ] * 4 + [False] * 2


def test_an_unknown_suffix_lists_those_that_there_are() -> None:
    with pytest.raises(FileFormatError, match=r"^net.pb: '.pb' is no model format that npusim reads: ") as e:
        load_model("net.pb")
    assert all(f"{suffix} ({what})" in str(e.value) for suffix, what in MODEL_SUFFIXES.items())
    with pytest.raises(FileFormatError, match=r"^net: 'no suffix' is no model format"):
        load_model("net")


def test_a_graph_without_a_host_is_the_whole_model() -> None:
    model = Model(matmul(2, 3, 4))
    assert tuple(model.around.inputs) == ("a",) and tuple(model.around.outputs) == ("y",)
    assert model.around.operators == ()


def test_defaults_are_what_producers_of_such_files_mean() -> None:
    assert ModelOptions() == ModelOptions(pad_rule="plugin", bit_order="lsb", binarize="none")


@pytest.mark.parametrize(
    ("suffix", "package", "extra"), [(".onnx", "onnx", "npusim[onnx]"), (".tflite", "tflite", "npusim[larq]")]
)
def test_a_missing_library_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, package: str, extra: str
) -> None:
    path = tmp_path / f"net{suffix}"
    path.write_bytes(b"\x18\x00\x00\x00TFL3" + bytes(32))
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, *rest)  # type: ignore[arg-type]

    for loaded in [m for m in sys.modules if m.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(FileFormatError, match=rf"pip install .*{extra.replace('[', '.').replace(']', '.')}"):
        load_model(path)

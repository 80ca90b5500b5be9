"""Reading TensorFlow Lite files: tensors, options in all their spellings, and what is no such file."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the optional package tflite is not installed")

from npusim.errors import FileFormatError
from npusim.frontends.larq import load_larq
from npusim.frontends.larq.reader import LarqFile, LarqTensor, read_larq
from tests.frontends.larq.files import POOL, RELU6, SAME, VALID, Network, convolution_options
from tests.frontends.larq.networks import layers


def read(net: Network) -> LarqFile:
    return read_larq(net.data(), "net.tflite")


def test_tensors_operators_and_options_are_those_written() -> None:
    net = layers(pad_values=0, dilation_width_factor=200, padding=VALID, fused_activation_function=RELU6)
    axes = net.constant("axes", np.array([1, 2], np.int32))
    net.outputs = [net.operator("MEAN", ["z", axes], "mean", (1, 1), KeepDims=True)]
    window = {"StrideH": 2, "StrideW": 3, "DilationHFactor": 4, "DilationWFactor": 5}
    net.operator(
        "CONV_2D", ["z", "z.m", None], "c", (1, 1, 1, 1), Padding=VALID, FusedActivationFunction=RELU6, **window
    )
    net.operator("SOFTMAX", ["mean"], "s", (1, 1), Beta=0.5)
    file = read(net)
    assert (file.inputs, file.outputs) == (("x",), ("mean",))
    assert [o.label for o in file.operators[:3]] == ["LceQuantize 'bits'", "LceBconv2d 'y'", "LceQuantize 'b2'"]
    assert file.operators[1].inputs == ("bits", "w", "m", "b", None)
    assert file.operators[1].options == {
        **convolution_options(20, pad_values=0, dilation_width_factor=200),
        "padding": "VALID",
        "fused_activation_function": "RELU6",
    }
    mean, convolution, softmax = file.operators[-3:]
    assert mean.options == {"keep_dims": True}
    assert convolution.inputs[2] is None
    assert convolution.options == {
        "padding": "VALID",
        "fused_activation_function": "RELU6",
        "stride_h": 2,
        "stride_w": 3,
        "dilation_h_factor": 4,
        "dilation_w_factor": 5,
    }
    assert struct.pack("<I", softmax.options["beta"]) == struct.pack("<f", 0.5)
    for name, (shape, dtype, data) in net.tensors.items():
        t = file.tensors[name]
        assert (t.shape, t.dtype, b"" if t.data is None else bytes(t.data)) == (shape, dtype, data)
    np.testing.assert_array_equal(file.tensors["axes"].array(), [1, 2])


def test_options_that_are_left_out_have_their_defaults() -> None:
    net = layers()
    for key in ("pad_values", "fused_activation_function"):
        del net.operators[1][3][key]
    net.operators.append(("ADD", ["z", "z"], [net.tensor("v", (1, 4, 4, 1))], {}, ""))
    options = [o.options for o in read(net).operators]
    assert (options[1]["pad_values"], options[1]["fused_activation_function"]) == (0, "NONE")
    assert options[-1] == {"fused_activation_function": "NONE"}


@pytest.mark.parametrize(("word", "activation"), [("SAME", "RELU"), ("same", ""), ("Valid", "NONE")])
def test_words_of_earlier_releases_are_understood(word: str, activation: str) -> None:
    net = layers(padding=word, fused_activation_function=activation)
    options = read(net).operators[1].options
    assert options["padding"] == word.upper()
    assert options["fused_activation_function"] == (activation or "NONE")


def test_repeated_and_empty_names_get_the_number_of_their_tensor() -> None:
    net = layers()
    net.names = {"bits": "x", "y": "", "b2": "y"}
    file = read(net)
    order = list(net.tensors)
    assert len(file.tensors) == len(order)
    assert file.operators[0].outputs == (f"x#{order.index('bits')}",)
    assert file.operators[1].outputs == (f"#{order.index('y')}",)
    assert file.operators[2].outputs == ("y",)


def test_without_the_package_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(FileFormatError, match=r"net\.tflite: .* needs the package tflite: pip install npusim\[larq\]"):
        load_larq(layers().write(tmp_path))


def test_a_file_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none\.tflite: cannot be read \(No such file or directory\)"):
        load_larq(tmp_path / "none.tflite")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are too few"),
        (b"\x20\0\0\0TOSA", "the identifier is b'TOSA' instead of 'TFL3'"),
        (layers().data()[:400], "damaged: copy or export it again"),
    ],
)
def test_bytes_that_are_no_such_file(data: bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_larq(data, "net.tflite")


def broken_shape() -> Network:
    net = layers()
    net.tensors["y"] = ((1, 0, 4, 8), "FLOAT32", b"")
    return net


def broken_option(key: str, **given: Any) -> Network:
    net = layers()
    if given:
        net.operators[1][3].update(given)
    else:
        del net.operators[1][3][key]
    return net


def foreign_table() -> Network:
    net = layers()
    net.operator("ADD", ["z", "z"], "v", (1, 4, 4, 1), table="MulOptions")
    return net


def nothing_made() -> Network:
    net = layers()
    net.operators[-1][2].clear()
    return net


def no_options() -> Network:
    net = layers()
    net.operators[1][3].clear()
    return net


FAULTS = {
    r"tensor 'y' has shape \[1, 0, 4, 8\]; every dimension must be at least 1": broken_shape,
    "operator LceBconv2d has no option 'channels_in'": lambda: broken_option("channels_in"),
    "option 'stride_width' is a word": lambda: broken_option("stride_width", stride_width="two"),
    "the options of operator LceBconv2d cannot be read": no_options,
    "operator ADD has options of type 21 instead of AddOptions": foreign_table,
    "operator LceBconv2d makes nothing": nothing_made,
}


@pytest.mark.parametrize("message", FAULTS)
def test_faults_of_the_file_are_located(message: str) -> None:
    with pytest.raises(FileFormatError, match=rf"^net\.tflite: byte \d+: .*{message}"):
        read(FAULTS[message]())


def test_indices_must_exist() -> None:
    net = layers()
    data = net.data()
    wanted = struct.pack("<Ii", 1, list(net.tensors).index("z"))  # the vector of outputs
    at = data.rindex(wanted)
    with pytest.raises(FileFormatError, match=r"output 99 does not exist \(\d+ there are\)"):
        read_larq(data[:at] + struct.pack("<Ii", 1, 99) + data[at + 8 :], "net.tflite")


def test_constants_must_fill_their_shape_and_be_of_a_known_type() -> None:
    with pytest.raises(
        FileFormatError, match=r"constant 'c' has 3 bytes for shape \[2\] of FLOAT32; the file is damaged"
    ):
        LarqTensor("c", (2,), "FLOAT32", memoryview(b"abc")).array()
    with pytest.raises(FileFormatError, match=r"tensor 'c' \(INT8\) must be a constant of FLOAT32 or INT32"):
        LarqTensor("c", (3,), "INT8", memoryview(b"abc")).array()
    with pytest.raises(FileFormatError, match=r"tensor 'c' \(INT32\) must be a constant"):
        LarqTensor("c", (3,), "INT32").array()


def test_pooling_options() -> None:
    net = layers()
    net.operator("LceBMaxPool2d", ["b2"], "p", (1, 2, 2, 1), "INT32", **{**POOL, "padding": SAME, "filter_height": 3})
    assert read(net).operators[-1].options == {**POOL, "padding": "SAME", "filter_height": 3}

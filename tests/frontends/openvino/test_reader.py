"""The XML of an IR: layers in order of their edges, and a message for everything that is wrong with it."""

from __future__ import annotations

import pytest

from npusim.errors import FileFormatError
from npusim.frontends.openvino.reader import DYNAMIC, read_layers
from tests.frontends.openvino.ir import Ir


def net(layers: str, edges: str = "") -> bytes:
    return f"<net><layers>{layers}</layers><edges>{edges}</edges></net>".encode()


def layer(number: str, name: str, inputs: int = 0, outputs: int = 1, kind: str = "Add") -> str:
    taken = "".join(f'<port id="{i}"/>' for i in range(inputs))
    made = "".join(f'<port id="{inputs + i}"/>' for i in range(outputs))
    return f'<layer id="{number}" name="{name}" type="{kind}"><input>{taken}</input><output>{made}</output></layer>'


def edge(start: str, end: str) -> str:
    (a, b), (c, d) = start.split("."), end.split(".")
    return f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>'


def test_layers_come_behind_their_sources_whatever_the_order_of_the_file() -> None:
    g = Ir()
    x = g.parameter((1, 8, 3, 3))
    g.result(g.pool(g.quantize(x, [[0.0]] * 4), (1, 8, 1, 1)))
    g.layers.reverse()
    g.edges.reverse()
    layers = read_layers(g.xml().encode(), "net.xml")
    seen: set[str] = set()
    for found in layers:
        assert {number for number, _ in found.sources} <= seen
        seen.add(found.number)
    by_name = {found.name: found for found in layers}
    assert len(layers) == 8
    assert by_name["fq"].sources == (("0", 0), ("1", 0), ("2", 0), ("3", 0), ("4", 0))
    assert by_name["pool"].attributes["kernel"] == "2,2"
    assert by_name["pool"].inputs[0].shape == (1, 8, 3, 3)
    assert (by_name["x"].outputs[0].precision, by_name["x"].kind, by_name["x"].version) == (
        "FP32",
        "Parameter",
        "opset1",
    )


def test_layers_keep_the_order_of_the_file_where_it_is_possible() -> None:
    g = Ir()
    x = g.parameter((1, 8, 3, 3))
    y = g.pool(x, (1, 8, 1, 1), "a")
    g.result(g.pool(y, (1, 8, 1, 1), "b"), "first")
    g.result(x, "second")
    assert [found.name for found in read_layers(g.xml().encode(), "net.xml")] == ["x", "a", "b", "first", "second"]


def test_open_dimensions_are_dynamic() -> None:
    xml = net(
        '<layer id="0" name="x" type="Parameter"><output><port id="0">'
        "<dim>-1</dim><dim>?</dim><dim>1..8</dim><dim> 7 </dim><dim/></port></output></layer>"
    )
    assert read_layers(xml, "net.xml")[0].outputs[0].shape == (DYNAMIC, DYNAMIC, DYNAMIC, 7, DYNAMIC)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_document_type_is_refused(encoding: str) -> None:
    xml = '<!DOCTYPE net [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><net><layers>&b;</layers></net>'
    with pytest.raises(FileFormatError, match="^net.xml: has a DOCTYPE, which no OpenVINO IR has"):
        read_layers(xml.encode(encoding), "net.xml")


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        (b"", "net.xml: is no well-formed XML"),
        (b"<net><layers>", "net.xml: is no well-formed XML"),
        (b"\x00\xff\x13", "net.xml: is no well-formed XML"),
        (b'<?xml version="1.0" encoding="nonsense"?><net/>', "net.xml: is no well-formed XML"),
        (b"<net>&unknown;</net>", "net.xml: is no well-formed XML"),
        (b"<model/>", "its root is <model>, that of an OpenVINO IR is <net>"),
        (b"<net/>", "has no layers; it is no OpenVINO IR"),
        (net(layer("0", "a") + layer("0", "b")), "2 of its layers have the id '0'"),
        (net(layer("0", "a") + layer("1", "a")), "2 of its layers have the name 'a'"),
        (net(layer("", "a") + layer("1", "")), "1 of its layers have no id.*\n.*1 of its layers have no name"),
        (net('<layer id="0" name="a" type="T"><output><port id="1"/><port id="1"/></output></layer>'),
         r"layer 'a' \(T\) has 2 ports with the id '1'"),
        (net(layer("0", "a", 1)), r"no edge leads to input port '0' of layer 'a' \(Add\)"),
        (net(layer("0", "a"), edge("7.0", "0.3")),
         "an edge names output port '0' of layer '7', which.*\n.*input port '3' of layer '0'"),
        (net(layer("0", "a") + layer("1", "b", 1), edge("0.0", "1.0") * 2),
         "two edges lead to input port '0' of layer '1'"),
        (net(layer("0", "a", 1) + layer("1", "b", 1), edge("0.1", "1.0") + edge("1.1", "0.0")),
         "its edges form a cycle through or before 'a', 'b'; a network must not"),
        (net(layer("0", "a", 1), edge("0.1", "0.0")), "its edges form a cycle through or before 'a'"),
    ],
)  # fmt: skip
def test_faults(xml: bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_layers(xml, "net.xml")

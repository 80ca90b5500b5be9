"""Reads the XML of an OpenVINO IR into records of its layers, in an order in which every source comes first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from npusim.errors import FileFormatError

DYNAMIC: Final = -1
"""A dimension that the file leaves open."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a layer as the file states it; ``precision`` may be empty."""

    number: str
    shape: tuple[int, ...]
    precision: str


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: ``sources`` are, for each input, the layer (by its ``number``) and the position of its output."""

    number: str
    name: str
    kind: str
    version: str
    attributes: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    sources: tuple[tuple[str, int], ...] = ()

    @property
    def is_constant(self) -> bool:
        """Whether it states an array; both spellings of its type are in use."""
        return self.kind in ("Const", "Constant")

    @property
    def title(self) -> str:
        """Operator and name, as reports show them."""
        return f"{self.kind} {self.name!r}"

    def __str__(self) -> str:
        return f"layer {self.name!r} ({self.kind})"


def read_layers(xml: bytes, where: str) -> tuple[Layer, ...]:
    """The layers of the IR. Raises FileFormatError with every fault, each opening with ``where`` (the file)."""
    root = _parse(xml, where)
    layers = [_layer(element) for element in root.iterfind("layers/layer")]
    problems = list(_faults(layers))
    if not layers:
        problems.append("has no layers; it is no OpenVINO IR")
    if not problems:
        layers = _connect(layers, root.iterfind("edges/edge"), problems)
    if not problems:
        layers = _ordered(layers, problems)
    if problems:
        raise FileFormatError([f"{where}: {p}" for p in problems])
    return tuple(layers)


def _parse(xml: bytes, where: str) -> Element:
    """The root element. A document type is refused: its entities could expand to any size."""
    builder, parser = TreeBuilder(), expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise FileFormatError(f"{where}: has a DOCTYPE, which no OpenVINO IR has; take it out")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(xml, True)
        root = builder.close()
    except (expat.ExpatError, ValueError, LookupError, AssertionError) as e:
        raise FileFormatError(f"{where}: is no well-formed XML ({e}); export the model again") from None
    if root.tag != "net":
        raise FileFormatError(f"{where}: its root is <{root.tag}>, that of an OpenVINO IR is <net>")
    return root


def _layer(element: Element) -> Layer:
    data = element.find("data")
    return Layer(
        element.get("id", ""),
        element.get("name", ""),
        element.get("type", ""),
        element.get("version", ""),
        {} if data is None else dict(data.attrib),
        tuple(map(_port, element.iterfind("input/port"))),
        tuple(map(_port, element.iterfind("output/port"))),
    )


def _port(element: Element) -> Port:
    dims = (dim.text or "" for dim in element.iterfind("dim"))
    return Port(element.get("id", ""), tuple(map(dimension, dims)), element.get("precision", ""))


def dimension(text: str) -> int:
    """A size as the file writes it; DYNAMIC for what is no number (``?``, ``1..8``)."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text.strip(), re.ASCII) else DYNAMIC


def _faults(layers: Iterable[Layer]) -> Iterator[str]:
    """What is wrong with the layers by themselves."""
    for what, values in (("id", [x.number for x in layers]), ("name", [x.name for x in layers])):
        for value, count in Counter(values).items():
            if not value:
                yield f"{count} of its layers have no {what}; export the model again"
            elif count > 1:
                yield f"{count} of its layers have the {what} {value!r}; every layer needs one of its own"
    for layer in layers:
        ports = Counter(port.number for port in (*layer.inputs, *layer.outputs))
        for number, count in ports.items():
            if count > 1:
                yield f"{layer} has {count} ports with the id {number!r}; every port needs one of its own"


def _connect(layers: list[Layer], edges: Iterable[Element], problems: list[str]) -> list[Layer]:
    """The layers with their sources."""
    inputs = {(x.number, p.number): i for x in layers for i, p in enumerate(x.inputs)}
    outputs = {(x.number, p.number): i for x in layers for i, p in enumerate(x.outputs)}
    sources: dict[str, dict[int, tuple[str, int]]] = {x.number: {} for x in layers}
    for edge in edges:
        start, end = ((edge.get(f"{e}-layer", ""), edge.get(f"{e}-port", "")) for e in ("from", "to"))
        for (layer, port), known, what in ((start, outputs, "output"), (end, inputs, "input")):
            if (layer, port) not in known:
                problems.append(f"an edge names {what} port {port!r} of layer {layer!r}, which the file does not have")
        if start in outputs and end in inputs:
            if inputs[end] in sources[end[0]]:
                problems.append(f"two edges lead to input port {end[1]!r} of layer {end[0]!r}; an input has one source")
            sources[end[0]][inputs[end]] = start[0], outputs[start]
    connected = []
    for x in layers:
        open_ports = [p.number for i, p in enumerate(x.inputs) if i not in sources[x.number]]
        problems += [f"no edge leads to input port {number!r} of {x}" for number in open_ports]
        found = tuple(source for _, source in sorted(sources[x.number].items()))
        connected.append(replace(x, sources=found))
    return connected


def _ordered(layers: list[Layer], problems: list[str]) -> list[Layer]:
    """The layers behind their sources, as far as that allows in the order of the file."""
    place = {x.number: i for i, x in enumerate(layers)}
    missing = [len({number for number, _ in x.sources}) for x in layers]
    readers: list[list[int]] = [[] for _ in layers]
    for i, x in enumerate(layers):
        for source in {number for number, _ in x.sources}:
            readers[place[source]].append(i)
    ready = [i for i, count in enumerate(missing) if not count]  # ascending, so a heap
    ordered = []
    while ready:
        first = heappop(ready)
        ordered.append(layers[first])
        for reader in readers[first]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    stuck = [x.name for x, count in zip(layers, missing, strict=True) if count]
    if stuck:
        names = ", ".join(map(repr, stuck[:5])) + ", ..." * (len(stuck) > 5)
        problems.append(
            f"its edges form a cycle through or before {names}; a network must not read what it has yet to compute"
        )
    return ordered

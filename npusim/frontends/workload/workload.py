"""The workload: a network, the data it runs on, and how to map it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pydantic import TypeAdapter

from npusim.frontends.chip import DEFAULT_CHIP
from npusim.graph.graph import Graph
from npusim.graph.host import Host
from npusim.ir.mapping_options import MappingOptions
from npusim.numerics.types import Array


@dataclass(frozen=True)
class Workload:
    """A network with its data, and how to map it.

    ``host`` is what of the model runs on the host around ``graph`` (None: nothing). ``path`` is the file
    it came from. ``chip`` is the name of a shipped chip or the path of a YAML file. ``inputs`` and ``expect`` hold the
    arrays that the workload gives, by name, in storage types: those of the model or of the graph. Every other input of
    the graph is random with ``seed``, within its entry in ``input_ranges`` (both ends included) or else over its type.
    ``labels`` are integer class indices [N], one for each entry along the first output's first axis.
    """

    name: str
    graph: Graph
    path: Path | None = None
    chip: str = DEFAULT_CHIP
    seed: int = 0
    inputs: Mapping[str, Array] = field(default_factory=dict)
    input_ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    expect: Mapping[str, Array] = field(default_factory=dict)
    labels: Array | None = None
    mapping: MappingOptions = field(default_factory=MappingOptions)
    host: Host | None = None

    @classmethod
    def of_graph(cls, graph: Graph) -> Workload:
        """The graph with random inputs, on the default chip. One called by the path of a model gets a short name."""
        name = default_name(Path(graph.name)) if graph.name.endswith(".tosa") else graph.name
        return cls(name, replace(graph, name=name))

    @cached_property
    def sha256(self) -> str:
        """Identifies operators, constants (random ones by their values) and mapping, however and wherever written."""
        graph = self.graph
        content = {
            "inputs": [(v, str(graph.types[v])) for v in graph.inputs],
            "outputs": graph.outputs,
            "states": [(s.name, s.input, s.output, _digest(s.initial)) for s in graph.states],
            "nodes": [(n.name, n.op.name, n.op.attributes(), n.inputs, n.output) for n in graph.nodes],
            "constants": {v: (str(graph.types[v]), _digest(array)) for v, array in graph.constants.items()},
            "mapping": TypeAdapter(MappingOptions).dump_python(self.mapping, mode="json"),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def default_name(path: Path) -> str:
    """What a workload without a name is called: its file's stem, or for a file called ``model`` its folder's name.

    >>> default_name(Path("nets/kws.tosa")), default_name(Path("nets/kws/model.tosa"))
    ('kws', 'kws')
    """
    return path.resolve().parent.name if path.stem == "model" else path.stem


def _digest(array: Array) -> str:
    little_endian = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    return hashlib.sha256(little_endian.data).hexdigest()

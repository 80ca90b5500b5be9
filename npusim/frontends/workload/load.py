"""Loads a workload: a YAML file that states network, data and mapping, or a bare model file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from npusim.config import Document, Loc, load, load_text, override, parse, read_text
from npusim.config.document import Mark, Node
from npusim.errors import ConfigError
from npusim.frontends.chip import is_path, shipped_chip
from npusim.frontends.model import Model, is_model, load_model
from npusim.frontends.overrides import key_values
from npusim.frontends.workload.build import build_graph
from npusim.frontends.workload.data import check_exists, check_range, load_array, load_labels
from npusim.frontends.workload.faults import Faults
from npusim.frontends.workload.schema import WorkloadSpec
from npusim.frontends.workload.workload import Workload, default_name
from npusim.graph.host import Host
from npusim.ir.tensor import TensorType
from npusim.numerics.types import Array
from npusim.ops import suggestion

T = TypeVar("T")
Key = Literal["inputs", "expect"]


def load_workload(path: str | Path, overrides: Sequence[str] = ()) -> Workload:
    """The workload of the YAML or model file ``path``; a model (see MODEL_SUFFIXES) has defaults for all else.

    ``overrides`` are texts ``key=value``, applied in order. Raises ConfigError with all that is wrong with a YAML file
    and the files it names, each with line and column: what breaks the structure of the YAML, or else what its parts
    mean. For a model file it raises what ``load_model`` raises.
    """
    path, pairs = Path(path), key_values(overrides)
    bare = is_model(path)
    document = _document_of_model(path) if bare else _read(path, pairs)
    keys = document.root.value
    if isinstance(keys, Mapping) and {"units", "sram"} & keys.keys() and not {"graph", "model"} & keys.keys():
        raise ConfigError([f"{path}: looks like a chip (it states units or sram), not a workload; give it with --chip"])
    spec = load(document, WorkloadSpec, "workload", pairs)
    for key, text in pairs:
        document = override(document, key, text)
    name, faults = spec.name or default_name(path), Faults(document)
    model: Model | None = None
    if spec.graph is not None:
        graph = build_graph(spec.graph, spec, name, path.parent, faults)
        model = Model(graph) if graph else None
    elif spec.model is not None:
        with nullcontext() if bare else faults.at(("model",)):
            read = load_model(path.parent / spec.model, spec.level, spec.model_options)
            model = replace(read, graph=replace(read.graph, name=name))
    files = _Files(spec, path.parent, faults, model)
    chip = files.chip()
    inputs, ranges = files.inputs()
    expect, labels = files.expect(), files.labels()
    faults.raise_any()
    assert model is not None, "a workload without faults has a graph"
    return Workload(name, model.graph, path, chip, spec.seed, inputs, ranges, expect, labels, spec.mapping, model.host)


def _document_of_model(path: Path) -> Document:
    """What a YAML file that names the model and nothing else would hold."""
    return Document(Node({"model": Node(path.name, Mark())}, Mark()), str(path))


def _read(path: Path, pairs: list[tuple[str, str]]) -> Document:
    text = read_text(path, "workload")
    try:
        return parse(text, str(path))
    except ConfigError:
        load_text(text, WorkloadSpec, "workload", str(path), pairs)  # fails too, with all other faults beside
        raise


@dataclass(frozen=True, slots=True)
class _Files:
    """The files that a workload names. Without a model, which then is at fault, only whether they exist is checked."""

    spec: WorkloadSpec
    folder: Path
    faults: Faults
    model: Model | None

    def chip(self) -> str:
        """Name of a shipped chip, or path of its file."""
        chip = self.spec.chip
        with self.faults.at(("chip",)):
            if is_path(chip):
                chip = str(self.folder / chip)
                check_exists(Path(chip), "the chip")
            else:
                shipped_chip(chip)
        return chip

    def inputs(self) -> tuple[dict[str, Array], dict[str, tuple[int, int]]]:
        """The inputs in files, and the ranges of random ones."""
        arrays: dict[str, Array] = {}
        ranges: dict[str, tuple[int, int]] = {}
        for loc, value, item in self._assigned("inputs", self.spec.inputs):
            if isinstance(item, str):
                self._load(loc, f"input {value!r}", value, item, arrays, "inputs")
            elif self.model:
                with self.faults.at(loc):
                    check_range(self._types("inputs")[value], value, *item.random)
                    ranges[value] = item.random
        return arrays, ranges

    def expect(self) -> dict[str, Array]:
        """The outputs that the workload expects."""
        arrays: dict[str, Array] = {}
        for loc, value, file in self._assigned("expect", self.spec.expect):
            self._load(loc, f"expected output {value!r}", value, file, arrays, "expect")
        return arrays

    def labels(self) -> Array | None:
        """The classes that the first output should show."""
        if self.spec.labels is None:
            return None
        path = self.folder / self.spec.labels
        with self.faults.at(("labels",)):
            check_exists(path, "labels")
            if self.model:
                return load_labels(path, next(iter(self.model.around.outputs.values())))
        return None

    def _load(self, loc: Loc, what: str, value: str, file: str, arrays: dict[str, Array], key: Key) -> None:
        with self.faults.at(loc):
            check_exists(self.folder / file, what)
            if self.model:
                arrays[value] = load_array(self.folder / file, self._types(key)[value], what)

    def _types(self, key: Key) -> dict[str, TensorType]:
        """The types of all that may be given by name."""
        if self.model is None:
            return {}
        known = Host.known_inputs if key == "inputs" else Host.known_outputs
        return known(self.model.around, self.model.graph)

    def _assigned(self, key: Key, given: tuple[T, ...] | Mapping[str, T]) -> Iterator[tuple[Loc, str, T]]:
        """Place, value and entry for each of ``given``, which are by name or in the order of the graph."""
        values = self._values(key)
        if isinstance(given, Mapping):
            named = self._types(key) or values
            for value, item in given.items():
                if named is None or value in named:
                    yield (key, value), value, item
                else:
                    what = "input" if key == "inputs" else "output"
                    self.faults.add((key, value), f"the graph has no {what} {value!r}{suggestion(value, named)}")
            return
        if given and values is not None and len(given) != len(values):
            them = f"the graph has {len(values)} ({', '.join(values)})"
            self.faults.add((key,), f"{len(given)} listed, {them}; list one for each, or give them by name")
            return
        for index, item in enumerate(given):
            yield (key, index), values[index] if values else str(index), item

    def _values(self, key: Key) -> tuple[str, ...] | None:
        """The inputs or outputs of the model, in its order; None if it cannot be read."""
        if self.model:
            return tuple(self.model.around.inputs if key == "inputs" else self.model.around.outputs)
        spec = self.spec.graph
        return None if spec is None else tuple(spec.inputs) if key == "inputs" else spec.outputs

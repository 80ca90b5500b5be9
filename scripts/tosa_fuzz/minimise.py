"""From a graph on which the answers differ to a small one, and to files that show it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from npusim.frontends.tosa import TosaTensor, decode_constant, encode_constant, read_tosa, write_tosa
from npusim.numerics.types import Array
from scripts.tosa_oracle.model import ReferenceModel

from .choices import Choices, shrink
from .compare import Outcome, Setting, judge, random_setting
from .corrupt import corrupt
from .graphs import random_graph
from .writer import RandomGraph, pruned

TRIES = 600
Sample = tuple[Setting, RandomGraph]


def sample(choices: Choices, operators: Sequence[str]) -> Sample:
    """A random graph, now and then with something wrong, and a random way to cut it into tiles."""
    setting, wrong = random_setting(choices), choices.chance(1, 16)
    graph = random_graph(choices, operators)
    return setting, corrupt(choices, graph) if wrong else graph


def kind_of_fault(outcome: Outcome) -> str:
    """The part of a fault that does not depend on names and numbers: what must stay while a graph shrinks."""
    return re.split(r"['\d\[]", outcome.fault)[0]


def minimise(
    made: Sequence[int], operators: Sequence[str], judged: Callable[[Sample], Outcome], tries: int = TRIES
) -> Sample:
    """The smallest sample found that has the fault of the one made by the choices ``made``.

    First by smaller choices, then by fewer outputs, then by zeros in inputs and constants.
    """
    fault = kind_of_fault(judged(sample(Choices(replay=made), operators)))

    def fails(candidate: Sample) -> bool:
        return kind_of_fault(judged(candidate)) == fault

    best = shrink(made, lambda c: fails(sample(Choices(replay=c), operators)), tries)
    setting, graph = sample(Choices(replay=best), operators)
    for fewer in _fewer_outputs(graph):
        if fails((setting, fewer)):
            graph = fewer
            break
    left = tries
    for name in [*graph.block.inputs, *(v for v, t in graph.block.tensors.items() if t.data is not None)]:
        values = _values(graph, name)
        span = values.size
        while span and left > 0:
            for at in range(0, values.size, span):
                if left > 0 and values.reshape(-1)[at : at + span].any():
                    left -= 1
                    zeroed = values.copy()
                    zeroed.reshape(-1)[at : at + span] = 0
                    if fails((setting, candidate := _with_values(graph, name, zeroed))):
                        graph, values = candidate, zeroed
            span //= 2
    return setting, graph


def save(folder: Path, found: Sample, fault: str, model: ReferenceModel) -> None:
    """Write the graph, its inputs, the model's outputs, and what else :func:`load` needs."""
    setting, graph = found
    folder.mkdir(parents=True, exist_ok=True)
    data = write_tosa(graph.file)
    (folder / "graph.tosa").write_bytes(data)
    for k, array in enumerate(graph.inputs):
        np.save(folder / f"input-{k}.npy", array)
    for k, array in enumerate(model.run(data, graph.inputs).outputs):
        np.save(folder / f"reference-{k}.npy", array)
    about = {
        "fault": fault,
        "setting": asdict(setting),
        "tolerances": graph.tolerances,
        "unsigned": [*graph.unsigned],
        "broken": graph.broken,
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1))


def load(folder: Path) -> Sample:
    """What :func:`save` wrote."""
    about = json.loads((folder / "about.json").read_text())
    file = read_tosa((folder / "graph.tosa").read_bytes(), str(folder / "graph.tosa"))
    count = len(file.regions[0].blocks[0].inputs)
    inputs = tuple(np.load(folder / f"input-{k}.npy") for k in range(count))
    graph = RandomGraph(file, inputs, about["tolerances"], frozenset(about["unsigned"]), about["broken"])
    return Setting(**about["setting"]), graph


def run(found: Sample, model: ReferenceModel) -> Outcome:
    """Judge a sample."""
    setting, graph = found
    return judge(graph, setting, model)


def _fewer_outputs(graph: RandomGraph) -> Iterator[RandomGraph]:
    inputs = dict(zip(graph.block.inputs, graph.inputs, strict=True))
    for v, tolerance in graph.tolerances.items():
        yield replace(pruned(graph.block, inputs, {v: tolerance}, graph.unsigned), broken=graph.broken)


def _values(graph: RandomGraph, name: str) -> Array:
    """The elements of an input or constant."""
    if name in graph.block.inputs:
        return graph.inputs[graph.block.inputs.index(name)]
    return np.array(decode_constant(graph.block.tensors[name]))


def _with_values(graph: RandomGraph, name: str, values: Array) -> RandomGraph:
    """The graph with other elements in an input or constant."""
    inputs = dict(zip(graph.block.inputs, graph.inputs, strict=True))
    block = graph.block
    if name in inputs:
        inputs[name] = values
    else:
        old = block.tensors[name]
        new = TosaTensor(name, old.shape, old.dtype, encode_constant(values, old.dtype))
        block = replace(block, tensors={**block.tensors, name: new})
    return replace(pruned(block, inputs, graph.tolerances, graph.unsigned), broken=graph.broken)

"""One random graph on npusim, whole and through tiles, and on the reference model: do they agree?"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from npusim.errors import DoesNotFitError, FileFormatError, InvalidGraphError, UnpredictableError
from npusim.frontends.chip import load_chip
from npusim.frontends.tosa import read_tosa, to_graph, write_tosa
from npusim.functional import evaluate_graph, execute
from npusim.graph.graph import Graph
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.work import Work
from npusim.mapping.mapper import map_graph
from npusim.numerics.overflow import Policy
from npusim.numerics.types import Array, ceil_div
from npusim.timing import simulate
from scripts.tosa_oracle.case import compare
from scripts.tosa_oracle.model import Answer, ReferenceModel, Status

from .choices import Choices
from .writer import RandomGraph

MOST_TILES = 40
WRAP: Mapping[str, Policy] = {"i32": "wrap", "i48": "wrap"}


@dataclass(frozen=True, slots=True)
class Setting:
    """How the tiles are made: a chip that npusim ships with, its bytes of SRAM, and switches of the mapper.

    ``tiles`` seeds random tile sizes along every dimension; 0: those that the mapper finds best.
    """

    chip: str
    sram_bytes: int
    fuse: bool
    residency: bool
    prefetch: bool
    tiles: int


def random_setting(choices: Choices) -> Setting:
    """A chip with so little SRAM that even small graphs are cut into tiles, most often."""
    sram = choices.sample((128, 2, 1, 4, 16)) << 10
    chip = choices.sample(("micro", "edge", "server"))
    fuse, residency, prefetch = (not choices.chance(1, 3) for _ in range(3))
    tiles = choices.integer(1, 1 << 16) if choices.chance(1, 2) else 0
    return Setting(chip, sram, fuse, residency, prefetch, tiles)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a graph.

    ``kind``: ``equal``, ``unpredictable`` or ``invalid`` where both agree on that; a graph made wrong may be invalid to
    npusim alone, which looks at more, but not to the model alone. Where the model is no judge: ``overflow`` of an
    accumulator, if its numbers are npusim's once that wraps too (or if it is a 48-bit one), and ``inexact`` rescales
    that it computes in floats. ``finding`` otherwise, and ``fault`` says what. ``tiled``: whether the chip had room.
    """

    kind: str
    fault: str = ""
    tiled: bool = False


def judge(graph: RandomGraph, setting: Setting, model: ReferenceModel) -> Outcome:
    """Run ``graph`` everywhere and compare all the answers."""
    data = write_tosa(graph.file)
    answer = model.run(data, graph.inputs)
    try:
        loaded = to_graph(read_tosa(data, "graph.tosa"), "graph.tosa")
    except (InvalidGraphError, FileFormatError) as e:
        if answer.status is Status.ERROR or graph.broken:  # the model does not look at everything
            return Outcome("invalid")
        return Outcome("finding", f"npusim refuses the graph, the model says {answer.status.name}: {e}")
    except Exception as e:
        return Outcome("finding", f"loading: {type(e).__name__}: {e}")
    if answer.status is Status.ERROR:
        return Outcome("finding", "the model refuses the graph, npusim does not")
    arrays = zip(loaded.data_inputs, graph.inputs, strict=True)
    inputs = {v: a.view(loaded.types[v].dtype.storage) for v, a in arrays}
    try:
        whole = evaluate_graph(loaded, inputs)
    except UnpredictableError as e:
        return _judge_unpredictable(graph, loaded, inputs, setting, answer, e)
    except Exception as e:
        return Outcome("finding", f"evaluating: {type(e).__name__}: {e}")
    if answer.status is not Status.VALID:
        return Outcome("finding", f"the model says {answer.status.name}, npusim has a result")
    fault = _difference(graph, loaded, whole, answer)
    if fault:
        return Outcome("finding", f"evaluated: {fault}")
    try:
        tiled = _run_tiles(loaded, inputs, setting)
    except DoesNotFitError:
        return Outcome("equal")
    except Exception as e:
        return Outcome("finding", f"through tiles: {type(e).__name__}: {e}")
    for v in loaded.data_outputs:
        difference = compare(tiled[v], whole[v])
        if difference:
            return Outcome("finding", f"through tiles: output {v!r}: {difference}")
    return Outcome("equal", tiled=True)


def _judge_unpredictable(
    graph: RandomGraph,
    loaded: Graph,
    inputs: Mapping[str, Array],
    setting: Setting,
    answer: Answer,
    error: UnpredictableError,
) -> Outcome:
    try:
        wrapped = evaluate_graph(loaded, inputs, WRAP)
        overflow = True
    except UnpredictableError:
        overflow = False
    if answer.status is Status.VALID and overflow:
        narrow = all(n.bound.accumulator.name != "i48" for n in loaded.nodes)
        fault = _difference(graph, loaded, wrapped, answer) if narrow else None
        return Outcome("finding", f"wrapped: {fault}") if fault else Outcome("overflow")
    if answer.status is Status.VALID:
        if "INEXACT_ROUND" in {o.attributes.get("rounding_mode") for o in graph.block.operators}:
            return Outcome("inexact")
        return Outcome("finding", f"the model has a result, npusim says: {error}")
    try:
        _run_tiles(loaded, inputs, setting)
    except DoesNotFitError:
        return Outcome("unpredictable")
    except UnpredictableError:
        return Outcome("unpredictable", tiled=True)
    except Exception as e:
        return Outcome("finding", f"through tiles: {type(e).__name__}: {e}")
    return Outcome("finding", f"tiles have a result, evaluation says: {error}")


def _run_tiles(graph: Graph, inputs: Mapping[str, Array], setting: Setting) -> dict[str, Array]:
    chip = _chip(setting.chip, setting.sram_bytes)
    options = MappingOptions(fuse=setting.fuse, residency=setting.residency, prefetch=setting.prefetch)
    mapped = map_graph(graph, chip, options)
    if setting.tiles:
        rng = random.Random(setting.tiles)
        layers = {p.region.name: LayerOptions(tile=_random_tile(rng, p.region.work)) for p in mapped.plan.layers}
        mapped = map_graph(graph, chip, replace(options, layers=layers))
    return execute(mapped.program, inputs, simulate(mapped.program, chip).moments)[0]


@cache
def _chip(name: str, sram_bytes: int) -> Chip:
    return load_chip(name, [f"sram.size_bytes={sram_bytes}"])


def _random_tile(rng: random.Random, work: Work) -> dict[str, int]:
    """A tile size for every dimension that may be split, so that there are not too many tiles."""
    tile, tiles = {}, 1
    for d in rng.sample(work.dims, len(work.dims)):
        if d.splittable:
            tile[d.name] = rng.randint(1, d.extent) if tiles < MOST_TILES else d.extent
            tiles *= ceil_div(d.extent, tile[d.name])
    return tile


def _difference(graph: RandomGraph, loaded: Graph, outputs: Mapping[str, Array], answer: Answer) -> str | None:
    for v, want in zip(loaded.data_outputs, answer.outputs, strict=True):
        difference = compare(outputs[v], want, graph.tolerances[v], v in graph.unsigned)
        if difference:
            return f"output {v!r}: {difference}"
    return None

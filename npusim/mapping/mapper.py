"""The mapper: a graph and a chip in, a verified tile program out."""

from __future__ import annotations

from dataclasses import dataclass

from npusim.graph.graph import Graph
from npusim.graph.passes.fold_aliases import Aliases, FoldAliases
from npusim.graph.passes.fold_constants import FoldConstants
from npusim.graph.passes.fuse import Fuse
from npusim.graph.region import Region
from npusim.hardware import Chip
from npusim.ir.mapping_options import MappingOptions
from npusim.mapping.emit import Emitter
from npusim.mapping.plan import Plan, Planner, Searched
from npusim.program.program import TileProgram
from npusim.program.verify import verify


@dataclass(frozen=True)
class Mapped:
    """A tile program and the plan it was emitted from."""

    program: TileProgram
    plan: Plan


def map_graph(graph: Graph, chip: Chip, options: MappingOptions, searched: Searched | None = None) -> Mapped:
    """Map ``graph`` onto ``chip``; the program has passed the verifier.

    ``searched`` saves what was found for the same graph, options and chip with another size of SRAM.

    Raises DoesNotFitError if a layer fits no unit or no tile of it fits the SRAM, InputError for manual mappings that
    name what is not there.
    """
    graph = FoldConstants()(graph)
    aliases = FoldAliases()(graph)
    regions = _regions(graph, aliases, chip, options)
    plan = Planner(graph, aliases, regions, chip, options, searched).plan()
    program = Emitter(graph, aliases, plan, chip, options.overlap).program()
    verify(program)
    return Mapped(program, plan)


def partition(graph: Graph, chip: Chip, options: MappingOptions) -> tuple[Region, ...]:
    """The regions (layers) that ``graph`` is mapped as."""
    graph = FoldConstants()(graph)
    return _regions(graph, FoldAliases()(graph), chip, options)


def _regions(graph: Graph, aliases: Aliases, chip: Chip, options: MappingOptions) -> tuple[Region, ...]:
    return Fuse(frozenset(chip.output_pipeline.operators), options.fuse)(graph, aliases.nodes)

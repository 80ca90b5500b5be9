"""The plan of a network: for each layer its tiling, what stays in SRAM, and every slot's address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from npusim.errors import InputError
from npusim.graph.graph import Graph
from npusim.graph.passes.fold_aliases import Aliases
from npusim.graph.region import Region
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.allocate import Interval, Lifetime, place_lifetimes, place_side_by_side, place_slots
from npusim.mapping.candidates import NEVER, Candidates
from npusim.mapping.cost import RegionCost
from npusim.mapping.layer_slots import own_accumulators, slot_sizes, streamed_offsets
from npusim.mapping.search import LayerMapping, candidates, choose, does_not_fit


@dataclass(frozen=True)
class LayerPlan:
    """One layer, mapped. ``input_offsets[i]`` are the slots of region input i (none where it is resident)."""

    region: Region
    cost: RegionCost
    mapping: LayerMapping
    resident: tuple[bool, ...]
    output_resident: bool
    store_output: bool
    input_slots: tuple[tuple[int, ...], ...]
    output_slots: tuple[int, ...]
    accumulator_slots: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """All layers, and the offset of every value that stays in SRAM with the layers it lives through."""

    layers: tuple[LayerPlan, ...]
    residents: dict[str, tuple[int, Lifetime]]


@dataclass(frozen=True)
class _Layer:
    region: Region
    cost: RegionCost
    options: LayerOptions
    found: Candidates


class Searched:
    """What searches found: shared by plans of one chip but for the size of its SRAM, on which neither depends."""

    def __init__(self) -> None:
        self.candidates: dict[object, Candidates] = {}
        self.chosen: dict[object, LayerMapping | None] = {}


class Planner:
    """Chooses what stays in SRAM and how each layer is tiled; :meth:`plan` does it."""

    def __init__(
        self,
        graph: Graph,
        aliases: Aliases,
        regions: Sequence[Region],
        chip: Chip,
        options: MappingOptions,
        searched: Searched | None = None,
    ) -> None:
        self.graph, self.root, self.chip, self.options = graph, aliases.root, chip, options
        self.capacity = chip.sram.size_bytes // chip.sram.granule_bytes * chip.sram.granule_bytes
        names = {r.name for r in regions}
        unknown = [n for n in options.layers if n not in names]
        if unknown:
            raise InputError(
                [f"mapping: no layer is called {n!r}; the layers are {', '.join(sorted(names))}" for n in unknown]
            )
        self.searched = searched or Searched()
        self.layers = [self._layer(r) for r in regions]
        self.must_store = {self.root[v] for v in graph.outputs}
        self.lifetimes = self._lifetimes()

    def _layer(self, region: Region) -> _Layer:
        """The layer on the unit stated, else on that with the fewest estimated cycles; the first of equals."""
        options = self.options.layers.get(region.name, LayerOptions())
        able = RegionCost(region, self.chip, options.unit, options.unrolling).able
        choices = [self._layer_on(region, replace(options, unit=unit)) for unit in able]

        def estimate(layer: _Layer) -> int:
            nowhere = [False] * len(region.inputs)
            cycles = layer.found.fewest_cycles(nowhere, False, True, self.capacity)
            return NEVER if cycles is None else cycles

        return choices[0] if len(choices) == 1 else min(choices, key=estimate)

    def _layer_on(self, region: Region, options: LayerOptions) -> _Layer:
        cost = RegionCost(region, self.chip, options.unit, options.unrolling)
        if options.buffers is None and self.options.buffers is not None:
            options = replace(options, buffers=self.options.buffers)
        key = (
            tuple((m.op, m.bound.operands) for m in region.members),
            tuple((i.access, i.constant, i.uses) for i in region.inputs),
            repr(options),
        )
        known = self.searched.candidates
        if key not in known:
            known[key] = candidates(region, cost, options, self.options.candidates)
        return _Layer(region, cost, options, known[key])

    # -- what stays in SRAM -----------------------------------------------------------------------------------

    def _lifetimes(self) -> dict[str, Lifetime]:
        found: dict[str, Lifetime] = {}
        for k, layer in enumerate(self.layers):
            value = layer.region.output
            readers = [j for j, other in enumerate(self.layers) if j > k and self._reads(other, value)]
            wanted = layer.options.resident
            if not readers or wanted is False or not (self.options.residency or wanted):
                continue
            if layer.cost.streamed_bytes:
                if wanted:
                    raise self._cannot_stay(k, "leaves for DRAM while it is computed (output_pipeline.streamed_bytes)")
                continue
            last_axes = {t.shape[-1:] for v, t in self.graph.types.items() if self.root.get(v) == value}
            if self.chip.sram.channel_granule > 1 and len(last_axes) > 1:
                if wanted:
                    raise self._cannot_stay(
                        k, "is read under another shape, which a channel granule cannot keep in place"
                    )
                continue  # a reshape under rows with gaps would move bytes
            found[value] = Lifetime(value, self.chip.sram.allocated_bytes(layer.region.output_type), k, readers[-1])
        return found

    def _forced(self, value: str) -> bool:
        return self.layers[self.lifetimes[value].first].options.resident is True

    def _cannot_stay(self, k: int, why: str) -> InputError:
        return InputError(f"mapping of layer {self.layers[k].region.name!r}: resident is true, but its output {why}")

    def _reads(self, layer: _Layer, value: str) -> bool:
        return any(self.root[i.value] == value for i in layer.region.inputs)

    def _flags(self, k: int, stays: set[str]) -> tuple[tuple[bool, ...], bool, bool]:
        region = self.layers[k].region
        resident = tuple(self.root[i.value] in stays for i in region.inputs)
        output_resident = region.output in stays
        store = not output_resident or region.output in self.must_store
        return resident, output_resident, store

    def _free(self, k: int, stays: set[str]) -> int:
        return self.capacity - sum(
            v.nbytes for name in stays for v in (self.lifetimes[name],) if v.first <= k <= v.last
        )

    def choose_residents(self) -> set[str]:
        """Keep the values that the mapping demands, then others, the smallest and shortest-lived first.

        Of these others, those that do not raise the sum of the estimates of the layers that they live through.
        """
        stays: set[str] = set()
        now: dict[int, int | None] = {}

        def estimate(k: int, stays: set[str]) -> int | None:
            return self.layers[k].found.fewest_cycles(*self._flags(k, stays), self._free(k, stays))

        def rank(v: Lifetime) -> tuple[bool, int, int]:
            return not self._forced(v.value), v.nbytes * (v.last - v.first), v.first

        for v in sorted(self.lifetimes.values(), key=rank):
            span = range(v.first, v.last + 1)
            for k in span:
                if k not in now:
                    now[k] = estimate(k, stays)
            trial = {*stays, v.value}
            after = {k: estimate(k, trial) for k in span}
            forced = self._forced(v.value)
            if any(a is None for a in after.values()):
                if forced:
                    raise self._no_room(v)
                continue
            if (
                forced
                or any(now[k] is None for k in span)
                or (sum(a for a in after.values() if a) <= sum(now[k] or 0 for k in span))
            ):
                stays = trial
                now.update(after)
        return stays

    # -- tiles and addresses ----------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """The plan; DoesNotFitError naming layer, tensors and bytes if a layer has no tile that fits."""
        stays = self.choose_residents()
        while True:
            lifetimes = [self.lifetimes[v] for v in stays]
            together = place_lifetimes(lifetimes, self.capacity)
            if together is None:
                self._evict(stays, stays)
                continue
            # Side by side no layer waits for the bytes of another: those on units of their own stream.
            apart = place_side_by_side(lifetimes, self.capacity) if self.options.prefetch else None
            k = 0
            for offsets in (apart, together):
                layers = [] if offsets is None else self._layer_plans(stays, offsets)
                if offsets is not None and len(layers) == len(self.layers):
                    return Plan(tuple(layers), {v: (offsets[v], self.lifetimes[v]) for v in sorted(stays)})
                k = len(layers)
            alive = [v for v in stays if self.lifetimes[v].first <= k <= self.lifetimes[v].last]
            if not alive:
                layer = self.layers[k]
                raise does_not_fit(layer.region, layer.found, *self._flags(k, stays)[:2], self.capacity,
                                   self.chip.sram.size_bytes)  # fmt: skip
            self._evict(stays, alive)

    def _layer_plans(self, stays: set[str], offsets: dict[str, int]) -> list[LayerPlan]:
        """The plans of all layers, up to the first one that finds no place."""
        places = {v: (offsets[v], offsets[v] + self.lifetimes[v].nbytes) for v in stays}
        layers: list[LayerPlan] = []
        before: list[Interval] = []
        used = list(places.values())
        for k in range(len(self.layers)):
            busy = [places[v] for v in stays if self.lifetimes[v].first <= k <= self.lifetimes[v].last]
            made = self._place(k, stays, busy, before, used)
            if made is None:
                break
            plan, slots = made
            before = [*slots, *busy]  # values that die here are still read
            used += slots
            layers.append(plan)
        return layers

    def _evict(self, stays: set[str], among: Iterable[str]) -> None:
        """Take the largest of the values ``among`` out of ``stays``; one that the mapping demands is an error."""
        largest = max(among, key=lambda v: (not self._forced(v), self.lifetimes[v].nbytes, v))
        if self._forced(largest):
            raise self._no_room(self.lifetimes[largest])
        stays.remove(largest)

    def _no_room(self, v: Lifetime) -> InputError:
        return self._cannot_stay(
            v.first,
            f"of {v.nbytes} bytes leaves too little of the SRAM's {self.chip.sram.size_bytes} for the layers up to its "
            "last reader; enlarge sram.size_bytes, or leave resident out",
        )

    def _place(
        self, k: int, stays: set[str], busy: list[Interval], before: list[Interval], used: list[Interval]
    ) -> tuple[LayerPlan, list[Interval]] | None:
        layer = self.layers[k]
        resident, output_resident, store = self._flags(k, stays)
        budget = self._free(k, stays)
        avoid, used = (before, used) if self.options.prefetch else ([], [])
        while True:
            mapping = self._choose(layer, resident, output_resident, store, budget)
            if mapping is None:
                return None
            sizes, owners = slot_sizes(layer.cost, mapping, resident, output_resident)
            offsets = place_slots(sizes, busy, avoid, self.capacity, used)
            if offsets is not None:
                break
            budget = mapping.sram_bytes - self.chip.sram.granule_bytes  # fragmented: try a smaller working set
        by_owner: dict[int, list[int]] = {}
        for owner, offset in zip(owners, offsets, strict=True):
            by_owner.setdefault(owner, []).append(offset)
        plan = LayerPlan(
            layer.region, layer.cost, mapping, resident, output_resident, store,
            tuple(tuple(by_owner.get(i, ())) for i in range(len(resident))),
            tuple(by_owner.get(-1, ())) or streamed_offsets(layer.cost, mapping),
            tuple(by_owner.get(-2, ())) or own_accumulators(layer.cost, mapping),
        )  # fmt: skip
        return plan, [(o, o + n) for o, n in zip(offsets, sizes, strict=True)]

    def _choose(self, layer: _Layer, resident: tuple[bool, ...], output: bool, store: bool, budget: int) -> (
        LayerMapping | None
    ):  # fmt: skip
        """The search's choice; layers that share their candidates share it too."""
        key, known = (id(layer.found), resident, output, store, budget), self.searched.chosen
        if key not in known:
            known[key] = choose(layer.cost, layer.found, resident, output, store, budget)
        return known[key]

"""The plan of a network: for each layer its tiling, what stays in SRAM, and every slot's address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from npusim.errors import InputError
from npusim.graph.graph import Graph
from npusim.graph.passes.fold_aliases import Aliases
from npusim.graph.region import Region
from npusim.hardware import Chip
from npusim.mapping.allocate import Interval, Lifetime, place_lifetimes, place_slots
from npusim.mapping.cost import RegionCost
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.mapping.search import Candidates, LayerMapping, candidates, does_not_fit


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


class Planner:
    """Chooses what stays in SRAM and how each layer is tiled; :meth:`plan` does it."""

    def __init__(
        self, graph: Graph, aliases: Aliases, regions: Sequence[Region], chip: Chip, options: MappingOptions
    ) -> None:
        self.graph, self.root, self.chip, self.options = graph, aliases.root, chip, options
        self.capacity = chip.sram.size_bytes // chip.sram.granule_bytes * chip.sram.granule_bytes
        names = {r.name for r in regions}
        unknown = [n for n in options.layers if n not in names]
        if unknown:
            raise InputError(
                [f"mapping: no layer is called {n!r}; the layers are {', '.join(sorted(names))}" for n in unknown]
            )
        memo: dict[object, Candidates] = {}
        self.layers = [self._layer(r, memo) for r in regions]
        self.must_store = {self.root[v] for v in graph.outputs}
        self.lifetimes = self._lifetimes()

    def _layer(self, region: Region, memo: dict[object, Candidates]) -> _Layer:
        cost = RegionCost(region, self.chip)
        options = self.options.layers.get(region.name, LayerOptions())
        if options.buffers is None and self.options.buffers is not None:
            options = replace(options, buffers=self.options.buffers)
        key = (
            tuple((m.op, m.bound.operands) for m in region.members),
            tuple((i.access, i.constant, i.uses) for i in region.inputs),
            repr(options),
        )
        if key not in memo:
            memo[key] = candidates(region, cost, options, self.options.candidates)
        return _Layer(region, cost, options, memo[key])

    # -- what stays in SRAM -----------------------------------------------------------------------------------

    def _lifetimes(self) -> dict[str, Lifetime]:
        found: dict[str, Lifetime] = {}
        for k, layer in enumerate(self.layers):
            value = layer.region.output
            readers = [j for j, other in enumerate(self.layers) if j > k and self._reads(other, value)]
            wanted = layer.options.resident
            if not readers or wanted is False or not (self.options.residency or wanted):
                continue
            last_axes = {t.shape[-1:] for v, t in self.graph.types.items() if self.root.get(v) == value}
            if self.chip.sram.channel_granule > 1 and len(last_axes) > 1:
                continue  # a reshape under rows with gaps would move bytes
            found[value] = Lifetime(value, self.chip.sram.allocated_bytes(layer.region.output_type), k, readers[-1])
        return found

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
        """Greedily keep values, the smallest and shortest-lived first, while the estimate of no sum of layers grows."""
        stays: set[str] = set()
        now: dict[int, int | None] = {}

        def estimate(k: int, stays: set[str]) -> int | None:
            return self.layers[k].found.fewest_cycles(*self._flags(k, stays), self._free(k, stays))

        for v in sorted(self.lifetimes.values(), key=lambda v: (v.nbytes * (v.last - v.first), v.first)):
            span = range(v.first, v.last + 1)
            for k in span:
                if k not in now:
                    now[k] = estimate(k, stays)
            trial = {*stays, v.value}
            after = {k: estimate(k, trial) for k in span}
            forced = self.layers[v.first].options.resident is True
            if any(a is None for a in after.values()):
                if forced:
                    raise InputError(
                        f"mapping of layer {self.layers[v.first].region.name!r}: resident is true, but its output of "
                        f"{v.nbytes} bytes leaves too little SRAM for the layers up to its last reader"
                    )
                continue
            if forced or any(now[k] is None for k in span) or (
                sum(a for a in after.values() if a) <= sum(now[k] or 0 for k in span)
            ):
                stays = trial
                now.update(after)
        return stays

    # -- tiles and addresses ----------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """The plan; DoesNotFitError naming layer, tensors and bytes if a layer has no tile that fits."""
        stays = self.choose_residents()
        while True:
            offsets = place_lifetimes([self.lifetimes[v] for v in stays], self.capacity)
            if offsets is None:
                stays.remove(max(stays, key=lambda v: (self.lifetimes[v].nbytes, v)))
                continue
            layers: list[LayerPlan] = []
            before: list[Interval] = []
            for k in range(len(self.layers)):
                busy = [
                    (offsets[v], offsets[v] + self.lifetimes[v].nbytes)
                    for v in stays
                    if self.lifetimes[v].first <= k <= self.lifetimes[v].last
                ]
                made = self._place(k, stays, busy, before)
                if made is None:
                    break
                plan, before = made
                layers.append(plan)
            else:
                return Plan(tuple(layers), {v: (offsets[v], self.lifetimes[v]) for v in sorted(stays)})
            alive = [v for v in stays if self.lifetimes[v].first <= k <= self.lifetimes[v].last]
            if not alive:
                layer = self.layers[k]
                raise does_not_fit(layer.region, layer.found, *self._flags(k, stays)[:2], self.capacity,
                                   self.chip.sram.size_bytes)  # fmt: skip
            stays.remove(max(alive, key=lambda v: (self.lifetimes[v].nbytes, v)))

    def _place(
        self, k: int, stays: set[str], busy: list[Interval], before: list[Interval]
    ) -> tuple[LayerPlan, list[Interval]] | None:
        layer = self.layers[k]
        resident, output_resident, store = self._flags(k, stays)
        budget = self._free(k, stays)
        avoid = before if self.options.prefetch else []
        while True:
            mapping = layer.found.pick(resident, output_resident, store, budget)
            if mapping is None:
                return None
            sizes, owners = self._slot_sizes(layer, mapping, resident, output_resident)
            offsets = place_slots(sizes, busy, avoid, self.capacity)
            if offsets is not None:
                break
            budget = mapping.sram_bytes - self.chip.sram.granule_bytes  # fragmented: try a smaller working set
        by_owner: dict[int, list[int]] = {}
        for owner, offset in zip(owners, offsets, strict=True):
            by_owner.setdefault(owner, []).append(offset)
        plan = LayerPlan(
            layer.region, layer.cost, mapping, resident, output_resident, store,
            tuple(tuple(by_owner.get(i, ())) for i in range(len(resident))),
            tuple(by_owner.get(-1, ())),
            tuple(by_owner.get(-2, ())),
        )  # fmt: skip
        return plan, [(o, o + n) for o, n in zip(offsets, sizes, strict=True)]

    def _slot_sizes(
        self, layer: _Layer, mapping: LayerMapping, resident: Sequence[bool], output_resident: bool
    ) -> tuple[list[int], list[int]]:
        """Bytes of every slot of a layer and whose it is: input i, -1 the output, -2 partial sums."""
        cost, dims = layer.cost, layer.region.work.dims
        more = cost.unit.instances - 1
        sizes: list[int] = []
        owners: list[int] = []

        def add(owner: int, nbytes: int, copies: int) -> None:
            sizes.extend([nbytes] * copies)
            owners.extend([owner] * copies)

        trips = [-(-d.extent // t) for d, t in zip(dims, mapping.tile, strict=True)]
        for i, x in enumerate(layer.region.inputs):
            if not resident[i]:
                shape = cost.tile_shape(x.access, x.type.shape, mapping.tile)
                copies = min(fetches(layer.region, i, mapping, trips), mapping.buffers + more)
                add(i, int(cost.slot_bytes(shape, x.type.dtype)), copies)
        out = cost.output_shape(mapping.tile)
        splits = outputs = 1
        for d, n in zip(dims, trips, strict=True):
            splits, outputs = (splits * n, outputs) if d.reduce else (splits, outputs * n)
        if not output_resident:
            add(-1, int(cost.slot_bytes(out, cost.output.dtype)), min(outputs, mapping.buffers + more))
        if splits > 1:
            add(-2, int(cost.slot_bytes(out, cost.accumulator)), cost.unit.instances)
        return sizes, owners


def fetches(region: Region, which: int, mapping: LayerMapping, trips: Sequence[int]) -> int:
    """How often the tile of input ``which`` changes over the loops of ``mapping``."""
    used = {region.work.index[n] for a in region.inputs[which].access.axes for n, _ in a.terms}
    total = running = 1
    for i in mapping.order:
        running *= trips[i]
        if i in used and trips[i] > 1:
            total = running
    return total

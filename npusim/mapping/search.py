"""The tile search: of all candidate tilings of a region the best by estimate, and of these the best played through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.errors import DoesNotFitError, InputError
from npusim.graph.region import Region
from npusim.hardware import product
from npusim.ir.mapping_options import LayerOptions
from npusim.ir.work import Dim
from npusim.mapping.candidates import NEVER, Candidates, Ints, weighed
from npusim.mapping.cost import RegionCost
from npusim.mapping.pace import Nest, Pace
from npusim.numerics.types import ceil_div


@dataclass(frozen=True)
class LayerMapping:
    """A chosen mapping: tile size per dimension, loop order (all dimensions, outermost first), slots per operand.

    ``reload``: every tile loads its operands anew.
    """

    tile: tuple[int, ...]
    order: tuple[int, ...]
    buffers: int
    estimate_cycles: int
    sram_bytes: int
    reload: bool = False


FIRST_LOOK = 8
"""Tilings looked at roughly for each one that is weighed."""

SHORTLIST = 4
"""Candidates of each loop order and number of buffers that are played through."""

TIE = 40
"""Candidates are as good as each other up to this share of their cycles: a fortieth."""

STEPS = 2048
"""Tiles of all candidates of a shortlist together: after so many no further candidate is played."""


def candidates(region: Region, cost: RegionCost, options: LayerOptions, limit: int) -> Candidates:
    """Weigh tilings of ``region``: at most ``limit`` per loop order and buffering.

    Tile sizes tried per dimension: ceil(extent / k) for k = 1, 2, 3, 4, 6, 8, 12, ... (powers of two and 1.5 times
    them) and powers of two that divide it; those closest to their neighbours, thirds first, are left out until there
    are at most FIRST_LOOK * ``limit`` tilings. Kernel dimensions are split only if long. Of these tilings, ``limit``
    are kept: in turn from each power of two of working sets, those with the fewest cycles at a rough look, with all
    operands in DRAM or for the unit alone.
    """
    _check_options(region, options)
    dims = cost.work.dims
    sizes = _sizes(dims, options, FIRST_LOOK * limit)
    corners = np.stack(np.meshgrid(*sizes, indexing="ij"), -1).reshape(-1, len(dims)) if dims else np.zeros((1, 0))
    grid = corners.astype(np.int64)
    exact = Pace.holds(cost)  # only what can be played is searched further afield
    orders = _orders(region, dims, options, sizes, exact)
    buffers = [options.buffers] if options.buffers is not None else [2, 1, 3] if exact else [2, 1]
    if len(grid) > limit:
        rough = weighed(region, cost, options, grid, orders, buffers[:1], exact=False)
        grid = grid[_promising(rough, len(grid), limit)]
    return weighed(region, cost, options, grid, orders, buffers)


def _promising(rough: Candidates, count: int, limit: int) -> list[int]:
    """The tilings to keep of ``count``, the last of which are the smallest tiles."""
    inputs = rough.slot_bytes.shape[1]
    cycles, slots, _ = rough.weigh([False] * inputs, False, True)
    nbytes, moving, compute = (np.full(count, NEVER) for _ in range(3))
    for least, x in ((nbytes, slots), (moving, cycles), (compute, rough.compute)):
        np.minimum.at(least, rough.tile, x)
    group = np.frexp(nbytes.astype(np.float64))[1]
    places = np.full(count, count)
    for key in (moving, compute):
        order = np.lexsort((key, group))
        starts = np.searchsorted(group[order], group[order])
        places[order] = np.minimum(places[order], np.arange(count) - starts)
    places[-1] = -1  # the smallest tile fits if any does
    return sorted(np.argsort(places, kind="stable")[:limit].tolist())


def choose(
    cost: RegionCost,
    found: Candidates,
    resident: Sequence[bool],
    output_resident: bool,
    store_output: bool,
    budget: int,
) -> LayerMapping | None:
    """The best candidate within ``budget`` bytes; None if none fits.

    Where :class:`Pace` holds, the best by estimate of each loop order and number of buffers are played through and
    judged by what they really take. Of those within 1/TIE of the fewest cycles: those that leave half the budget to the
    next layer's first loads if there are any; of these, those within 1/8 of the least DRAM traffic; of these, the
    fewest commands, the least traffic, the smallest working set.
    """
    cycles, slots, traffic = found.weigh(resident, output_resident, store_output)
    fits = np.flatnonzero(slots <= budget)
    if not fits.size:
        return None
    if Pace.holds(cost) and not found.reload:
        pace = Pace(cost, resident, output_resident, store_output)
        alike = cycles[fits] * 64 // cycles[fits].min()  # an estimate tells no finer differences
        played = _played(pace, found, cycles, fits[np.lexsort((found.commands[fits], alike))])
        fits = np.asarray(list(played))
        cycles = cycles.copy()
        cycles[fits] = list(played.values())
    best = int(cycles[fits].min())
    near = fits[cycles[fits] <= best + best // TIE]
    roomy = near[slots[near] <= budget // 2]
    near = roomy if roomy.size else near
    least = int(traffic[near].min())
    near = near[traffic[near] <= least + least // 8]
    i = int(near[np.lexsort((slots[near], traffic[near], found.commands[near]))[0]])
    nest = found.nest(i)
    return LayerMapping(nest.tile, nest.order, nest.buffers, int(cycles[i]), int(slots[i]), found.reload)


def _played(pace: Pace, found: Candidates, cycles: Ints, ranked: Ints) -> dict[int, int]:
    """Cycles of the candidates that are played, of ``ranked`` ones the first of each order and number of buffers."""
    shortlist: dict[int, Nest] = {}
    counts: dict[tuple[int, int], int] = {}
    steps = 0
    for i in ranked[cycles[ranked] <= cycles[ranked].min() * 5 // 4].tolist():
        group = int(found.order[i]), int(found.buffers[i])
        if counts.get(group, 0) < SHORTLIST and (steps + found.commands[i] <= STEPS or not shortlist):
            counts[group] = counts.get(group, 0) + 1
            steps += int(found.commands[i])
            shortlist[i] = found.nest(i)
    pace.prepare(shortlist.values())
    played: dict[int, int] = {}
    fewest = worth = NEVER
    for i, nest in shortlist.items():
        if cycles[i] <= worth:
            played[i] = pace.cycles(nest)
            if played[i] < fewest:
                fewest = played[i]
                worth = max(fewest, int(cycles[i])) * 9 // 8  # estimates are not that far off
    return played


def does_not_fit(region: Region, found: Candidates, resident: Sequence[bool], output_resident: bool, budget: int,
                 total: int) -> DoesNotFitError:  # fmt: skip
    """The error for a layer none of whose candidates fits: what the smallest needs, tensor by tensor."""
    _, slots, _ = found.weigh(resident, output_resident, True)
    i = int(np.argmin(slots))
    names = ", ".join(f"{d.name} {int(t)}" for d, t in zip(region.work.dims, found.tiles[i], strict=True))
    if found.output_bytes[i] >= NEVER and not output_resident:
        return DoesNotFitError(
            f"layer {region.name!r}: the results of its smallest tile ({names}) put "
            f"{int(found.output_bytes[i]) - NEVER} bytes under way to DRAM, but at most "
            f"{found.chip.output_pipeline.streamed_bytes} may be; enlarge output_pipeline.streamed_bytes or allow "
            "smaller tiles"
        )
    if slots[i] >= NEVER:
        return DoesNotFitError(
            f"layer {region.name!r}: the partial sums of its smallest tile ({names}) need "
            f"{int(found.accumulator_bytes[i]) - NEVER} bytes, but the unit has {found.accumulator_memory} for them; "
            "enlarge its accumulator_bytes or allow smaller tiles"
        )
    needs = found.slot_bytes[i] * np.minimum(found.fetches[i], found.copies[i])
    parts = [f"{x.value} {int(n)}" for x, n, r in zip(region.inputs, needs, resident, strict=True) if not r]
    if not output_resident:
        parts.append(f"{region.output} {int(found.output_bytes[i] * min(found.stores[i], found.copies[i]))}")
    if found.accumulator_bytes[i]:
        parts.append(f"partial sums {int(found.accumulator_bytes[i])}")
    have = f"{budget} of {total} bytes are free" if budget < total else f"there are {total}"
    return DoesNotFitError(
        f"layer {region.name!r}: its smallest tile ({names}) needs {int(slots[i])} bytes of SRAM "
        f"(bytes by tensor: {', '.join(parts)}), but {have}; enlarge sram.size_bytes or allow smaller tiles"
    )


def _sizes(dims: Sequence[Dim], options: LayerOptions, limit: int) -> list[list[int]]:
    """Tile sizes to try of each dimension, the largest first; at most ``limit`` tiles."""
    sizes, even = [], []
    for d in dims:
        shares = {1 << p for p in range(31)}
        if d.name in options.tile:
            chosen = kept = {min(options.tile[d.name], d.extent)}
        elif not d.splittable or (d.loop.value.startswith("kernel") and d.extent <= 16):
            chosen = kept = {d.extent}
        else:
            kept = {int(ceil_div(d.extent, k)) for k in shares} | {k for k in shares if not d.extent % k}
            chosen = kept | {int(ceil_div(d.extent, 3 * k)) for k in shares}
        sizes.append(sorted(chosen, reverse=True))
        even.append(kept)
    while int(product(len(s) for s in sizes)) > limit:
        longest = max(range(len(sizes)), key=lambda i: len(sizes[i]))
        of = sizes[longest]
        if len(of) == 2:
            del of[0]  # only the smallest size: always feasible if anything is
        else:
            del of[min(range(1, len(of) - 1), key=lambda k: (of[k] in even[longest], of[k - 1] / of[k + 1], of[k]))]
    return sizes


def _orders(
    region: Region, dims: Sequence[Dim], options: LayerOptions, sizes: Sequence[Sequence[int]], open_sums: bool
) -> tuple[tuple[int, ...], ...]:
    """Loop orders worth trying: for each input, those that walk what the input does not depend on innermost.

    One with the reduction inside all other loops and, with ``open_sums``, those that keep the sums of inner, or of all,
    tiles open.
    """
    parallel = [i for i, d in enumerate(dims) if not d.reduce]
    reduced = tuple(i for i, d in enumerate(dims) if d.reduce)
    if options.order is not None:
        index = region.work.index
        named = [index[name] for name in options.order]
        return ((*named, *(i for i in (*parallel, *reduced) if i not in named)),)
    found: dict[tuple[int, ...], None] = {}
    split = open_sums and any(len(sizes[i]) > 1 for i in reduced)
    for x in region.inputs:
        used = {region.work.index[name] for a in x.access.axes for name, _ in a.terms}
        outer = [i for i in parallel if i in used]
        inner = [i for i in parallel if i not in used]
        found[(*outer, *inner, *reduced)] = None
        if split and used & set(reduced):
            found[(*outer, *reduced, *inner)] = None
            found[(*reduced, *outer, *inner)] = None
    return tuple(found) or ((*parallel, *reduced),)


def _check_options(region: Region, options: LayerOptions) -> None:
    dims = {d.name: d for d in region.work.dims}
    problems = []
    for name in (*options.tile, *(options.order or ())):
        if name not in dims:
            problems.append(f"mapping of layer {region.name!r}: unknown dimension {name!r}; it has {', '.join(dims)}")
    order = options.order or ()
    for name in dict.fromkeys(order):
        if order.count(name) > 1:
            problems.append(f"mapping of layer {region.name!r}: 'order' lists {name!r} {order.count(name)} times")
    for name, size in options.tile.items():
        if name in dims and not dims[name].splittable and size < dims[name].extent:
            problems.append(
                f"mapping of layer {region.name!r}: {name!r} cannot be split; leave it out or give {dims[name].extent}"
            )
    if problems:
        raise InputError(problems)

"""The tables of a report for a terminal, as renderables of rich."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from npusim.errors import InputError
from npusim.report.result import EngineFigures, LayerFigures, Report
from npusim.report.text import (
    CAUSES,
    NOT_MODELLED,
    cause_label,
    count,
    duration,
    energy,
    frequency,
    headline,
    largest_parts,
    percent,
    power,
    printable,
    shorten,
    size,
    square,
)

_SORT_KEYS: dict[str, Callable[[LayerFigures], float]] = {
    "order": lambda _: 0,
    "cycles": lambda layer: -layer.cycles,
    "utilization": lambda layer: layer.utilization,
    "dram": lambda layer: -(layer.dram_read_bytes + layer.dram_write_bytes),
}
SORT_KEYS = tuple(_SORT_KEYS)

_GAP = 2

_STALLS = {
    "load": "a load to finish",
    "store": "a store to finish",
    "compute": "a computation to finish",
    "dram_bus": "its turn on the DRAM bus",
    "sram_port": "an SRAM port",
    "reload": "a stationary operand on its way into the array",
}


@dataclass(frozen=True, slots=True)
class _Column:
    """Cells of one column. ``least``: how narrow it may get (None: it keeps its width); ``drop``: the column with the
    highest number goes first where all do not fit (0: never), negative ones only once names are at their shortest;
    ``middle``: text that is too long gives way there, not at its end. ``note`` explains the column below the table."""

    header: str
    cells: Sequence[str]
    right: bool = False
    least: int | None = None
    drop: int = 0
    middle: bool = False
    note: str = ""

    @property
    def width(self) -> int:
        return max(cell_len(line) for cell in (self.header, *self.cells) for line in cell.split("\n"))


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A renderable that makes its table, and the notes below it, for the width that they are printed at."""

    build: Callable[[int], tuple[Table, str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, notes = self.build(options.max_width)
        yield from (table, Text(notes, "dim"), Text())


def layer_table(report: Report, sort: str = "cycles") -> FittedTable:
    """One row a layer.

    ``sort`` is one of ``SORT_KEYS``: worst first, which is most ``cycles``, least ``utilization`` or most DRAM bytes
    (``dram``), or ``order``, that of execution. Names that do not fit lose their middle; columns that do not fit are
    left out, and the note below says which. InputError for another sort key.
    """
    if sort not in _SORT_KEYS:
        raise InputError(f"sort {sort!r}: layers cannot be sorted by that; use one of {', '.join(SORT_KEYS)}")
    ranked = sorted(enumerate(report.layers), key=lambda numbered: _SORT_KEYS[sort](numbered[1]))
    return FittedTable(lambda width: _layer_table(report, ranked, width))


def _layer_table(report: Report, ranked: Sequence[tuple[int, LayerFigures]], width: int) -> tuple[Table, str]:
    rows = [layer for _, layer in ranked]
    total = report.totals.cycles
    names = [printable(layer.name) for layer in rows]
    columns = [
        _Column("#", [str(i) for i, _ in ranked], right=True, note="#: order of execution."),
        _Column("Layer", names, least=28, middle=True),
        _Column("Operators", [printable("+".join(r.operators)) for r in rows], least=12, drop=2),
        _Column("Engine", [printable(r.engine) for r in rows], drop=1),
        _Column(
            "Cycles",
            [f"{r.cycles:,}" for r in rows],
            right=True,
            note="Cycles: from the end of the layers before to its own end; they sum to the run's.",
        ),
        _Column("Lower\nbound", [count(r.bound_cycles) for r in rows], right=True, drop=-7),
        _Column(
            "Esti-\nmate",
            [count(r.estimate_cycles) for r in rows],
            right=True,
            drop=-6,
            note="Lower bound, estimate: closed forms of the layer by itself, from its first command to its last.",
        ),
        _Column(
            "Share\n%",
            [percent(r.cycles, total) for r in rows],
            right=True,
            drop=-4,
            note="Share: of the run's cycles.",
        ),
        _Column(
            "Util.\n%",
            [percent(r.utilization, 1) for r in rows],
            right=True,
            drop=-3,
            note="Util.: work done, of the most its engine could do while the layer lasted.",
        ),
        _Column("DRAM\nread", [size(r.dram_read_bytes) for r in rows], right=True, drop=-2),
        _Column(
            "DRAM\nwrite",
            [size(r.dram_write_bytes) for r in rows],
            right=True,
            drop=-1,
            note="DRAM: bytes the layer moves (1 KiB = 1024 B).",
        ),
        _Column("Bound by", [cause_label(r.bound_by) for r in rows], drop=-5, note=_bounds(rows)),
        _Column("Tile", [_tile(r) for r in rows], least=12, drop=3, note="Tile: its sizes above 1, by dimension."),
    ]
    if any(r.unrolling for r in rows):
        note = "Unrolling: loops that its array does at once."
        columns.append(_Column("Unrolling", [printable(r.unrolling or "-") for r in rows], drop=4, note=note))
    kept, widths = _fit(columns, width)
    left_out = [c.header.replace("\n", " ") for c in columns if c not in kept]
    notes = [c.note for c in kept if c.note]
    if left_out:
        notes.append(f"Not shown for lack of width, but in layers.csv: {', '.join(left_out).lower()}.")
    return _table(f"Layers of {headline(report)}", kept, widths), " ".join(notes)


def _bounds(rows: Iterable[LayerFigures]) -> str:
    seen = {r.bound_by for r in rows}
    meanings = [f"{CAUSES[c].label} = {CAUSES[c].meaning}" for c in CAUSES if c in seen]
    return f"Bound by: what most of its cycles went to: {'; '.join(meanings)}." if meanings else ""


def _tile(layer: LayerFigures) -> str:
    return " ".join(f"{printable(d)}{n}" for d, n in layer.tile.items() if n > 1) or "1"


def _fit(columns: Sequence[_Column], width: int) -> tuple[list[_Column], list[int]]:
    """The columns to show and their widths: shrink, names last; then leave columns out; then shrink names further, and
    leave out more. Text gives way so, and columns of numbers as a whole: a number is never cut."""
    kept = list(columns)
    while True:
        widths = [c.width for c in kept]
        excess = _needed(widths) - width
        while excess > 0:
            loose = [i for i, c in enumerate(kept) if c.least is not None and widths[i] > c.least]
            if not loose:
                break
            widths[max(loose, key=lambda i: (kept[i].drop > 0, widths[i]))] -= 1
            excess -= 1
        spare = max((c for c in kept if c.drop), key=lambda c: c.drop, default=None)
        if excess > 0 and not (spare and spare.drop > 0):
            for i in (i for i, c in enumerate(kept) if c.middle):
                cut = min(excess, max(0, widths[i] - (20 if spare else 8)))
                widths[i], excess = widths[i] - cut, excess - cut
        if excess <= 0 or spare is None:
            return kept, widths
        kept.remove(spare)


def _needed(widths: Sequence[int]) -> int:
    """Width of a table; rich reserves the padding to the right of the last column too."""
    return sum(widths) + _GAP * len(widths) - 1


def _table(title: str, columns: Sequence[_Column], widths: Sequence[int]) -> Table:
    table = _frame(title)
    for c, width in zip(columns, widths, strict=True):
        side: Literal["left", "right"] = "right" if c.right else "left"
        table.add_column(c.header, justify=side, no_wrap=True, width=width, overflow="ellipsis")
    for row in zip(*(c.cells for c in columns), strict=True):
        fitted = (shorten(cell, w) if c.middle else cell for cell, c, w in zip(row, columns, widths, strict=True))
        table.add_row(*map(Text, fitted))
    return table


def _frame(title: str) -> Table:
    return Table(
        title=Text(title, "bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),
    )


def totals_table(report: Report) -> Table:
    """The figures of the whole run, each with what it means."""
    t = report.totals
    sram = f"{size(t.sram_peak_bytes)} of {size(t.sram_bytes)} ({percent(t.sram_peak_bytes, t.sram_bytes)} %)"
    per_second = f"{t.clock_hz / t.cycles:,.1f} runs/s" if t.cycles else "-"
    rows = [
        ("Cycles", f"{t.cycles:,}", "until the last command has finished"),
        ("Bound", f"{t.bound_cycles:,}", f"closed form: {_resources(t.bound_resources)}, each at its peak"),
        ("Estimate", f"{t.estimate_cycles:,}", "closed form: the layers' estimates, none overlapping the next"),
        ("Latency", duration(t.latency_seconds), f"these cycles at {frequency(t.clock_hz)}"),
        ("Throughput", per_second, "one run after the other, none overlapping"),
        ("MACs", f"{t.macs:,}", "multiply-accumulates, those on padding included"),
        ("Useful MACs", f"{t.useful_macs:,}", "those on elements of the image only"),
        *(
            (f"Utilization {printable(e)}", f"{percent(u, 1)} %", "work done of what it could do in all cycles")
            for e, u in t.utilization.items()
        ),
        ("DRAM read", size(t.dram_read_bytes), "constants, inputs and feature maps that left SRAM"),
        ("DRAM write", size(t.dram_write_bytes), "outputs and feature maps that do not stay in SRAM"),
        ("SRAM peak", sram, "most that is in use at once"),
        ("Commands", f"{t.commands:,}", "loads, stores and computations of the tile program"),
        ("Overflows", f"{t.overflow_events:,}", "accumulations that left the accumulator's range"),
    ]
    spent, parts = t.energy_femtojoules, t.area_square_micrometres
    if spent is None:
        rows.append(("Energy", NOT_MODELLED, "the chip states no energies"))
    else:
        total = sum(spent.values())
        rows.append(("Energy", energy(total), largest_parts(spent)))
        rows.append(("Mean power", power(total, t.latency_seconds), "this energy over the latency"))
    if parts is None:
        rows.append(("Area", NOT_MODELLED, "the chip states no areas"))
    else:
        rows.append(("Area", square(sum(parts.values())), largest_parts(parts)))
    table = _frame(f"Totals of {headline(report)}")
    table.add_column("Figure", no_wrap=True)
    table.add_column("Value", justify="right", no_wrap=True)
    table.add_column("Meaning", style="dim")
    for name, value, meaning in rows:
        table.add_row(name, Text(value), meaning)
    return table


def _resources(cycles: dict[str, int]) -> str:
    """Resources and their cycles, the largest first."""
    ranked = sorted(cycles.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{printable(name)} {n:,}" for name, n in ranked) or "no work"


def engine_table(report: Report) -> FittedTable:
    """What every engine did in the run: percent of all cycles and, below, cycles; a row sums to the run's.

    Cycles are exact where there is room for it, else all of them have three digits.
    """
    return FittedTable(lambda width: _engine_table(report, width))


def _engine_table(report: Report, width: int) -> tuple[Table, str]:
    engines = report.engines
    stalls = [s for s in _STALLS if any(e.stalled_cycles.get(s) for e in engines)]
    stalls += sorted({s for e in engines for s, n in e.stalled_cycles.items() if n} - _STALLS.keys())
    words = [printable(s.replace("_", " ")) for s in stalls]
    headers = ["Busy", *(f"Stalled:\n{w}" for w in words), "Idle"]
    for show in (lambda n: f"{n:,}", count):
        columns = [_Column("Engine", [printable(e.engine) for e in engines])]
        for k, header in enumerate(headers):
            cells = [f"{percent(f[k], sum(f))} %\n{show(f[k])}" for f in (_figures(e, stalls) for e in engines)]
            columns.append(_Column(header, cells, right=True))
        kept, widths = _fit(columns, width)
        if _needed(widths) <= width:
            break
    meanings = "; ".join(f"{w} = {_STALLS[s]}" for w, s in zip(words, stalls, strict=True) if s in _STALLS)
    notes = (
        "Percent of the run's cycles and, below, cycles, which sum to the run's. Busy: it works on a command. "
        f"Stalled: its next command waits{f' ({meanings})' if meanings else ''}. Idle: it has no command left."
    )
    return _table(f"Engines of {headline(report)}", kept, widths), notes


def _figures(engine: EngineFigures, stalls: Sequence[str]) -> list[int]:
    return [engine.busy_cycles, *(engine.stalled_cycles.get(s, 0) for s in stalls), engine.idle_cycles]

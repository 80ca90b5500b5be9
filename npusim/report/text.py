"""Numbers and names as people read them, and what the words of a report mean; shared by its tables and plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from npusim.report.result import LayerFigures, Report


class Cause(NamedTuple):
    """What cycles of a layer went to: its name as shown, and its meaning."""

    label: str
    meaning: str


CAUSES: dict[str, Cause] = {
    "compute": Cause("compute", "its unit works, limited by its own rate"),
    "fill_drain": Cause("fill/drain", "its unit fills or drains: skew, pipelines, operands that come to stay"),
    "output_path": Cause("output path", "its unit works, limited by the output pipeline"),
    "sram_port": Cause("SRAM port", "its unit is held up by an SRAM port"),
    "reload": Cause("reload", "its unit waits for a stationary operand on its way into the array"),
    "dram_read": Cause("DRAM read", "its unit waits for data from DRAM"),
    "dram_write": Cause("DRAM write", "its unit waits until a store has freed SRAM"),
    "dram_bus": Cause("DRAM bus", "its transfer waits for another one's turn on the DRAM bus"),
    "dependency": Cause("dependency", "its unit waits for a result of another computation"),
    "launch": Cause("launch", "the run has not been launched yet"),
    "last_results": Cause("last results", "its unit is done; the last results are on their way to DRAM"),
    "overlapped": Cause("overlapped", "it ended before an earlier layer did, so no cycles are its own"),
}
"""The causes in ``LayerFigures.cycles_by_cause`` and ``bound_by``, in the order in which they are shown."""


def cause_label(cause: str) -> str:
    """The name of a cause as shown; a cause that is not in ``CAUSES`` is shown by its key."""
    return CAUSES[cause].label if cause in CAUSES else printable(cause.replace("_", " "))


def causes_of(layers: Iterable[LayerFigures]) -> list[str]:
    """The causes that took cycles in any layer: known ones in the order of ``CAUSES``, then the others by name."""
    found = {c for layer in layers for c, cycles in layer.cycles_by_cause.items() if cycles}
    return [c for c in CAUSES if c in found] + sorted(found - CAUSES.keys())


def windows_of(layers: Iterable[LayerFigures]) -> list[tuple[int, int]]:
    """(first cycle, cycles) of each layer's share of the run: together they cover it, in order, without overlap."""
    found, at = [], 0
    for layer in layers:
        found.append((at, layer.cycles))
        at += layer.cycles
    return found


def headline(report: Report) -> str:
    """Workload and chip."""
    chip = report.manifest.chip.get("name", "")
    return printable(f"{report.manifest.workload} on {chip}" if chip else report.manifest.workload)


def printable(name: str) -> str:
    """``name`` with every control or unassigned character replaced, so that it cannot act on a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)


def shorten(name: str, width: int) -> str:
    """``name`` in at most ``width`` >= 1 characters: its middle gives way, since both ends tell names apart."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return name[: width - 1 - tail] + "…" + name[len(name) - tail :]


def size(nbytes: int) -> str:
    """Bytes to three digits in binary units: ``1.50 KiB``."""
    return _scaled(nbytes, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))


def count(number: int) -> str:
    """A count to three digits in powers of 1000: ``16.9 M``."""
    return _scaled(number, 1000, ("", "k", "M", "G", "T", "P", "E")).rstrip()


NOT_MODELLED = "not modelled"
"""Stands where a chip does not state what a figure needs."""


def energy(femtojoules: int) -> str:
    """An energy to three digits in powers of 1000: ``1.23 mJ``."""
    return _scaled(femtojoules, 1000, ("fJ", "pJ", "nJ", "µJ", "mJ", "J", "kJ"))


def power(femtojoules: int, seconds: float) -> str:
    """Mean power to three digits: ``1.23 W``."""
    nanowatts = round(femtojoules / seconds / 10**6) if seconds else 0
    return _scaled(nanowatts, 1000, ("nW", "µW", "mW", "W", "kW", "MW"))


def square(square_micrometres: int) -> str:
    """An area to three digits: ``1.23 mm²``."""
    if square_micrometres < 10**4:
        return f"{square_micrometres} µm²"
    return f"{_digits(square_micrometres / 10**6)} mm²"


def largest_parts(amounts: Mapping[str, int], most: int = 4) -> str:
    """The largest of some amounts in percent of their sum: ``dram 71.0 %, mac 20.1 %, other 8.9 %``."""
    total = sum(amounts.values())
    ranked = sorted(amounts.items(), key=lambda part: -part[1])
    shown = [(name.replace("_", " "), n) for name, n in ranked if n][:most]
    rest = total - sum(n for _, n in shown)
    return ", ".join(f"{name} {percent(n, total)} %" for name, n in [*shown, *([("other", rest)] if rest else [])])


def frequency(hertz: int) -> str:
    """A frequency, exactly: ``1 GHz``, ``1.05 GHz``."""
    for unit, worth in (("GHz", 10**9), ("MHz", 10**6), ("kHz", 10**3)):
        if hertz >= worth:
            return f"{hertz // worth}.{hertz % worth:0{len(str(worth)) - 1}d}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{hertz} Hz"


def duration(seconds: float) -> str:
    """A time to three digits: ``16.9 µs``."""
    worth, unit = time_unit(seconds)
    return f"{_digits(seconds * worth)} {unit}"


def time_unit(seconds: float) -> tuple[float, str]:
    """How many units a second has, and the unit: the largest of s, ms, µs and ns in which ``seconds`` is at least 1."""
    for worth, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * worth >= 1:
            return worth, unit
    return 1e9, "ns"


def percent(part: float, whole: float) -> str:
    """``part`` in percent of ``whole`` to one place, without the sign; ``0.0`` of nothing."""
    return f"{100 * part / whole:.1f}" if whole else "0.0"


def _scaled(value: int, base: int, units: Sequence[str]) -> str:
    power = 0
    while value >= base ** (power + 1) and power < len(units) - 1:
        power += 1
    return f"{_digits(value / base**power) if power else value} {units[power]}"


def _digits(value: float) -> str:
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"

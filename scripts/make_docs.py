"""Bring README.md and docs/ up to date: generated tables, the output that console blocks show, and the pictures.

Run ``python -m scripts.make_docs`` from the repository. What stands between ``<!-- begin NAME -->`` and
``<!-- end NAME -->`` in a page is made here, from the types and docstrings of the code; the rest is written by hand.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import shutil
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from npusim import load_chip, run
from npusim.config import describe
from npusim.config.schema import attributes, branches, kinds, shape
from npusim.frontends.chip import shipped_chips
from npusim.frontends.model import ModelOptions
from npusim.frontends.workload.schema import WorkloadSpec
from npusim.hardware import Chip
from npusim.hardware.units.mac_array import MacArray
from npusim.ops import Op, TypeRow, op_class, op_names
from npusim.report.plots import latency_plot, timeline_plot, utilization_plot
from npusim.report.result import Report
from npusim.report.text import CAUSES, frequency, size
from scripts.doc_blocks import PAGES, ROOT, refreshed

IMAGES = ROOT / "docs" / "images"

_MARKED = re.compile(r"(?ms)^<!-- begin ([\w ]+) -->\n.*?^<!-- end \1 -->$")


def filled(text: str) -> str:
    """The page ``text`` with everything between its marks made anew; KeyError for a name that there is not."""

    def made(mark: re.Match[str]) -> str:
        name = mark[1]
        return f"<!-- begin {name} -->\n{GENERATED[name]().strip()}\n<!-- end {name} -->"

    return _MARKED.sub(made, text)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def markdown(docstring: str) -> str:
    """A docstring with Markdown's code spans and code blocks."""
    text = inspect.cleandoc(docstring).replace("``", "`")
    parts = re.split(r"::\n\n((?:    .*\n|\n)+)", text + "\n")
    fenced = [
        f":\n\n```text\n{textwrap.dedent(part).strip()}\n```\n\n" if i % 2 else part for i, part in enumerate(parts)
    ]
    return "".join(fenced).strip()


def code(*words: object) -> str:
    """Words as code spans."""
    return ", ".join(f"`{w}`" for w in words)


# -- records of configuration -------------------------------------------------------------------------------------


def records(kind: Any, path: str, above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The records in a type, each with its path as ``describe`` writes it; a record that comes again only once."""
    members = branches(kind)
    for member in members:
        inside = shape(member)
        if inside.form in ("list", "items"):
            item = inside.arguments[0]
            yield from records(item, path if len(branches(item)) > 1 else f"{path}.N", above)
        elif inside.form == "mapping":
            yield from records(inside.arguments[1], f"{path}.NAME", above)
        elif inside.form == "record" and inside.inner not in above:
            here = ".".join(filter(None, (path, *(kinds(inside.inner)[:1] if len(members) > 1 else ()))))
            yield here, inside.inner
            for name, attribute in attributes(inside.inner).items():
                yield from records(attribute.kind, f"{here}.{name}" if here else name, (*above, inside.inner))


def record_reference(cls: Any) -> str:
    """A section for every record in ``cls``: its docstring, and a table of the keys that it has itself."""
    sections: list[str] = []
    seen: dict[Any, str] = {}
    for path, record in records(cls, ""):
        if record in seen:
            continue
        seen[record] = path
        rows = [
            (code(r.path), r.type, r.values, f"`{r.default}`" if r.default != "required" else r.default, r.doc)
            for r in describe(record)
            if "." not in r.path
        ]
        title = f"### `{path}`\n\n" if path else ""
        keys = table(("key", "type", "values", "default", "meaning"), rows)
        sections.append(f"{title}{markdown(record.__doc__)}\n\n{keys}")
    return "\n\n".join(sections)


def preset_table() -> str:
    """The shipped chips side by side."""
    chips = [load_chip(name) for name in shipped_chips()]
    figures: dict[str, Callable[[Chip], str]] = {
        "clock": lambda c: frequency(c.clock_hz),
        "multipliers": lambda c: " + ".join(f"{_multipliers(u):,}" for u in c.units if isinstance(u, MacArray)),
        "array": lambda c: " + ".join(u.array.kind for u in c.units if isinstance(u, MacArray)),
        "SRAM": lambda c: size(c.sram.size_bytes),
        "SRAM ports x bytes a cycle": lambda c: f"{c.sram.ports} x {c.sram.bytes_per_cycle}",
        "DMA channels x bytes a cycle": lambda c: f"{c.dma.channels} x {c.dma.bytes_per_cycle}",
        "DRAM, bytes a cycle": lambda c: str(c.dram.bytes_per_cycle),
        "DRAM latency, cycles": lambda c: str(c.dram.latency_cycles),
        "burst, bytes": lambda c: str(c.dram.burst_bytes),
    }
    rows = [(what, *(figure(c) for c in chips)) for what, figure in figures.items()]
    return table(("", *(code(c.name) for c in chips)), rows)


def _multipliers(unit: MacArray) -> int:
    return unit.array.macs * unit.instances


# -- operators ----------------------------------------------------------------------------------------------------


def operator_table() -> str:
    """One row an operator."""
    rows = []
    for name in op_names():
        cls = op_class(name)
        rows.append((f"[`{name}`](#{name})", _operands(cls), _attributes(cls), _types(cls.rows)))
    return table(("operator", "operands", "attributes", "element types"), rows)


def common_rules() -> dict[str, str]:
    """The rules that several operators have in the same words: name and sentence."""
    found = Counter(rule for name in op_names() for rule in op_class(name).rules.items())
    return dict(sorted(rule for rule, operators in found.items() if operators > 2))


def rule_list() -> str:
    """The common rules."""
    return table(("rule", "meaning"), ((code(rule), markdown(text)) for rule, text in common_rules().items()))


def operator_sections() -> str:
    """What each operator means, and its rules."""
    common, sections = common_rules(), []
    for name in op_names():
        cls = op_class(name)
        shared = [rule for rule, text in cls.rules.items() if common.get(rule) == text]
        parts = [f"### {name}", markdown(cls.__doc__ or "")]
        if shared:
            parts.append(f"Common rules: {code(*shared)}.")
        own = [f"- `{rule}`: {markdown(text)}" for rule, text in cls.rules.items() if rule not in shared]
        parts += ["\n".join(own)] if own else []
        sections.append("\n\n".join(parts))
    return "\n\n".join(sections)


def operator_names() -> str:
    """All names, with their number."""
    return f"{len(op_names())} operators: {code(*op_names())}."


def _operands(cls: type[Op]) -> str:
    more = " ..." if cls.variadic else ""
    return ", ".join(n + "*" * (n in cls.attribute_operands) for n in cls.operands) + more


def _attributes(cls: type[Op]) -> str:
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    return ", ".join(f"`{f.name}{_default(f)}`" for f in fields if f.name != "dialect")


def _default(attribute: dataclasses.Field[Any]) -> str:
    if attribute.default_factory is not dataclasses.MISSING:
        return f"={json.dumps(attribute.default_factory())}"
    return "" if attribute.default is dataclasses.MISSING else f"={json.dumps(attribute.default)}"


def _types(rows: Sequence[TypeRow]) -> str:
    """The type rows in few words: rows of one pattern joined, and rows that differ in their output only."""
    pattern = tuple("T" if t is rows[0].output else str(t) for t in rows[0].operands)
    alike = [
        r
        for r in rows
        if "T" in pattern
        and r.accumulator is r.output
        and pattern == tuple("T" if t is r.output else str(t) for t in r.operands)
    ]
    if len(alike) < 2:
        alike = []
    found = [f"{', '.join(pattern)} → T for T = {', '.join(str(r.output) for r in alike)}"] if alike else []
    outputs: dict[str, list[str]] = {}
    for r in rows:
        if r not in alike:
            sums = f" (sums in {r.accumulator})" if r.accumulator is not r.output else ""
            outputs.setdefault(", ".join(map(str, r.operands)), []).append(f"{r.output}{sums}")
    return "; ".join([*found, *(f"{operands} → {' / '.join(out)}" for operands, out in outputs.items())])


# -- reports ------------------------------------------------------------------------------------------------------


def cause_table() -> str:
    """What cycles of a layer can go to."""
    return table(("cause", "shown as", "meaning"), ((code(k), c.label, c.meaning) for k, c in CAUSES.items()))


GENERATED: dict[str, Callable[[], str]] = {
    "chip reference": lambda: record_reference(Chip),
    "presets": preset_table,
    "workload reference": lambda: record_reference(WorkloadSpec),
    "model options": lambda: record_reference(ModelOptions),
    "report reference": lambda: record_reference(Report),
    "causes": cause_table,
    "operators": operator_table,
    "common rules": rule_list,
    "operator sections": operator_sections,
    "operator names": operator_names,
}


def pictures() -> dict[str, bytes]:
    """The pictures of the pages by file name."""
    network = run(ROOT / "workloads" / "resnet50.yaml", "edge", bits="off")
    digits = run(ROOT / "workloads" / "digits.yaml", "edge", bits="off")
    return {
        "resnet50_timeline.png": timeline_plot(network.report, network.program, network.timeline),
        "digits_latency.png": latency_plot(digits.report),
        "digits_utilization.png": utilization_plot(digits.report),
    }


def main() -> None:
    """Write what has changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-pictures", action="store_true", help="leave docs/images/ as it is")
    options = parser.parse_args()
    for page in PAGES:
        folder = Path(tempfile.mkdtemp(prefix="npusim-docs-"))
        try:
            old = page.read_text(encoding="utf-8")
            new = refreshed(filled(old), str(page.relative_to(ROOT)), folder)
        finally:
            shutil.rmtree(folder)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: brought up to date")
    if not options.no_pictures:
        for name, data in pictures().items():
            (IMAGES / name).write_bytes(data)


if __name__ == "__main__":
    main()

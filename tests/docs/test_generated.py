"""What the pages have from the code is what the code says now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npusim.hardware import Chip
from npusim.numerics.types import I8, I32
from npusim.ops import TypeRow
from scripts import make_docs
from scripts.doc_blocks import PAGES, ROOT

IDS = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_generated_parts_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert make_docs.filled(text) == text, "run: python -m scripts.make_docs"


@pytest.mark.parametrize("name", make_docs.GENERATED)
def test_every_generated_part_stands_in_a_page(name: str) -> None:
    assert any(f"<!-- begin {name} -->" in page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, anchor = target.partition("#")
        if file.startswith("https:"):
            continue
        path = (page.parent / file) if file else page
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"(?m)^#+ (.*)$", path.read_text(encoding="utf-8"))
            assert anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}, target


def test_a_stale_part_is_made_anew() -> None:
    page = "# A\n\n<!-- begin operator names -->\nnone\n<!-- end operator names -->\n\nB\n"
    assert "`conv2d`" in make_docs.filled(page)
    assert make_docs.filled(page).startswith("# A\n") and make_docs.filled(page).endswith("\n\nB\n")


def test_every_value_of_a_chip_is_listed() -> None:
    reference = make_docs.record_reference(Chip)
    for section, key in (("dram", "latency_cycles"), ("units.mac_array.array.systolic", "rows"), ("sram", "ports")):
        part = reference.split(f"### `{section}`\n")[1].split("###")[0]
        assert f"| `{key}` |" in part


def test_type_rows_of_one_pattern_are_joined() -> None:
    rows = tuple(TypeRow((t, t), t, t) for t in (I8, I32))
    assert make_docs._types(rows) == "T, T → T for T = i8, i32"
    assert make_docs._types((TypeRow((I8,), I32, I32), TypeRow((I8,), I8, I32))) == "i8 → i32 / i8 (sums in i32)"


def test_docstrings_become_markdown() -> None:
    assert make_docs.markdown("``a`` is::\n\n    b\n      c\n\nThen.") == "`a` is:\n\n```text\nb\n  c\n```\n\nThen."

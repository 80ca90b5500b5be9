"""The page about what users ask names tests that exist, and every test of this folder."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "what-users-ask.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| \d", line)]


def functions_of(path: Path) -> set[str]:
    return set(re.findall(r"(?m)^def (test_\w+)", path.read_text(encoding="utf-8")))


def test_every_named_test_exists() -> None:
    missing = [f"{file}::{name}" for file, name in NAMED if name not in functions_of(ROOT / "tests" / file)]
    assert not missing


def test_every_row_names_a_test() -> None:
    assert [int(number) for number, *_ in ROWS] == list(range(1, 46))
    for number, _, _, shown in ROWS:
        assert re.fullmatch(r"(`[\w/]+\.py::test_\w+`(, )?)+", shown), number


def test_every_question_answered_here_is_on_the_page() -> None:
    named = set(NAMED)
    checks = {"test_a_second_load_of_what_is_there_is_noticed", "test_words_of_a_bank_by_hand",
              "test_conflicts_are_in_the_table_of_layers"}  # fmt: skip
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name != Path(__file__).name:
            unnamed = {t for t in functions_of(path) if (f"users/{path.name}", t) not in named}
            assert unnamed <= checks, path.name

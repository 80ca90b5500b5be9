"""Every Python and console block of the pages runs, and gives what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.version import VERSION
from scripts.doc_blocks import PAGES, ROOT, blocks, refreshed

SHOW = "```console\n$ npusim --version\n{shown}\n```"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_blocks_run_and_give_what_is_shown(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert refreshed(text, page.name, tmp_path) == text, "run: python -m scripts.make_docs"


def test_the_pages_show_the_main_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    console = [line for block in blocks(readme.split("\n")) if block.language == "console" for line in block.lines]
    assert any(line.startswith("$ npusim run workloads/digits.yaml") for line in console)
    assert readme.index("make demo") < readme.index("make test") < readme.index("![") < readme.index("\n## ")


def test_numbers_are_brought_up_to_date(tmp_path: Path) -> None:
    assert refreshed(SHOW.format(shown="npusim 99.9.9"), "page", tmp_path) == SHOW.format(shown=f"npusim {VERSION}")


def test_other_words_are_a_fault(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"page:3: no such line comes: 'numpusim 0\.1\.0'"):
        refreshed(SHOW.format(shown="numpusim 0.1.0"), "page", tmp_path)


@pytest.mark.parametrize("shown", ["...", "npusim ...", f"...\nnpu... {VERSION}\n..."])
def test_dots_stand_for_lines_and_words(shown: str, tmp_path: Path) -> None:
    text = SHOW.format(shown=shown)
    assert refreshed(text, "page", tmp_path) == text


def test_exit_codes_are_checked(tmp_path: Path) -> None:
    fails = "```console\n$ npusim run absent.yaml --quiet\n{rest}```"
    with pytest.raises(AssertionError, match="page: npusim exits with 2"):
        refreshed(fails.format(rest=""), "page", tmp_path)


def test_the_stated_exit_code_is_compared(tmp_path: Path) -> None:
    fails = "```console\n$ npusim run absent.yaml --quiet\n$ echo $?\n{code}\n```"
    assert refreshed(fails.format(code=3), "page", tmp_path) == fails.format(code=2)


def test_python_blocks_share_a_namespace_and_name_their_line(tmp_path: Path) -> None:
    good = "```python\na = 1\n```\n\n```python\nassert a == 1\n```"
    assert refreshed(good, "page", tmp_path) == good


def test_a_failing_python_block_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as caught:
        refreshed("text\n\n```python\nassert 1 == 2\n```", "page", tmp_path)
    assert caught.traceback[-1].lineno == 3  # counted from 0: line 4 of the page


def test_named_yaml_blocks_are_written(tmp_path: Path) -> None:
    refreshed("```yaml\n# mine.yaml: a file\nname: mine\n```\n\n```yaml\nname: other\n```", "page", tmp_path)
    assert (tmp_path / "mine.yaml").read_text() == "# mine.yaml: a file\nname: mine\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["configs", "mine.yaml", "workloads"]

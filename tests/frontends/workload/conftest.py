"""Workload files for tests: written, loaded, and the problems that loading finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from npusim.errors import ConfigError
from npusim.frontends.workload import Workload, load_workload

Loader = Callable[..., Workload]
Finder = Callable[..., list[str]]


@pytest.fixture
def loaded(tmp_path: Path) -> Loader:
    """Loads a workload YAML with this text, and overrides."""

    def load(text: str, *overrides: str) -> Workload:
        path = tmp_path / "w.yaml"
        path.write_text(text, encoding="utf-8")
        return load_workload(path, overrides)

    return load


@pytest.fixture
def problems(tmp_path: Path, loaded: Loader) -> Finder:
    """All problems of a workload YAML with this text, without the folder of temporary files."""

    def find(text: str, *overrides: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            loaded(text, *overrides)
        return [p.replace(f"{tmp_path}/", "") for p in caught.value.problems]

    return find

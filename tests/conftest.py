"""Options of the whole test suite."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases",
        type=Path,
        default=SHARED / "cases",
        metavar="DIR",
        help="folder of case files (YAML), each of whose runs becomes a test (default: %(default)s)",
    )

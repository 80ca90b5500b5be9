"""The virtual environment that holds TOSA's tools, whose pinned requirements must not meet npusim's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_FOLDER = ROOT / ".venv-tosa"
PACKAGE = "tosa-tools==2026.8.0"


class ToolsError(Exception):
    """TOSA's tools cannot be installed or failed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The installed tools; ``folder`` is the virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.folder / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables to run a tool with.

        Nothing but the tools is in the path: with a debugger there, the reference model spends a second on each error.
        """
        return {"PATH": str(self.folder / "bin"), "PYTHONDONTWRITEBYTECODE": "1"}


def install_tools(folder: Path = DEFAULT_FOLDER) -> Tools:
    """The tools in ``folder``, downloaded on the first call. ToolsError if that does not work."""
    folder = folder.resolve()
    done = folder / f".installed-{PACKAGE}"
    if not done.exists():
        python = find_python()
        print(f"making {folder} with {python} and {PACKAGE}", flush=True)
        _run([python, "-m", "venv", "--clear", str(folder)], f"{python} cannot make a virtual environment")
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        _run([*pip, PACKAGE], f"pip cannot install {PACKAGE} (for Linux on x86-64; see PyPI for others)")
        done.touch()
    return Tools(folder)


def find_python() -> str:
    """A Python 3.11, the only one that the tools are built for: the running one, or ``python3.11`` of the path."""
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    found = shutil.which("python3.11")
    if found is None:
        have = ".".join(map(str, sys.version_info[:2]))
        raise ToolsError(
            f"{PACKAGE} is built for Python 3.11 only; this is {have} and there is no python3.11 in PATH: install one"
        )
    return found


def _run(command: list[str], fault: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ToolsError(f"{fault}:\n{done.stderr.strip() or done.stdout.strip()}")

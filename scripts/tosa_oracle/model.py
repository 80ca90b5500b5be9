"""TOSA's reference model as a function: in a process of its own that is asked through pipes, or its command line."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

import numpy as np

from npusim.numerics.types import Array

from .environment import Tools, ToolsError

SERVER = Path(__file__).with_name("server.py")


class Status(Enum):
    """What the model says of a graph and its inputs. ``DIED``: its process ended (an integer division by zero)."""

    VALID = "TOSA_VALID"
    UNPREDICTABLE = "TOSA_UNPREDICTABLE"
    ERROR = "TOSA_ERROR"
    DIED = "died"


EXIT_CODES = (Status.VALID, Status.UNPREDICTABLE, Status.ERROR)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and outputs; the outputs of an unpredictable graph are whatever the model made of it."""

    status: Status
    outputs: tuple[Array, ...]


class ReferenceModel:
    """The model in a process that stays up from graph to graph, and comes up again when a graph kills it.

    It takes neither INT48 nor INT4 inputs and gives INT48 outputs as nothing: :func:`run_command_line` does.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._start()

    def __enter__(self) -> ReferenceModel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def run(self, file: bytes, inputs: Sequence[Array], level: str = "EIGHTK") -> Answer:
        """What the model makes of a TOSA file and its inputs in order. ToolsError if it does not take them."""
        try:
            self._requests.send((file, list(inputs), level))
            status, outputs = self._answers.recv()
        except (EOFError, BrokenPipeError):
            self._stop()
            self._start()
            return Answer(Status.DIED, ())
        if status.startswith("fault: "):
            raise ToolsError(f"the reference model does not take a graph: {status.removeprefix('fault: ')}")
        return Answer(Status(status), tuple(outputs))

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [str(self._tools.python), str(SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._tools.variables,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._process.stdin as requests, self._process.stdout as answers:
            self._requests = Connection(os.dup(requests.fileno()), readable=False)
            self._answers = Connection(os.dup(answers.fileno()), writable=False)

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._requests.close()
        self._answers.close()


def run_command_line(tools: Tools, folder: Path, outputs: Sequence[str]) -> Answer:
    """What the model makes of the test in ``folder``; ``outputs`` are the files that its description names."""
    with tempfile.TemporaryDirectory() as made:
        command = [
            *(str(tools.folder / "bin" / "tosa_reference_model"), "--tosa_level", "EIGHTK", "--precise_mode=1"),
            *("--operator_fbs", str(_schema(tools)), "--test_desc", str(folder / "desc.json"), "--output_dir", made),
        ]
        done = subprocess.run(command, capture_output=True, text=True, env=tools.variables)
        if done.returncode not in range(len(EXIT_CODES)):
            return Answer(Status.DIED, ())
        status = EXIT_CODES[done.returncode]
        found = [Path(made) / name for name in outputs]
        return Answer(status, tuple(np.load(p) for p in found if p.exists()))


def _schema(tools: Tools) -> Path:
    found = sorted(tools.folder.glob("lib/*/site-packages/bin/tosa.fbs"))
    if not found:
        raise ToolsError(f"{tools.folder} has no tosa.fbs; remove that folder so that it is made again")
    return found[0]

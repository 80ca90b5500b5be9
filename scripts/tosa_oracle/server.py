"""The reference model's side of the pipe: runs where TOSA's tools are installed, answers until its input ends.

Knows nothing of npusim. A request is (bytes of a TOSA file, input arrays, level), the answer (status, output arrays).
Inexact rescales are computed in float64, as TOSA's own compliance runs do.
"""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection

import tosa_reference_model


def serve() -> None:
    """Answer requests from standard input on standard output; what the model prints goes to standard error."""
    answers = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)
    requests = Connection(os.dup(0), writable=False)
    while True:
        try:
            file, inputs, level = requests.recv()
        except EOFError:
            return
        try:
            outputs, status = tosa_reference_model.run(file, inputs, tosa_level=level, precise_mode=1)
        except ValueError as e:
            answers.send(("TOSA_ERROR" if "Invalid TOSA graph" in str(e) else f"fault: {e}", []))
        else:
            answers.send((status.name, outputs))


if __name__ == "__main__":
    sys.exit(serve())

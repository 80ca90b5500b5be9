"""Runs Larq networks with Larq Compute Engine: started by oracle_larq.py, in the environment that has it.

Usage: ``python larq_runner.py CASES RESULTS``; live_oracle.py says what these files hold. Each file is run with the
optimised kernels, the indirect ones and the reference kernels, those that take it: no optimised kernel has groups, and
the reference kernel pads an odd number of channels with ones only. Where kernels do not agree among themselves, that is
what the results say against the file.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from typing import Any

import numpy as np

KERNELS = {"optimised": (False, False), "indirect": (False, True), "reference": (True, False)}
"""Kernels by whether they are the reference's, and whether they are indirect."""

WRAPPER = "larq_compute_engine/tflite/python/interpreter_wrapper_lite.so"


def interpreter() -> Any:
    """The interpreter's class: from its file, since the package imports all of TensorFlow for its converter."""
    path = importlib.metadata.distribution("larq_compute_engine").locate_file(WRAPPER)
    spec = importlib.util.spec_from_file_location("interpreter_wrapper_lite", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LiteInterpreter


def outputs(run: Any, file: bytes, given: list[Any]) -> list[Any]:
    """The outputs of a file. Raises ValueError where kernels do not agree, RuntimeError where none takes it."""
    found: dict[str, list[Any]] = {}
    refusals = []
    for name, choice in KERNELS.items():
        try:
            found[name] = run(file, 1, *choice, False).predict(given)
        except RuntimeError as e:  # of a kernel that does not take the file
            refusals.append(e)
    if not found:
        raise refusals[0]
    first = next(iter(found.values()))
    for name, others in found.items():
        for i, (a, b) in enumerate(zip(others, first, strict=True)):
            if a.shape != b.shape or not np.allclose(a, b, rtol=0, atol=1e-5 * np.abs(b).max(initial=0)):
                raise ValueError(f"kernels {', '.join(found)} do not agree on output {i}: {name}")
    return first


def main() -> None:
    """Run all files."""
    cases, results = sys.argv[1:]
    arrays = np.load(cases)
    run = interpreter()
    made: dict[str, Any] = {}
    for k, names in enumerate(json.loads(str(arrays["names"]))):
        given = [arrays[f"x{k}_{i}"] for i in range(len(names["inputs"]))]
        try:
            found = outputs(run, arrays[f"f{k}"].tobytes(), given)
        except Exception as e:  # one file that does not run is no reason to give up the others
            made[f"e{k}"] = f"{type(e).__name__}: {e}"
            continue
        made.update({f"y{k}_{i}": y for i, y in enumerate(found)})
    np.savez(results, **made)


if __name__ == "__main__":
    main()

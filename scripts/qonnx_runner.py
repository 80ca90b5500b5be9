"""Runs QONNX files with the package qonnx: started by oracle_qonnx.py, in the environment that has it.

Usage: ``python qonnx_runner.py CASES RESULTS``; live_oracle.py says what these files hold.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np


def outputs(file: bytes, given: dict[str, Any], names: list[str]) -> list[Any]:
    """The outputs ``names`` of a file."""
    import onnx
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.infer_shapes import InferShapes

    model = ModelWrapper(onnx.load_model_from_string(file)).transform(InferShapes())
    found = execute_onnx(model, given)
    return [np.asarray(found[v]) for v in names]


def main() -> None:
    """Run all files."""
    cases, results = sys.argv[1:]
    arrays = np.load(cases)
    made: dict[str, Any] = {}
    for k, names in enumerate(json.loads(str(arrays["names"]))):
        given = {v: arrays[f"x{k}_{i}"] for i, v in enumerate(names["inputs"])}
        try:
            found = outputs(arrays[f"f{k}"].tobytes(), given, names["outputs"])
        except Exception as e:  # one file that does not run is no reason to give up the others
            made[f"e{k}"] = f"{type(e).__name__}: {e}"
            continue
        made.update({f"y{k}_{i}": y for i, y in enumerate(found)})
    np.savez(results, **made)


if __name__ == "__main__":
    main()

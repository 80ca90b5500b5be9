"""Every ``runs`` entry of every case file, through :func:`npusim.ops.evaluate`'s parts: bound, then evaluated."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import Array
from npusim.ops import bind_arrays, evaluate, evaluate_bound, op_class, op_names

Run = dict[str, Any]


def load_runs(folder: Path) -> list[tuple[str, Run]]:
    """(name of the case and of the run, the run) of all files in ``folder``."""
    found = []
    for path in sorted(folder.glob("*.yaml")):
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        found += [(f"{case['id']}-{run['name']}", run) for run in case.get("runs", [])]
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "run" in metafunc.fixturenames:
        folder = metafunc.config.getoption("cases")
        runs = load_runs(folder)
        absent = pytest.param(None, marks=pytest.mark.skip(reason=f"no case files in {folder}"), id="absent")
        metafunc.parametrize("run", [pytest.param(r, id=name) for name, r in runs] or [absent])


def tensor(t: dict[str, Any]) -> Array:
    """The array that a tensor of a case file describes, in whatever dtype its numbers have."""
    size = prod(t["shape"])
    if "fill" in t:
        flat = np.full(size, t["fill"])
    elif "arange" in t:
        start, step = t["arange"]
        flat = start + step * np.arange(size)
    else:
        flat = np.array(t["values"], None if t["values"] else np.int64)
    return (flat.astype(np.float32) if t["type"] == "f32" else flat).reshape(t["shape"])


def test_run(run: Run) -> None:
    if run["op"] == "binary_conv2d" and run["op"] not in op_names():
        pytest.skip("there is no operator binary_conv2d")
    given = run["operands"]
    names = [n for n in op_class(run["op"]).operands if n in given]
    assert len(names) == len(given), f"{run['op']} does not take {sorted(given)}"
    arrays, types = [tensor(given[n]) for n in names], [given[n]["type"] for n in names]
    expect, attributes, dialect = run["expect"], run["attributes"], run["dialect"]
    if "error" in expect:
        error = {"invalid": InvalidGraphError, "unpredictable": UnpredictableError}[expect["error"]]
        with pytest.raises(error) as caught:
            evaluate(run["op"], arrays, types=types, dialect=dialect, **attributes)
        assert "is not known" not in str(caught.value), "refused for a name, not for the rule under test"
        assert "is missing" not in str(caught.value)
        return
    bound, operands = bind_arrays(run["op"], arrays, attributes, types=types, dialect=dialect)
    assert str(bound.output.dtype) == expect["type"]
    assert list(bound.output.shape) == expect["shape"]
    out = evaluate_bound(bound, operands, Overflow())
    assert out.dtype == bound.output.dtype.storage
    np.testing.assert_array_equal(out, tensor(expect))

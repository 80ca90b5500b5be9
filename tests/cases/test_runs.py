"""Every ``runs`` entry of every case file, through :func:`npusim.ops.evaluate`'s parts: bound, then evaluated."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.frontends.chip import load_chip
from npusim.graph import GraphBuilder
from npusim.numerics.overflow import Overflow
from npusim.numerics.types import F32, Array
from npusim.ops import bind_arrays, evaluate, evaluate_bound, op_class, op_names
from npusim.session import Job
from npusim.session import run as run_job

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


ERRORS = {"invalid": InvalidGraphError, "unpredictable": UnpredictableError}


def operands_of(run: Run) -> tuple[list[Array], list[str]]:
    """The arrays and the element types of a run's operands, in the operator's order."""
    given = run["operands"]
    names = [n for n in op_class(run["op"]).operands if n in given]
    assert len(names) == len(given), f"{run['op']} does not take {sorted(given)}"
    return [tensor(given[n]) for n in names], [given[n]["type"] for n in names]


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
    arrays, types = operands_of(run)
    expect, attributes, dialect = run["expect"], run["attributes"], run["dialect"]
    if "error" in expect:
        with pytest.raises(ERRORS[expect["error"]]) as caught:
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


def test_run_through_tiles(run: Run) -> None:
    """The same on SRAM bytes of ``micro`` in timed order; what is refused whole is refused here too.

    Operands are run-time inputs, so that nothing is folded before.
    """
    arrays, types = operands_of(run)
    expect, attributes, dialect = run["expect"], run["attributes"], run["dialect"]
    try:
        bound, operands = bind_arrays(run["op"], arrays, attributes, types=types, dialect=dialect)
    except InvalidGraphError:
        assert expect == {"error": "invalid"}
        return
    if any(t.dtype is F32 for t in bound.operands):
        pytest.skip("micro has no float unit")
    builder = GraphBuilder("case")
    for i, t in enumerate(bound.operands):
        builder.input(f"operand{i}", t)
    builder.node("layer", bound.op, tuple(f"operand{i}" for i in range(len(operands))), "result")
    job = Job(builder.finish(("result",)), load_chip("micro"), {f"operand{i}": x for i, x in enumerate(operands)})
    if "error" in expect:
        with pytest.raises(ERRORS[expect["error"]]):
            run_job(job)
        return
    np.testing.assert_array_equal(run_job(job).outputs["result"], tensor(expect))

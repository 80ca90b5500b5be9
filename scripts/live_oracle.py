"""Random model files, read and run by npusim and by the tool that they were made for: what such comparisons share.

The other tool lives in a virtual environment of its own, made on the first run, and is started once for every hundred
files: ``python RUNNER CASES RESULTS``. CASES is a ``.npz`` file with ``names``, JSON: of each file the inputs and
outputs; the bytes of file k are in ``f<k>``, its input i in ``x<k>_<i>``. RESULTS becomes one with output i of file k
in ``y<k>_<i>``, or what the tool says against the file in ``e<k>``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from npusim.errors import InvalidGraphError
from npusim.frontends.chip import load_chip
from npusim.frontends.model import Model, load_model
from npusim.functional import evaluate_graph
from npusim.numerics.types import Array
from npusim.session import Job, run

ROOT = Path(__file__).resolve().parents[1]
BATCH = 100
CLOSE = 1e-5
"""What may differ where floats are rounded in another order, as a share of the largest output."""


@dataclass(frozen=True)
class Case:
    """A model file with numbers for its inputs; ``outputs`` are those to compare, ``note`` describes it.

    ``exact``: its constants are such that no float is rounded, so that outputs are equal in whatever order it computes.
    """

    kind: str
    file: bytes
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...]
    note: str
    exact: bool = False


@dataclass(frozen=True)
class Oracle:
    """Another tool: the files it runs (``suffix``), its pinned ``packages`` and the ``runner`` that imports them.

    ``bare``: the packages are installed without what they ask for. ``refusals`` are parts of the messages with which
    npusim may refuse a file that the tool runs. One file in ``tiled`` runs through tiles too, the others operator by
    operator.
    """

    name: str
    suffix: str
    packages: tuple[str, ...]
    runner: Path
    random_case: Callable[[np.random.Generator], Case]
    refusals: tuple[str, ...]
    cases: int
    bare: bool = False
    tiled: int = 10

    @property
    def environment(self) -> Path:
        """Where its virtual environment is by default."""
        return ROOT / f".venv-{self.name}"


def main(oracle: Oracle, arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; the exit code: 1 if any file gives other numbers."""
    parser = argparse.ArgumentParser(description=f"Compare npusim with {oracle.packages[0]} on random files.")
    parser.add_argument("--cases", type=int, default=oracle.cases, help="files to compare (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first file (default %(default)s)")
    parser.add_argument("--environment", type=Path, default=oracle.environment, help="virtual environment of the tool")
    parser.add_argument("--save", type=Path, help="folder for the files that differ")
    options = parser.parse_args(arguments)
    python = install(oracle, options.environment)
    start = time.perf_counter()
    tally, wrong = compare(oracle, python, options.cases, options.seed, options.first, options.save)
    for what, count in sorted(tally.items()):
        print(f"{what:32} {count:5} files")
    for line in wrong:
        print(line)
    seconds = time.perf_counter() - start
    print(
        f"{options.cases} files against {' '.join(oracle.packages)}, seed {options.seed}: {len(wrong)} different, "
        f"{seconds:.0f} s"
    )
    return 1 if wrong else 0


def install(oracle: Oracle, folder: Path) -> Path:
    """The Python of the environment in ``folder``, made on the first call."""
    done = folder / f".installed-{'-'.join(oracle.packages)}"
    python = folder / "bin" / "python"
    if not done.exists():
        print(f"making {folder} with {' '.join(oracle.packages)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *(["--no-deps"] if oracle.bare else []), *oracle.packages], check=True)
        done.touch()
    return python


def compare(
    oracle: Oracle, python: Path, cases: int, seed: int, first: int = 0, save: Path | None = None
) -> tuple[Counter[str], list[str]]:
    """How many files went how, and a line for each that went wrong."""
    tally: Counter[str] = Counter()
    wrong = []
    for start in range(first, first + cases, BATCH):
        numbers = range(start, min(start + BATCH, first + cases))
        drawn = [oracle.random_case(np.random.default_rng((seed, k))) for k in numbers]
        for k, case, theirs in zip(numbers, drawn, executed(oracle, python, drawn), strict=True):
            went = judged(oracle, case, theirs, tiles=k % oracle.tiled == 0)
            if went in ("equal", "close", "refused"):
                tally[f"{case.kind}, {went}"] += 1
                continue
            wrong.append(f"seed {seed}, file {k} ({case.kind}): {went}; {case.note}")
            if save is not None:
                save.mkdir(parents=True, exist_ok=True)
                (save / f"{seed}-{k}{oracle.suffix}").write_bytes(case.file)
    return tally, wrong


def judged(oracle: Oracle, case: Case, theirs: Sequence[Array] | str, tiles: bool) -> str:
    """``equal``, ``close`` or ``refused`` (for a reason that is known), or else what is wrong."""
    if isinstance(theirs, str):
        return f"{oracle.name} says {theirs}"
    try:
        model = loaded(oracle, case)
        exact, results = case.exact or model.around.exact, [computed(model, case, False)]
        if tiles:
            results.append(computed(model, case, True))
    except InvalidGraphError as e:
        strange = [p for p in e.problems if not any(known in p for known in oracle.refusals)]
        return f"npusim says {strange[0]}" if strange else "refused"
    except Exception as e:  # whatever it is, it is a finding
        return f"npusim fails with {type(e).__name__}: {e}"
    for side, ours in zip(("whole", "through tiles"), results, strict=False):
        for v, a, b in zip(case.outputs, ours, theirs, strict=True):
            if fault := difference(a, b, exact):
                return f"{v!r} ({side}) {fault}"
    return "equal" if exact else "close"


def loaded(oracle: Oracle, case: Case) -> Model:
    """What npusim's front end makes of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"network{oracle.suffix}"
        path.write_bytes(case.file)
        return load_model(path)


def computed(model: Model, case: Case, tiles: bool) -> list[Array]:
    """The outputs of a file by npusim: operator by operator, or through tiles on the preset ``binary``."""
    prepared = model.around.prepare(model.graph, case.inputs)
    if tiles:
        results = dict(run(Job(graph=model.graph, chip=load_chip("binary"), inputs=prepared)).outputs)
    else:
        results = evaluate_graph(model.graph, prepared)
    made = model.around.complete(results)
    return [made[v] for v in case.outputs]


def difference(ours: Array, theirs: Array, exact: bool) -> str:
    """How two outputs differ, "" if they do not; NaN equals NaN."""
    if ours.shape != theirs.shape:
        return f"has shape {list(ours.shape)}, expected {list(theirs.shape)}"
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    if not exact:
        largest = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0))
        same |= np.isclose(ours, theirs, rtol=0, atol=CLOSE * largest)
    if same.all():
        return ""
    at = tuple(np.argwhere(~same)[0].tolist())
    return f"differs in {int((~same).sum())} of {same.size} elements, first at {list(at)}: {ours[at]} != {theirs[at]}"


def executed(oracle: Oracle, python: Path, cases: Sequence[Case]) -> Iterator[list[Array] | str]:
    """The outputs of each file by the other tool, or what it says against it."""
    names = [{"inputs": list(case.inputs), "outputs": case.outputs} for case in cases]
    arrays = {f"f{k}": np.frombuffer(case.file, np.uint8) for k, case in enumerate(cases)}
    arrays |= {f"x{k}_{i}": x for k, case in enumerate(cases) for i, x in enumerate(case.inputs.values())}
    with tempfile.TemporaryDirectory() as folder:
        given, results = Path(folder) / "cases.npz", Path(folder) / "results.npz"
        np.savez(given, **arrays, names=json.dumps(names))  # type: ignore[arg-type]
        command = [str(python), str(oracle.runner), str(given), str(results)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{oracle.name} failed (exit code {done.returncode}):\n{done.stderr.strip()}")
        with np.load(results) as made:
            for k, case in enumerate(cases):
                fault = f"e{k}"
                yield str(made[fault]) if fault in made else [made[f"y{k}_{i}"] for i in range(len(case.outputs))]

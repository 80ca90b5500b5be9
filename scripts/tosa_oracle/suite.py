"""The integer part of TOSA's conformance suite, generated operator by operator into a cache that can be resumed."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from .environment import ROOT, Tools, ToolsError

VERSION = "1.0.2"
PROFILE = "tosa-pro-int"
EXTENSIONS = ("tosa-ext-int16", "tosa-ext-int4", "tosa-ext-doubleround", "tosa-ext-inexactround")
DEFAULT_CACHE = ROOT / ".cache" / "conformance" / PROFILE

SEED_OPERATORS = (
    *("argmax", "avg_pool2d", "conv2d", "conv3d", "depthwise_conv2d", "matmul", "max_pool2d", "transpose_conv2d"),
    "rescale",
)
"""Those of the draft of 2021, of which FULLY_CONNECTED is no longer there, and the rescale that follows them."""

INTEGER_OPERATORS = (
    *SEED_OPERATORS,
    *("abs", "add", "arithmetic_right_shift", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cast"),
    *("clamp", "clz", "concat", "const", "equal", "gather", "greater", "greater_equal", "identity", "intdiv"),
    *("logical_and", "logical_left_shift", "logical_not", "logical_or", "logical_right_shift", "logical_xor"),
    *("maximum", "minimum", "mul", "negate", "pad", "reduce_all", "reduce_any", "reduce_max", "reduce_min"),
    *("reduce_sum", "reshape", "resize", "reverse", "scatter", "select", "slice", "sub", "table", "tile", "transpose"),
)
"""Those of which the generator has tests under the profile and the extensions."""

PATIENCE_SECONDS = 20
"""A line is printed at least this often."""

Say = Callable[[str], None]


def prepare_cache(cache: Path) -> None:
    """Make the folder, with a mark that keeps it out of version control and of backups."""
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    (cache / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")


def generate(tools: Tools, cache: Path, operators: Sequence[str], jobs: int, say: Say) -> list[Path]:
    """The folders of all tests of ``operators``, sorted. What ``cache`` has already is not made again.

    An operator's tests are generated beside their place and moved there when all are done. The generator's own seed
    is fixed, so the tests are always the same.
    """
    prepare_cache(cache)
    found: list[Path] = []
    for position, operator in enumerate(operators, 1):
        place = cache / operator
        if not place.is_dir():
            start = time.monotonic()
            _generate_operator(tools, cache, operator, jobs, say)
            seconds = time.monotonic() - start
            count = len(test_folders(place))
            say(f"generated {operator} ({position} of {len(operators)}): {count} tests, {seconds:.0f} s")
        found += test_folders(place)
    return found


def test_folders(place: Path) -> list[Path]:
    """The folders of an operator's tests, sorted."""
    return sorted(p.parent for p in place.glob("*/*/desc.json"))


def operator_of(folder: Path) -> str:
    """The operator whose tests ``folder`` belongs to."""
    return folder.parent.parent.name


def _generate_operator(tools: Tools, cache: Path, operator: str, jobs: int, say: Say) -> None:
    work = cache / f".making-{operator}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    command = [
        *(str(tools.folder / "bin" / "tosa_verif_conformance_generator"), "--tosa-version", VERSION),
        *("--profile", PROFILE, "--extension", *EXTENSIONS, "--output-type", "binary", "--operators", operator),
        *("-j", str(jobs), "--build-directory", str(work / "build"), "--output-directory", str(work / "out")),
    ]
    log = work / "log"
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=tools.variables)
        start = time.monotonic()
        try:
            while True:
                try:
                    failed = process.wait(PATIENCE_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    say(f"generating {operator}: {time.monotonic() - start:.0f} s so far")
        finally:
            process.kill()
    made = list((work / "out" / "operators").glob("*"))
    if failed or len(made) != 1:
        raise ToolsError(f"the conformance generator failed on {operator}:\n{log.read_text()[-2000:]}")
    made[0].rename(cache / operator)
    shutil.rmtree(work)

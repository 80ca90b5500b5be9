"""How long whole runs take, start-up included: counts are asserted, seconds and memory printed."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
MODELS = REPOSITORY.parent / "shared" / "models"


def run(out: Path, *arguments: str) -> tuple[dict[str, Any], float, float]:
    """(report, seconds, peak MiB of the largest child so far) of one ``npusim run`` in a process of its own."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "npusim", "run", *arguments, "--out", str(out), "--quiet"]
    subprocess.run(command, check=True, cwd=REPOSITORY)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return json.loads((out / "report.json").read_text(encoding="utf-8")), seconds, peak


def show(what: str, report: dict[str, Any], seconds: float, peak: float) -> None:
    totals = report["totals"]
    print(f"\n{what}: {seconds:.2f} s, {peak:.0f} MiB, {totals['commands']} commands, {totals['cycles']} cycles")


def test_resnet50_mapped_verified_and_timed() -> None:
    """Aim: under 3 s in one process, start-up included."""
    code = "import npusim; print(len(npusim.run('workloads/resnet50.yaml', bits='off').program))"
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY, capture_output=True, text=True)
        seconds.append(time.perf_counter() - start)
    print(f"\nResNet-50 on edge, mapped, verified and timed: {min(seconds):.2f} s, {int(done.stdout)} commands")
    assert 1000 < int(done.stdout) < 10_000


def test_resnet50_with_its_pictures(tmp_path: Path) -> None:
    """The command line: as above, and tables, files and five pictures; under 1 GiB."""
    report, seconds, peak = min(
        (run(tmp_path / str(i), "workloads/resnet50.yaml", "--bits", "off") for i in range(3)), key=lambda r: r[1]
    )
    show("ResNet-50 on edge, bits off, with pictures", report, seconds, peak)
    assert report["totals"]["macs"] == 4_089_184_256
    assert len(report["layers"]) > 50
    assert report["totals"]["commands"] < 10_000
    assert peak < 1024


@pytest.mark.skipif(not MODELS.exists(), reason="the shared models are not here")
def test_keyword_spotting_with_bits(tmp_path: Path) -> None:
    """Aim: under 1.5 s, every bit compared; drawing the pictures takes longer than all else together."""
    folder = MODELS / "mlperf_tiny" / "kws_dscnn_int8"
    files = ("--input", str(folder / "input0.npy"), "--expect", str(folder / "output0.npy"))
    for what, more in (("without pictures", ["--no-pictures"]), ("with five pictures", [])):
        report, seconds, peak = min(
            (run(tmp_path / str(i), str(folder / "model.tosa"), *files, *more) for i in range(3)), key=lambda r: r[1]
        )
        show(f"keyword spotting on edge, bits timed, {what}", report, seconds, peak)
    assert report["checks"][0]["passed"]
    assert report["totals"]["macs"] == 2_656_768


def test_digits_with_bits(tmp_path: Path) -> None:
    """The demo: 450 images."""
    report, seconds, peak = run(tmp_path / "digits", "workloads/digits.yaml")
    show("digits on edge, bits timed", report, seconds, peak)
    assert all(c["passed"] for c in report["checks"])

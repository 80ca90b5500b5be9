"""Memory of the machine that simulates: it does not grow with the network."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from npusim.frontends.chip import load_chip
from npusim.ir.mapping_options import MappingOptions
from npusim.session import Job, run
from tests.plain import chain

ROOT = Path(__file__).resolve().parents[2]

STATUS = Path("/proc/self/status")
RESNET50 = """
import npusim
result = npusim.run("workloads/resnet50.yaml", bits="off")
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(len(result.report.layers), int(peak) * 1024)
"""
"""The peak of the process itself: getrusage counts what it was forked from, too."""


@pytest.mark.skipif(not STATUS.exists(), reason="this system does not tell a process its peak in /proc/self/status")
def test_resnet50_takes_less_than_500_megabytes() -> None:
    """Does a large network need a large machine? ResNet-50 is mapped, verified and timed in less than 500 MB."""
    done = subprocess.run([sys.executable, "-c", RESNET50], cwd=ROOT, capture_output=True, text=True, check=True)
    layers, peak = map(int, done.stdout.split())
    assert layers > 50
    assert peak < 500_000_000


def test_memory_does_not_grow_with_the_layers() -> None:
    """What does a layer more take? Its commands and its figures, a few kilobytes, and none of the network's data."""
    peaks = {}
    for layers in (4, 8, 32):  # the first run also fills caches of the libraries
        graph = chain(layers, h=64, c=64)
        job = Job(
            graph=graph,
            chip=load_chip("edge"),
            inputs={"a": graph.constants["b0"]},
            mapping=MappingOptions(smaller_memories=False),
            bits="off",
        )
        tracemalloc.start()
        try:
            run(job)
            peaks[layers] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (peaks[32] - peaks[8]) / 24 < 64 * 1024
